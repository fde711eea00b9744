"""dynalsm: a durable embedded database with DynamoDB's data model and API.

    with dynalsm.open("shop.db") as db:
        music = db.create_table(TableName="Music", ...)
        music.put_item(Item={"Artist": "The Acme Band", "SongTitle": "Still In Love"})

`dynalsm.kv.DB` is the ordered byte-key store underneath; `dynalsm.conditions` has Key and Attr;
`dynalsm.errors` every exception. Names are imported when they are first used, so that a program
that needs only a part (kv, the command line) does not load the rest.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm._version import __version__

if TYPE_CHECKING:
    from dynalsm.changes import Change
    from dynalsm.conditions import Attr, Key
    from dynalsm.database import Database
    from dynalsm.model.settings import Settings
    from dynalsm.resource import Table
    from dynalsm.values import Binary

__all__ = [
    "Attr",
    "Binary",
    "Change",
    "Database",
    "Key",
    "Settings",
    "Table",
    "__version__",
    "boto3_session",
    "errors",
    "open",
]

_HOMES = {
    "Attr": "dynalsm.conditions",
    "Binary": "dynalsm.values",
    "Change": "dynalsm.changes",
    "Database": "dynalsm.database",
    "Key": "dynalsm.conditions",
    "Settings": "dynalsm.model.settings",
    "Table": "dynalsm.resource",
}


def open(path: str | os.PathLike[str], **options: Any) -> Database:
    """Open a database directory (created when missing), or connect to a DynamoDB endpoint.

    path: a directory, "http://host:port", or "dynamodb://region".
    durability: "commit" (default: a write returns when it is on stable storage), "interval", "os".
    create=False: do not create a missing directory. read_only=True: beside the one writer.
    encryption_key: of an encrypted database, or one for a new database: 32 bytes, the path of a key
    file, or a function that returns the bytes (docs/security.md).
    Members of `Settings` (region, account_id, enforce_throughput, ...) and options of the engine
    (memory_bytes, sync_interval_seconds, ...) may be given as well. limits={"page_bytes": 1 << 24,
    "transaction_items": None, ...} lifts limits of DynamoDB's (`Settings` lists them as limit_*).
    Raises: errors.LockedError when another process has it open, errors.FormatError when it is no
    database, errors.EncryptionError when the key is not right, errors.CorruptionError, ...
    """
    if isinstance(path, str) and "://" in path:
        from dynalsm.remote import open_url

        return open_url(path, **options)
    from dynalsm.database import open_path

    return open_path(path, **options)


def boto3_session(database: Database, **options: Any) -> Any:
    """Return a boto3.Session whose DynamoDB clients and resources run in process on `database`."""
    from dynalsm.boto import boto3_session as build

    return build(database, **options)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
