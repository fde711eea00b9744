"""CreateTable, DescribeTable, DeleteTable, ListTables through dispatch.

Exact texts come from reference 13.4 and 13.8; behaviour of alternator's tests is noted there too.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from tests.support.databases import memory_database

INVALID = "One or more parameter values were invalid: "


@pytest.fixture
def db() -> Any:
    with memory_database() as database:
        yield database


def key(*names: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind}
        for name, kind in zip(names, ("HASH", "RANGE", "RANGE"), strict=False)
    ]


def definitions(**kinds: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()]


def gsi(name: str, *names: str, projection: Any = None, **more: Any) -> dict[str, Any]:
    projection = projection or {"ProjectionType": "ALL"}
    return {"IndexName": name, "KeySchema": key(*names), "Projection": projection, **more}


def request(**changes: Any) -> dict[str, Any]:
    """A valid CreateTable with the changes; None removes a member."""
    base = {
        "TableName": "Music",
        "KeySchema": key("pk", "sk"),
        "AttributeDefinitions": definitions(pk="S", sk="N"),
        "BillingMode": "PAY_PER_REQUEST",
        **changes,
    }
    return {name: value for name, value in base.items() if value is not None}


def refused(db: Database, call: dict[str, Any], code: str = "ValidationException") -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        db.call("CreateTable", call)
    return caught.value.message


def test_create_then_describe(db: Database) -> None:
    reply = db.call("CreateTable", request())["TableDescription"]
    assert reply["TableStatus"] == "CREATING"
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert table["TableStatus"] == "ACTIVE"
    assert table["KeySchema"] == key("pk", "sk")
    assert table["AttributeDefinitions"] == definitions(pk="S", sk="N")
    assert table["TableArn"] == "arn:aws:dynamodb:us-east-1:123456789012:table/Music"
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", table["TableId"])
    assert table["ItemCount"] == table["TableSizeBytes"] == 0
    assert table["BillingModeSummary"] == {
        "BillingMode": "PAY_PER_REQUEST",
        "LastUpdateToPayPerRequestDateTime": table["CreationDateTime"],
    }
    assert table["ProvisionedThroughput"] == {
        "NumberOfDecreasesToday": 0,
        "ReadCapacityUnits": 0,
        "WriteCapacityUnits": 0,
    }
    assert table["DeletionProtectionEnabled"] is False
    # Members that do not apply are absent, not empty.
    assert not {
        "SSEDescription",
        "StreamSpecification",
        "RestoreSummary",
        "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
        "TableClassSummary",
        "OnDemandThroughput",
    } & set(table)


def test_provisioned_table_has_no_billing_summary(db: Database) -> None:
    units = {"ReadCapacityUnits": 2, "WriteCapacityUnits": 3}
    db.call("CreateTable", request(BillingMode=None, ProvisionedThroughput=units))
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert "BillingModeSummary" not in table
    assert table["ProvisionedThroughput"] == {"NumberOfDecreasesToday": 0, **units}
    assert table["WarmThroughput"] == {
        "ReadUnitsPerSecond": 2,
        "WriteUnitsPerSecond": 3,
        "Status": "ACTIVE",
    }


def test_describe_by_arn(db: Database) -> None:
    arn = db.call("CreateTable", request())["TableDescription"]["TableArn"]
    assert db.call("DescribeTable", {"TableName": arn})["Table"]["TableName"] == "Music"


def test_indexes_are_described(db: Database) -> None:
    call = request(
        AttributeDefinitions=definitions(pk="S", sk="N", x="S"),
        GlobalSecondaryIndexes=[
            gsi("by-x", "x", projection={"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a"]})
        ],
        LocalSecondaryIndexes=[gsi("local", "pk", "x")],
    )
    reply = db.call("CreateTable", call)["TableDescription"]
    assert reply["GlobalSecondaryIndexes"][0]["IndexStatus"] == "CREATING"
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    [index] = table["GlobalSecondaryIndexes"]
    assert index["IndexStatus"] == "ACTIVE"
    assert "Backfilling" not in index
    assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a"]}
    assert index["IndexArn"] == table["TableArn"] + "/index/by-x"
    [local] = table["LocalSecondaryIndexes"]
    assert local["KeySchema"] == key("pk", "x")
    assert "IndexStatus" not in local


def test_multi_attribute_key(db: Database) -> None:
    schema = [
        *({"AttributeName": name, "KeyType": "HASH"} for name in ("a", "b")),
        *({"AttributeName": name, "KeyType": "RANGE"} for name in ("c", "d")),
    ]
    index = {"IndexName": "many", "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}}
    kinds = definitions(pk="S", sk="N", a="S", b="N", c="B", d="S")
    db.call("CreateTable", request(AttributeDefinitions=kinds, GlobalSecondaryIndexes=[index]))
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert table["GlobalSecondaryIndexes"][0]["KeySchema"] == schema


REFUSED = [
    ({"TableName": None}, "The parameter 'TableName' is required but was not present"),
    ({"TableName": "ab"}, "TableName must be at least 3 characters long and at most 255"),
    ({"TableName": "n" * 256}, "TableName must be at least 3 characters long and at most 255"),
    ({"TableName": "a b c"}, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"),
    ({"KeySchema": []}, "at 'keySchema' failed to satisfy constraint: Member must have length gr"),
    ({"KeySchema": key("pk", "sk", "z")}, "Member must have length less than or equal to 2"),
    ({"AttributeDefinitions": None}, "Value null at 'attributeDefinitions'"),
    (
        {"AttributeDefinitions": [{"AttributeType": "S"}]},
        "1 validation error detected: Value null at 'attributeDefinitions.1.member.attributeName' "
        "failed to satisfy constraint: Member must not be null",
    ),
    ({"AttributeDefinitions": definitions(pk="S", sk="BOOL")}, "Value 'BOOL' at"),
    ({"BillingMode": "pay_per_request"}, "enum value set: [PROVISIONED, PAY_PER_REQUEST]"),
    ({"BillingMode": "PROVISIONED"}, INVALID + "ReadCapacityUnits and WriteCapacityUnits must"),
    ({"BillingMode": None}, INVALID + "ReadCapacityUnits and WriteCapacityUnits must both be"),
    (
        {"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}},
        INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when Bill",
    ),
    (
        {
            "BillingMode": None,
            "ProvisionedThroughput": {
                "ReadCapacityUnits": 1000000000001,
                "WriteCapacityUnits": 1,
            },
        },
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
    ),
    (
        {"AttributeDefinitions": definitions(pk="S")},
        "Invalid KeySchema: Some index key attribute have no definition",
    ),
    (
        {"AttributeDefinitions": definitions(pk="S", z="S")},
        INVALID + "Some index key attributes are not defined in AttributeDefinitions. "
        "Keys: [pk, sk], AttributeDefinitions: [pk, z]",
    ),
    (
        {"KeySchema": key("pk", "pk")},
        "Both the Hash Key and the Range Key element in the KeySchema have the same name",
    ),
    (
        {"KeySchema": [{"AttributeName": "pk", "KeyType": "RANGE"}]},
        "Invalid KeySchema: The first KeySchemaElement is not a HASH key type",
    ),
    (
        {"KeySchema": key("pk") + key("sk")},
        "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type",
    ),
    (
        {"AttributeDefinitions": definitions(pk="S", sk="S", z="S")},
        INVALID + "Number of attributes in KeySchema does not exactly match number of attributes",
    ),
    (
        {"AttributeDefinitions": [*definitions(pk="S", sk="S"), *definitions(pk="N")]},
        "Attribute Name is duplicated: pk",
    ),
    (
        {
            "AttributeDefinitions": definitions(pk="S", sk="S", z="S"),
            "GlobalSecondaryIndexes": [gsi("by-sk", "sk")],
        },
        INVALID + "Some AttributeDefinitions are not used. AttributeDefinitions: [pk, sk, z], "
        "keys used: [pk, sk]",
    ),
    ({"GlobalSecondaryIndexes": []}, INVALID + "List of GlobalSecondaryIndexes is empty"),
    ({"LocalSecondaryIndexes": []}, INVALID + "List of LocalSecondaryIndexes is empty"),
    (
        {"LocalSecondaryIndexes": [gsi("local", "pk")]},
        INVALID + "Index KeySchema does not have a range key for index: local",
    ),
    (
        {"LocalSecondaryIndexes": [gsi("local", "sk", "pk")]},
        INVALID + "Index KeySchema does not have the same leading hash key as table KeySchema "
        "for index: local. index hash key: sk, table hash key: pk",
    ),
    (
        {
            "KeySchema": key("pk"),
            "LocalSecondaryIndexes": [gsi("local", "pk", "sk")],
        },
        INVALID + "Table KeySchema does not have a range key, which is required when",
    ),
    (
        {"GlobalSecondaryIndexes": [gsi("one", "sk"), gsi("one", "sk")]},
        INVALID + "Duplicate index name: one",
    ),
    (
        {
            "LocalSecondaryIndexes": [gsi("one", "pk", "sk")],
            "GlobalSecondaryIndexes": [gsi("one", "sk")],
        },
        INVALID + "Duplicate index name: one",
    ),
    (
        {"LocalSecondaryIndexes": [gsi(f"local{n}", "pk", "sk") for n in range(6)]},
        INVALID + "Number of LocalSecondaryIndexes exceeds per-table limit of 5",
    ),
    (
        {"GlobalSecondaryIndexes": [gsi(f"index{n}", "sk") for n in range(21)]},
        INVALID + "GlobalSecondaryIndex count exceeds the per-table limit of 20",
    ),
    (
        {"GlobalSecondaryIndexes": [gsi("one", "sk", projection={"NonKeyAttributes": ["a"]})]},
        INVALID + "Unknown ProjectionType: null",
    ),
    (
        {
            "GlobalSecondaryIndexes": [
                gsi(
                    "one",
                    "sk",
                    projection={"ProjectionType": "KEYS_ONLY", "NonKeyAttributes": ["a"]},
                )
            ]
        },
        INVALID + "ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified",
    ),
    (
        {"GlobalSecondaryIndexes": [gsi("one", "sk", projection={"ProjectionType": "INCLUDE"})]},
        INVALID + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
    ),
    (
        {
            "GlobalSecondaryIndexes": [
                gsi(
                    "one",
                    "sk",
                    ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
                )
            ]
        },
        INVALID + "ProvisionedThroughput should not be specified for index: one when BillingMode",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": True}},
        INVALID + "Table is being created with a stream enabled, UpdateViewType is required",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": False, "StreamViewType": "KEYS_ONLY"}},
        INVALID + "Table is being created with a stream disabled, UpdateViewType should not be",
    ),
    (
        {"TableClass": "COLD"},
        "Invalid table-class parameter provided. Please try again with a valid table-class value: "
        "[STANDARD, STANDARD_INFREQUENT_ACCESS].",
    ),
    (
        {"SSESpecification": {"Enabled": False, "SSEType": "KMS"}},
        INVALID + "SSEType can not be specified if Enabled is false",
    ),
    (
        {"SSESpecification": {"Enabled": True, "SSEType": "AES256"}},
        INVALID + "SSEType AES256 is not supported",
    ),
    (
        {"Tags": [{"Key": str(n), "Value": ""} for n in range(51)]},
        "Number of Tags exceed the current limit for the provided ResourceArn",
    ),
    ({"GlobalTableSourceArn": "arn:x"}, "Invalid resource Arn: arn:x"),
    (
        {"OnDemandThroughput": {"MaxReadRequestUnits": 0}},
        INVALID + "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of",
    ),
    (
        {
            "BillingMode": None,
            "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
            "OnDemandThroughput": {"MaxReadRequestUnits": 5},
        },
        INVALID + "MaxReadRequestUnits for OnDemandThroughput cannot be specified when table "
        "BillingMode is PROVISIONED.",
    ),
]


@pytest.mark.parametrize(("changes", "fragment"), REFUSED, ids=[text[-40:] for _, text in REFUSED])
def test_refused(db: Database, changes: dict[str, Any], fragment: str) -> None:
    assert fragment in refused(db, request(**changes))
    # Nothing was made: no table, no tree.
    assert db.call("ListTables", {}) == {"TableNames": []}
    assert [name for name in db.engine.tree_names() if name != "catalog"] == []


def test_constraint_errors_come_together(db: Database) -> None:
    message = refused(db, request(BillingMode="x", KeySchema=[]))
    assert message.startswith("2 validation errors detected: ")


def test_existing_name(db: Database) -> None:
    db.call("CreateTable", request())
    message = refused(db, request(), "ResourceInUseException")
    assert message == "Table already exists: Music"


def test_too_many_tables() -> None:
    with memory_database(limit_tables=1) as db:
        db.call("CreateTable", request())
        assert "tables per subscriber" in refused(
            db, request(TableName="Other"), "LimitExceededException"
        )


def test_unknown_table(db: Database) -> None:
    for name in ("DescribeTable", "DeleteTable"):
        with pytest.raises(errors.API_ERRORS["ResourceNotFoundException"]) as caught:
            db.call(name, {"TableName": "nothing"})
        assert caught.value.message == "Requested resource not found: Table: nothing not found"


def test_delete(db: Database) -> None:
    db.call(
        "CreateTable",
        request(
            GlobalSecondaryIndexes=[gsi("by-sk", "sk")],
            LocalSecondaryIndexes=[gsi("local", "pk", "sk")],
        ),
    )
    reply = db.call("DeleteTable", {"TableName": "Music"})["TableDescription"]
    assert reply["TableStatus"] == "DELETING"
    assert reply["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert reply["ItemCount"] == 0
    # The schema is not described any more (observed).
    assert not {
        "KeySchema",
        "AttributeDefinitions",
        "CreationDateTime",
        "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
    } & set(reply)
    assert db.call("ListTables", {}) == {"TableNames": []}
    assert db.engine.tree_names() == ["catalog"]
    db.call("CreateTable", request())


def test_deletion_protection(db: Database) -> None:
    db.call("CreateTable", request(DeletionProtectionEnabled=True))
    with pytest.raises(errors.ValidationException, match="currently protected against deletion"):
        db.call("DeleteTable", {"TableName": "Music"})
    db.call("UpdateTable", {"TableName": "Music", "DeletionProtectionEnabled": False})
    db.call("DeleteTable", {"TableName": "Music"})


def test_settings_are_kept_and_described(db: Database) -> None:
    db.call(
        "CreateTable",
        request(
            TableClass="STANDARD_INFREQUENT_ACCESS",
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "alias/mine"},
            OnDemandThroughput={"MaxWriteRequestUnits": 7},
            WarmThroughput={"ReadUnitsPerSecond": 20000, "WriteUnitsPerSecond": 5000},
        ),
    )
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert table["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert table["SSEDescription"] == {
        "Status": "ENABLED",
        "SSEType": "KMS",
        "KMSMasterKeyArn": "arn:aws:kms:us-east-1:123456789012:alias/mine",
    }
    assert table["OnDemandThroughput"] == {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": 7}
    assert table["WarmThroughput"]["ReadUnitsPerSecond"] == 20000


def test_counts_are_live(db: Database) -> None:
    index = gsi("by-x", "x", projection={"ProjectionType": "KEYS_ONLY"})
    kinds = definitions(pk="S", sk="N", x="S")
    db.call("CreateTable", request(AttributeDefinitions=kinds, GlobalSecondaryIndexes=[index]))
    item = {"pk": {"S": "a"}, "sk": {"N": "1"}, "x": {"S": "xx"}, "more": {"S": "1234"}}
    db.call("PutItem", {"TableName": "Music", "Item": item})
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    # pk 2+1, sk 2+2, x 1+2, more 4+4
    assert (table["ItemCount"], table["TableSizeBytes"]) == (1, 18)
    [described] = table["GlobalSecondaryIndexes"]
    assert (described["ItemCount"], described["IndexSizeBytes"]) == (1, 10)
    key_ = {"pk": {"S": "a"}, "sk": {"N": "1"}}
    db.call("DeleteItem", {"TableName": "Music", "Key": key_})
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert (table["ItemCount"], table["TableSizeBytes"]) == (0, 0)


def test_list_in_pages(db: Database) -> None:
    for name in ("ccc", "aaa", "BBB", "ddd"):
        db.call("CreateTable", request(TableName=name))
    first = db.call("ListTables", {"Limit": 2})
    assert first == {"TableNames": ["BBB", "aaa"], "LastEvaluatedTableName": "aaa"}
    rest = db.call("ListTables", {"ExclusiveStartTableName": "aaa"})
    assert rest == {"TableNames": ["ccc", "ddd"]}
    # The start need not exist, and a full last page carries no LastEvaluatedTableName.
    assert db.call("ListTables", {"Limit": 2, "ExclusiveStartTableName": "aab"}) == rest


def test_list_limit(db: Database) -> None:
    with pytest.raises(errors.ValidationException) as caught:
        db.call("ListTables", {"Limit": 101})
    assert caught.value.message == (
        "1 validation error detected: Value '101' at 'limit' failed to satisfy constraint: "
        "Member must have value less than or equal to 100"
    )
