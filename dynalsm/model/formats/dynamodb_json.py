"""DynamoDB JSON: one record a line, `{"Item":{"pk":{"S":"x"},...}}`.

Of an incremental export a line is
`{"Metadata":{"WriteTimestampMicros":{"N":"..."}},"Keys":{...},"OldImage":{...},"NewImage":{...}}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from dynalsm import values
from dynalsm.model.formats import Condition, Lines, RecordProblem, Row, condition_of

EXTENSION = "json.gz"


def item_line(item: bytes) -> bytes:
    """Return the line of an item in a full export."""
    return b'{"Item":' + values.json_item_text(item) + b"}\n"


def change_line(
    keys: bytes, old_item: bytes | None, new_item: bytes | None, microseconds: int
) -> bytes:
    """Return the line of a changed item in an incremental export."""
    line = b'{"Metadata":{"WriteTimestampMicros":{"N":"%d"}},"Keys":' % microseconds
    line += values.json_item_text(keys)
    if old_item is not None:
        line += b',"OldImage":' + values.json_item_text(old_item)
    if new_item is not None:
        line += b',"NewImage":' + values.json_item_text(new_item)
    return line + b"}\n"


def rows(lines: Lines) -> Iterator[Row]:
    """Yield the records of an object."""
    for line in lines:
        if not line.strip():
            continue
        try:
            item, condition = _record(line)
        except (ValueError, values.SerializationProblem) as problem:
            yield Row(lines.index, lines.end_bytes, problem=problem)
        else:
            yield Row(lines.index, lines.end_bytes, item, condition)
        lines.index += 1


def _record(line: bytes) -> tuple[bytes, Condition | None]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        raise RecordProblem(f"The record is no JSON: {problem}") from None
    if not isinstance(record, dict) or not isinstance(record.get("Item"), dict):
        raise RecordProblem('The record has no member "Item" with an item')
    return values.encode_json_item(record["Item"]), _condition(record)


def _condition(record: dict[str, Any]) -> Condition | None:
    given = record.get("ExpressionAttributeValues")
    if isinstance(given, dict):
        given = {
            name: values.decode_value(values.encode_json(value)) for name, value in given.items()
        }
    return condition_of(record, record.get("ExpressionAttributeNames"), given)
