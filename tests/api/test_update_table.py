"""UpdateTable through dispatch: texts of reference 7.4 and 13.8; indexes filled by a thread."""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import backfill
from tests.api.test_tables import INVALID, definitions, gsi, key, request
from tests.support.databases import memory_database

UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}


@pytest.fixture
def db() -> Any:
    with memory_database() as database:
        database.call("CreateTable", request(KeySchema=key("pk"), AttributeDefinitions=PK))
        yield database


PK = definitions(pk="S")


def update(db: Database, **members: Any) -> dict[str, Any]:
    reply: dict[str, Any] = db.call("UpdateTable", {"TableName": "Music", **members})
    return reply["TableDescription"]


def described(db: Database) -> dict[str, Any]:
    table: dict[str, Any] = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    return table


def create(name: str, *names: str, **more: Any) -> dict[str, Any]:
    kinds = dict.fromkeys(names, "S")
    return {
        "AttributeDefinitions": definitions(**kinds),
        "GlobalSecondaryIndexUpdates": [{"Create": gsi(name, *names, **more)}],
    }


def delete(name: str) -> dict[str, Any]:
    return {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": name}}]}


def put(db: Database, **attributes: Any) -> None:
    db.call("PutItem", {"TableName": "Music", "Item": attributes})


def scan(db: Database, index: str) -> list[Any]:
    items = db.call("Scan", {"TableName": "Music", "IndexName": index})["Items"]
    return sorted(items, key=lambda item: item["pk"]["S"])


# Requests that are refused, on a table with PAY_PER_REQUEST and the key pk.
REFUSED = [
    ({}, "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled"),
    ({"GlobalSecondaryIndexUpdates": []}, "or TableClass is required"),
    ({"AttributeDefinitions": PK}, "or TableClass is required"),
    (
        {"GlobalSecondaryIndexUpdates": [{}]},
        INVALID + "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
        "GlobalSecondaryIndexUpdate.Delete must not be null",
    ),
    (
        {
            "GlobalSecondaryIndexUpdates": [
                {"Create": gsi("one", "x"), "Delete": {"IndexName": "two"}}
            ]
        },
        INVALID + "Only one global secondary index action is allowed per GlobalSecondaryIndexUpd",
    ),
    (
        {
            "GlobalSecondaryIndexUpdates": [
                {"Delete": {"IndexName": "one"}},
                {"Delete": {"IndexName": "one"}},
            ]
        },
        INVALID + "Only one global secondary index update per index is allowed simultaneously. "
        "Index: one",
    ),
    (
        {"GlobalSecondaryIndexUpdates": [{"Create": gsi("one", "x")}]},
        INVALID + "AttributeDefinitions is not specified for index: one",
    ),
    (
        {**create("one", "x"), "AttributeDefinitions": definitions(y="S")},
        INVALID + "Some index key attributes are not defined in AttributeDefinitions.",
    ),
    (
        {**create("one", "pk"), "AttributeDefinitions": definitions(pk="N")},
        "Attributes cannot be redefined. Please check that your attribute has the same type as "
        "previously defined. Existing schema: Schema:[SchemaElement: key{pk:S:HASH}] New schema: "
        "Schema:[SchemaElement: key{pk:N:HASH}]",
    ),
    (
        create("one", "x", ProvisionedThroughput=UNITS),
        INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: "
        "one when BillingMode is PAY_PER_REQUEST",
    ),
    (
        {"ProvisionedThroughput": UNITS},
        INVALID + "ProvisionedThroughput cannot be specified when BillingMode is PAY_PER_REQUEST",
    ),
    (
        {"BillingMode": "PAY_PER_REQUEST", "ProvisionedThroughput": UNITS},
        INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when Bill",
    ),
    (
        {"BillingMode": "PROVISIONED"},
        INVALID + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": True}},
        INVALID + "If stream is being enabled then UpdateViewType is required",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": False, "StreamViewType": "KEYS_ONLY"}},
        INVALID + "If stream is being disabled, then UpdateViewType must not be specified",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": False}},
        "Table has no stream to disable: TableName: Music",
    ),
    (
        {"SSESpecification": {"Enabled": True}, "TableClass": "STANDARD"},
        INVALID + "Server-Side Encryption modification must be the only operation in the request",
    ),
    (
        {"DeletionProtectionEnabled": True, "BillingMode": "PAY_PER_REQUEST"},
        INVALID + "DeletionProtection modification must be the only operation in the request",
    ),
    (
        {
            "OnDemandThroughput": {"MaxReadRequestUnits": 9},
            "StreamSpecification": {"StreamEnabled": False},
        },
        INVALID + "OnDemandThroughput can only be combined with BillingMode in an UpdateTable",
    ),
    (
        {**create("one", "x"), "BillingMode": "PAY_PER_REQUEST"},
        INVALID + "You cannot create or delete index while updating table IOPS",
    ),
    (
        {**create("one", "x"), "StreamSpecification": {"StreamEnabled": False}},
        INVALID + "You cannot create or delete index while changing stream status",
    ),
    ({"SSESpecification": {"Enabled": False}}, INVALID + "Table is already encrypted by default"),
    ({"ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}]}, "ReplicaUpdates is not supp"),
    (
        {"WarmThroughput": {"ReadUnitsPerSecond": 11999}},
        INVALID + "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than "
        "current WarmThroughput, decreasing WarmThroughput is not supported",
    ),
]


@pytest.mark.parametrize(("members", "fragment"), REFUSED, ids=[text[-40:] for _, text in REFUSED])
def test_refused(db: Database, members: dict[str, Any], fragment: str) -> None:
    before = described(db)
    with pytest.raises(errors.ValidationException) as caught:
        update(db, **members)
    assert fragment in caught.value.message
    assert described(db) == before


def test_unknown_table(db: Database) -> None:
    with pytest.raises(errors.API_ERRORS["ResourceNotFoundException"]):
        db.call("UpdateTable", {"TableName": "nothing", "BillingMode": "PAY_PER_REQUEST"})


def test_units_out_of_bounds_come_before_the_table(db: Database) -> None:
    units = {"ReadCapacityUnits": 10**12 + 1, "WriteCapacityUnits": 1}
    with pytest.raises(errors.ValidationException) as caught:
        db.call("UpdateTable", {"TableName": "nowhere", "ProvisionedThroughput": units})
    assert caught.value.message == (
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds"
    )
    # Those of an index come after it (observed: dynalite).
    index = {"IndexName": "abc", "ProvisionedThroughput": units}
    with pytest.raises(errors.ResourceNotFoundException):
        change = [{"Update": index}]
        db.call("UpdateTable", {"TableName": "nowhere", "GlobalSecondaryIndexUpdates": change})


def test_same_billing_mode_changes_nothing(db: Database) -> None:
    before = described(db)
    assert update(db, BillingMode="PAY_PER_REQUEST")["TableStatus"] == "UPDATING"
    assert described(db) == before


def test_billing_round_trip(db: Database) -> None:
    update(db, OnDemandThroughput={"MaxReadRequestUnits": 9})
    update(db, BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    table = described(db)
    assert table["BillingModeSummary"]["BillingMode"] == "PROVISIONED"
    assert table["ProvisionedThroughput"]["ReadCapacityUnits"] == 5
    assert "OnDemandThroughput" not in table  # cleared by the switch
    update(db, BillingMode="PAY_PER_REQUEST")
    assert described(db)["ProvisionedThroughput"]["ReadCapacityUnits"] == 0


def test_throughput_changes_are_dated() -> None:
    now = [1_000_000.0]
    with memory_database(clock=lambda: now[0]) as db:
        db.call(
            "CreateTable",
            request(
                KeySchema=key("pk"),
                AttributeDefinitions=PK,
                BillingMode=None,
                ProvisionedThroughput=UNITS,
            ),
        )
        with pytest.raises(errors.ValidationException) as caught:
            update(db, ProvisionedThroughput=UNITS)
        assert caught.value.message == (
            "The provisioned throughput for the table will not change. The requested value "
            "equals the current value. Current ReadCapacityUnits provisioned for the table: 5. "
            "Requested ReadCapacityUnits: 5. Current WriteCapacityUnits provisioned for the "
            "table: 5. Requested WriteCapacityUnits: 5. Refer to the Amazon DynamoDB Developer "
            "Guide for current limits and how to request higher limits."
        )
        now[0] += 60
        reply = update(db, ProvisionedThroughput={"ReadCapacityUnits": 9, "WriteCapacityUnits": 1})
        # The reply shows the units of before, for the change is under way.
        assert reply["ProvisionedThroughput"]["ReadCapacityUnits"] == 5
        assert reply["ProvisionedThroughput"]["WriteCapacityUnits"] == 5
        assert reply["ProvisionedThroughput"]["LastIncreaseDateTime"] == now[0]
        units = described(db)["ProvisionedThroughput"]
        assert units == {
            "ReadCapacityUnits": 9,
            "WriteCapacityUnits": 1,
            "NumberOfDecreasesToday": 1,
            "LastIncreaseDateTime": now[0],
            "LastDecreaseDateTime": now[0],
        }
        now[0] += 86_400  # the count starts again every UTC day
        assert described(db)["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0


def test_on_demand_ceilings_merge(db: Database) -> None:
    update(db, OnDemandThroughput={"MaxReadRequestUnits": 9})
    update(db, OnDemandThroughput={"MaxWriteRequestUnits": 8})
    assert described(db)["OnDemandThroughput"] == {
        "MaxReadRequestUnits": 9,
        "MaxWriteRequestUnits": 8,
    }
    update(db, OnDemandThroughput={"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": -1})
    assert "OnDemandThroughput" not in described(db)


def test_class_encryption_and_warm_throughput(db: Database) -> None:
    update(db, TableClass="STANDARD_INFREQUENT_ACCESS")
    update(db, SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "abc"})
    update(db, WarmThroughput={"ReadUnitsPerSecond": 13000})
    table = described(db)
    assert table["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
    assert table["SSEDescription"]["KMSMasterKeyArn"].endswith(":key/abc")
    assert table["WarmThroughput"]["ReadUnitsPerSecond"] == 13000
    assert table["WarmThroughput"]["WriteUnitsPerSecond"] == 4000
    update(db, SSESpecification={"Enabled": False})
    assert "SSEDescription" not in described(db)


# Indexes.


def test_new_index_holds_old_and_new_items(db: Database) -> None:
    put(db, pk={"S": "a"}, x={"S": "1"})
    put(db, pk={"S": "b"}, x={"N": "1"})  # wrong type: skipped, silently
    put(db, pk={"S": "c"})  # no x: not indexed
    put(db, pk={"S": "d"}, x={"S": ""})  # empty: skipped, silently
    reply = update(db, **create("by-x", "x"))
    assert reply["GlobalSecondaryIndexes"][0]["IndexStatus"] == "CREATING"
    backfill.wait(db, "Music", "by-x")
    [index] = described(db)["GlobalSecondaryIndexes"]
    assert (index["IndexStatus"], index["ItemCount"]) == ("ACTIVE", 1)
    assert "Backfilling" not in index
    assert described(db)["AttributeDefinitions"] == definitions(pk="S", x="S")
    put(db, pk={"S": "e"}, x={"S": "2"})
    assert [item["pk"]["S"] for item in scan(db, "by-x")] == ["a", "e"]
    with pytest.raises(errors.ValidationException, match="mismatch"):
        put(db, pk={"S": "f"}, x={"N": "3"})


def test_deleted_index_is_gone(db: Database) -> None:
    update(db, **create("by-x", "x"))
    backfill.wait(db, "Music", "by-x")
    reply = update(db, **delete("by-x"))
    assert reply["GlobalSecondaryIndexes"][0]["IndexStatus"] == "DELETING"
    table = described(db)
    assert "GlobalSecondaryIndexes" not in table
    assert table["AttributeDefinitions"] == PK  # orphaned definitions are pruned
    put(db, pk={"S": "a"}, x={"N": "7"})  # x is free again
    with pytest.raises(errors.API_ERRORS["ResourceNotFoundException"]) as caught:
        update(db, **delete("by-x"))
    assert caught.value.message == "Requested resource not found: Index by-x for table Music"
    update(db, **create("by-x", "x"))
    backfill.wait(db, "Music", "by-x")
    assert scan(db, "by-x") == []


def test_index_name_taken(db: Database) -> None:
    update(db, **create("by-x", "x"))
    backfill.wait(db, "Music", "by-x")
    with pytest.raises(errors.ValidationException) as caught:
        update(db, **create("by-x", "y"))
    assert caught.value.message == "Attempting to create an index which already exists"


def test_two_online_indexes(db: Database) -> None:
    updates = [{"Create": gsi("one", "x")}, {"Delete": {"IndexName": "two"}}]
    with pytest.raises(errors.API_ERRORS["LimitExceededException"]) as caught:
        update(db, AttributeDefinitions=definitions(x="S"), GlobalSecondaryIndexUpdates=updates)
    assert caught.value.message == (
        "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously "
        "per table"
    )


def test_local_index_cannot_change() -> None:
    with memory_database() as db:
        db.call("CreateTable", request(LocalSecondaryIndexes=[gsi("local", "pk", "sk")]))
        with pytest.raises(errors.ValidationException) as caught:
            update(db, **delete("local"))
        assert caught.value.message == (
            "Cannot delete an index that is not a GlobalSecondaryIndex: local"
        )


def test_while_an_index_is_filled(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between UpdateTable and the end of the backfill much is refused, and Delete cancels it."""
    monkeypatch.setattr(backfill, "start", lambda *arguments: None)
    put(db, pk={"S": "a"}, x={"S": "1"})
    update(db, **create("by-x", "x"))
    [index] = described(db)["GlobalSecondaryIndexes"]
    assert (index["IndexStatus"], index["Backfilling"]) == ("CREATING", True)
    in_use = errors.API_ERRORS["ResourceInUseException"]
    with pytest.raises(in_use, match="Cannot delete table while indexes are being created"):
        db.call("DeleteTable", {"TableName": "Music"})
    with pytest.raises(in_use, match=r"Can't change table IOPS .* Table: Music Indexes: \[by-x\]"):
        update(db, BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
    with pytest.raises(in_use, match="Can't change stream status when an index is being created"):
        update(db, StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    with pytest.raises(errors.API_ERRORS["LimitExceededException"], match="Only 1 online index"):
        update(db, **create("by-y", "y"))
    with pytest.raises(errors.ValidationException, match="backfilling global secondary index: by"):
        scan(db, "by-x")
    update(db, **delete("by-x"))
    assert "GlobalSecondaryIndexes" not in described(db)


def test_backfill_resumes_after_reopening(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process leaves CREATING, the next one finishes, from the place kept in the catalog."""
    from dynalsm.model import indexes

    monkeypatch.setattr(indexes, "BACKFILL_CHUNK_ITEMS", 2)
    monkeypatch.setattr(backfill, "SAVE_EVERY_CHUNKS", 1)
    with memory_database() as db:
        db.call("CreateTable", request(KeySchema=key("pk"), AttributeDefinitions=PK))
        for name in "abcdefg":
            put(db, pk={"S": name}, x={"S": name})
        with monkeypatch.context() as patched:
            patched.setattr(backfill, "start", lambda *arguments: None)
            update(db, **create("by-x", "x"))
        # The first process stops after its second chunk.
        handle = db.catalog.get("Music")
        stops = iter([False, False, True])
        progress = backfill._Progress(db.catalog, f"{handle.schema.id}/by-x")
        finished = indexes.backfill(
            db.writes, handle, handle.indexes["by-x"], lambda: next(stops), None, progress.save
        )
        assert not finished
        assert handle.indexes["by-x"].statistics.items == 4
        # The next one looks at the remaining items only.
        looked_at = []
        chunk = indexes._backfill_chunk
        monkeypatch.setattr(
            indexes,
            "_backfill_chunk",
            lambda writes, table, index, keys: (
                looked_at.extend(keys),
                chunk(writes, table, index, keys),
            ),
        )
        backfill.resume(db)
        backfill.wait(db, "Music", "by-x")
        assert len(looked_at) <= 4
        assert described(db)["GlobalSecondaryIndexes"][0]["IndexStatus"] == "ACTIVE"
        assert len(scan(db, "by-x")) == 7


def test_index_throughput() -> None:
    with memory_database() as db:
        index = gsi("by-sk", "sk", ProvisionedThroughput=UNITS)
        call = request(
            BillingMode=None, ProvisionedThroughput=UNITS, GlobalSecondaryIndexes=[index]
        )
        db.call("CreateTable", call)
        wanted = {"ReadCapacityUnits": 6, "WriteCapacityUnits": 5}
        action = {"Update": {"IndexName": "by-sk", "ProvisionedThroughput": wanted}}
        update(db, GlobalSecondaryIndexUpdates=[action])
        [index] = described(db)["GlobalSecondaryIndexes"]
        assert index["ProvisionedThroughput"]["ReadCapacityUnits"] == 6
        with pytest.raises(errors.ValidationException, match="index by-sk will not change"):
            update(db, GlobalSecondaryIndexUpdates=[action])
        # The way back from on-demand needs units for every index.
        update(db, BillingMode="PAY_PER_REQUEST")
        with pytest.raises(errors.ValidationException, match="must be specified for index: by-sk"):
            update(db, BillingMode="PROVISIONED", ProvisionedThroughput=UNITS)
        update(
            db,
            BillingMode="PROVISIONED",
            ProvisionedThroughput=UNITS,
            GlobalSecondaryIndexUpdates=[action],
        )
        [index] = described(db)["GlobalSecondaryIndexes"]
        assert index["ProvisionedThroughput"]["ReadCapacityUnits"] == 6
