"""DB: opening and closing a byte-key store, its keyspaces, and what concerns the whole directory.

Layout in the engine: the default keyspace is the tree "kv", the keyspace NAME the tree "kv/NAME".
So a directory can hold tables (dynalsm.open) and a byte-key store side by side, open in turn.

Thread safety: everything. A DB that is forgotten is closed, and so is every open one when the
interpreter exits.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

from dynalsm import errors
from dynalsm._core import Engine, Tree
from dynalsm._core.keyring import MasterKey
from dynalsm.kv._keyspace import Keyspace
from dynalsm.kv.exceptions import Error, LockedError, UnsupportedError

log = logging.getLogger("dynalsm.kv")

DEFAULT_TREE = "kv"
KEYSPACE_PREFIX = "kv/"
KEYSPACE_NAME_MAX_BYTES = 255

# What plyvel's options stand for when only one of the memory options is given.
WRITE_BUFFER_BYTES = 64 << 20
CACHE_BYTES = 128 << 20
# plyvel's "snappy" is "the built-in compression"; here that is zstd.
_COMPRESSIONS = {None: "none", "none": "none", "snappy": "zstd", "zstd": "zstd"}

# Open databases, to be closed at exit: the engine's threads do not outlive the interpreter.
_open: weakref.WeakSet[DB] = weakref.WeakSet()


class DB(Keyspace):
    """An ordered, durable map of byte keys to byte values in one directory.

    Takes plyvel's arguments; docs/kv.md says which have no effect here. Beyond them:

    - `durability`: "os" (default, plyvel's: a write survives the death of the process), "interval"
      (and, `sync_interval_seconds` later, that of the machine), "commit" (that of the machine, on
      return). `sync=True` or `False` of a write stands above it.
    - `read_only`: read beside a writing process; sees the state of the moment of opening.
    - `memory_bytes`: the budget for write buffers and caches, instead of plyvel's two options.
    - `encryption_key`: of an encrypted database, or for a new one: 32 bytes, the path of a key
      file, or a function that returns the bytes (docs/security.md).
    """

    def __init__(
        self,
        name: str | bytes | os.PathLike[str],
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: str | bytes | None = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Callable[[bytes, bytes], int] | None = None,
        comparator_name: bytes | None = None,
        durability: Literal["commit", "interval", "os"] = "os",
        read_only: bool = False,
        memory_bytes: int | None = None,
        sync_interval_seconds: float | None = None,
        compression_level: int | None = None,
        compaction_bytes_per_second: int | None = None,
        encryption_key: MasterKey | None = None,
    ) -> None:
        if not isinstance(name, str | bytes | os.PathLike):
            raise TypeError(f"'name' is a path (str or bytes), not {type(name).__name__}")
        _check_comparator(comparator, comparator_name)
        options = {
            **_memory_options(write_buffer_size, lru_cache_size, memory_bytes),
            "max_open_files": _number("max_open_files", max_open_files),
            "block_bytes": _number("block_size", block_size),
            "restart_interval": _number("block_restart_interval", block_restart_interval),
            "target_file_bytes": _number("max_file_size", max_file_size),
            "compression": _compression(compression),
            "filter_bits": _number("bloom_filter_bits", bloom_filter_bits) or None,
            "sync_interval_seconds": sync_interval_seconds,
            "compression_level": _number("compression_level", compression_level),
            "compaction_bytes_per_second": compaction_bytes_per_second,
        }
        given: dict[str, Any] = {key: each for key, each in options.items() if each is not None}
        try:
            engine = Engine.open(
                os.fsdecode(name),
                create_if_missing=bool(create_if_missing),
                error_if_exists=bool(error_if_exists),
                read_only=bool(read_only),
                durability=durability,
                encryption_key=encryption_key,
                **given,
            )
        except errors.LockedError as error:
            raise LockedError(str(error), pid=error.pid) from None
        try:
            tree = _default_tree(engine, bool(create_if_missing))
        except BaseException:
            engine.close()
            raise
        self._engine = engine
        self._attach(name, None, tree)
        _open.add(self)

    # ------------------------------------------------------------------------ opening and closing

    def close(self) -> None:
        """Close the database and everything made from it. Idempotent; from any thread."""
        self._engine.close()
        _open.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            _close_forgotten(self._engine)

    def __repr__(self) -> str:
        state = " (closed)" if self.closed else ""
        return f"<dynalsm.kv.DB with name {self.name!r}{state} at {id(self):#x}>"

    # ---------------------------------------------------------------------------------- keyspaces

    def keyspace(self, name: str, *, create_if_missing: bool = True) -> Keyspace:
        """The keyspace of that name, which is created (durably) when there is none.

        Raises KeyError when there is none and it may not be created."""
        tree_name = _tree_name(name)
        keyspace = Keyspace()
        try:
            tree = self._engine.tree(tree_name)
        except KeyError:
            if not create_if_missing:
                raise KeyError(f"there is no keyspace {name!r}") from None
            tree = self._create(tree_name)
        keyspace._attach(name, self, tree)
        return keyspace

    def _create(self, tree_name: str) -> Tree:
        try:
            return self._engine.create_tree(tree_name)
        except errors.StorageError:
            # Another thread may have been faster.
            if tree_name not in self._engine.tree_names():
                raise
            return self._engine.tree(tree_name)

    def keyspaces(self) -> list[str]:
        """The names of all keyspaces, sorted; the default one has none."""
        names = self._engine.tree_names()
        skip = len(KEYSPACE_PREFIX)
        return [name[skip:] for name in names if name.startswith(KEYSPACE_PREFIX)]

    def drop_keyspace(self, name: str) -> None:
        """Remove a keyspace and give its space back; durable on return. Raises KeyError."""
        try:
            self._engine.drop_tree(_tree_name(name))
        except KeyError:
            raise KeyError(f"there is no keyspace {name!r}") from None

    # --------------------------------------------------------------------------------- the whole

    def stats(self) -> dict[str, Any]:
        """What the engine holds and has done: memory, cache, amplification, stalls, levels, ..."""
        statistics: dict[str, Any] = self._engine.stats()
        return statistics

    def sync(self) -> None:
        """Return when every write so far is on stable storage."""
        self._engine.wait_durable(self._engine.last_seqno)

    def flush(self) -> None:
        """Write what is in memory to files."""
        self._engine.flush()

    def resume(self) -> None:
        """Try at once what failed because the disk was full. Raises what still stands in the way:
        NoSpaceError, or PoisonedError after a failure that only opening it again mends."""
        self._engine.resume()

    def rotate_key(self, encryption_key: MasterKey) -> None:
        """Have another key open the database from now on; nothing but its file KEYS is written."""
        self._engine.rotate_key(encryption_key)

    def rotate_data_key(self, *, resume: bool = False) -> None:
        """Encrypt everything anew under a new data key; with `resume`, go on where that stopped."""
        self._engine.rotate_data_key(resume=resume)

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy (hard links) into the new directory `path`, beside writes."""
        self._engine.checkpoint(os.fspath(path))


@atexit.register
def _close_all() -> None:
    for db in list(_open):
        _close_forgotten(db._engine)


def _close_forgotten(engine: Engine) -> None:
    # There is no caller who could be told.
    try:
        engine.close()
    except errors.StorageError as error:
        log.error("a forgotten database could not be closed: %s", error)


def _default_tree(engine: Engine, create_if_missing: bool) -> Tree:
    names = engine.tree_names()
    if DEFAULT_TREE in names:
        return engine.tree(DEFAULT_TREE)
    if engine.read_only or (names and not create_if_missing):
        raise Error("the directory holds a database, but no byte-key store", path=engine.path)
    return engine.create_tree(DEFAULT_TREE)


def _tree_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a keyspace is a str, not {type(name).__name__}")
    size = len(name.encode())
    if not 0 < size <= KEYSPACE_NAME_MAX_BYTES:
        raise ValueError(f"a keyspace's name has 1 to {KEYSPACE_NAME_MAX_BYTES} bytes, not {size}")
    return KEYSPACE_PREFIX + name


def _check_comparator(comparator: object, name: object) -> None:
    if (comparator is None) != (name is None):
        raise ValueError("'comparator' and 'comparator_name' are given together or not at all")
    if comparator is None:
        return
    if not isinstance(name, bytes):
        raise TypeError(f"'comparator_name' is bytes, not {type(name).__name__}")
    if not callable(comparator):
        raise TypeError("'comparator' is not callable")
    raise UnsupportedError("keys are ordered by their bytes; custom comparators are not supported")


def _number(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int):
        raise TypeError(f"'{name}' is an int, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"'{name}' is negative")
    return value


def _compression(compression: str | bytes | None) -> str:
    if isinstance(compression, bytes):
        compression = compression.decode()
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' is None or a str")
    if compression not in _COMPRESSIONS:
        raise ValueError("'compression' is None, 'snappy' or 'zstd'")
    return _COMPRESSIONS[compression]


def _memory_options(
    write_buffer: int | None, cache: int | None, memory: int | None
) -> dict[str, int | None]:
    """The engine's budget covers two write buffers (one being flushed) and the cache."""
    write_buffer = _number("write_buffer_size", write_buffer)
    cache = _number("lru_cache_size", cache)
    memory = _number("memory_bytes", memory)
    if memory is None and (write_buffer is not None or cache is not None):
        buffer = WRITE_BUFFER_BYTES if write_buffer is None else write_buffer
        memory = 2 * buffer + (CACHE_BYTES if cache is None else cache)
        return {"memory_bytes": memory, "write_buffer_bytes": buffer}
    return {"memory_bytes": memory, "write_buffer_bytes": write_buffer}
