"""What is in a database, as plain JSON: what is written down beside each golden one, and compared.

Only content, no descriptions: members that a later version adds to a reply make no difference.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from dynalsm import kv
from dynalsm._core import Engine
from dynalsm.database import Database

HERE = Path(__file__).parent
# The clock stands still, so that nothing expires and nothing is trimmed from the stream.
NOW = 1_700_000_000.0
# Of the encrypted one.
KEY = bytes(range(32))
TABLE = "Golden"
RESTORED = "Restored"


def engine_content(engine: Engine) -> dict[str, Any]:
    """Every entry of every tree, in hexadecimal digits."""
    return {
        name: {
            "hashed": engine.tree(name).hashed,
            "entries": [[key.hex(), value.hex()] for key, value in engine.tree(name).cursor()],
        }
        for name in engine.tree_names()
    }


def keyspaces_content(database: kv.DB) -> dict[str, Any]:
    """Every pair of every keyspace; the default one is the one without a name."""
    spaces = {"": database, **{name: database.keyspace(name) for name in database.keyspaces()}}
    return {
        name: [[key.hex(), value.hex()] for key, value in space] for name, space in spaces.items()
    }


def plain(value: Any) -> Any:
    """Typed attribute values as JSON has them: base64 for bytes, sets in an order of their own."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {
            name: sorted(map(plain, part)) if name in ("SS", "NS", "BS") else plain(part)
            for name, part in value.items()
        }
    return [plain(part) for part in value] if isinstance(value, list) else value


def items(database: Database, table: str, index: str | None = None) -> list[Any]:
    """All items that a Scan finds, in an order that depends on nothing but them."""
    request = {"TableName": table, **({} if index is None else {"IndexName": index})}
    return sorted(plain(database.call("Scan", request)["Items"]), key=repr)


def ordered_items(database: Database, index: str, **value: Any) -> list[Any]:
    """The items of one partition key of an index, in its order."""
    [(name, wanted)] = value.items()
    request = {
        "TableName": TABLE,
        "IndexName": index,
        "KeyConditionExpression": f"{name} = :v",
        "ExpressionAttributeValues": {":v": wanted},
    }
    return [plain(item) for item in database.call("Query", request)["Items"]]


def stream_arn(database: Database) -> str:
    return str(database.call("DescribeTable", {"TableName": TABLE})["Table"]["LatestStreamArn"])


def stream_records(database: Database) -> list[Any]:
    """Every record of the stream, by sequence number."""
    arn = stream_arn(database)
    described = database.call("DescribeStream", {"StreamArn": arn})["StreamDescription"]
    records: list[Any] = []
    for shard in described["Shards"]:
        request = {
            "StreamArn": arn,
            "ShardId": shard["ShardId"],
            "ShardIteratorType": "TRIM_HORIZON",
        }
        token = database.call("GetShardIterator", request).get("ShardIterator")
        while token:
            reply = database.call("GetRecords", {"ShardIterator": token})
            records += reply["Records"]
            token = reply.get("NextShardIterator") if reply["Records"] else None
    records.sort(key=lambda record: int(record["dynamodb"]["SequenceNumber"]))
    kept = ("SequenceNumber", "Keys", "OldImage", "NewImage")
    return [
        {
            "eventName": record["eventName"],
            **{name: plain(record["dynamodb"].get(name)) for name in kept},
        }
        for record in records
    ]


def backups(database: Database) -> list[Any]:
    found = database.call("ListBackups", {})["BackupSummaries"]
    return [[one["TableName"], one["BackupName"], one["BackupStatus"]] for one in found]


def restored(database: Database) -> list[Any]:
    """What the only backup holds, by making a table of it."""
    [backup] = database.call("ListBackups", {})["BackupSummaries"]
    database.call(
        "RestoreTableFromBackup", {"TargetTableName": RESTORED, "BackupArn": backup["BackupArn"]}
    )
    return items(database, RESTORED)


def table_content(database: Database) -> dict[str, Any]:
    """Everything that the golden table shows of itself."""
    described = database.call("DescribeTable", {"TableName": TABLE})["Table"]
    ttl = database.call("DescribeTimeToLive", {"TableName": TABLE})["TimeToLiveDescription"]
    return {
        "tables": database.call("ListTables", {})["TableNames"],
        "item_count": described["ItemCount"],
        "items": items(database, TABLE),
        "by-g": items(database, TABLE, "by-g"),
        "by-g of red": ordered_items(database, "by-g", g={"S": "red"}),
        "by-l of a": ordered_items(database, "by-l", p={"S": "a"}),
        "stream": stream_records(database),
        "time_to_live": ttl,
        "backups": backups(database),
    }
