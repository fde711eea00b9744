"""Vector indexes in CreateTable, UpdateTable, DescribeTable and restores (reference 1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database, open_path
from dynalsm.model import backfill, indexes
from tests.api.test_tables import gsi
from tests.support.databases import memory_database
from tests.support.store import B, N, S
from tests.support.vectors import NAME, put, search, vector_index, vector_table

INVALID = "One or more parameter values were invalid: "
ONE_ONLINE = (
    "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per "
    "table"
)


@pytest.fixture
def db() -> Iterator[Database]:
    with memory_database() as database:
        yield database


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes stay in the middle of being filled."""
    monkeypatch.setattr(backfill, "start", lambda *arguments: None)


def refused(
    db: Database, operation: str, request: dict[str, Any], code: str = "ValidationException"
) -> str:
    with pytest.raises(errors.ApiError) as caught:
        db.call(operation, request)
    assert caught.value.code == code, caught.value
    return caught.value.message


def described(db: Database) -> dict[str, Any]:
    table: dict[str, Any] = db.call("DescribeTable", {"TableName": NAME})["Table"]
    return table


def update(db: Database, *actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    request = {"TableName": NAME, "VectorIndexUpdates": list(actions), **more}
    description: dict[str, Any] = db.call("UpdateTable", request)["TableDescription"]
    return description


def create(name: str = "near", **more: Any) -> dict[str, Any]:
    return {"Create": vector_index(name, **more)}


DELETE = {"Delete": {"IndexName": "near"}}
DEFINED = {
    "AttributeDefinitions": [
        {"AttributeName": "t", "AttributeType": "S"},
        {"AttributeName": "c", "AttributeType": "N"},
    ]
}


# CreateTable.


def test_create_table_reports_the_definition(db: Database) -> None:
    """With the table, an index is ACTIVE at once and never says Backfilling."""
    wanted = vector_index("near", "EUCLIDEAN", 4096, hash="t", filters=["c", "b"])
    reply = db.call("CreateTable", vector_table(wanted, vector_index("plain", attribute="v")))
    [near, _] = reply["TableDescription"]["VectorIndexes"]
    assert near["IndexStatus"] == "CREATING"
    assert "Backfilling" not in near
    table = described(db)
    assert table["VectorIndexes"][0] == {
        **wanted,
        "IndexStatus": "ACTIVE",
        "IndexSizeBytes": 0,
        "ItemCount": 0,
        "IndexArn": f"{table['TableArn']}/index/near",
    }
    assert "SearchSchema" not in table["VectorIndexes"][1]
    names = {part["AttributeName"] for part in table["AttributeDefinitions"]}
    assert names == {"p", "t", "c", "b"}


def with_key(**more: Any) -> dict[str, Any]:
    return vector_table(vector_index("near"), **more)


UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (with_key(VectorIndexes=[]), INVALID + "List of VectorIndexes is empty"),
    (
        with_key(BillingMode="PROVISIONED", ProvisionedThroughput=UNITS),
        INVALID + "Vector indexes are only supported for PAY_PER_REQUEST tables",
    ),
    (
        vector_table(vector_index("near", dimensions=4097)),
        INVALID + "Number of dimensions must be between 1 and 4096 inclusive.",
    ),
    (vector_table(vector_index("near", dimensions=0)), "value greater than or equal to 1"),
    (vector_table(vector_index("ab")), "length greater than or equal to 3"),
    (vector_table(vector_index("near", "MANHATTAN")), "enum value set"),
    (
        vector_table(*(vector_index(f"near{number}") for number in range(6))),
        INVALID + "VectorIndex count exceeds the per-table limit of 5",
    ),
    (
        vector_table(vector_index("near"), vector_index("near", "EUCLIDEAN")),
        INVALID + "Duplicate index name: near",
    ),
    (
        vector_table(vector_index("near"), vector_index("other", dimensions=4)),
        INVALID + "Conflicting attribute definition for 'e'. All VectorIndexes on the same vector "
        "attribute must use the same dimensions.",
    ),
    (
        vector_table(vector_index("near", hash="x")),
        INVALID + "One element in SearchSchema is not defined in attribute definitions",
    ),
    (
        vector_table(vector_index("near", hash="t", filters=["t"])),
        INVALID + "The SearchSchema contains multiple elements with the same name",
    ),
    (
        vector_table(vector_index("near", Projection={"ProjectionType": "INCLUDE"})),
        INVALID + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
    ),
    (vector_table(vector_index("near", attribute="p")), "is a key attribute or an element"),
    (
        vector_table(vector_index("near", attribute="t", hash="t")),
        "is a key attribute or an element of a SearchSchema",
    ),
    (
        with_key(AttributeDefinitions=vector_table(vector_index("xxx", hash="t"))[
            "AttributeDefinitions"
        ]),
        INVALID + "Some AttributeDefinitions are not used.",
    ),
    (
        with_key(GlobalSecondaryIndexes=[gsi("near", "p")]),
        INVALID + "Duplicate index name: near",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "text"), REFUSED)
def test_create_table_refuses(db: Database, request_: dict[str, Any], text: str) -> None:
    assert text in refused(db, "CreateTable", request_)
    assert db.call("ListTables", {})["TableNames"] == []


def test_search_schemas_have_limits(db: Database) -> None:
    def schema(count: int, role: str) -> dict[str, Any]:
        names = [f"f{number}" for number in range(count)]
        index = vector_index("near")
        index["SearchSchema"] = [
            {"AttributeName": name, "SearchSchemaElementType": role} for name in names
        ]
        request = vector_table(index)
        request["AttributeDefinitions"] += [
            {"AttributeName": name, "AttributeType": "S"} for name in names
        ]
        return request

    assert "maximum allowed number of HASH" in refused(db, "CreateTable", schema(2, "HASH"))
    text = refused(db, "CreateTable", schema(19, "INLINE_FILTER"))
    assert "maximum allowed number of INLINE_FILTER" in text
    db.call("CreateTable", schema(18, "INLINE_FILTER"))
    item = {f"f{number}": S("x") for number in range(18)}
    put(db, "a", (1, 0, 0), **item)
    text = " AND ".join(f"f{number} = :x" for number in range(18))
    more = {"SearchConditionExpression": text, "ExpressionAttributeValues": {":x": S("x")}}
    assert search(db, "near", (1, 0, 0), **more) == [("a", 0.0)]


# UpdateTable.


def test_new_index_holds_old_and_new_items(db: Database) -> None:
    """Items that a write would refuse now are skipped, silently."""
    db.call("CreateTable", vector_table())
    put(db, "a", (1, 0, 0), t=S("x"), c=N(1))
    put(db, "b", (1, 0, 0), t=S("x"))
    wrong: list[dict[str, Any]] = [
        {"e": S("no list")},
        {"e": {"L": [N(1), N(2)]}},
        {"e": {"L": [N(1), S("2"), N(3)]}},
        {"e": {"L": [N(1), N("1E39"), N(3)]}},
        {"t": N(1)},
        {"t": S("")},
        {"t": B(b"x")},
        {"c": S("1")},
        {},
    ]
    for number, attributes in enumerate(wrong):
        vector = {} if "e" in attributes else {"vector": (1, 0, 0)}
        put(db, f"wrong{number}", **{"t": S("x"), **attributes, **vector} if attributes else {})
    put(db, "no-hash", (1, 0, 0))
    reply = update(db, create(hash="t", filters=["c"]), **DEFINED)
    assert reply["TableStatus"] == "UPDATING"
    [near] = reply["VectorIndexes"]
    assert (near["IndexStatus"], near["Backfilling"]) == ("CREATING", False)
    backfill.wait(db, NAME, "near")
    [near] = described(db)["VectorIndexes"]
    assert (near["IndexStatus"], near["ItemCount"]) == ("ACTIVE", 2)
    assert "Backfilling" not in near
    put(db, "c", (1, 0, 0), t=S("x"))
    put(db, "no-hash", (1, 0, 0), t=S("x"))
    put(db, "a", (1, 0, 0), t=S("y"))
    more = {"SearchConditionExpression": "t = :t", "ExpressionAttributeValues": {":t": S("x")}}
    assert [key for key, _ in search(db, "near", (1, 0, 0), **more)] == ["b", "c", "no-hash"]
    assert described(db)["VectorIndexes"][0]["ItemCount"] == 4


def test_an_item_the_index_cannot_take_may_be_changed_elsewhere(db: Database) -> None:
    """An update checks only what it changes."""
    db.call("CreateTable", vector_table())
    put(db, "a", e=S("no list"), x=N(1))
    update(db, create())
    backfill.wait(db, NAME, "near")
    change = {
        "TableName": NAME,
        "Key": {"p": S("a")},
        "UpdateExpression": "SET x = :x",
        "ExpressionAttributeValues": {":x": N(2)},
    }
    db.call("UpdateItem", change)
    change["UpdateExpression"] = "SET e = :x"
    assert "Invalid type for parameter e" in refused(db, "UpdateItem", change)
    change["ExpressionAttributeValues"] = {":x": {"L": [N(1), N(0), N(0)]}}
    db.call("UpdateItem", change)
    assert search(db, "near", (1, 0, 0)) == [("a", 0.0)]


def test_deleted_index_is_gone(db: Database) -> None:
    db.call("CreateTable", vector_table(vector_index("near", hash="t")))
    put(db, "a", (1, 0, 0), t=S("x"))
    [near] = update(db, DELETE)["VectorIndexes"]
    assert near["IndexStatus"] == "DELETING"
    table = described(db)
    assert "VectorIndexes" not in table
    assert table["AttributeDefinitions"] == [{"AttributeName": "p", "AttributeType": "S"}]
    assert not [name for name in db.engine.tree_names() if "/v/" in name]
    put(db, "a", e=S("free again"), t=N(1))
    update(db, create())  # the name is free as well, and nothing is left in memory
    backfill.wait(db, NAME, "near")
    assert search(db, "near", (1, 0, 0)) == []


UPDATES: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    ([{}], {}, "One of VectorIndexUpdate.Create, VectorIndexUpdate.Delete must not be null"),
    ([{**create("new"), **DELETE}], {}, "Only one vector index action is allowed per VectorIndex"),
    ([create("near")], {}, "Attempting to create an index which already exists"),
    ([create("by-x")], {}, "Attempting to create an index which already exists"),
    ([create("new", dimensions=4)], {}, "Conflicting attribute definition for 'e'."),
    # The definitions of the table do not count.
    ([create("new", hash="x")], {}, "One element in SearchSchema is not defined in attribute def"),
    ([create("new", attribute="x")], {}, "is a key attribute or an element of a SearchSchema"),
    (
        [create("new", hash="x")],
        {"AttributeDefinitions": [{"AttributeName": "x", "AttributeType": "N"}]},
        "Attributes cannot be redefined.",
    ),
    ([create("new")], {"BillingMode": "PROVISIONED"}, "cannot create or delete index while upd"),
    ([{"Delete": {"IndexName": "by-x"}}], {}, "Cannot delete an index that is not a VectorIndex"),
]


@pytest.mark.parametrize(("actions", "more", "text"), UPDATES)
def test_update_table_refuses(
    db: Database, actions: list[dict[str, Any]], more: dict[str, Any], text: str
) -> None:
    request = vector_table(vector_index("near"), GlobalSecondaryIndexes=[gsi("by-x", "x")])
    request["AttributeDefinitions"].append({"AttributeName": "x", "AttributeType": "S"})
    db.call("CreateTable", request)
    request = {"TableName": NAME, "VectorIndexUpdates": actions, **more}
    assert text in refused(db, "UpdateTable", request)
    assert len(described(db)["VectorIndexes"]) == 1


def test_unknown_and_foreign_names(db: Database) -> None:
    db.call("CreateTable", vector_table(vector_index("near")))
    request: dict[str, Any] = {"TableName": NAME}
    request["VectorIndexUpdates"] = [{"Delete": {"IndexName": "none"}}]
    text = refused(db, "UpdateTable", request, "ResourceNotFoundException")
    assert text == f"Requested resource not found: Index none for table {NAME}"
    request = {"TableName": NAME, "GlobalSecondaryIndexUpdates": [DELETE]}
    text = refused(db, "UpdateTable", request)
    assert text == "Cannot delete an index that is not a GlobalSecondaryIndex: near"


def test_a_table_with_vectors_stays_on_demand(db: Database) -> None:
    db.call("CreateTable", vector_table(vector_index("near")))
    request = {
        "TableName": NAME,
        "BillingMode": "PROVISIONED",
        "ProvisionedThroughput": UNITS,
    }
    assert "only supported for PAY_PER_REQUEST tables" in refused(db, "UpdateTable", request)


def test_limits_are_shared_with_global_indexes(db: Database, held: None) -> None:
    """One online action per table, whatever kind the indexes are; two in one call are too many."""
    db.call("CreateTable", vector_table())
    more = {"AttributeDefinitions": [{"AttributeName": "x", "AttributeType": "S"}]}
    both = {
        "TableName": NAME,
        "VectorIndexUpdates": [create("one")],
        "GlobalSecondaryIndexUpdates": [{"Create": gsi("by-x", "x")}],
        **more,
    }
    assert refused(db, "UpdateTable", both, "LimitExceededException") == ONE_ONLINE
    two = {"TableName": NAME, "VectorIndexUpdates": [create("one"), create("two")]}
    assert refused(db, "UpdateTable", two, "LimitExceededException") == ONE_ONLINE
    update(db, create("one"))
    two["VectorIndexUpdates"] = [create("two")]
    assert refused(db, "UpdateTable", two, "LimitExceededException") == ONE_ONLINE
    del both["VectorIndexUpdates"]
    assert refused(db, "UpdateTable", both, "LimitExceededException") == ONE_ONLINE


def test_a_sixth_index_is_too_many(db: Database) -> None:
    db.call("CreateTable", vector_table(*(vector_index(f"near{number}") for number in range(5))))
    request = {"TableName": NAME, "VectorIndexUpdates": [create("near")]}
    text = refused(db, "UpdateTable", request, "LimitExceededException")
    assert "Number of vector indexes exceeds per-table limit of 5" in text


def test_while_it_is_filled(db: Database, held: None) -> None:
    """The table is ACTIVE, searches and DeleteTable are refused, writes go on, Delete cancels."""
    db.call("CreateTable", vector_table())
    put(db, "a", (1, 0, 0))
    update(db, create())
    table = described(db)
    assert table["TableStatus"] == "ACTIVE"
    [near] = table["VectorIndexes"]
    assert (near["IndexStatus"], near["Backfilling"]) == ("CREATING", True)
    with pytest.raises(errors.ValidationException) as caught:
        search(db, "near", (1, 0, 0))
    assert caught.value.message == "Cannot search backfilling vector index: near"
    text = refused(db, "DeleteTable", {"TableName": NAME}, "ResourceInUseException")
    assert text == (
        "Attempt to change a resource which is still in use: Cannot delete table while indexes "
        "are being created, updated, or deleted."
    )
    put(db, "b", (1, 0, 0))
    with pytest.raises(errors.ValidationException, match="Invalid size for parameter e"):
        put(db, "c", (1, 0))
    update(db, DELETE)
    assert "VectorIndexes" not in described(db)
    db.call("DeleteTable", {"TableName": NAME})


def test_backfill_resumes_after_reopening(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that goes down in the middle goes on when it is opened again."""
    monkeypatch.setattr(indexes, "BACKFILL_CHUNK_ITEMS", 5)
    with monkeypatch.context() as patched:
        patched.setattr(backfill, "start", lambda *arguments: None)
        with open_path(tmp_path / "db", durability="os") as db:
            db.call("CreateTable", vector_table())
            for number in range(40):
                put(db, f"k{number}", (number, 1, 0))
            update(db, create())
            handle = db.catalog.get(NAME)
            assert handle is not None
            progress = backfill._Progress(db.catalog, f"{handle.schema.id}/near")
            stops = iter([False, False, False, True])
            finished = indexes.backfill(
                db.writes,
                handle,
                handle.indexes["near"],
                lambda: next(stops),
                progress.start,
                progress.save,
            )
            assert not finished
            assert handle.indexes["near"].statistics.items == 15
            put(db, "new", (1, 1, 1))
    with open_path(tmp_path / "db", durability="os") as db:
        backfill.wait(db, NAME, "near")
        assert described(db)["VectorIndexes"][0]["ItemCount"] == 41
        found = search(db, "near", (1, 1, 1), 100)
        assert (len(found), found[0]) == (41, ("new", 0.0))


# Writes.


def test_vectors_are_billed_in_bytes(db: Database) -> None:
    """1024 bytes at least; else the entry, with the vector at four bytes a dimension."""
    include = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["z"]}
    db.call(
        "CreateTable",
        vector_table(
            vector_index("all", dimensions=300),
            vector_index("keys", dimensions=300, Projection={"ProjectionType": "KEYS_ONLY"}),
            vector_index("scoped", dimensions=300, hash="t", Projection=include),
        ),
    )

    def written(operation: str = "PutItem", mode: str = "INDEXES", **request: Any) -> Any:
        request = {"TableName": NAME, "ReturnConsumedCapacity": mode, **request}
        return db.call(operation, request)["ConsumedCapacity"]

    def item(t: str, z: str) -> dict[str, Any]:
        return {"p": S("a"), "t": S(t), "z": S(z), "e": {"L": [N(1)] * 300}}

    def sizes(consumed: Any) -> dict[str, float]:
        arms = consumed.get("VectorIndexes", {})
        return {name: arm["VectorWriteRequestBytes"] for name, arm in arms.items()}

    first = written(Item=item("x", "y"))
    vector, keys = 1 + 4 * 300, len("pa")
    assert sizes(first) == {
        "all": vector + keys + len("txzy"),
        "keys": vector + keys,
        "scoped": vector + keys + len("txzy"),
    }
    # The table is billed with the vector as floats too: 1,209 bytes; as a list it has 909.
    assert first["Table"] == {"CapacityUnits": 2.0}
    assert first["CapacityUnits"] == 2.0
    assert sizes(written(Item=item("x", "y"))) == {}
    assert sizes(written(Item=item("x", "yy"))).keys() == {"all", "scoped"}
    moved = sizes(written(Item=item("xx", "yy")))
    assert moved["scoped"] == 2 * (vector + keys + len("tzyy")) + len("xxx")
    assert "VectorIndexes" not in written(mode="TOTAL", Item=item("z", "yy"))
    gone = sizes(written("DeleteItem", Key={"p": S("a")}))
    assert gone["keys"] == vector + keys
    assert sizes(written(Item={"p": S("a")})) == {}


def test_one_bad_vector_refuses_batches_and_transactions(db: Database) -> None:
    db.call("CreateTable", vector_table(vector_index("near")))
    good = {"p": S("a"), "e": {"L": [N(1)] * 3}}
    bad = {"p": S("b"), "e": {"L": [N(1)] * 2}}
    puts = [{"PutRequest": {"Item": item}} for item in (good, bad)]
    text = refused(db, "BatchWriteItem", {"RequestItems": {NAME: puts}})
    assert "Invalid size for parameter e, Expected: 3, Actual: 2 IndexName: near" in text
    actions = [{"Put": {"TableName": NAME, "Item": item}} for item in (good, bad)]
    with pytest.raises(errors.ApiError, match=r"Invalid size|ValidationError"):
        db.call("TransactWriteItems", {"TransactItems": actions})
    assert search(db, "near", (1, 1, 1)) == []


def test_expired_items_leave_the_index() -> None:
    now = [1_000_000.0]
    with memory_database(clock=lambda: now[0], ttl_sweep_seconds=3600.0) as db:
        db.call("CreateTable", vector_table(vector_index("near")))
        ttl = {"Enabled": True, "AttributeName": "until"}
        db.call("UpdateTimeToLive", {"TableName": NAME, "TimeToLiveSpecification": ttl})
        put(db, "a", (1, 0, 0), until=N(1_000_010))
        put(db, "b", (0, 1, 0))
        assert len(search(db, "near", (1, 0, 0))) == 2
        now[0] += 3600
        from dynalsm.model import ttl as sweeper

        sweeper.sweep(db)
        assert search(db, "near", (1, 0, 0)) == [("b", 1.0)]


# Restores.


def test_restored_tables_build_their_vector_indexes(tmp_path: Any) -> None:
    with open_path(tmp_path / "db", durability="os") as db:
        db.call("CreateTable", vector_table(vector_index("near", hash="t", filters=["c"])))
        put(db, "a", (1, 0, 0), t=S("x"), c=N(1))
        put(db, "b", (0, 1, 0), t=S("x"))
        put(db, "c", (0, 1, 0), t=S("y"))
        call = {"TableName": NAME, "BackupName": "nightly"}
        arn = db.call("CreateBackup", call)["BackupDetails"]["BackupArn"]
        db.call("RestoreTableFromBackup", {"BackupArn": arn, "TargetTableName": "Again"})
        request = {
            "TableName": "Again",
            "IndexName": "near",
            "SearchVector": [N(1), N(0), N(0)],
            "TopK": 5,
            "SearchConditionExpression": "t = :t",
            "ExpressionAttributeValues": {":t": S("x")},
        }
        found = db.call("SearchVectors", request)["SearchResults"]
        assert [each["Item"]["p"]["S"] for each in found] == ["a", "b"]
        index = db.call("DescribeTable", {"TableName": "Again"})["Table"]["VectorIndexes"][0]
        assert (index["ItemCount"], index["IndexStatus"]) == (3, "ACTIVE")
