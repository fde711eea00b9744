"""The ordered byte-key store: plyvel's API on dynalsm's engine, and what plyvel lacks.

    from dynalsm import kv

    with kv.DB("plain.kv", create_if_missing=True) as db:
        db.put(b"a", b"1")
        with db.write_batch() as batch:                # atomic
            batch.put(b"b", b"2")
            batch.delete(b"a")
        assert list(db.iterator(start=b"a")) == [(b"b", b"2")]

A program written for plyvel runs with `import dynalsm.kv as plyvel`; docs/kv.md is the reference
and lists the few differences. Beyond plyvel: named keyspaces with atomic batches across them,
multi_get, iteration in chunks, delete_range, ingest, checkpoint, read-only handles, durability per
database and per write, statistics.
"""

from dynalsm._version import __version__
from dynalsm.kv._batch import WriteBatch
from dynalsm.kv._iterator import Iterator, RawIterator
from dynalsm.kv._keyspace import Keyspace, PrefixedDB, Snapshot
from dynalsm.kv.database import DB
from dynalsm.kv.exceptions import (
    ClosedError,
    CorruptionError,
    EncryptionError,
    Error,
    ForkedProcessError,
    FormatError,
    IOError,
    IteratorInvalidError,
    LockedError,
    NoSpaceError,
    PoisonedError,
    ReadOnlyError,
    StorageLimitError,
    UnsupportedError,
)
from dynalsm.kv.maintenance import destroy_db, repair_db

# The LevelDB whose behaviour this module follows; programs ask plyvel for it.
__leveldb_version__ = "1.23"

__all__ = [
    "DB",
    "ClosedError",
    "CorruptionError",
    "EncryptionError",
    "Error",
    "ForkedProcessError",
    "FormatError",
    "IOError",
    "Iterator",
    "IteratorInvalidError",
    "Keyspace",
    "LockedError",
    "NoSpaceError",
    "PoisonedError",
    "PrefixedDB",
    "RawIterator",
    "ReadOnlyError",
    "Snapshot",
    "StorageLimitError",
    "UnsupportedError",
    "WriteBatch",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]
