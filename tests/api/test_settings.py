"""TTL, tags, policies, limits, endpoints, insights, Kinesis and replication through dispatch."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import kinesis
from tests.api.test_tables import INVALID, definitions, gsi, key, request
from tests.support.databases import memory_database

NOT_FOUND = errors.API_ERRORS["ResourceNotFoundException"]
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/Music"


@pytest.fixture
def db() -> Any:
    with memory_database() as database:
        database.call(
            "CreateTable",
            request(
                KeySchema=key("pk"),
                AttributeDefinitions=definitions(pk="S", x="S"),
                GlobalSecondaryIndexes=[gsi("by-x", "x")],
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
            ),
        )
        yield database


def refused(db: Database, operation: str, code: str = "ValidationException", **call: Any) -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        db.call(operation, call)
    return caught.value.message


# The account.


def test_limits(db: Database) -> None:
    assert db.call("DescribeLimits", {}) == {
        "AccountMaxReadCapacityUnits": 80_000,
        "AccountMaxWriteCapacityUnits": 80_000,
        "TableMaxReadCapacityUnits": 40_000,
        "TableMaxWriteCapacityUnits": 40_000,
    }


def test_endpoints() -> None:
    with memory_database(endpoint="localhost:8000") as db:
        assert db.call("DescribeEndpoints", {}) == {
            "Endpoints": [{"Address": "localhost:8000", "CachePeriodInMinutes": 1440}]
        }


# Time to live.


def set_ttl(db: Database, name: str | None, was: str = "expires") -> dict[str, Any]:
    wanted = {"Enabled": name is not None, "AttributeName": name or was}
    call = {"TableName": "Music", "TimeToLiveSpecification": wanted}
    reply: dict[str, Any] = db.call("UpdateTimeToLive", call)
    assert reply == {"TimeToLiveSpecification": wanted}
    return reply


def test_ttl_on_and_off(db: Database) -> None:
    def describe() -> Any:
        return db.call("DescribeTimeToLive", {"TableName": "Music"})["TimeToLiveDescription"]

    assert describe() == {"TimeToLiveStatus": "DISABLED"}
    set_ttl(db, "expires")
    assert describe() == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    set_ttl(db, None)
    assert describe() == {"TimeToLiveStatus": "DISABLED"}


def test_ttl_refusals(db: Database) -> None:
    def message(enabled: Any, name: Any) -> str:
        wanted = {"Enabled": enabled, "AttributeName": name}
        return refused(db, "UpdateTimeToLive", TableName="Music", TimeToLiveSpecification=wanted)

    assert message(False, "expires") == "TimeToLive is already disabled"
    set_ttl(db, "expires")
    assert message(True, "expires") == "TimeToLive is already enabled"
    different = (
        "TimeToLive is active on a different AttributeName: current AttributeName is expires"
    )
    assert message(True, "other") == different
    assert message(False, "other") == different
    assert message(True, "") == (
        "1 validation error detected: Value '' at 'timeToLiveSpecification.attributeName' failed "
        "to satisfy constraint: Member must have length greater than or equal to 1"
    )
    assert "less than or equal to 255" in message(True, "x" * 256)
    assert "'timeToLiveSpecification.enabled'" in message(None, "x")
    assert "'timeToLiveSpecification.attributeName'" in message(True, None)
    assert "Table: other not found" in refused(
        db,
        "UpdateTimeToLive",
        "ResourceNotFoundException",
        TableName="other",
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "x"},
    )


def test_ttl_change_interval() -> None:
    now = [1000.0]
    with memory_database(clock=lambda: now[0], ttl_change_interval_seconds=3600) as db:
        db.call("CreateTable", request(KeySchema=key("pk"), AttributeDefinitions=PK))
        set_ttl(db, "expires")
        message = refused(
            db,
            "UpdateTimeToLive",
            TableName="Music",
            TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires"},
        )
        assert message == "Time to live has been modified multiple times within a fixed interval"
        now[0] += 3600
        set_ttl(db, None)


PK = definitions(pk="S")


# Tags.


def tags(db: Database) -> dict[str, str]:
    reply = db.call("ListTagsOfResource", {"ResourceArn": ARN})
    return {tag["Key"]: tag["Value"] for tag in reply["Tags"]}


def tag(db: Database, **pairs: str) -> None:
    wanted = [{"Key": name, "Value": value} for name, value in pairs.items()]
    assert db.call("TagResource", {"ResourceArn": ARN, "Tags": wanted}) == {}


def test_tags_come_and_go(db: Database) -> None:
    assert tags(db) == {}
    tag(db, a="1", b="2")
    tag(db, b="", c="4")
    assert tags(db) == {"a": "1", "b": "", "c": "4"}
    call = {"ResourceArn": ARN, "TagKeys": ["a", "unknown"]}
    assert db.call("UntagResource", call) == {}
    assert tags(db) == {"b": "", "c": "4"}


def test_tags_of_a_new_table(db: Database) -> None:
    call = request(TableName="Other", Tags=[{"Key": "k", "Value": "v"}])
    arn = db.call("CreateTable", call)["TableDescription"]["TableArn"]
    listed = db.call("ListTagsOfResource", {"ResourceArn": arn})
    assert listed == {"Tags": [{"Key": "k", "Value": "v"}]}


def test_unicode_tags(db: Database) -> None:
    tag(db, **{"законные буквы": "Ѯ" * 256, "א" * 128: "dog"})
    assert len(tags(db)) == 2


@pytest.mark.parametrize(
    ("wanted", "fragment"),
    [
        ([], "Atleast one Tag needs to be provided as Input."),
        (None, "Value null at 'tags'"),
        ([{"Key": "", "Value": "x"}], "greater than or equal to 1"),
        ([{"Key": "k"}], "'tags.1.member.value'"),
        ([{"Key": "x" * 129, "Value": ""}], "less than or equal to 128"),
        ([{"Key": "x", "Value": "x" * 257}], "less than or equal to 256"),
        ([{"Key": "hi!", "Value": "x"}], "The Tag Key provided is invalid, Key: hi!"),
        ([{"Key": "x", "Value": '"y"'}], 'The Tag Value provided is invalid, Value: "y"'),
        ([{"Key": "aws:x", "Value": ""}], "Tag Key cannot be prefixed with aws:, Key: aws:x"),
        (
            [{"Key": "x", "Value": ""}, {"Key": "x", "Value": ""}],
            "Duplicate Tag Keys provided as input: Duplicate Tag Key found x",
        ),
        (
            [{"Key": str(n), "Value": ""} for n in range(51)],
            "Number of Tags exceed the current limit for the provided ResourceArn",
        ),
    ],
)
def test_tags_refused(db: Database, wanted: Any, fragment: str) -> None:
    assert fragment in refused(db, "TagResource", ResourceArn=ARN, Tags=wanted)
    assert tags(db) == {}


def test_the_resource_of_tags_comes_before_the_tags(db: Database) -> None:
    # observed (dynalite); a name too short for a table is no resource.
    for arn, text in (
        ("a:b:c:d:e:f/g", "ARNs must start with"),
        (ARN[:-5] + "ab", "Invalid TableArn: Invalid ResourceArn provided as input"),
    ):
        assert text in refused(db, "TagResource", ResourceArn=arn, Tags=[])
        assert text in refused(db, "UntagResource", ResourceArn=arn, TagKeys=[])
        assert text in refused(db, "ListTagsOfResource", ResourceArn=arn)


def test_untag_needs_keys(db: Database) -> None:
    message = refused(db, "UntagResource", ResourceArn=ARN, TagKeys=[])
    assert message == "Atleast one Tag Key needs to be provided as Input."


@pytest.mark.parametrize(
    ("arn", "code", "text"),
    [
        ("I_do_not_exist", "ValidationException", INVALID + "ARNs must start with 'arn:': I_do"),
        (
            "arn:aws:s3:::bucket",
            "ValidationException",
            INVALID + "Provided Arn is not a DynamoDB resource arn: arn:aws:s3:::bucket",
        ),
        (
            ARN + "/index/by-x",
            "ValidationException",
            INVALID + "Invalid resource arn provided, only table or stream is accepted. "
            "Provided resource arn: " + ARN + "/index/by-x",
        ),
        (
            ARN.replace("us-east-1", "eu-west-1"),
            "ValidationException",
            "Invalid TableArn: Invalid ResourceArn provided as input",
        ),
        (ARN.replace("123456789012", "210987654321"), "AccessDeniedException", "not authorized"),
        (
            ARN + "x",
            "ResourceNotFoundException",
            f"Requested resource not found: ResourceArn: {ARN}x not found",
        ),
    ],
)
def test_resource_arns(db: Database, arn: str, code: str, text: str) -> None:
    call = {"ResourceArn": arn, "Tags": [{"Key": "x", "Value": "y"}]}
    assert text in refused(db, "TagResource", code, **call)


# Resource policies.

POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": ARN}
        ],
    }
)


def stream_arn(db: Database) -> str:
    return str(db.call("DescribeTable", {"TableName": "Music"})["Table"]["LatestStreamArn"])


@pytest.mark.parametrize("on_stream", [False, True])
def test_policy_round_trip(db: Database, on_stream: bool) -> None:
    arn = stream_arn(db) if on_stream else ARN
    assert "not found" in refused(
        db, "GetResourcePolicy", "PolicyNotFoundException", ResourceArn=arn
    )
    revision = db.call("PutResourcePolicy", {"ResourceArn": arn, "Policy": POLICY})["RevisionId"]
    assert db.call("GetResourcePolicy", {"ResourceArn": arn}) == {
        "Policy": POLICY,
        "RevisionId": revision,
    }
    # The same text again is the same revision; an expected one must match.
    again = db.call("PutResourcePolicy", {"ResourceArn": arn, "Policy": POLICY})
    assert again == {"RevisionId": revision}
    for operation, more in (
        ("PutResourcePolicy", {"Policy": POLICY}),
        ("DeleteResourcePolicy", {}),
    ):
        refused(
            db,
            operation,
            "PolicyNotFoundException",
            ResourceArn=arn,
            ExpectedRevisionId="1",
            **more,
        )
    assert db.call("DeleteResourcePolicy", {"ResourceArn": arn}) == {"RevisionId": revision}
    assert db.call("DeleteResourcePolicy", {"ResourceArn": arn}) == {}


def test_policy_refusals(db: Database) -> None:
    def message(policy: str) -> str:
        return refused(db, "PutResourcePolicy", ResourceArn=ARN, Policy=policy)

    prefix = INVALID + "Invalid policy document: "
    assert message("{") == prefix + "This policy contains invalid Json"
    no_resource = POLICY.replace('"Resource"', '"Sid"')
    assert message(no_resource) == prefix + "Missing required field Resource"
    assert "The following action names are invalid: s3:Get" in message(
        POLICY.replace("dynamodb:GetItem", "s3:Get")
    )
    assert message(" " * 20481) == INVALID + "Maximum policy size of 20480 bytes exceeded"
    unknown = stream_arn(db)[:-1] + "x"
    assert refused(
        db, "GetResourcePolicy", "ResourceNotFoundException", ResourceArn=unknown
    ).endswith("not found for Table: Music")


# Contributor insights.


def test_insights(db: Database) -> None:
    call = {"TableName": "Music"}
    described = db.call("DescribeContributorInsights", call)
    assert described == {"TableName": "Music", "ContributorInsightsStatus": "DISABLED"}
    enabled = db.call("UpdateContributorInsights", {**call, "ContributorInsightsAction": "ENABLE"})
    assert enabled["ContributorInsightsStatus"] == "ENABLING"
    db.call(
        "UpdateContributorInsights",
        {
            **call,
            "IndexName": "by-x",
            "ContributorInsightsAction": "ENABLE",
            "ContributorInsightsMode": "THROTTLED_KEYS",
        },
    )
    described = db.call("DescribeContributorInsights", call)
    assert described["ContributorInsightsStatus"] == "ENABLED"
    assert len(described["ContributorInsightsRuleList"]) == 2
    assert described["LastUpdateDateTime"] > 0
    page = db.call("ListContributorInsights", {"MaxResults": 1})
    assert page["ContributorInsightsSummaries"][0]["TableName"] == "Music"
    rest = db.call("ListContributorInsights", {"NextToken": page["NextToken"]})
    assert rest["ContributorInsightsSummaries"] == [
        {
            "TableName": "Music",
            "IndexName": "by-x",
            "ContributorInsightsStatus": "ENABLED",
            "ContributorInsightsMode": "THROTTLED_KEYS",
        }
    ]
    db.call("UpdateContributorInsights", {**call, "ContributorInsightsAction": "DISABLE"})
    described = db.call("DescribeContributorInsights", call)
    assert described["ContributorInsightsStatus"] == "DISABLED"


def test_insights_refusals(db: Database) -> None:
    message = refused(
        db,
        "DescribeContributorInsights",
        "ResourceNotFoundException",
        TableName="Music",
        IndexName="none",
    )
    assert message == "Requested resource not found: Index: none not found for table: Music"


# Kinesis destinations.

KINESIS = "arn:aws:kinesis:us-east-1:123456789012:stream/changes"


def test_kinesis_destination_needs_a_sink(db: Database) -> None:
    message = refused(db, "EnableKinesisStreamingDestination", TableName="Music", StreamArn=KINESIS)
    assert "kinesis_sinks" in message


def test_kinesis_destination(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    with memory_database(kinesis_sinks={KINESIS: str(path)}) as db:
        db.call("CreateTable", request(KeySchema=key("pk"), AttributeDefinitions=PK))
        db.copies_to_kinesis = True  # the test copies; no thread
        call = {"TableName": "Music", "StreamArn": KINESIS}
        put(db, "before", 0)
        enabled = db.call("EnableKinesisStreamingDestination", call)
        assert enabled["DestinationStatus"] == "ENABLING"
        assert "must be DISABLED" in refused(db, "EnableKinesisStreamingDestination", **call)
        put(db, "a", 1)
        put(db, "a", 2)
        assert kinesis.copy(db) == 2
        assert kinesis.copy(db) == 0
        # The history moves to the stream's changelog and back; nothing is lost on the way.
        stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
        db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": stream})
        put(db, "a", 3)
        off = {"StreamEnabled": False}
        db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": off})
        put(db, "a", 4)
        while kinesis.copy(db):
            pass
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        numbers = [line["dynamodb"]["NewImage"]["n"]["N"] for line in lines]
        assert numbers == ["1", "2", "3", "4"]
        assert lines[1]["dynamodb"]["OldImage"]["n"] == {"N": "1"}
        assert lines[0]["tableName"] == "Music"
        update = {**call, "UpdateKinesisStreamingConfiguration": MICROSECOND}
        db.call("UpdateKinesisStreamingDestination", update)
        assert "already set" in refused(db, "UpdateKinesisStreamingDestination", **update)
        db.call("DisableKinesisStreamingDestination", call)
        assert db.catalog.get("Music").changelog is None
        described = db.call("DescribeKinesisStreamingDestination", {"TableName": "Music"})
        assert described["KinesisDataStreamDestinations"] == [
            {
                "StreamArn": KINESIS,
                "DestinationStatus": "DISABLED",
                "ApproximateCreationDateTimePrecision": "MICROSECOND",
            }
        ]
        assert "must be ACTIVE" in refused(db, "DisableKinesisStreamingDestination", **call)


MICROSECOND = {"ApproximateCreationDateTimePrecision": "MICROSECOND"}


def put(db: Database, pk: str, number: int) -> None:
    item = {"pk": {"S": pk}, "n": {"N": str(number)}}
    db.call("PutItem", {"TableName": "Music", "Item": item})


# Other regions.


def test_old_global_tables_are_refused(db: Database) -> None:
    replicas = [{"RegionName": "eu-west-1"}]
    message = refused(db, "CreateGlobalTable", GlobalTableName="Music", ReplicationGroup=replicas)
    assert message == (
        "One or more parameter values were invalid: DynamoDB global tables version 2017.11.29 is "
        "not supported. We recommend using DynamoDB global tables version 2019.11.21, instead of "
        "version 2017.11.29 (Legacy)."
    )
    refused(db, "UpdateGlobalTable", GlobalTableName="Music", ReplicaUpdates=[])
    for operation in (
        "DescribeGlobalTable",
        "DescribeGlobalTableSettings",
        "UpdateGlobalTableSettings",
    ):
        refused(db, operation, "GlobalTableNotFoundException", GlobalTableName="Music")
    assert db.call("ListGlobalTables", {}) == {"GlobalTables": []}


def test_replica_auto_scaling(db: Database) -> None:
    update = {"MinimumUnits": 5, "MaximumUnits": 50}
    reply = db.call(
        "UpdateTableReplicaAutoScaling",
        {
            "TableName": "Music",
            "ProvisionedWriteCapacityAutoScalingUpdate": update,
            "GlobalSecondaryIndexUpdates": [
                {"IndexName": "by-x", "ProvisionedWriteCapacityAutoScalingUpdate": update}
            ],
        },
    )
    described = db.call("DescribeTableReplicaAutoScaling", {"TableName": "Music"})
    [replica] = described["TableAutoScalingDescription"]["Replicas"]
    assert replica["RegionName"] == "us-east-1"
    assert replica["ReplicaProvisionedWriteCapacityAutoScalingSettings"] == update
    [index] = replica["GlobalSecondaryIndexes"]
    assert index["ProvisionedWriteCapacityAutoScalingSettings"] == update
    assert reply["TableAutoScalingDescription"]["Replicas"] == [replica]
    other = [{"RegionName": "eu-west-1"}]
    assert "not supported by dynalsm" in refused(
        db, "UpdateTableReplicaAutoScaling", TableName="Music", ReplicaUpdates=other
    )


def test_tags_of_concurrent_callers_all_survive(db: Database) -> None:
    # Each change reads the current tags; without a lock around it one of two would be lost.
    def toggle(name: str) -> None:
        for _ in range(50):
            db.call("TagResource", {"ResourceArn": ARN, "Tags": [{"Key": name, "Value": "x"}]})
            kept = {
                tag["Key"] for tag in db.call("ListTagsOfResource", {"ResourceArn": ARN})["Tags"]
            }
            assert name in kept
            db.call("UntagResource", {"ResourceArn": ARN, "TagKeys": [name]})
            kept = {
                tag["Key"] for tag in db.call("ListTagsOfResource", {"ResourceArn": ARN})["Tags"]
            }
            assert name not in kept

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(toggle, ("A", "B", "C")))
