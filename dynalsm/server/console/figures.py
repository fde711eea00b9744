"""What the console's page asks for that no DynamoDB operation tells: figures of the engine.

`key` is who asks: None where no keys are configured. A key that is limited to some tables is told
of those alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm._version import __version__
from dynalsm.server.metrics import BUCKETS, tree_labels
from dynalsm.values.forms import JSON

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import AccessKey
    from dynalsm.server.metrics import Metrics

HASH_SPACE = 1 << 64


def greeting(database: Database, needs_keys: bool) -> dict[str, Any]:
    """Return what anybody may know."""
    return {
        "version": __version__,
        "region": database.settings.region,
        "needs_keys": needs_keys,
    }


def session(database: Database, key: AccessKey | None) -> dict[str, Any]:
    """Return who is asking, and on what."""
    return {
        "path": database.path if may_see_all(key) else "",
        "durability": database.engine.durability,
        "read_only": database.engine.read_only or (key is not None and key.read_only),
        "key": None if key is None else {"id": key.id, "tables": list(key.tables)},
    }


def may_see_all(key: AccessKey | None) -> bool:
    """Say whether nothing is hidden from the key."""
    return key is None or not key.is_limited


def tables(database: Database, key: AccessKey | None) -> dict[str, Any]:
    """Return DescribeTable, time to live and sizes of every table that the key may touch."""
    found = []
    for name in database.catalog.names():
        if key is not None and not key.may_touch(name):
            continue
        try:
            table = database.call("DescribeTable", {"TableName": name}, JSON)["Table"]
            expiry = database.call("DescribeTimeToLive", {"TableName": name}, JSON)
        except errors.ApiError:
            continue  # it was deleted a moment ago
        table["TimeToLive"] = expiry["TimeToLiveDescription"]
        table["Trees"] = _tree_sizes(database, name)
        found.append(table)
    return {"tables": found}


def _tree_sizes(database: Database, table: str) -> list[dict[str, Any]]:
    handle = database.catalog.get(table)
    if handle is None:
        return []
    trees = [("", handle.tree), *((one.name, one.tree) for one in handle.indexes.values())]
    if handle.changelog is not None:
        trees.append(("changes", handle.changelog.tree))
    if handle.expiry is not None:
        trees.append(("expiry", handle.expiry))
    return [
        {"part": part, "bytes": figures["disk_bytes"] + figures["memtable_bytes"]}
        for part, figures in ((part, tree.stats()) for part, tree in trees)
    ]


def stats(database: Database, metrics: Metrics | None, key: AccessKey | None) -> dict[str, Any]:
    """Return the engine's figures, with trees by what people call them, and the server's."""
    figures = database.stats()
    names = visible_trees(database, key)
    figures["trees"] = [
        {"tree": name, "table": names[name][0], "part": names[name][1], **tree}
        for name, tree in figures["trees"].items()
        if name in names
    ]
    figures["history"] = [
        job for job in figures.get("history", ()) if job["tree"] in names or not job["tree"]
    ]
    if not may_see_all(key):
        figures["failures"] = dict.fromkeys(figures["failures"], "")
        figures["path"] = ""
    counted = metrics.totals() if metrics is not None else {}
    return {"now": time.time(), "bounds": BUCKETS, "engine": figures, **counted}


def partitions(database: Database, key: AccessKey | None, tree: str) -> dict[str, Any]:
    """Return the partitions of a tree. Raises: ResourceNotFoundException."""
    if tree not in visible_trees(database, key):
        raise errors.API_ERRORS["ResourceNotFoundException"]("there is no such tree")
    try:
        found = database.engine.tree(tree).partitions()
    except (KeyError, errors.StorageError):
        raise errors.API_ERRORS["ResourceNotFoundException"]("the tree is gone") from None
    return {
        "partitions": [
            {
                "id": one["id"],
                # Places in the space of hashes; a script has no integers that large.
                "from": one["lower"] / HASH_SPACE,
                "to": one["upper"] / HASH_SPACE,
                "entries": one["entries"],
                "deletions": one["deletions"],
                "memtable_bytes": one["memtable_bytes"],
                "levels": [
                    {"files": len(files), "bytes": sum(file["bytes"] for file in files)}
                    for files in one["levels"]
                ],
            }
            for one in found
        ]
    }


def visible_trees(database: Database, key: AccessKey | None) -> dict[str, tuple[str, str]]:
    """Return (table, part) of every tree that the key may know of, by the engine's name."""
    names = tree_labels(database)
    if not may_see_all(key):
        return {name: label for name, label in names.items() if key and key.may_touch(label[0])}
    return {name: names.get(name, ("", name)) for name in database.engine.tree_names()}
