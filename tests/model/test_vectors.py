"""What searches keep in memory: always what the tree holds, whatever runs beside."""

from __future__ import annotations

import gc
import math
import random
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from dynalsm import errors, values
from dynalsm.database import Database, open_path
from dynalsm.model import vector_graph, vector_groups, vectors
from dynalsm.model.vector_groups import Group
from dynalsm.model.vector_rows import VectorQuery, VectorRows
from tests.support.databases import memory_database
from tests.support.processes import environment
from tests.support.store import N, S
from tests.support.vectors import NAME, numbers, put, score, search, vector_index, vector_table

KEYS = [f"k{number:02}" for number in range(40)]
needs_usearch = pytest.mark.skipif(
    vector_graph.load_library() is None, reason="usearch is not installed"
)


@pytest.fixture
def db(tmp_path: Any) -> Iterator[Database]:
    with open_path(tmp_path / "db", durability="os") as database:
        yield database


def groups_of(db: Database, name: str = "near") -> list[Group]:
    handle = db.catalog.get(NAME)
    assert handle is not None
    return list(handle.indexes[name].space.groups())


def write_one(db: Database, chance: random.Random, dimensions: int = 3) -> None:
    key = chance.choice(KEYS)
    kind = chance.randrange(8)
    if kind == 0:
        db.call("DeleteItem", {"TableName": NAME, "Key": {"p": S(key)}})
    elif kind == 1:
        put(db, key, t=S("x"))  # leaves the index
    elif kind == 2:
        change = {
            "TableName": NAME,
            "Key": {"p": S(key)},
            "UpdateExpression": "SET t = :t, c = :c",
            "ExpressionAttributeValues": {
                ":t": S(chance.choice("xy")),
                ":c": N(chance.randrange(3)),
            },
        }
        db.call("UpdateItem", change)
    else:
        vector = [chance.randrange(-4, 5) for _ in range(dimensions)]
        put(db, key, vector, t=S(chance.choice("xy")), c=N(chance.randrange(3)))


def scan(db: Database) -> dict[str, Any]:
    items: dict[str, Any] = {}
    request: dict[str, Any] = {"TableName": NAME}
    while True:
        page = db.call("Scan", request)
        items.update({item["p"]["S"]: item for item in page["Items"]})
        if "LastEvaluatedKey" not in page:
            return items
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def expected(
    items: dict[str, Any], distance: str, vector: Any, k: int, **wanted: Any
) -> list[tuple[str, float]]:
    """What a search must find, by definition."""
    found = []
    for key, item in items.items():
        if "e" in item and all(item.get(name) == value for name, value in wanted.items()):
            elements = [element["N"] for element in item["e"]["L"]]
            found.append((key, score(distance, vector, elements)))
    sign = -1 if distance == "DOT_PRODUCT" else 1
    return sorted(found, key=lambda each: (sign * round(each[1], 9), each[0]))[:k]


def assert_same(found: Any, wanted: Any) -> None:
    """Scores agree; keys agree except that equal scores (but for rounding) may change places."""
    assert [value for _, value in found] == pytest.approx([v for _, v in wanted], abs=1e-9)
    assert {key for key, _ in found[:-3]} <= {key for key, _ in wanted}


def assert_all(db: Database, distance: str, chance: random.Random, dimensions: int = 3) -> None:
    items = scan(db)
    vector = [chance.randrange(-4, 5) for _ in range(dimensions)]
    k = chance.choice((1, 3, 10, 100))
    assert_same(search(db, "near", vector, k), expected(items, distance, vector, k))
    hash_value, number = S(chance.choice("xy")), N(chance.randrange(3))
    more = {
        "SearchConditionExpression": "t = :t AND c = :c",
        "ExpressionAttributeValues": {":t": hash_value, ":c": number},
    }
    found = search(db, "scoped", vector, k, **more)
    assert_same(found, expected(items, distance, vector, k, t=hash_value, c=number))


# One thread.


@pytest.mark.parametrize("distance", ["COSINE", "EUCLIDEAN", "DOT_PRODUCT"])
def test_memory_follows_the_tree(db: Database, distance: str) -> None:
    """Random writes with searches between them, of the whole index and of HASH values."""
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    near, scoped = vector_index("near", distance), vector_index("scoped", distance)
    scoped = vector_index("scoped", distance, hash="t", filters=["c"])
    db.call("CreateTable", vector_table(near, scoped))
    for _ in range(60):
        for _ in range(chance.randrange(8)):
            write_one(db, chance)
        assert_all(db, distance, chance)


def test_walking_the_tree_finds_the_same(db: Database) -> None:
    """A memory too small for any group; chunks smaller than the index."""
    chance = random.Random(3)
    db.settings.vector_memory_bytes = 0
    db.call(
        "CreateTable",
        vector_table(
            vector_index("near", "EUCLIDEAN"),
            vector_index("scoped", "EUCLIDEAN", hash="t", filters=["c"]),
        ),
    )
    for _ in range(30):
        for _ in range(8):
            write_one(db, chance)
        assert_all(db, "EUCLIDEAN", chance)
    assert groups_of(db) == []


def test_memory_is_shared_by_what_is_used_last(db: Database) -> None:
    """Groups of HASH values are dropped, oldest first, when there is no room for a new one."""
    db.call("CreateTable", vector_table(vector_index("near", dimensions=100, hash="t")))
    for name in "abcd":
        for number in range(100):
            put(db, f"{name}{number}", [number + 1] * 100, t=S(name))

    def find(name: str) -> int:
        more = {"SearchConditionExpression": "t = :t", "ExpressionAttributeValues": {":t": S(name)}}
        return len(search(db, "near", [1] * 100, 100, **more))

    assert find("a") == 100
    one = groups_of(db)[0].size_bytes
    assert 40_000 < one < 100_000
    db.settings.vector_memory_bytes = 3 * one
    for name in "bcad":
        assert find(name) == 100
    left = groups_of(db)
    assert len(left) <= 3
    assert sum(group.size_bytes for group in left) <= 3 * one
    assert all(find(name) == 100 for name in "abcd")


def test_a_worn_group_is_dropped(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many changes nobody searched between, and many changed vectors: it is loaded anew."""
    monkeypatch.setattr(vector_groups, "DEAD_ROWS", 10)
    monkeypatch.setattr(vectors, "DEAD_ROWS", 10)
    db.call("CreateTable", vector_table(vector_index("near")))
    put(db, "a", (1, 0, 0))
    search(db, "near", (1, 0, 0))
    [group] = groups_of(db)
    for number in range(20):
        put(db, f"k{number}", (0, 1, number))
    assert groups_of(db) == []
    assert len(search(db, "near", (1, 0, 0), 100)) == 21
    [group] = groups_of(db)
    for number in range(40):
        put(db, "a", (1, 0, number))
        assert search(db, "near", (1, 0, number), 1)[0] == ("a", 0.0)
    assert groups_of(db) != [group]


def test_memory_outlives_changes_of_the_table(db: Database) -> None:
    """A new handle goes on with what was loaded; a deleted table takes it along."""
    db.call("CreateTable", vector_table(vector_index("near")))
    put(db, "a", (1, 0, 0))
    search(db, "near", (1, 0, 0))
    [group] = groups_of(db)
    db.call("UpdateTable", {"TableName": NAME, "DeletionProtectionEnabled": True})
    put(db, "b", (1, 0, 0))
    assert len(search(db, "near", (1, 0, 0))) == 2
    assert groups_of(db) == [group]
    db.call("UpdateTable", {"TableName": NAME, "DeletionProtectionEnabled": False})
    left = weakref.ref(group)
    del group
    db.call("DeleteTable", {"TableName": NAME})
    gc.collect()
    assert left() is None


def test_a_changed_entry_is_never_returned_with_an_old_score(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry changes between the comparison in memory and the reading of the entries."""
    db.call("CreateTable", vector_table(vector_index("near", filters=["c"])))
    put(db, "a", (1, 0, 0), c=N(1))
    put(db, "b", (0, 1, 0), c=N(1))
    search(db, "near", (1, 0, 0))
    changes = iter([(0, 0, 1), None, (0, 1, 0)])
    nearest = Group.nearest

    def meanwhile(group: Group, *arguments: Any) -> Any:
        found = nearest(group, *arguments)
        change = next(changes, ...)
        if change is None:
            db.call("DeleteItem", {"TableName": NAME, "Key": {"p": S("a")}})
        elif change is not ...:
            put(db, "a", change, c=N(2))
        return found

    monkeypatch.setattr(Group, "nearest", meanwhile)
    # The third look was made when "a" was deleted; it came back only then.
    assert search(db, "near", (1, 0, 0)) == [("b", 1.0)]
    assert search(db, "near", (1, 0, 0)) == [("a", 1.0), ("b", 1.0)]


# The kernel.


def lanes(left: list[float], right: list[float], term: Any) -> float:
    """Sum as the kernel does: sixteen partial sums, added up in order."""
    sums = [0.0] * 16
    for at, (x, y) in enumerate(zip(left, right, strict=True)):
        sums[at % 16] += term(x, y)
    total = 0.0
    for each in sums:
        total += each
    return total


def stored(vector: list[float]) -> bytes:
    packed = struct.pack(f"<{len(vector)}f", *vector)
    return b"\x01\x00" + values.encode_native_item({"e": packed})


def test_scores_have_the_same_bits_everywhere() -> None:
    """No fused multiply-add, and one order of additions, whatever registers the machine has."""
    chance = random.Random(4)
    for dimensions in (1, 7, 16, 17, 31, 64, 130):
        rows = VectorRows(dimensions, "e", 0)
        packed = [
            struct.unpack(
                f"<{dimensions}f",
                struct.pack(f"<{dimensions}f", *(chance.gauss(0, 1) for _ in range(dimensions))),
            )
            for _ in range(9)
        ]
        for vector in packed[:-1]:
            rows.add(stored(list(vector)))
        wanted = list(packed[-1])
        floats = struct.pack(f"<{dimensions}f", *wanted)
        for distance in ("DOT_PRODUCT", "EUCLIDEAN", "COSINE"):
            query = VectorQuery(floats, distance)
            found = {row: query.score(rank) for rank, row in rows.search(query, 100)}
            for row, vector in enumerate(packed[:-1]):
                dot = lanes(list(vector), wanted, lambda x, y: x * y)
                if distance == "DOT_PRODUCT":
                    assert found[row] == dot
                elif distance == "EUCLIDEAN":
                    gaps = lanes(list(vector), wanted, lambda x, y: (x - y) * (x - y))
                    assert found[row] == math.sqrt(gaps)
                else:
                    square = lanes(list(vector), list(vector), lambda x, y: x * y)
                    lengths = math.sqrt(query.squares * square)
                    assert found[row] == min(2.0, max(0.0, 1.0 - dot / lengths))


def test_rows_with_tags() -> None:
    """Dead rows and tags leave rows out; the last of equal ranks all come along."""
    rows = VectorRows(2, "e", 2)
    for number in range(10):
        rows.add(stored([1.0, float(number // 2)]), (number % 3, number % 2))
    query = VectorQuery(struct.pack("<2f", 1.0, 0.0), "EUCLIDEAN")
    assert sorted(row for _, row in rows.search(query, 3)) == [0, 1, 2, 3]
    assert sorted(row for _, row in rows.search(query, 2, (0, -1))) == [0, 3]
    assert sorted(row for _, row in rows.search(query, 9, (1, 0))) == [4]
    assert rows.count_matching((-1, 1)) == 5
    rows.kill(0)
    rows.kill(0)
    assert rows.dead == 1
    assert sorted(row for _, row in rows.search(query, 1)) == [1]
    rows.put(0, stored([1.0, 0.0]), (0, 0))
    assert (rows.dead, len(rows.search(query, 1))) == (0, 2)
    with pytest.raises(IndexError):
        rows.kill(10)
    with pytest.raises(ValueError, match="tags"):
        rows.add(stored([1.0, 1.0]), (1,))
    with pytest.raises(ValueError, match="dimensions"):
        rows.search(VectorQuery(struct.pack("<f", 1.0), "COSINE"), 1)
    for damaged in (b"\x01\x00\x80", stored([1.0]), b"", b"\x02" + stored([1.0, 1.0])[1:]):
        with pytest.raises(errors.CorruptionError, match="damaged"):
            rows.add(damaged, (0, 0))


# The graph.


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs from the first vector on, which miss nothing: they return more than there is."""
    monkeypatch.setattr(vector_groups, "GRAPH_MIN_FLOATS", 1)
    monkeypatch.setattr(vector_groups, "LOOSE_ROWS", 4)
    monkeypatch.setattr(vector_graph, "ADD_ROWS", 7)


@needs_usearch
@pytest.mark.parametrize("distance", ["COSINE", "EUCLIDEAN", "DOT_PRODUCT"])
def test_graphs_follow_the_tree(db: Database, distance: str, eager: None) -> None:
    """As test_memory_follows_the_tree, with graphs made at once; zero vectors are in none."""
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    db.call(
        "CreateTable",
        vector_table(
            vector_index("near", distance, 8),
            vector_index("scoped", distance, 8, hash="t", filters=["c"]),
        ),
    )
    put(db, "zero", [0] * 8, t=S("x"), c=N(0))
    put(db, "huge", ["3E38"] * 8, t=S("x"), c=N(0))
    graphs = 0
    for _ in range(40):
        for _ in range(chance.randrange(8)):
            write_one(db, chance, 8)
        for group in groups_of(db) + groups_of(db, "scoped"):
            group.build_graph(lambda: False)
            graphs += group._graph is not None
        items = scan(db)
        vector = [chance.randrange(-4, 5) for _ in range(8)]
        assert_same(search(db, "near", vector, 10), expected(items, distance, vector, 10))
        more = {
            "SearchConditionExpression": "t = :t AND c = :c",
            "ExpressionAttributeValues": {":t": S("x"), ":c": N(1)},
        }
        found = search(db, "scoped", vector, 5, **more)
        assert_same(found, expected(items, distance, vector, 5, t=S("x"), c=N(1)))
    assert graphs


@needs_usearch
def test_a_graph_is_made_in_the_background(db: Database, eager: None) -> None:
    db.call("CreateTable", vector_table(vector_index("near")))
    for number in range(50):
        put(db, f"k{number}", (1, number, 0))
    search(db, "near", (1, 0, 0))
    [group] = groups_of(db)
    for thread in list(db._threads):
        if "vectors" in thread.name:
            thread.join()
    assert group._graph is not None
    assert group._graph.rows == 50
    assert not group.needs_graph
    put(db, "new", (1, 1000, 0))
    assert search(db, "near", (1, 2000, 0), 1)[0][0] == "new"  # not in the graph yet


@needs_usearch
def test_a_graph_can_be_stopped(db: Database, eager: None) -> None:
    db.call("CreateTable", vector_table(vector_index("near")))
    for number in range(50):
        put(db, f"k{number}", (1, number, 0))
    handle = db.catalog.get(NAME)
    assert handle is not None
    index = handle.indexes["near"]
    group = index.space.group(index, vectors.scope_of(index, None), db.engine)
    stops = iter([False, False, True])
    group.build_graph(lambda: next(stops))
    assert group._graph is None


def test_without_the_library_everything_is_compared(
    db: Database, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_graph, "load_library", lambda: None)
    db.call("CreateTable", vector_table(vector_index("near")))
    for number in range(20):
        put(db, f"k{number:02}", (1, number, 0))
    search(db, "near", (1, 0, 0))
    [group] = groups_of(db)
    group.build_graph(lambda: False)
    assert group._graph is None
    assert [key for key, _ in search(db, "near", (1, 0, 0), 2)] == ["k00", "k01"]


# Several threads.


@pytest.mark.parametrize("uses_graph", [False, True])
def test_searches_beside_writers(db: Database, uses_graph: bool, request: Any) -> None:
    """Every result says what its own item holds, and at the end nothing is missing."""
    if uses_graph:
        if vector_graph.load_library() is None:
            pytest.skip("usearch is not installed")
        request.getfixturevalue("eager")
    include = {"ProjectionType": "ALL"}
    db.call(
        "CreateTable",
        vector_table(
            vector_index("near", "EUCLIDEAN", Projection=include),
            vector_index("scoped", "EUCLIDEAN", hash="t", filters=["c"]),
        ),
    )
    stop = threading.Event()
    failures: list[BaseException] = []

    def run(work: Any, seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not stop.is_set():
                work(chance)
        except BaseException as error:
            failures.append(error)
            stop.set()

    def look(chance: random.Random) -> None:
        vector = [chance.randrange(-4, 5) for _ in range(3)]
        given = {":t": S(chance.choice("xy")), ":c": N(chance.randrange(3))}
        reply = db.call(
            "SearchVectors",
            {
                "TableName": NAME,
                "IndexName": "scoped",
                "SearchVector": numbers(*vector),
                "TopK": 10,
                "SearchConditionExpression": "t = :t AND c = :c",
                "ExpressionAttributeValues": given,
                "ProjectionExpression": "p, e, t, c",
            },
        )
        scores = [each["Score"] for each in reply["SearchResults"]]
        assert scores == sorted(scores)
        for each in reply["SearchResults"]:
            item = each["Item"]
            elements = [element["N"] for element in item["e"]["L"]]
            assert each["Score"] == pytest.approx(score("EUCLIDEAN", vector, elements))
            assert (item["t"], item["c"]) == (given[":t"], given[":c"])
        search(db, "near", vector, 10)

    jobs = [(lambda chance: write_one(db, chance), number) for number in range(2)]
    jobs += [(look, number + 10) for number in range(2)]
    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    stop.wait(1.0)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    chance = random.Random(1)
    for _ in range(10):
        assert_all(db, "EUCLIDEAN", chance)


# Closing, reopening, crashing.


def test_nothing_is_lost_by_reopening(tmp_path: Any) -> None:
    chance = random.Random(6)
    with open_path(tmp_path / "db", durability="os") as db:
        index = vector_index("scoped", "COSINE", hash="t", filters=["c"])
        db.call("CreateTable", vector_table(vector_index("near"), index))
        for _ in range(200):
            write_one(db, chance)
        assert_all(db, "COSINE", chance)
    with open_path(tmp_path / "db", durability="os") as db:
        for _ in range(5):
            assert_all(db, "COSINE", chance)
    with open_path(tmp_path / "db", read_only=True) as db:
        assert_all(db, "COSINE", chance)


CHILD = """
import os, random, signal, sys
from dynalsm.database import open_path
from tests.model.test_vectors import write_one
from tests.support.vectors import search, vector_index, vector_table
db = open_path(sys.argv[1])
scoped = vector_index("scoped", "COSINE", hash="t", filters=["c"])
db.call("CreateTable", vector_table(vector_index("near"), scoped))
chance = random.Random(int(sys.argv[2]))
for number in range(150):
    write_one(db, chance)
    if number % 20 == 0:
        search(db, "near", (1, 2, 3))
    if number == 70:
        db.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_leaves_index_and_table_equal(tmp_path: Any) -> None:
    """Entries and items are of one commit; memory is made again from the tree."""
    from dynalsm.model import indexes

    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "db"), "9"],
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert child.returncode == -9, child.stderr
    chance = random.Random(2)
    with open_path(tmp_path / "db") as db:
        for _ in range(10):
            assert_all(db, "COSINE", chance)
        handle = db.catalog.get(NAME)
        assert handle is not None
        for index in handle.indexes.values():
            entries = {
                indexes.entry_or_none(index, handle.keys.join(key, value))
                for key, value in handle.tree.cursor()
            }
            assert entries - {None} == set(index.tree.cursor())


def test_works_on_the_stand_in_engine() -> None:
    with memory_database() as db:
        db.call("CreateTable", vector_table(vector_index("near")))
        put(db, "a", (1, 0, 0))
        assert search(db, "near", (1, 0, 0)) == [("a", 0.0)]
