"""docs/format-catalog.md names every member that is stored, and the examples of keys hold."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgpack
import pytest

from dynalsm import values
from dynalsm.model import catalog, schema
from dynalsm.model.changelog import ChangelogRecord
from tests.support.databases import memory_database

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "format-catalog.md").read_text()
CODE = set(re.findall(r"`([a-z_-]+)`", PAGE))


@pytest.mark.parametrize(
    "kind",
    [
        schema.TableSchema,
        schema.IndexSchema,
        schema.Projection,
        schema.Throughput,
        schema.Ceiling,
        schema.Warm,
        schema.StreamSpec,
        schema.Policy,
        ChangelogRecord,
    ],
)
def test_members_are_documented(kind: type) -> None:
    assert {field.name for field in dataclasses.fields(kind)} <= CODE


def test_version_is_documented() -> None:
    assert f"| `format` | `catalog` | {catalog.FORMAT_VERSION}," in PAGE


def test_trees_read_by_the_page_alone() -> None:
    """Find a table, its stream's record and its expiry entry with nothing but the page."""
    with memory_database(clock=lambda: 1_700_000_000.5) as db:
        db.call(
            "CreateTable",
            {
                "TableName": "Music",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
                "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            },
        )
        wanted = {"Enabled": True, "AttributeName": "e"}
        db.call("UpdateTimeToLive", {"TableName": "Music", "TimeToLiveSpecification": wanted})
        item = {"pk": {"S": "a"}, "e": {"N": "1700000009.5"}}
        db.call("PutItem", {"TableName": "Music", "Item": item})
        trees = db.engine
        table = msgpack.unpackb(trees.tree("catalog").get(b"table\0Music"))
        [(tree_key, _)] = trees.tree(f"t/{table['id']}").cursor()
        log_key = f"log\0{table['id']}\0{table['changelog']}".encode()
        log = msgpack.unpackb(trees.tree("catalog").get(log_key))
        [(key, value)] = trees.tree(f"s/{log['table_id']}/{log['label']}").cursor()
        assert int.from_bytes(key[:2], "big") == (
            int.from_bytes(tree_key[:2], "big") * log["shards"] >> 16
        )
        encoded = values.encode_wire_item(item)
        keys = values.encode_wire_item({"pk": {"S": "a"}})
        assert msgpack.unpackb(value) == [0, 1_700_000_000_500, keys, None, encoded, False]
        [(key, value)] = trees.tree(f"x/{table['id']}").cursor()
        assert (key, value) == ((1_700_000_010).to_bytes(8, "big") + tree_key, b"")
