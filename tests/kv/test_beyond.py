"""What the store offers beyond plyvel: keyspaces, many keys at once, ranges, durability."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from dynalsm import kv

ENTRIES = [(b"%03d" % number, b"value %d" % number) for number in range(50)]


def fill(db: kv.Keyspace | kv.PrefixedDB) -> None:
    with db.write_batch() as batch:
        for key, value in ENTRIES:
            batch.put(key, value)


# ------------------------------------------------------------------------------------- keyspaces


def test_keyspaces_are_separate(db: kv.DB) -> None:
    users, orders = db.keyspace("users"), db.keyspace("orders")
    for number, space in enumerate((db, users, orders)):
        space.put(b"key", b"%d" % number)
    assert [space.get(b"key") for space in (db, users, orders)] == [b"0", b"1", b"2"]
    users.delete(b"key")
    assert list(users) == []
    assert list(orders) == [(b"key", b"2")]
    assert db.keyspaces() == ["orders", "users"]
    assert users.name == "users"
    assert db.keyspace("users").get(b"key") is None  # another handle, the same keyspace


def test_keyspaces_are_there_after_a_reopen(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        db.keyspace("ünï/cødé").put(b"a", b"1")
    with kv.DB(path) as db:
        assert db.keyspaces() == ["ünï/cødé"]
        assert db.keyspace("ünï/cødé", create_if_missing=False).get(b"a") == b"1"


def test_a_missing_keyspace(db: kv.DB) -> None:
    with pytest.raises(KeyError, match="none"):
        db.keyspace("none", create_if_missing=False)
    with pytest.raises(KeyError, match="none"):
        db.drop_keyspace("none")
    assert db.keyspaces() == []


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_names_of_keyspaces_have_a_limit(db: kv.DB, name: str) -> None:
    with pytest.raises(ValueError, match="255 bytes"):
        db.keyspace(name)
    db.keyspace("x" * 255)


def test_a_dropped_keyspace_is_gone_for_good(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        space = db.keyspace("short-lived")
        fill(space)
        db.flush()
        db.drop_keyspace("short-lived")
        with db.snapshot() as snapshot:
            uses: list[Any] = [
                lambda: space.put(b"a", b"1"),
                lambda: space.get(b"001"),
                lambda: space.multi_get([b"001"]),
                lambda: db.write_batch().put(b"a", b"", keyspace=space),
                lambda: snapshot.get(b"001", keyspace=space),
                lambda: snapshot.multi_get([b"001"], keyspace=space),
                space.iterator,
                space.raw_iterator,
            ]
            for use in uses:
                with pytest.raises(kv.Error, match="dropped"):
                    use()
        assert db.keyspaces() == []
        assert list(db.keyspace("short-lived")) == []  # a new one of that name is empty
    with kv.DB(path) as db:
        assert list(db.keyspace("short-lived")) == []


def test_a_batch_over_keyspaces_is_one_commit(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        users, names = db.keyspace("users"), db.keyspace("names")
        users.put(b"2", b"gone soon")
        commits = db.stats()["writes"]["commits"]
        with db.write_batch(transaction=True) as batch:
            batch.put(b"plain", b"0")
            batch.put(b"1", b"ann", keyspace=users)
            batch.delete(b"2", keyspace=users)
            batch.put(b"ann", b"1", keyspace=names.prefixed_db(b"by-name/"))
            assert list(users) == [(b"2", b"gone soon")]
        assert db.stats()["writes"]["commits"] == commits + 1
    with kv.DB(path) as db:
        assert list(db) == [(b"plain", b"0")]
        assert list(db.keyspace("users")) == [(b"1", b"ann")]
        assert list(db.keyspace("names")) == [(b"by-name/ann", b"1")]


def test_a_snapshot_covers_all_keyspaces(db: kv.DB) -> None:
    users = db.keyspace("users")
    users.put(b"1", b"ann")
    with db.snapshot() as snapshot:
        users.put(b"1", b"bob")
        users.put(b"2", b"eve")
        assert snapshot.get(b"1", keyspace=users) == b"ann"
        assert snapshot.get(b"1") is None
        assert snapshot.multi_get([b"1", b"2"], keyspace=users) == [b"ann", None]
        assert list(snapshot.iterator(keyspace=users)) == [(b"1", b"ann")]
        raw = snapshot.raw_iterator(keyspace=users)
        raw.seek_to_last()
        assert raw.item() == (b"1", b"ann")
        assert list(snapshot.iterator(keyspace=users.prefixed_db(b"1"))) == [(b"", b"ann")]


def test_things_of_two_databases_do_not_mix(db: kv.DB, tmp_path: Path) -> None:
    with kv.DB(tmp_path / "other", create_if_missing=True) as other:
        with pytest.raises(ValueError, match="another engine"):
            db.write_batch().put(b"a", b"", keyspace=other)
        with pytest.raises(ValueError, match="different databases"):
            db.write_batch().append(other.write_batch())
        with pytest.raises(ValueError, match="another engine"):
            db.snapshot().get(b"a", keyspace=other)


# ------------------------------------------------------------------------------------- many keys


def test_multi_get(db: kv.DB) -> None:
    fill(db)
    keys = [b"007", b"none", b"003", b"007", bytearray(b"001")]
    values = [b"value 7", None, b"value 3", b"value 7", b"value 1"]
    assert db.multi_get(keys) == values
    assert db.multi_get(iter(keys), b"-") == [value or b"-" for value in values]
    assert db.multi_get([]) == []
    assert db.prefixed_db(b"00").multi_get([b"7", b"x"]) == [b"value 7", None]
    db.flush()
    assert db.multi_get(keys, fill_cache=False) == values
    with pytest.raises(TypeError):
        db.multi_get([b"a", "b"])  # type: ignore[list-item]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 7, 50, 1000])
@pytest.mark.parametrize(
    "shown", [(True, True), (True, False), (False, True), (False, False)], ids=str
)
def test_chunks_are_the_walk_cut_up(
    db: kv.DB, reverse: bool, size: int, shown: tuple[bool, bool]
) -> None:
    fill(db)
    arguments: Any = {"reverse": reverse, "include_key": shown[0], "include_value": shown[1]}
    for view in (db, db.prefixed_db(b"0")):
        chunks = list(view.iterator(**arguments).chunks(size))
        assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
        assert [entry for chunk in chunks for entry in chunk] == list(view.iterator(**arguments))


def test_chunks_and_steps_mix(db: kv.DB) -> None:
    fill(db)
    iterator = db.iterator(include_value=False)
    assert next(iterator) == b"000"
    assert iterator.next_chunk(3) == [b"001", b"002", b"003"]
    assert iterator.prev() == b"003"
    assert iterator.next_chunk(2) == [b"003", b"004"]
    iterator.seek(b"040")
    assert sum(len(chunk) for chunk in iterator.chunks(4)) == 10
    assert iterator.next_chunk(4) == []
    assert iterator.prev() == b"049"
    with pytest.raises(ValueError, match="at least one"):
        iterator.next_chunk(0)


RANGES: dict[str, dict[str, Any]] = {
    "all": {},
    "from": {"start": b"010"},
    "from behind": {"start": b"010", "include_start": False},
    "up to": {"stop": b"010"},
    "up to and with": {"stop": b"010", "include_stop": True},
    "between": {"start": b"010", "stop": b"020"},
    "nothing": {"start": b"020", "stop": b"010"},
    "prefix": {"prefix": b"02"},
    "no such prefix": {"prefix": b"x"},
}


@pytest.mark.parametrize("bounds", RANGES.values(), ids=RANGES)
@pytest.mark.parametrize("in_files", [False, True])
def test_delete_range_takes_the_ranges_of_iterators(
    db: kv.DB, bounds: dict[str, Any], in_files: bool
) -> None:
    fill(db)
    if in_files:
        db.flush()
    doomed = set(db.iterator(include_value=False, **bounds))
    db.delete_range(**bounds)
    assert list(db) == [(key, value) for key, value in ENTRIES if key not in doomed]
    assert db.multi_get([key for key, _ in ENTRIES]) == [
        None if key in doomed else value for key, value in ENTRIES
    ]
    db.put(b"0105", b"new")
    assert db.get(b"0105") == b"new"


def test_delete_range_in_a_batch_keeps_the_order(db: kv.DB) -> None:
    fill(db)
    view = db.prefixed_db(b"03")
    with view.write_batch() as batch:
        batch.put(b"5", b"lost")
        batch.delete_range()
        batch.put(b"6", b"kept")
    assert list(view) == [(b"6", b"kept")]
    assert len(list(db)) == 41
    view.delete_range(start=b"6", include_start=False)
    view.delete_range(prefix=b"6")
    assert list(view) == []
    with pytest.raises(TypeError, match="prefix"):
        db.delete_range(prefix=b"a", stop=b"b")


def test_ingest(db: kv.DB) -> None:
    db.put(b"005", b"overwritten")
    assert db.ingest(iter(ENTRIES)) == 50
    assert list(db) == ENTRIES
    assert db.prefixed_db(b"x").ingest([(b"1", bytearray(b"2"))]) == 1
    assert db.get(b"x1") == b"2"
    assert db.ingest([]) == 0


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
def test_ingest_wants_ascending_keys(db: kv.DB, keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="follow"):
        db.ingest((key, b"") for key in keys)
    assert list(db) == []


def test_a_failed_ingest_stores_nothing(db: kv.DB) -> None:
    def entries() -> Any:
        yield from ((b"%05d" % number, b"x" * 1000) for number in range(5000))
        yield b"99999", "text"

    with pytest.raises(TypeError):
        db.ingest(entries())
    assert list(db) == []


def test_an_ingest_is_there_after_a_reopen(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        db.put(b"000", b"older")
        db.put(b"zzz", b"older")
        with db.snapshot() as snapshot:
            db.ingest(ENTRIES)
            assert list(snapshot) == [(b"000", b"older"), (b"zzz", b"older")]
        db.put(b"001", b"newer")
        expected = [*ENTRIES, (b"zzz", b"older")]
        expected[1] = (b"001", b"newer")
        assert list(db) == expected
    with kv.DB(path) as db:
        assert list(db) == expected


# ------------------------------------------------------------------------------------ durability


def is_durable(db: kv.DB) -> bool:
    stats = db.stats()
    return bool(stats["durable_seqno"] >= stats["last_seqno"])


@pytest.mark.parametrize(
    ("durability", "sync", "waits"),
    [
        ("os", None, False),
        ("os", False, False),
        ("os", True, True),
        ("commit", None, True),
        ("commit", False, False),
    ],
)
def test_who_waits_for_the_disk(path: str, durability: Any, sync: Any, waits: bool) -> None:
    with kv.DB(path, create_if_missing=True, durability=durability) as db:
        writes = [
            lambda: db.put(b"a", b"1", sync=sync),
            lambda: db.delete(b"a", sync=sync),
            lambda: db.write_batch(sync=sync).__enter__().__exit__(None, None, None),
            lambda: db.delete_range(prefix=b"a", sync=sync),
            lambda: db.prefixed_db(b"p").put(b"", b"", sync=sync),
        ]
        for write in writes:
            db.sync()
            syncs = db.stats()["writes"]["syncs"]
            write()
            if waits:
                assert is_durable(db)
            else:
                assert db.stats()["writes"]["syncs"] == syncs


def test_sync_waits_for_everything_so_far(db: kv.DB) -> None:
    db.put(b"a", b"1")
    assert not is_durable(db)
    db.sync()
    assert is_durable(db)


def test_interval_syncs_by_itself(path: str) -> None:
    with kv.DB(
        path, create_if_missing=True, durability="interval", sync_interval_seconds=0.001
    ) as db:
        db.put(b"a", b"1")
        for _ in range(10_000):
            if is_durable(db):
                break
        else:
            pytest.fail("not durable after many intervals")


def test_a_read_only_handle(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        fill(db)
        db.keyspace("more").put(b"a", b"1")
        with kv.DB(path, read_only=True) as reader:  # beside the writer
            assert list(reader) == ENTRIES
            assert reader.get(b"007") == b"value 7"
            assert list(reader.keyspace("more")) == [(b"a", b"1")]
            refused = [
                lambda: reader.put(b"a", b""),
                lambda: reader.delete(b"a"),
                lambda: reader.delete_range(prefix=b"a"),
                lambda: reader.keyspace("new"),
                lambda: reader.drop_keyspace("more"),
                lambda: reader.ingest([(b"a", b"")]),
                reader.compact_range,
                reader.flush,
            ]
            for call in refused:
                with pytest.raises(kv.ReadOnlyError):
                    call()
        db.put(b"more", b"")
        assert len(list(db)) == 51


def test_a_read_only_handle_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(kv.Error):
        kv.DB(tmp_path / "none", read_only=True, create_if_missing=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    importlib.util.find_spec("dynalsm._core.checkpoint") is None, reason="no checkpoints yet"
)
def test_a_checkpoint_is_a_database(db: kv.DB, tmp_path: Path) -> None:
    fill(db)
    db.keyspace("more").put(b"a", b"1")
    db.checkpoint(tmp_path / "copy")
    db.put(b"later", b"")
    with kv.DB(tmp_path / "copy") as copy:
        assert list(copy) == ENTRIES
        assert copy.keyspace("more").get(b"a") == b"1"


# ----------------------------------------------------------------------------- limits and numbers


def test_keys_values_and_batches_have_limits(db: kv.DB, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalsm._core import engine

    longest = b"k" * engine.MAX_KEY_BYTES
    db.put(longest, b"1")
    assert db.get(longest) == b"1"
    for write in (db.put, db.write_batch().put):
        with pytest.raises(kv.StorageLimitError, match="key"):
            write(longest + b"k", b"")
    monkeypatch.setattr(engine, "MAX_VALUE_BYTES", 1000)
    monkeypatch.setattr(engine, "MAX_BATCH_BYTES", 5000)
    for write in (db.put, db.write_batch().put):
        write(b"a", b"v" * 1000)
        with pytest.raises(ValueError, match="value"):
            write(b"a", b"v" * 1001)
    with pytest.raises(kv.StorageLimitError, match="batch"), db.write_batch() as batch:
        for number in range(100):
            batch.put(b"%d" % number, b"v" * 100)
    assert len(list(db.iterator(include_value=False, start=b"0", stop=b"9"))) < 100


def test_long_keys_go_through_files(db: kv.DB) -> None:
    # Around the widths of length fields; long common prefixes and none.
    entries = {
        first * (size - 1) + last: b"%d" % size
        for size in (1, 255, 65_535, 65_536, 65_537, 99_900, 1 << 20)
        for first in (b"a", b"b")
        for last in (b"x", b"y")
    }
    for key, value in entries.items():
        db.put(key, value)
    for move in (db.flush, db.compact_range, lambda: None):
        move()
        assert list(db) == sorted(entries.items())
        assert list(db.iterator(reverse=True)) == sorted(entries.items(), reverse=True)
        assert db.multi_get(entries) == list(entries.values())
        db.delete(b"absent" * 20_000)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_anything_with_a_buffer_is_a_key_and_a_value(db: kv.DB, kind: Any) -> None:
    db.put(kind(b"ab"), kind(b"1"))
    assert db.get(kind(b"ab")) == b"1"
    assert list(db.iterator(start=kind(b"ab"), stop=kind(b"ac"))) == [(b"ab", b"1")]
    assert list(db.iterator(prefix=kind(b"a"))) == [(b"ab", b"1")]
    view = db.prefixed_db(kind(b"a"))
    assert view.get(kind(b"b")) == b"1"
    iterator = view.iterator()
    iterator.seek(kind(b"b"))
    assert next(iterator) == (b"b", b"1")
    with db.write_batch() as batch:
        batch.put(kind(b"x"), kind(b"2"))
        batch.delete(kind(b"ab"))
    db.delete(kind(b"nothing"))
    assert list(db) == [(b"x", b"2")]


def test_a_buffer_may_change_after_the_call(db: kv.DB) -> None:
    key, value = bytearray(b"k"), bytearray(b"v")
    batch = db.write_batch()
    batch.put(key, value)
    db.put(key, value)
    key[0] = value[0] = 0
    batch.write()
    assert list(db) == [(b"k", b"v")]


def test_stats_are_numbers_that_add_up(db: kv.DB) -> None:
    fill(db)
    db.flush()
    db.get(b"001")
    stats = db.stats()
    assert stats["writes"]["entries"] == 50
    assert stats["memory"]["budget"] >= sum(
        size for part, size in stats["memory"].items() if part != "budget"
    )
    assert stats["write_amplification"] > 1
    assert stats["read_amplification"] >= 1
    assert stats["space_amplification"] >= 1
    assert stats["compaction"]["pending_bytes"] == 0
    assert stats["stalls"]["reason"] is None
    space = db.keyspace("more")
    space.put(b"a", b"1")
    assert space.stats()["entries"] == 1
    assert json.loads(db.get_property(b"dynalsm.stats") or b"")["path"] == db.name


def test_plyvels_memory_options_become_the_budget(tmp_path: Path) -> None:
    for number, (arguments, expected) in enumerate(
        [
            ({"write_buffer_size": 1 << 20, "lru_cache_size": 2 << 20}, 4 << 20),
            ({"lru_cache_size": 0, "write_buffer_size": 1 << 20}, 2 << 20),
            ({"memory_bytes": 32 << 20}, 32 << 20),
        ]
    ):
        with kv.DB(tmp_path / str(number), create_if_missing=True, **arguments) as db:  # type: ignore[arg-type]
            assert db.stats()["memory"]["budget"] == expected
            fill(db)
            assert list(db) == ENTRIES
