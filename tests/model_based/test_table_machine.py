"""A table with indexes and a stream, against a dict: random calls must always agree.

The machine drives PutItem, UpdateItem, DeleteItem, batches and transactions on a real engine in a
temporary directory, closes and opens it in between, and compares everything readable with a plain
model: items, both kinds of index, paging in both directions, counters, and the stream, which is
replayed into a copy of the table.
"""

from __future__ import annotations

import shutil
import tempfile
from decimal import Decimal
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dynalsm import errors
from dynalsm.database import open_path
from tests.support.store import N, S, index, table

NAME = "machine"
Item = dict[str, Any]

PARTITIONS = st.sampled_from(["a", "ab", "b\x00", "ü"])
SORTS = st.sampled_from(["-10", "-1.5", "0", "1", "2", "1e3"])
KEYS = st.tuples(PARTITIONS, SORTS)
TEXTS = st.sampled_from(["x", "y", "y\x00", "z" * 30])
NUMBERS = st.sampled_from(["0", "7", "-3", "0.001"])
# Attributes that are keys of an index are l (by-l), g (by-g, by-gh) and h (by-gh).
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "l": TEXTS.map(S),
        "g": TEXTS.map(S),
        "h": NUMBERS.map(N),
        "n": NUMBERS.map(N),
        "a": st.sampled_from([S(""), {"NULL": True}, {"L": [N(1), {"M": {"k": S("v")}}]}]),
    },
)
# Updates as (expression, values, function on the item's attributes).
UPDATES = st.sampled_from(
    [
        ("SET a = :v", {":v": S("new")}, lambda item: item.update(a=S("new"))),
        ("SET l = :v", {":v": S("y")}, lambda item: item.update(l=S("y"))),
        ("REMOVE l", {}, lambda item: item.pop("l", None)),
        (
            "SET g = :g, h = :h",
            {":g": S("x"), ":h": N(7)},
            lambda item: item.update(g=S("x"), h=N(7)),
        ),
        ("REMOVE g, a", {}, lambda item: (item.pop("g", None), item.pop("a", None))),
        ("ADD n :v", {":v": N(1)}, lambda item: item.update(n=plus_one(item))),
    ]
)
CONDITIONS = st.sampled_from([None, "attribute_exists(p)", "attribute_not_exists(p)"])
INDEXES = {
    "by-l": (("p", "l"), None),
    "by-g": (("g",), None),
    "by-gh": (("g", "h"), {"p", "s", "g", "h", "n"}),
}


def plus_one(item: Item) -> Item:
    number = (Decimal(item["n"]["N"]) if "n" in item else Decimal(0)) + 1
    return N(format(number.normalize(), "f"))


def canonical(number: str) -> str:
    return format(Decimal(number).normalize(), "f")


def key_item(key: tuple[str, str]) -> Item:
    return {"p": S(key[0]), "s": N(canonical(key[1]))}


def order(value: Item) -> Any:
    return value["S"].encode() if "S" in value else Decimal(value["N"])


class TableMachine(RuleBasedStateMachine):
    """See the module's docstring. `items` is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.path = tempfile.mkdtemp(prefix="dynalsm-machine-")
        self.items: dict[tuple[str, str], Item] = {}
        self.database = open_path(self.path)

    def teardown(self) -> None:
        try:
            self.check_stream()
            self.check_counters()
        finally:
            self.database.close()
            shutil.rmtree(self.path)

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        if not operation.startswith(("Batch", "Transact", "Get", "Describe")) or (
            operation == "GetItem"
        ):
            request["TableName"] = NAME
        return self.database.call(operation, request)

    @initialize()
    def create(self) -> None:
        request = table(
            NAME,
            "p s",
            "p:S s:N l:S g:S h:N",
            LocalSecondaryIndexes=[index("by-l", "p", "l")],
            GlobalSecondaryIndexes=[
                index("by-g", "g"),
                index("by-gh", "g", "h", projection="INCLUDE", include=["n"]),
            ],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        reply = self.database.call("CreateTable", request)
        self.stream = reply["TableDescription"]["LatestStreamArn"]

    # Writes.

    def meets(self, key: tuple[str, str], condition: str | None) -> bool:
        if condition is None:
            return True
        return (key in self.items) == (condition == "attribute_exists(p)")

    @rule(key=KEYS, extras=EXTRAS, condition=CONDITIONS)
    def put(self, key: tuple[str, str], extras: Item, condition: str | None) -> None:
        item = {**key_item(key), **extras}
        request: dict[str, Any] = {"Item": item, "ReturnValues": "ALL_OLD"}
        if condition:
            request["ConditionExpression"] = condition
        if self.meets(key, condition):
            reply = self.call("PutItem", **request)
            assert reply.get("Attributes") == self.items.get(key)
            self.items[key] = item
        else:
            self.must_fail("ConditionalCheckFailedException", "PutItem", **request)

    @rule(key=KEYS, change=UPDATES, condition=CONDITIONS)
    def update(self, key: tuple[str, str], change: Any, condition: str | None) -> None:
        expression, values, apply = change
        request: dict[str, Any] = {
            "Key": key_item(key),
            "UpdateExpression": expression,
            "ReturnValues": "ALL_NEW",
        }
        if values:
            request["ExpressionAttributeValues"] = values
        if condition:
            request["ConditionExpression"] = condition
        if not self.meets(key, condition):
            self.must_fail("ConditionalCheckFailedException", "UpdateItem", **request)
            return
        reply = self.call("UpdateItem", **request)
        self.model_update(key, expression, apply)
        assert reply.get("Attributes") == self.items.get(key)

    def model_update(self, key: tuple[str, str], expression: str, apply: Any) -> None:
        if key not in self.items:
            if expression.startswith("REMOVE"):
                return
            self.items[key] = key_item(key)
        item = dict(self.items[key])
        apply(item)
        self.items[key] = item

    @rule(key=KEYS)
    def delete(self, key: tuple[str, str]) -> None:
        reply = self.call("DeleteItem", Key=key_item(key), ReturnValues="ALL_OLD")
        assert reply.get("Attributes") == self.items.pop(key, None)

    @rule(puts=st.dictionaries(KEYS, st.one_of(st.none(), EXTRAS), min_size=1, max_size=6))
    def batch(self, puts: dict[tuple[str, str], Item | None]) -> None:
        requests: list[Any] = []
        for key, extras in puts.items():
            if extras is None:
                requests.append({"DeleteRequest": {"Key": key_item(key)}})
                self.items.pop(key, None)
            else:
                item = {**key_item(key), **extras}
                requests.append({"PutRequest": {"Item": item}})
                self.items[key] = item
        self.call("BatchWriteItem", RequestItems={NAME: requests})

    @rule(
        actions=st.dictionaries(
            KEYS, st.tuples(CONDITIONS, st.one_of(UPDATES, EXTRAS)), min_size=1, max_size=4
        )
    )
    def transact(self, actions: dict[tuple[str, str], Any]) -> None:
        requests = []
        for key, (condition, what) in actions.items():
            more = {"TableName": NAME}
            if condition:
                more["ConditionExpression"] = condition
            if isinstance(what, dict):
                requests.append({"Put": {"Item": {**key_item(key), **what}, **more}})
            else:
                values = {"ExpressionAttributeValues": what[1]} if what[1] else {}
                update = {"Key": key_item(key), "UpdateExpression": what[0], **values, **more}
                requests.append({"Update": update})
        met = [self.meets(key, condition) for key, (condition, _) in actions.items()]
        if not all(met):
            error = self.must_fail(
                "TransactionCanceledException", "TransactWriteItems", TransactItems=requests
            )
            codes = [reason["Code"] for reason in error.members["CancellationReasons"]]
            assert codes == ["None" if fine else "ConditionalCheckFailed" for fine in met]
            return
        self.call("TransactWriteItems", TransactItems=requests)
        for key, (_, what) in actions.items():
            if isinstance(what, dict):
                self.items[key] = {**key_item(key), **what}
            else:
                self.model_update(key, what[0], what[2])

    @rule(key=KEYS, name=st.sampled_from("lgh"))
    def put_what_no_index_takes(self, key: tuple[str, str], name: str) -> None:
        item = {**key_item(key), name: {"BOOL": True}}
        self.must_fail("ValidationException", "PutItem", Item=item)

    def must_fail(self, code: str, operation: str, **request: Any) -> errors.ApiError:
        try:
            self.call(operation, **request)
        except errors.ApiError as error:
            assert error.code == code, error
            return error
        raise AssertionError(f"{operation} should have failed with {code}")

    # Reads.

    @rule(key=KEYS, consistent=st.booleans())
    def get(self, key: tuple[str, str], consistent: bool) -> None:
        reply = self.call("GetItem", Key=key_item(key), ConsistentRead=consistent)
        assert reply.get("Item") == self.items.get(key)

    @rule(
        partition=PARTITIONS,
        bound=SORTS,
        operator=st.sampled_from(["=", "<", "<=", ">", ">="]),
        forward=st.booleans(),
        limit=st.integers(1, 5),
    )
    def query(self, partition: str, bound: str, operator: str, forward: bool, limit: int) -> None:
        found = self.pages(
            "Query",
            KeyConditionExpression=f"p = :p AND s {operator} :s",
            ExpressionAttributeValues={":p": S(partition), ":s": N(bound)},
            ScanIndexForward=forward,
            Limit=limit,
        )
        holds = {
            "=": Decimal.__eq__,
            "<": Decimal.__lt__,
            "<=": Decimal.__le__,
            ">": Decimal.__gt__,
            ">=": Decimal.__ge__,
        }[operator]
        expected = sorted(
            (
                item
                for (p, s), item in self.items.items()
                if p == partition and holds(Decimal(s), Decimal(bound))
            ),
            key=lambda item: order(item["s"]),
            reverse=not forward,
        )
        assert found == expected

    @rule(
        name=st.sampled_from(sorted(INDEXES)),
        value=TEXTS,
        partition=PARTITIONS,
        forward=st.booleans(),
        limit=st.integers(1, 5),
    )
    def query_index(self, name: str, value: str, partition: str, forward: bool, limit: int) -> None:
        hash_name = INDEXES[name][0][0]
        wanted = S(partition if hash_name == "p" else value)
        found = self.pages(
            "Query",
            IndexName=name,
            KeyConditionExpression="#k = :v",
            ExpressionAttributeNames={"#k": hash_name},
            ExpressionAttributeValues={":v": wanted},
            ScanIndexForward=forward,
            Limit=limit,
        )
        expected = [item for item in self.entries(name) if item[hash_name] == wanted]
        names = INDEXES[name][0][1:]
        sort_keys = [[order(item[attribute]) for attribute in names] for item in found]
        assert sort_keys == sorted(sort_keys, reverse=not forward)
        assert self.by_key(found) == self.by_key(expected)

    @rule(limit=st.integers(1, 9), total=st.integers(1, 4))
    def scan(self, limit: int, total: int) -> None:
        found: list[Item] = []
        for segment in range(total):
            found += self.pages("Scan", Limit=limit, Segment=segment, TotalSegments=total)
        assert self.by_key(found) == self.by_key(list(self.items.values()))

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def scan_index(self, name: str) -> None:
        found = self.pages("Scan", IndexName=name)
        assert self.by_key(found) == self.by_key(self.entries(name))

    def pages(self, operation: str, **request: Any) -> list[Item]:
        items: list[Item] = []
        while True:
            reply = self.call(operation, **request)
            items += reply["Items"]
            if "LastEvaluatedKey" not in reply:
                return items
            request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def entries(self, name: str) -> list[Item]:
        keys, projected = INDEXES[name]
        return [
            {name: value for name, value in item.items() if projected is None or name in projected}
            for item in self.items.values()
            if all(key in item for key in keys)
        ]

    def by_key(self, items: list[Item]) -> dict[Any, Item]:
        found = {(item["p"]["S"], item["s"]["N"]): item for item in items}
        assert len(found) == len(items)
        return found

    # The rest of the world.

    @precondition(lambda self: self.items)
    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.database = open_path(self.path)

    @rule()
    def flush(self) -> None:
        self.database.flush()

    @invariant()
    def counts_agree(self) -> None:
        handle = self.database.catalog.get(NAME)
        if handle is not None and handle.statistics.is_exact:
            assert handle.statistics.items == len(self.items)
            for name, opened in handle.indexes.items():
                assert opened.statistics.items == len(self.entries(name))

    def check_counters(self) -> None:
        handle = self.database.catalog.get(NAME)
        if handle is None:
            return
        for part in (handle, *handle.indexes.values()):
            sizes = [part.keys.stored_size(stored) for _, stored in part.tree.cursor()]
            assert (part.statistics.items, part.statistics.bytes) == (len(sizes), sum(sizes))

    def check_stream(self) -> None:
        """Replay every shard: old images must fit, and the result must be the table."""
        copy: dict[tuple[str, str], Item] = {}
        described = self.database.call("DescribeStream", {"StreamArn": self.stream})
        for shard in described["StreamDescription"]["Shards"]:
            for record in self.records(shard["ShardId"]):
                change = record["dynamodb"]
                key = (change["Keys"]["p"]["S"], change["Keys"]["s"]["N"])
                assert change.get("OldImage") == copy.get(key)
                assert change.get("OldImage") != change.get("NewImage")
                copy.pop(key, None)
                if "NewImage" in change:
                    copy[key] = change["NewImage"]
        assert copy == self.by_key(list(self.items.values()))

    def records(self, shard: str) -> list[dict[str, Any]]:
        iterator = self.database.call(
            "GetShardIterator",
            {
                "StreamArn": self.stream,
                "ShardId": shard,
                "ShardIteratorType": "TRIM_HORIZON",
            },
        )["ShardIterator"]
        found: list[dict[str, Any]] = []
        while iterator:
            reply = self.database.call("GetRecords", {"ShardIterator": iterator, "Limit": 7})
            if not reply["Records"]:
                break
            found += reply["Records"]
            iterator = reply.get("NextShardIterator")
        return found


TableMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, print_blob=True
)
TestTableMachine = TableMachine.TestCase
