"""Several callers at once on a few items, recorded: the making of histories.

`Singles` puts, counts, swaps, deletes and reads single items; `Lists` appends to lists in
transactions and reads them in every way that shows several items at one moment. A caller is one
thread with its own random choices; `run` lets all of them go and returns when they are through, or
when the database has gone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.model_based.faces import Face, Lost, Refused
from tests.model_based.history import UNKNOWN, Recorder, Single, State, Transaction, Versions
from tests.model_based.linear import FAILED
from tests.support.store import N, S, index, table

ITEMS, LISTS = "items", "lists"
Item = dict[str, Any]

TABLES = [
    table(ITEMS, "p", "p:S"),
    table(
        LISTS,
        "p s",
        "p:S s:S g:S",
        GlobalSecondaryIndexes=[index("all", "g", "s")],
    ),
]


def make_tables(face: Face) -> None:
    """Create what is not there yet."""
    present = face("ListTables", {})["TableNames"]
    for request in TABLES:
        if request["TableName"] not in present:
            face("CreateTable", request)


class Caller(Protocol):
    """One thread's part."""

    def act(self) -> None:
        """Do one thing and record it. Raises: Lost."""


class Singles:
    """One caller of single-item operations."""

    def __init__(self, face: Face, recorder: Recorder, name: str, seed: str, keys: int) -> None:
        self.face = face
        self.recorder = recorder
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.keys = [f"item {number}" for number in range(keys)]
        self.count = 0
        self.seen: dict[str, State] = {}

    def act(self) -> None:
        rng = self.rng
        dice = rng.random()
        if dice < 0.08:
            self.batch_write()
        elif dice < 0.16:
            self.batch_get()
        else:
            self.one(rng.choice(self.keys))

    def fresh(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    def one(self, key: str) -> None:
        """An operation on one item."""
        known = self.seen.get(key)
        expected = known[0] if known and known[0] else self.fresh()
        weights = {
            ("get",): 30,
            ("put", self.fresh(), self.rng.choice([None, 0, 7])): 15,
            ("add", self.rng.randrange(1, 4)): 20,
            ("swap", expected, self.fresh()): 15,
            ("put_new", self.fresh()): 8,
            ("delete",): 6,
            ("delete_if", expected): 6,
        }
        (action,) = self.rng.choices(list(weights), list(weights.values()))
        event = Single(self.name, key, action, 0, 0, UNKNOWN)
        number = self.recorder.begin([event])
        operation, request = REQUESTS[action[0]](key, *action[1:])
        try:
            reply = self.face(operation, {"TableName": ITEMS, **request})
        except Refused as refusal:
            assert refusal.code == "ConditionalCheckFailedException", refusal
            event.outcome = (FAILED, state_of(refusal.members.get("Item")))
            self.seen[key] = event.outcome[1]
        else:
            event.outcome = state_of(reply.get("Item", reply.get("Attributes")))
            self.seen[key] = event.outcome
        self.recorder.end(number, [event])

    def batch_get(self) -> None:
        """Reads that only share a request."""
        keys = self.rng.sample(self.keys, self.rng.randrange(1, len(self.keys) + 1))
        events = [Single(self.name, key, ("get",), 0, 0, UNKNOWN) for key in keys]
        number = self.recorder.begin([*events])
        wanted = {"Keys": [{"p": S(key)} for key in keys], "ConsistentRead": True}
        reply = self.face("BatchGetItem", {"RequestItems": {ITEMS: wanted}})
        found = {item["p"]["S"]: item for item in reply["Responses"][ITEMS]}
        for event in events:
            event.outcome = self.seen[event.key] = state_of(found.get(event.key))
        self.recorder.end(number, [*events])

    def batch_write(self) -> None:
        """Writes that only share a request: nobody says what they replaced."""
        keys = self.rng.sample(self.keys, self.rng.randrange(1, len(self.keys) + 1))
        events = []
        requests: list[Any] = []
        for key in keys:
            if self.rng.random() < 0.7:
                action: tuple[Any, ...] = ("write", self.fresh(), None)
                requests.append({"PutRequest": {"Item": item_of(key, *action[1:])}})
            else:
                action = ("erase",)
                requests.append({"DeleteRequest": {"Key": {"p": S(key)}}})
            events.append(Single(self.name, key, action, 0, 0, UNKNOWN))
        number = self.recorder.begin([*events])
        self.face("BatchWriteItem", {"RequestItems": {ITEMS: requests}})
        for event in events:
            event.outcome = None
        self.recorder.end(number, [*events])


def item_of(key: str, text: str, number: int | None) -> Item:
    return {"p": S(key), "t": S(text), **({} if number is None else {"n": N(number)})}


def state_of(item: Item | None) -> State:
    """Return an item as the checker knows it."""
    if item is None:
        return None
    return (item["t"]["S"] if "t" in item else None, int(item["n"]["N"]) if "n" in item else None)


def _get(key: str) -> tuple[str, Item]:
    return "GetItem", {"Key": {"p": S(key)}, "ConsistentRead": True}


def _put(key: str, text: str, number: int | None) -> tuple[str, Item]:
    return "PutItem", {"Item": item_of(key, text, number), "ReturnValues": "ALL_OLD"}


def _put_new(key: str, text: str) -> tuple[str, Item]:
    return "PutItem", {
        "Item": item_of(key, text, None),
        "ConditionExpression": "attribute_not_exists(p)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _add(key: str, number: int) -> tuple[str, Item]:
    return "UpdateItem", {
        "Key": {"p": S(key)},
        "UpdateExpression": "ADD n :n",
        "ExpressionAttributeValues": {":n": N(number)},
        "ReturnValues": "ALL_NEW",
    }


def _swap(key: str, expected: str, text: str) -> tuple[str, Item]:
    return "UpdateItem", {
        "Key": {"p": S(key)},
        "UpdateExpression": "SET t = :new",
        "ConditionExpression": "t = :old",
        "ExpressionAttributeValues": {":old": S(expected), ":new": S(text)},
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _delete(key: str) -> tuple[str, Item]:
    return "DeleteItem", {"Key": {"p": S(key)}, "ReturnValues": "ALL_OLD"}


def _delete_if(key: str, text: str) -> tuple[str, Item]:
    name, request = _delete(key)
    return name, {
        **request,
        "ConditionExpression": "t = :old",
        "ExpressionAttributeValues": {":old": S(text)},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


REQUESTS: dict[str, Callable[..., tuple[str, Item]]] = {
    "get": _get, "put": _put, "put_new": _put_new, "add": _add,
    "swap": _swap, "delete": _delete, "delete_if": _delete_if,
}  # fmt: skip


class Lists:
    """One caller of transactions over lists."""

    # Two partition keys of a table that is cut in two: transactions go over partitions.
    KEYS = ("a/1", "a/2", "b/1", "b/2", "b/3")
    APPEND = "SET l = list_append(if_not_exists(l, :none), :new), g = :g"

    def __init__(self, face: Face, recorder: Recorder, name: str, seed: str) -> None:
        self.face = face
        self.recorder = recorder
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.count = 0
        self.seen: dict[str, Versions] = {}
        # What will be sent again, because its reply never came and it has a token.
        self.unanswered: tuple[int, Transaction, Item] | None = None

    def act(self) -> None:
        if self.unanswered is not None:
            self.send(*self.unanswered)
        ways = {
            self.append: 35, self.append_one: 10, self.append_statement: 8, self.get: 20,
            self.get_one: 7, self.query: 8, self.scan: 6, self.query_index: 6,
        }  # fmt: skip
        (way,) = self.rng.choices(list(ways), list(ways.values()))
        way()

    def some_keys(self, least: int = 1) -> list[str]:
        return self.rng.sample(self.KEYS, self.rng.randrange(least, 4))

    def fresh(self, keys: Sequence[str]) -> dict[str, str]:
        self.count += 1
        return dict.fromkeys(keys, f"{self.name}.{self.count}")

    def begin(
        self, appends: dict[str, str], lengths: dict[str, int] | None = None
    ) -> tuple[Transaction, int]:
        event = Transaction(self.name, 0, 0, None, appends, lengths=lengths or {})
        return event, self.recorder.begin([event])

    def end(self, number: int, event: Transaction, *, is_done: bool = True, **seen: Any) -> None:
        event.is_done = is_done
        event.reads = seen.get("reads", {})
        event.lengths = seen.get("lengths", {})
        self.seen |= event.reads
        self.recorder.end(number, [event])

    def append(self) -> None:
        """Append to several lists, perhaps only if some have a certain length."""
        keys = self.some_keys(2)
        appends = self.fresh(keys if self.rng.random() < 0.5 else keys[1:])
        lengths = {key: len(self.seen.get(key, ())) for key in keys}
        if self.rng.random() < 0.5:
            lengths = {key: lengths[key] for key in keys if key not in appends}
        items = [self.action(key, appends.get(key), lengths.get(key)) for key in keys]
        request: Item = {"TransactItems": items}
        if self.rng.random() < 0.3:
            request["ClientRequestToken"] = f"{self.name}.{self.count}"
        event, number = self.begin(appends, lengths)
        self.send(number, event, request)

    def send(self, number: int, event: Transaction, request: Item) -> None:
        """Run a transaction of appends; one with a token often twice, and it must happen once."""
        has_token = "ClientRequestToken" in request
        self.unanswered = (number, event, request) if has_token else None
        try:
            self.face("TransactWriteItems", request)
            if has_token and self.rng.random() < 0.5:
                self.face("TransactWriteItems", request)
        except Refused as refusal:
            self.end(number, event, is_done=False, reads=refused_reads(request, refusal))
        else:
            self.end(number, event, lengths=event.lengths)
        self.unanswered = None

    def action(self, key: str, text: str | None, length: int | None) -> Item:
        """One action of a transaction."""
        members: Item = {"TableName": LISTS, "Key": key_of(key)}
        values: Item = {}
        if length is not None:
            members["ConditionExpression"] = "size(l) = :length"
            if not length:
                members["ConditionExpression"] = "attribute_not_exists(l)"
            else:
                values[":length"] = N(length)
            members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if text is not None:
            members["UpdateExpression"] = self.APPEND
            values |= {":none": {"L": []}, ":new": {"L": [S(text)]}, ":g": S("all")}
        if values:
            members["ExpressionAttributeValues"] = values
        return {"ConditionCheck" if text is None else "Update": members}

    def append_one(self) -> None:
        """Append to one list and see what it is then."""
        appends = self.fresh(self.some_keys()[:1])
        ((key, text),) = appends.items()
        request = self.action(key, text, None)["Update"]
        event, number = self.begin(appends)
        reply = self.face("UpdateItem", {**request, "ReturnValues": "ALL_NEW"})
        versions = versions_of(reply["Attributes"])
        assert versions[-1] == text, (text, versions)
        self.end(number, event, reads={key: versions[:-1]})

    def append_statement(self) -> None:
        """Append to lists that are there, by PartiQL."""
        keys = [key for key in self.some_keys() if self.seen.get(key)]
        appends = self.fresh(keys)
        if not keys:
            return
        statement = f'UPDATE "{LISTS}" SET l = list_append(l, ?) WHERE p = ? AND s = ?'
        statements = [
            {
                "Statement": statement,
                "Parameters": [{"L": [S(text)]}, *key_of(key).values()],
            }
            for key, text in appends.items()
        ]
        event, number = self.begin(appends)
        self.face("ExecuteTransaction", {"TransactStatements": statements})
        self.end(number, event)

    def get(self) -> None:
        """Read several lists at one moment."""
        keys = self.some_keys(2)
        event, number = self.begin({})
        gets = [{"Get": {"TableName": LISTS, "Key": key_of(key)}} for key in keys]
        reply = self.face("TransactGetItems", {"TransactItems": gets})
        found = [versions_of(each.get("Item")) for each in reply["Responses"]]
        self.end(number, event, reads=dict(zip(keys, found, strict=True)))

    def get_one(self) -> None:
        """Read one list."""
        (key,) = self.some_keys()[:1]
        event, number = self.begin({})
        request = {"TableName": LISTS, "Key": key_of(key), "ConsistentRead": True}
        reply = self.face("GetItem", request)
        self.end(number, event, reads={key: versions_of(reply.get("Item"))})

    def query(self) -> None:
        """Read a partition: one page shows one moment."""
        prefix = self.rng.choice("ab")
        request = {
            "KeyConditionExpression": "p = :p",
            "ExpressionAttributeValues": {":p": S(prefix)},
            "ConsistentRead": True,
        }
        self.read("Query", request, [key for key in self.KEYS if key.startswith(prefix)])

    def scan(self) -> None:
        """Read the table."""
        self.read("Scan", {"ConsistentRead": True}, self.KEYS)

    def query_index(self) -> None:
        """Read the index: it never lags."""
        values = {":g": S("all")}
        request = {
            "IndexName": "all",
            "KeyConditionExpression": "g = :g",
            "ExpressionAttributeValues": values,
        }
        self.read("Query", request, self.KEYS)

    def read(self, operation: str, request: Item, keys: Sequence[str]) -> None:
        event, number = self.begin({})
        reply = self.face(operation, {"TableName": LISTS, **request})
        assert "LastEvaluatedKey" not in reply
        found = {f"{item['p']['S']}/{item['s']['S']}": item for item in reply["Items"]}
        self.end(number, event, reads={key: versions_of(found.get(key)) for key in keys})


def key_of(key: str) -> Item:
    p, _, s = key.partition("/")
    return {"p": S(p), "s": S(s)}


def versions_of(item: Item | None) -> Versions:
    return tuple(text["S"] for text in item["l"]["L"]) if item else ()


def refused_reads(request: Item, refusal: Refused) -> dict[str, Versions]:
    """What a cancelled transaction says of the lists whose conditions did not hold."""
    assert refusal.code == "TransactionCanceledException", refusal
    reasons = refusal.members["CancellationReasons"]
    assert any(reason["Code"] == "ConditionalCheckFailed" for reason in reasons), reasons
    reads = {}
    for action, reason in zip(request["TransactItems"], reasons, strict=True):
        if reason["Code"] == "ConditionalCheckFailed":
            (members,) = action.values()
            key = f"{members['Key']['p']['S']}/{members['Key']['s']['S']}"
            reads[key] = versions_of(reason.get("Item"))
    return reads


def run(callers: Sequence[Caller], steps: int | None) -> None:
    """Let all callers act at once, so often each; None: until the database is gone."""
    problems: list[BaseException] = []
    start = threading.Barrier(len(callers))

    def call(caller: Caller) -> None:
        try:
            start.wait()
            done = 0
            while steps is None or done < steps:
                caller.act()
                done += 1
        except Lost:
            pass
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=call, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def final_reads(face: Face, recorder: Recorder, keys: int) -> dict[str, Versions]:
    """Read everything once more. Returns: the lists."""
    for number in range(keys):
        event = Single("last", f"item {number}", ("get",), 0, 0, UNKNOWN)
        call = recorder.begin([event])
        reply = face("GetItem", {"TableName": ITEMS, **_get(event.key)[1]})
        event.outcome = state_of(reply.get("Item"))
        recorder.end(call, [event])
    reader = Lists(face, recorder, "last", "")
    reader.scan()
    last = recorder.events[-1]
    assert isinstance(last, Transaction)
    return last.reads
