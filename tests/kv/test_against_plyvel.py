"""The same operations on dynalsm.kv and on plyvel: the same answers, and the same kinds of errors.

plyvel's iterators break their own bounds in three situations (docs/kv.md, "Differences"):
  (1) a walk that comes from the stop end leaves out an entry whose key is the start key;
  (2) prev() directly behind seek() may return an entry in front of the start key;
  (3) seek() to an excluded start key, or before it, returns that key.
There dynalsm keeps the bounds. A comparison that meets one of them ends, since the two iterators
stand in different places from then on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynalsm import kv

plyvel = pytest.importorskip("plyvel")

CLEAN = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# Short keys over few bytes, so that equal keys, prefixes of each other and 0xff ends are common.
KEYS = st.lists(st.sampled_from([0, 1, 97, 98, 254, 255]), max_size=3).map(bytes)
VALUES = st.sampled_from([b"", b"x", b"value", b"\0" * 300])
MAYBE_KEY = st.none() | KEYS
RANGES = st.fixed_dictionaries(
    {},
    optional={
        "reverse": st.booleans(),
        "start": MAYBE_KEY,
        "stop": MAYBE_KEY,
        "include_start": st.booleans(),
        "include_stop": st.booleans(),
        "include_key": st.booleans(),
        "include_value": st.booleans(),
    },
)
PREFIXES = st.fixed_dictionaries(
    {"prefix": KEYS}, optional={"reverse": st.booleans(), "include_value": st.booleans()}
)
STEPS = st.lists(
    st.sampled_from(["next", "next", "next", "prev", "prev", "start", "stop"])
    | st.tuples(st.just("seek"), KEYS),
    max_size=25,
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Any, Any]]:
    """An empty database of each kind; examples empty them again."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        ours = kv.DB(one, create_if_missing=True)
        theirs = plyvel.DB(two, create_if_missing=True)
        yield ours, theirs
        ours.close()
        theirs.close()


def fill(pair: tuple[Any, Any], entries: dict[bytes, bytes], in_files: bool = False) -> None:
    for db in pair:
        with db.write_batch() as batch:
            for key in db.iterator(include_value=False):
                batch.delete(key)
        with db.write_batch() as batch:
            for key, value in entries.items():
                batch.put(key, value)
    if in_files:
        pair[0].flush()


def take(iterator: Any, step: Any) -> Any:
    """Do one step; the answer, or the name of the exception."""
    try:
        if step == "next":
            return next(iterator)
        if step == "prev":
            return iterator.prev()
        if step == "start":
            return iterator.seek_to_start()
        if step == "stop":
            return iterator.seek_to_stop()
        return iterator.seek(step[1])
    except StopIteration:
        return StopIteration


def is_in_range(key: bytes, bounds: dict[str, Any]) -> bool:
    if bounds.get("prefix") is not None:
        return key.startswith(bounds["prefix"])
    start, stop = bounds.get("start"), bounds.get("stop")
    if start is not None and (key < start or (key == start and not bounds["include_start"])):
        return False
    return not (stop is not None and (key > stop or (key == stop and not bounds["include_stop"])))


def walk_both(
    pair: tuple[Any, Any], keys: set[bytes], view: bytes, bounds: dict[str, Any], steps: list[Any]
) -> None:
    """Take the steps on both; equal answers, up to a place where plyvel leaves its bounds.

    `view` is the prefix of the prefixed databases of which `pair` consists. Values tell the whole
    key, so that it is seen where an iterator stands."""
    bounds = {**bounds, "include_key": True, "include_value": True}
    bounds.setdefault("include_start", True)
    bounds.setdefault("include_stop", False)
    inside = {key for key in keys if key.startswith(view) and is_in_range(key[len(view) :], bounds)}
    first = bounds.get("prefix") or bounds.get("start") or b""
    one, two = (db.iterator(**bounds) for db in pair)
    for step in steps:
        mine = take(one, step)
        assert not isinstance(mine, tuple) or mine[1] in inside
        try:
            other = take(two, step)
        except SystemError:  # plyvel cuts the prefix off a shorter key
            return
        if mine == other:
            continue
        left_bounds = isinstance(other, tuple) and other[1] not in inside
        left_out = other is StopIteration and isinstance(mine, tuple) and mine[0] == first
        assert left_bounds or left_out, (bounds, steps, step, mine, other)
        return


@CLEAN
@given(
    keys=st.sets(KEYS, max_size=12), bounds=RANGES | PREFIXES, steps=STEPS, in_files=st.booleans()
)
def test_iterators_walk_alike(
    pair: tuple[Any, Any],
    keys: set[bytes],
    bounds: dict[str, Any],
    steps: list[Any],
    in_files: bool,
) -> None:
    fill(pair, {key: key for key in keys}, in_files)
    walk_both(pair, keys, b"", bounds, steps)


@CLEAN
@given(
    keys=st.sets(KEYS, max_size=12), outer=KEYS, inner=KEYS, bounds=RANGES | PREFIXES, steps=STEPS
)
def test_prefixed_iterators_walk_alike(
    pair: tuple[Any, Any],
    keys: set[bytes],
    outer: bytes,
    inner: bytes,
    bounds: dict[str, Any],
    steps: list[Any],
) -> None:
    fill(pair, {key: key for key in keys})
    ours, theirs = (db.prefixed_db(outer).prefixed_db(inner) for db in pair)
    walk_both((ours, theirs), keys, outer + inner, bounds, steps)


@CLEAN
@given(entries=st.dictionaries(KEYS, VALUES, max_size=12), bounds=RANGES)
def test_lists_of_forward_iterators_are_equal(
    pair: tuple[Any, Any], entries: dict[bytes, bytes], bounds: dict[str, Any]
) -> None:
    # include_key, include_value and every combination of bounds, to the end.
    fill(pair, entries)
    bounds["reverse"] = False
    assert list(pair[0].iterator(**bounds)) == list(pair[1].iterator(**bounds))


@CLEAN
@given(
    entries=st.dictionaries(KEYS, VALUES, max_size=12),
    steps=st.lists(
        st.sampled_from(["first", "last", "next", "next", "prev", "prev"])
        | st.tuples(st.just("seek"), KEYS),
        max_size=25,
    ),
)
def test_raw_iterators_walk_alike(
    pair: tuple[Any, Any], entries: dict[bytes, bytes], steps: list[Any]
) -> None:
    fill(pair, entries)
    walks = []
    for db, module in zip(pair, (kv, plyvel), strict=True):
        raw = db.raw_iterator()
        seen: list[Any] = []
        for step in steps:
            try:
                if step == "first":
                    raw.seek_to_first()
                elif step == "last":
                    raw.seek_to_last()
                elif step == "next":
                    raw.next()
                elif step == "prev":
                    raw.prev()
                else:
                    raw.seek(step[1])
                seen.append((raw.valid(), raw.key(), raw.value(), raw.item()))
            except module.IteratorInvalidError:
                seen.append((raw.valid(), "invalid"))
        walks.append(seen)
    assert walks[0] == walks[1]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("batch"), st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=6)),
        st.tuples(st.just("failed batch"), KEYS, st.booleans()),
        st.tuples(st.just("append"), st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=6)),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("look back"), KEYS),
        st.tuples(st.just("prefixed put"), KEYS, KEYS, VALUES),
        st.tuples(st.just("compact")),
    ),
    max_size=30,
)


class Failed(Exception):
    pass


class Run:
    """Performs operations on one database and notes the answers."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.past = db.snapshot()
        self.seen: list[Any] = []

    def perform(self, kind: str, *rest: Any) -> None:
        getattr(self, kind.replace(" ", "_"))(*rest)

    def put(self, key: bytes, value: bytes) -> None:
        self.db.put(key, value)

    def delete(self, key: bytes) -> None:
        self.db.delete(key)

    def get(self, key: bytes) -> None:
        self.seen += [self.db.get(key), self.db.get(key, b"default")]

    def batch(self, writes: list[tuple[bytes, bytes | None]]) -> None:
        with self.db.write_batch() as batch:
            self._add(batch, writes)

    def _add(self, batch: Any, writes: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in writes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)

    def failed_batch(self, key: bytes, transaction: bool) -> None:
        with pytest.raises(Failed), self.db.write_batch(transaction=transaction) as batch:
            batch.put(key, b"from a failed batch")
            raise Failed
        self.get(key)

    def append(self, writes: list[tuple[bytes, bytes | None]]) -> None:
        one, two = self.db.write_batch(), self.db.write_batch()
        self._add(one, writes[:2])
        self._add(two, writes[2:])
        one.append(two)
        two.clear()
        one.write()
        two.write()

    def compact(self) -> None:
        self.db.compact_range()

    def snapshot(self) -> None:
        self.past.close()
        self.past = self.db.snapshot()

    def look_back(self, key: bytes) -> None:
        self.seen += [self.past.get(key), list(self.past), list(self.past.iterator())]

    def prefixed_put(self, prefix: bytes, key: bytes, value: bytes) -> None:
        view = self.db.prefixed_db(prefix)
        view.put(key, value)
        with view.write_batch() as batch:
            batch.put(key + b"2", value)
            batch.delete(key + b"3")
        frozen = view.snapshot()
        view.delete(key)
        self.seen += [view.get(key), frozen.get(key), list(view), list(frozen)]


@CLEAN
@given(operations=OPERATIONS)
def test_writes_and_reads_agree(pair: tuple[Any, Any], operations: list[Any]) -> None:
    fill(pair, {})
    seen = []
    for db in pair:
        run = Run(db)
        for kind, *rest in operations:
            run.perform(kind, *rest)
        run.past.close()
        seen.append([*run.seen, list(db)])
    assert seen[0] == seen[1]


# ------------------------------------------------------------------------------------ wrong uses

WRONG_USES: dict[str, Any] = {
    "get str": lambda db: db.get("key"),
    "get int": lambda db: db.get(1),
    "get None": lambda db: db.get(None),
    "get positional flags": lambda db: db.get(b"key", b"default", True),
    "put int": lambda db: db.put(b"key", 12),
    "put None": lambda db: db.put(b"key", None),
    "put str": lambda db: db.put("key", b"value"),
    "put positional sync": lambda db: db.put(b"key", b"value", True),
    "delete int": lambda db: db.delete(7),
    "batch put int": lambda db: db.write_batch().put(b"key", 12),
    "batch put str": lambda db: db.write_batch().put("key", b""),
    "batch delete None": lambda db: db.write_batch().delete(None),
    "batch append list": lambda db: db.write_batch().append([]),
    "batch positional": lambda db: db.write_batch(True),
    "start str": lambda db: db.iterator(start="a"),
    "stop int": lambda db: db.iterator(stop=3),
    "prefix and start": lambda db: db.iterator(prefix=b"a", start=b"a"),
    "prefix and stop": lambda db: db.iterator(prefix=b"a", stop=b"a"),
    "prefixed prefix and start": lambda db: db.prefixed_db(b"x").iterator(prefix=b"", start=b""),
    "iterator positional": lambda db: db.iterator(True),
    "unknown argument": lambda db: db.iterator(limit=3),
    "seek None": lambda db: db.iterator().seek(None),
    "raw seek str": lambda db: db.raw_iterator().seek("a"),
    "raw key at nothing": lambda db: db.raw_iterator().key(),
    "raw next at nothing": lambda db: db.raw_iterator().next(),
    "prev at the start": lambda db: db.iterator().prev(),
    "prefixed_db None": lambda db: db.prefixed_db(None),
    "prefixed_db str": lambda db: db.prefixed_db("a"),
    "property int": lambda db: db.get_property(42),
    "property missing": lambda db: db.get_property(),
    "size of ints": lambda db: db.approximate_size(1, 2),
    "sizes of None": lambda db: db.approximate_sizes(None),
    "sizes of ints": lambda db: db.approximate_sizes((1, 2)),
    "compact positional": lambda db: db.compact_range(b"a"),
    "name set": lambda db: setattr(db, "name", "other"),
    "snapshot closed": lambda db: closed(db.snapshot()).get(b"a"),
    "snapshot iterator closed": lambda db: closed(db.snapshot()).iterator(),
    "snapshot raw closed": lambda db: closed(db.snapshot()).raw_iterator(),
    "iterator closed": lambda db: next(closed(db.iterator())),
    "iterator closed, prev": lambda db: closed(db.iterator()).prev(),
    "iterator closed, seek": lambda db: closed(db.iterator()).seek(b"a"),
    "iterator closed, start": lambda db: closed(db.iterator()).seek_to_start(),
    "iterator closed, stop": lambda db: closed(db.iterator()).seek_to_stop(),
    "raw closed": lambda db: closed(db.raw_iterator()).valid(),
    "raw closed, seek": lambda db: closed(db.raw_iterator()).seek_to_first(),
    "raw closed, key": lambda db: closed(db.raw_iterator()).key(),
}


def closed(thing: Any) -> Any:
    thing.close()
    thing.close()  # again is allowed
    return thing


def error_of(call: Any, *arguments: Any) -> type[BaseException]:
    try:
        call(*arguments)
    except BaseException as error:
        return type(error)
    return type(None)  # type: ignore[return-value]


@pytest.mark.parametrize("name", WRONG_USES)
def test_wrong_uses_raise_alike(pair: tuple[Any, Any], name: str) -> None:
    fill(pair, {})
    mine, other = (error_of(WRONG_USES[name], db) for db in pair)
    if other is plyvel.IteratorInvalidError:
        other = kv.IteratorInvalidError
    # Ours may be a subclass: ClosedError is a RuntimeError.
    assert issubclass(mine, other) and mine is not type(None), (mine, other)


CLOSED_USES: dict[str, Any] = {
    "get": lambda made: made["db"].get(b"a"),
    "put": lambda made: made["db"].put(b"a", b""),
    "delete": lambda made: made["db"].delete(b"a"),
    "write_batch": lambda made: made["db"].write_batch(),
    "iterator": lambda made: made["db"].iterator(),
    "iter": lambda made: iter(made["db"]),
    "raw_iterator": lambda made: made["db"].raw_iterator(),
    "snapshot": lambda made: made["db"].snapshot(),
    "get_property": lambda made: made["db"].get_property(b"leveldb.stats"),
    "compact_range": lambda made: made["db"].compact_range(),
    "approximate_size": lambda made: made["db"].approximate_size(b"a", b"b"),
    "view get": lambda made: made["view"].get(b"a"),
    "view put": lambda made: made["view"].put(b"a", b""),
    "view iterator": lambda made: made["view"].iterator(),
    "view snapshot": lambda made: made["view"].snapshot(),
    "batch put": lambda made: made["batch"].put(b"a", b""),
    "batch delete": lambda made: made["batch"].delete(b"a"),
    "batch clear": lambda made: made["batch"].clear(),
    "batch write": lambda made: made["batch"].write(),
    "batch size": lambda made: made["batch"].approximate_size(),
    "batch enter": lambda made: made["batch"].__enter__(),
    "snapshot get": lambda made: made["snapshot"].get(b"a"),
    "snapshot iterator": lambda made: made["snapshot"].iterator(),
    "iterator next": lambda made: next(made["iterator"]),
    "iterator prev": lambda made: made["iterator"].prev(),
    "iterator seek": lambda made: made["iterator"].seek(b"a"),
    "snapshot iterator next": lambda made: next(made["old"]),
    "raw valid": lambda made: made["raw"].valid(),
    "raw next": lambda made: made["raw"].next(),
}


@pytest.fixture(scope="module")
def made_then_closed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Everything that can be made from a database, of both kinds, after the database was closed."""
    both = []
    for module in (kv, plyvel):
        db = module.DB(str(tmp_path_factory.mktemp("closed")), create_if_missing=True)
        db.put(b"a", b"1")
        db.put(b"b", b"2")
        snapshot = db.snapshot()
        made = {
            "db": db,
            "view": db.prefixed_db(b"a"),
            "batch": db.write_batch(),
            "snapshot": snapshot,
            "iterator": db.iterator(),
            "old": snapshot.iterator(),
            "raw": db.raw_iterator(),
        }
        next(made["iterator"])
        db.close()
        db.close()
        assert db.closed
        snapshot.close()  # no-op
        made["iterator"].close()  # no-op
        both.append(made)
    return both


@pytest.mark.parametrize("name", CLOSED_USES)
def test_after_close_everything_raises_alike(
    made_then_closed: list[dict[str, Any]], name: str
) -> None:
    mine, other = (error_of(CLOSED_USES[name], made) for made in made_then_closed)
    assert issubclass(mine, other) and mine is not type(None), (mine, other)


def test_the_names_are_plyvels(pair: tuple[Any, Any]) -> None:
    # Whatever plyvel offers is offered here, module and objects.
    assert {name for name in dir(plyvel) if name[0] != "_"} <= set(dir(kv))
    ours, theirs = pair
    for make in (
        lambda db: db,
        lambda db: db.iterator(),
        lambda db: db.raw_iterator(),
        lambda db: db.snapshot(),
        lambda db: db.write_batch(),
        lambda db: db.prefixed_db(b"a"),
    ):
        public = {name for name in dir(make(theirs)) if name[0] != "_"}
        assert public <= set(dir(make(ours)))


def test_the_exceptions_are_related_as_plyvels() -> None:
    names = ("Error", "IOError", "CorruptionError", "IteratorInvalidError")
    for one in names:
        for two in (*names, "builtins"):
            for parent in (OSError, RuntimeError, Exception) if two == "builtins" else (two,):
                mine = parent if isinstance(parent, type) else getattr(kv, parent)
                other = parent if isinstance(parent, type) else getattr(plyvel, parent)
                assert issubclass(getattr(kv, one), mine) == issubclass(
                    getattr(plyvel, one), other
                ), (one, parent)


OPENINGS: dict[str, Any] = {
    "int name": lambda module, path: module.DB(123),
    "missing": lambda module, path: module.DB(path),
    "missing, not created": lambda module, path: module.DB(path, create_if_missing=False),
    "exists": lambda module, path: (
        module.DB(path, create_if_missing=True).close(),
        module.DB(path, error_if_exists=True),
    ),
    "str buffer size": lambda module, path: module.DB(path, write_buffer_size="invalid"),
    "str cache size": lambda module, path: module.DB(path, lru_cache_size="invalid"),
    "bad compression": lambda module, path: module.DB(path, compression="invalid"),
    "int compression": lambda module, path: module.DB(path, compression=3),
    "unknown option": lambda module, path: module.DB(path, no_such_option=1),
    "name without comparator": lambda module, path: module.DB(path, comparator_name=b"x"),
    "comparator without name": lambda module, path: module.DB(path, comparator=max),
    "str comparator name": lambda module, path: module.DB(
        path, comparator=max, comparator_name="x"
    ),
    "no comparator": lambda module, path: module.DB(path, comparator=1, comparator_name=b"x"),
    "repair int": lambda module, path: module.repair_db(1),
    "destroy int": lambda module, path: module.destroy_db(1),
    "held": lambda module, path: (
        module.DB(path, create_if_missing=True),
        module.DB(path, create_if_missing=True),
    ),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_refused_openings_raise_alike(tmp_path: Any, name: str) -> None:
    mine = error_of(OPENINGS[name], kv, str(tmp_path / "ours"))
    other = error_of(OPENINGS[name], plyvel, str(tmp_path / "theirs"))
    translated = {plyvel.Error: kv.Error, plyvel.IOError: kv.IOError}
    assert issubclass(mine, translated.get(other, other)) and mine is not type(None), (mine, other)
