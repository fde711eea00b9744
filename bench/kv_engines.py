"""The engines that bench/kv.py compares, behind one small interface.

Each adapter uses its binding as its documentation advises, with the fastest call there is for the
purpose. Equal durability: without `durable` a write survives the death of the process, with it that
of the machine. Equal memory: half of the budget for write buffers (two, or what the engine has
instead), half for the cache; lmdb has no cache but the system's. Filters of 10 bits a key where an
engine has filters.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

Pair = tuple[bytes, bytes]
Get = Callable[[bytes], bytes | None]


class Store:
    """An open database. `get`, `put` and `delete` are attributes: calls without a detour."""

    name = ""
    get: Get
    put: Callable[[bytes, bytes], Any]
    delete: Callable[[bytes], Any]

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        return importlib.metadata.version(cls.name)

    def session(self) -> Store:
        """The object that another thread uses."""
        return self

    def write_many(self, pairs: list[Pair]) -> None:
        """One atomic batch."""
        raise NotImplementedError

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        """The quickest way to store sorted pairs that are not there yet; durable."""
        raise NotImplementedError

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        get = self.get
        return [get(key) for key in keys]

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        raise NotImplementedError

    def chunks(self, size: int) -> Iterator[list[Pair]]:
        walk = self.scan()
        while chunk := list(islice(walk, size)):
            yield chunk

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        """A function: the first so many entries from a key on."""
        raise NotImplementedError

    def snapshot(self) -> contextlib.AbstractContextManager[Get]:
        """Inside, reads see one state; gives the function that reads."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Dynalsm(Store):
    name = "dynalsm"

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        from dynalsm import kv

        self.db = kv.DB(
            path,
            create_if_missing=True,
            memory_bytes=memory_bytes,
            durability="commit" if durable else "os",
        )
        self.get, self.put, self.delete = self.db.get, self.db.put, self.db.delete

    @classmethod
    def version(cls) -> str:
        import dynalsm

        return dynalsm.__version__

    def write_many(self, pairs: list[Pair]) -> None:
        with self.db.write_batch() as batch:
            put = batch.put
            for key, value in pairs:
                put(key, value)

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        self.db.ingest(pairs)

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        return self.db.multi_get(keys)

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        return self.db.iterator(reverse=reverse)

    def chunks(self, size: int) -> Iterator[list[Pair]]:
        return self.db.iterator().chunks(size)

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        iterator = self.db.iterator()
        seek, chunk = iterator.seek, iterator.next_chunk

        def run(key: bytes, count: int) -> list[Pair]:
            seek(key)
            return chunk(count)

        return run

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Get]:
        with self.db.snapshot() as snapshot:
            yield snapshot.get

    def close(self) -> None:
        self.db.close()


class Plyvel(Store):
    name = "plyvel"

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        import plyvel

        self.db = plyvel.DB(
            path,
            create_if_missing=True,
            write_buffer_size=memory_bytes // 4,
            lru_cache_size=memory_bytes // 2,
            bloom_filter_bits=10,
        )
        self.get, self.put, self.delete = self.db.get, self.db.put, self.db.delete
        if durable:
            put = self.db.put
            self.put = lambda key, value: put(key, value, sync=True)

    def write_many(self, pairs: list[Pair]) -> None:
        with self.db.write_batch() as batch:
            put = batch.put
            for key, value in pairs:
                put(key, value)

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        while chunk := list(islice(pairs, 10_000)):
            self.write_many(chunk)
        self.db.write_batch(sync=True).write()

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        return self.db.iterator(reverse=reverse)

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        iterator = self.db.iterator()
        seek = iterator.seek

        def run(key: bytes, count: int) -> list[Pair]:
            seek(key)
            return list(islice(iterator, count))

        return run

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Get]:
        with self.db.snapshot() as snapshot:
            yield snapshot.get

    def close(self) -> None:
        self.db.close()


class Rocksdict(Store):
    name = "rocksdict"

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(memory_bytes // 4)
        options.set_max_write_buffer_number(2)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_bottommost_compression_type(rocksdict.DBCompressionType.zstd())
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(rocksdict.Cache(memory_bytes // 2))
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        self.module = rocksdict
        self.options = options
        self.path = path
        self.db = rocksdict.Rdict(path, options)
        if durable:
            writing = rocksdict.WriteOptions()
            writing.sync = True
            self.db.set_write_options(writing)
        self.get, self.put, self.delete = self.db.get, self.db.put, self.db.delete

    def write_many(self, pairs: list[Pair]) -> None:
        batch = self.module.WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in pairs:
            put(key, value)
        self.db.write(batch)

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        writer = self.module.SstFileWriter(options=self.options)
        file = self.path + ".sst"
        writer.open(file)
        for key, value in pairs:
            writer[key] = value
        writer.finish()
        self.db.ingest_external_file([file])
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        return self.db.get(keys)

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        return self.db.items(backwards=reverse)

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        walk = self.db.iter()
        seek, step, get_key, get_value, valid = (
            walk.seek,
            walk.next,
            walk.key,
            walk.value,
            walk.valid,
        )

        def run(key: bytes, count: int) -> list[Pair]:
            seek(key)
            found: list[Pair] = []
            while len(found) < count and valid():
                found.append((get_key(), get_value()))
                step()
            return found

        return run

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Get]:
        snapshot = self.db.snapshot()
        yield snapshot.get if hasattr(snapshot, "get") else snapshot.__getitem__

    def close(self) -> None:
        self.db.close()


class Lmdb(Store):
    name = "lmdb"

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        import lmdb

        del memory_bytes
        self.env = lmdb.open(path, map_size=64 << 30, sync=durable, metasync=durable)
        begin = self.env.begin

        def get(key: bytes) -> bytes | None:
            with begin() as reading:
                return reading.get(key)  # type: ignore[no-any-return]

        def put(key: bytes, value: bytes) -> None:
            with begin(write=True) as writing:
                writing.put(key, value)

        def delete(key: bytes) -> None:
            with begin(write=True) as writing:
                writing.delete(key)

        self.get, self.put, self.delete = get, put, delete

    def write_many(self, pairs: list[Pair]) -> None:
        with self.env.begin(write=True) as writing, writing.cursor() as cursor:
            cursor.putmulti(pairs)

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        with self.env.begin(write=True) as writing, writing.cursor() as cursor:
            cursor.putmulti(pairs, append=True)
        self.env.sync(True)

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        with self.env.begin() as reading:
            get = reading.get
            return [get(key) for key in keys]

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        cursor = self.env.begin().cursor()
        return cursor.iterprev() if reverse else cursor.iternext()  # type: ignore[no-any-return]

    def chunks(self, size: int) -> Iterator[list[Pair]]:
        with self.env.begin() as reading, reading.cursor() as cursor:
            walk = cursor.iternext()
            while chunk := list(islice(walk, size)):
                yield chunk

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        reading = self.env.begin()
        cursor = reading.cursor()
        seek, walk = cursor.set_range, cursor.iternext

        def run(key: bytes, count: int) -> list[Pair]:
            return list(islice(walk(), count)) if seek(key) else []

        run.keeps = reading  # type: ignore[attr-defined]
        return run

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Get]:
        with self.env.begin() as reading:
            yield reading.get

    def close(self) -> None:
        self.env.close()


class Sqlite(Store):
    name = "sqlite3"

    def __init__(self, path: str, memory_bytes: int, durable: bool = False) -> None:
        self.place = (path, memory_bytes, durable)
        self.threads: list[Sqlite] = []
        self.connection = connection = sqlite3.connect(
            os.path.join(path, "kv.sqlite"),
            isolation_level=None,
            timeout=60,
            check_same_thread=False,
        )
        execute = connection.execute
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        execute(f"PRAGMA cache_size=-{memory_bytes // 1024}")
        execute("CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")

        def get(key: bytes) -> bytes | None:
            row = execute("SELECT v FROM kv WHERE k=?", (key,)).fetchone()
            return row[0] if row else None

        def put(key: bytes, value: bytes) -> None:
            execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))

        def delete(key: bytes) -> None:
            execute("DELETE FROM kv WHERE k=?", (key,))

        self.get, self.put, self.delete = get, put, delete
        self.lock = threading.Lock()

    @classmethod
    def version(cls) -> str:
        return sqlite3.sqlite_version

    def session(self) -> Store:
        with self.lock:
            other = Sqlite(*self.place)
            self.threads.append(other)
        return other

    def write_many(self, pairs: list[Pair]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT OR REPLACE INTO kv VALUES (?, ?)", pairs)
        self.connection.execute("COMMIT")

    def load_sorted(self, pairs: Iterator[Pair]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO kv VALUES (?, ?)", pairs)
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA wal_checkpoint(FULL)")

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        marks = ",".join("?" * len(keys))
        rows = self.connection.execute(f"SELECT k, v FROM kv WHERE k IN ({marks})", keys)
        return list(map(dict(rows.fetchall()).get, keys))

    def scan(self, reverse: bool = False) -> Iterator[Pair]:
        order = " DESC" if reverse else ""
        return self.connection.execute(f"SELECT k, v FROM kv ORDER BY k{order}")

    def chunks(self, size: int) -> Iterator[list[Pair]]:
        rows = self.connection.execute("SELECT k, v FROM kv ORDER BY k")
        while chunk := rows.fetchmany(size):
            yield chunk

    def seeker(self) -> Callable[[bytes, int], list[Pair]]:
        execute = self.connection.execute

        def run(key: bytes, count: int) -> list[Pair]:
            return execute(
                "SELECT k, v FROM kv WHERE k>=? ORDER BY k LIMIT ?", (key, count)
            ).fetchall()

        return run

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Get]:
        self.connection.execute("BEGIN")
        yield self.get
        self.connection.execute("COMMIT")

    def close(self) -> None:
        for each in self.threads:
            each.close()
        self.connection.close()


ENGINES: dict[str, type[Store]] = {
    each.name: each for each in (Dynalsm, Plyvel, Rocksdict, Lmdb, Sqlite)
}
