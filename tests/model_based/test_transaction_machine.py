"""Transactions over two tables against dicts: all or nothing, and once for each client token.

The machine drives TransactWriteItems with every kind of action, conditions that hold and that do
not, updates that fail while they run, tokens that are sent again before and after their ten
minutes, TransactGetItems, and transactions of PartiQL statements, on a real engine that is closed
and opened in between. Each committed transaction must be in the stream, with the images it left.
"""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from decimal import Decimal
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dynalsm import errors
from dynalsm.database import open_path
from dynalsm.limits import CLIENT_TOKEN_SECONDS
from tests.support.store import N, S, table

Item = dict[str, Any]
Key = tuple[str, str]  # Table and partition key; in PAIRS the sort key is always 1.
ONE, PAIRS = "one", "pairs"

KEYS = st.tuples(st.sampled_from([ONE, PAIRS]), st.sampled_from(["a", "b", "c\x00"]))
VALUES = st.sampled_from([S("x"), S("y"), N(7), {"L": [N(1)]}])
CONDITIONS = st.one_of(
    st.none(),
    st.just(("attribute_exists(p)", None)),
    st.just(("attribute_not_exists(p)", None)),
    st.tuples(st.just("v = :c"), VALUES),
)
UPDATES = st.one_of(
    st.tuples(st.just("SET v = :v"), VALUES),
    st.tuples(st.just("ADD n :v"), st.sampled_from([N(1), N(-2)])),
    st.tuples(st.just("SET n = n + :v"), st.just(N(5))),
    st.tuples(st.just("REMOVE v"), st.none()),
)
# An action: what is done, and its condition.
ACTIONS = st.one_of(
    st.tuples(st.just("Put"), st.dictionaries(st.sampled_from("vn"), VALUES), CONDITIONS),
    st.tuples(st.just("Update"), UPDATES, CONDITIONS),
    st.tuples(st.just("Delete"), st.none(), CONDITIONS),
    st.tuples(st.just("ConditionCheck"), st.none(), CONDITIONS.filter(bool)),
)
TRANSACTIONS = st.dictionaries(KEYS, ACTIONS, min_size=1, max_size=5)


class UpdateFails(Exception):
    """An update that cannot be carried out on its item."""


def key_item(key: Key) -> Item:
    return {"p": S(key[1]), **({"s": N(1)} if key[0] == PAIRS else {})}


def updated(old: Item | None, key: Key, expression: str, value: Item | None) -> Item | None:
    """What an update makes of an item. Raises: UpdateFails."""
    if old is None and expression.startswith("REMOVE"):
        return None
    item = dict(old or key_item(key))
    if expression == "REMOVE v":
        item.pop("v", None)
    elif expression == "SET v = :v":
        item["v"] = value
    else:
        if "n" in item and "N" not in item["n"]:
            raise UpdateFails
        if expression.startswith("SET") and "n" not in item:
            raise UpdateFails
        assert value is not None
        total = Decimal(item.get("n", N(0))["N"]) + Decimal(value["N"])
        item["n"] = N(format(total.normalize(), "f"))
    return item


def request_of(actions: dict[Key, Any]) -> list[Item]:
    """The TransactItems of the model's actions."""
    made = []
    for key, (kind, what, condition) in actions.items():
        members: Item = {"TableName": key[0], "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        values: Item = {}
        if kind == "Put":
            members["Item"] = {**key_item(key), **what}
        else:
            members["Key"] = key_item(key)
        if kind == "Update":
            members["UpdateExpression"] = what[0]
            values |= {":v": what[1]} if what[1] else {}
        if condition:
            members["ConditionExpression"] = condition[0]
            values |= {":c": condition[1]} if condition[1] else {}
        if values:
            members["ExpressionAttributeValues"] = values
        made.append({kind: members})
    return made


class TransactionMachine(RuleBasedStateMachine):
    """See the module's docstring. `items` is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.path = tempfile.mkdtemp(prefix="dynalsm-machine-")
        self.items: dict[Key, Item] = {}
        self.changes: list[tuple[Item | None, Item | None]] = []
        self.now = 1_800_000_000.0
        # Every token: its request and when it was carried out.
        self.tokens: dict[str, tuple[Any, float]] = {}
        self.open()

    def open(self) -> None:
        self.database = open_path(self.path, clock=lambda: self.now, stream_shards=1)

    def teardown(self) -> None:
        try:
            self.check_stream()
        finally:
            self.database.close()
            shutil.rmtree(self.path)

    @initialize()
    def create(self) -> None:
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        self.database.call("CreateTable", table(ONE, "p", "p:S"))
        request = table(PAIRS, "p s", "p:S s:N", StreamSpecification=stream)
        reply = self.database.call("CreateTable", request)
        self.stream = reply["TableDescription"]["LatestStreamArn"]

    def meets(self, key: Key, condition: Any) -> bool:
        if condition is None:
            return True
        old = self.items.get(key)
        if condition[0] == "v = :c":
            return old is not None and old.get("v") == condition[1]
        return (old is not None) == (condition[0] == "attribute_exists(p)")

    def outcome(self, key: Key, action: Any) -> Item | None:
        """The item after an action. Raises: UpdateFails."""
        kind, what, _ = action
        if kind == "Put":
            return {**key_item(key), **what}
        if kind == "Update":
            return updated(self.items.get(key), key, *what)
        return None if kind == "Delete" else self.items.get(key)

    def become(self, new: dict[Key, Item | None]) -> None:
        """Let the model have these items."""
        for key, item in new.items():
            old = self.items.pop(key, None)
            if item is not None:
                self.items[key] = item
            if key[0] == PAIRS and item != old:
                self.changes.append((old, item))

    # Writes.

    @rule(actions=TRANSACTIONS, token=st.sampled_from([None, None, "t1", "t2", "t3"]))
    def write(self, actions: dict[Key, Any], token: str | None) -> None:
        self.run(actions, token)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def write_again(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.tokens)))
        self.run(self.tokens[token][0], token)

    def run(self, actions: dict[Key, Any], token: str | None) -> None:
        request: Item = {"TransactItems": request_of(actions)}
        if token is not None:
            request["ClientRequestToken"] = token
            known = self.tokens.get(token)
            if known is not None and known[1] + CLIENT_TOKEN_SECONDS > self.now:
                if known[0] == actions and list(known[0]) == list(actions):
                    assert self.database.call("TransactWriteItems", request) == {}
                else:
                    error = self.must_fail("TransactWriteItems", request)
                    assert error.code == "IdempotentParameterMismatchException"
                return
        failing: dict[Key, str] = {}
        new: dict[Key, Item | None] = {}
        for key, action in actions.items():
            if not self.meets(key, action[2]):
                failing[key] = "ConditionalCheckFailed"
                continue
            try:
                new[key] = self.outcome(key, action)
            except UpdateFails:
                # The first that cannot be carried out is the only reason.
                failing = {key: "ValidationError"}
                break
        if failing:
            self.is_cancelled("TransactWriteItems", request, list(actions), failing)
            return
        self.database.call("TransactWriteItems", request)
        self.become(new)
        if token is not None:
            self.tokens[token] = (deepcopy(actions), self.now)

    def is_cancelled(
        self, operation: str, request: Item, keys: list[Key], failing: dict[Key, str]
    ) -> None:
        error = self.must_fail(operation, request)
        assert error.code == "TransactionCanceledException", error
        reasons = error.members["CancellationReasons"]
        codes = [reason["Code"] for reason in reasons]
        assert codes == [failing.get(key, "None") for key in keys], (codes, failing)
        for key, reason in zip(keys, reasons, strict=True):
            if reason["Code"] == "ConditionalCheckFailed" and operation == "TransactWriteItems":
                assert reason.get("Item") == self.items.get(key)

    def must_fail(self, operation: str, request: Item) -> errors.ApiError:
        try:
            reply = self.database.call(operation, request)
        except errors.ApiError as error:
            return error
        raise AssertionError(f"{operation} should have failed, and said {reply}")

    @rule(key=KEYS, actions=TRANSACTIONS)
    def write_an_item_twice(self, key: Key, actions: dict[Key, Any]) -> None:
        twice = [{"Delete": {"TableName": key[0], "Key": key_item(key)}}] * 2
        request = {"TransactItems": request_of(actions) + twice}
        assert self.must_fail("TransactWriteItems", request).code == "ValidationException"

    @rule(actions=TRANSACTIONS)
    def write_to_a_table_that_is_not_there(self, actions: dict[Key, Any]) -> None:
        nowhere = {"Delete": {"TableName": "nowhere", "Key": {"p": S("a")}}}
        request = {"TransactItems": [*request_of(actions), nowhere]}
        assert self.must_fail("TransactWriteItems", request).code in (
            "ResourceNotFoundException",
            "TransactionCanceledException",
        )

    @rule(changes=st.dictionaries(KEYS, st.one_of(st.none(), VALUES), min_size=1, max_size=4))
    def statements(self, changes: dict[Key, Item | None]) -> None:
        """Insert what is not there, change what is; None deletes."""
        statements = []
        new: dict[Key, Item | None] = {}
        for key, value in changes.items():
            keys = list(key_item(key).values())
            where = "p = ? AND s = ?" if key[0] == PAIRS else "p = ?"
            old = self.items.get(key)
            if value is None:
                text, parameters = f'DELETE FROM "{key[0]}" WHERE {where}', keys
                new[key] = None
            elif old is None:
                names = "'p': ?, 's': ?" if key[0] == PAIRS else "'p': ?"
                text = f"INSERT INTO \"{key[0]}\" VALUE {{{names}, 'v': ?}}"
                parameters = [*keys, value]
                new[key] = {**key_item(key), "v": value}
            else:
                text = f'UPDATE "{key[0]}" SET v = ? WHERE {where}'
                parameters = [value, *keys]
                new[key] = {**old, "v": value}
            statements.append({"Statement": text, "Parameters": parameters})
        self.database.call("ExecuteTransaction", {"TransactStatements": statements})
        self.become(new)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), other=KEYS)
    def insert_what_is_there(self, data: st.DataObject, other: Key) -> None:
        key = data.draw(st.sampled_from(sorted(self.items)))
        names = "'p': ?, 's': ?" if key[0] == PAIRS else "'p': ?"
        insert = f'INSERT INTO "{key[0]}" VALUE {{{names}}}'
        statements = [{"Statement": insert, "Parameters": list(key_item(key).values())}]
        if other != key:
            where = "p = ? AND s = ?" if other[0] == PAIRS else "p = ?"
            delete = f'DELETE FROM "{other[0]}" WHERE {where}'
            statements.append({"Statement": delete, "Parameters": list(key_item(other).values())})
        keys = [key, other][: len(statements)]
        request = {"TransactStatements": statements}
        self.is_cancelled("ExecuteTransaction", request, keys, {key: "DuplicateItem"})

    # Reads.

    @rule(keys=st.lists(KEYS, unique=True, min_size=1), names=st.sampled_from([None, "v", "p, n"]))
    def read(self, keys: list[Key], names: str | None) -> None:
        gets = []
        expected = []
        for key in keys:
            get: Item = {"TableName": key[0], "Key": key_item(key)}
            item = self.items.get(key)
            if names is not None:
                get["ProjectionExpression"] = names
                item = {name: item[name] for name in names.split(", ") if name in item} if (
                    item
                ) else None  # fmt: skip
            gets.append({"Get": get})
            expected.append({"Item": item} if item else {})
        reply = self.database.call("TransactGetItems", {"TransactItems": gets})
        assert reply["Responses"] == expected

    @rule(name=st.sampled_from([ONE, PAIRS]))
    def scan(self, name: str) -> None:
        found = self.database.call("Scan", {"TableName": name})["Items"]
        assert {(name, item["p"]["S"]): item for item in found} == {
            key: item for key, item in self.items.items() if key[0] == name
        }

    # The rest of the world.

    @rule(seconds=st.sampled_from([1, 200, CLIENT_TOKEN_SECONDS]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.open()

    def check_stream(self) -> None:
        """Every change of a committed transaction is there once, in the order of the commits."""
        described = self.database.call("DescribeStream", {"StreamArn": self.stream})
        found = []
        for shard in described["StreamDescription"]["Shards"]:
            request = {"StreamArn": self.stream, "ShardId": shard["ShardId"]}
            request["ShardIteratorType"] = "TRIM_HORIZON"
            iterator = self.database.call("GetShardIterator", request)["ShardIterator"]
            while iterator:
                reply = self.database.call("GetRecords", {"ShardIterator": iterator})
                if not reply["Records"]:
                    break
                found += [record["dynamodb"] for record in reply["Records"]]
                iterator = reply.get("NextShardIterator")
        images = [(change.get("OldImage"), change.get("NewImage")) for change in found]
        assert images == self.changes


TransactionMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, print_blob=True
)
TestTransactionMachine = TransactionMachine.TestCase
