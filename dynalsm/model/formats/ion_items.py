"""Amazon Ion text as DynamoDB exports it: `$ion_1_0 {Item:{...}}`, one record a line.

S string, N decimal, B blob, BOOL bool, NULL null, L list, M struct; sets are lists annotated
`$dynamodb_SS`, `$dynamodb_NS`, `$dynamodb_BS` (reference 10.4). ion_reader.py reads what others
write: any layout of Ion text, records over several lines; ion_binary.py reads binary Ion.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from dynalsm import values
from dynalsm.model.formats import (
    RECORD_MAX_BYTES,
    Lines,
    ObjectProblem,
    RecordProblem,
    Row,
    condition_of,
    ion_binary,
)
from dynalsm.model.formats.ion_reader import Incomplete, IonProblem, parse

EXTENSION = "ion.gz"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(("null", "true", "false", "nan"))
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\\\"']")
_SETS = {str: "$dynamodb_SS", Decimal: "$dynamodb_NS", bytes: "$dynamodb_BS"}


# Writing.


def item_line(item: bytes) -> bytes:
    """Return the line of an item in a full export."""
    return f"$ion_1_0 {{Item:{_struct(values.decode_item(item))}}}\n".encode()


def change_line(
    keys: bytes, old_item: bytes | None, new_item: bytes | None, microseconds: int
) -> bytes:
    """Return the line of a changed item in an incremental export."""
    parts = [f"Metadata:{{WriteTimestampMicros:{microseconds}.}}"]
    for name, image in (("Keys", keys), ("OldImage", old_item), ("NewImage", new_item)):
        if image is not None:
            parts.append(f"{name}:{_struct(values.decode_item(image))}")
    return f"$ion_1_0 {{{','.join(parts)}}}\n".encode()


def _struct(members: dict[str, Any]) -> str:
    inner = ",".join(f"{_symbol(name)}:{_text(value)}" for name, value in members.items())
    return f"{{{inner}}}"


def _text(value: Any) -> str:
    """Return an internal value as Ion. Recursion ends at DynamoDB's 32 levels."""
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape_string, value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return _number(value)
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"{{{{{base64.b64encode(value).decode()}}}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, frozenset):
        members = sorted(value)
        return f"{_SETS[type(members[0])]}::[{','.join(map(_text, members))}]"
    return _struct(value)


def _number(number: Decimal) -> str:
    text = values.number_text(number)
    return text if "." in text else f"{text}."


def _symbol(name: str) -> str:
    if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
        return name
    return f"'{_ESCAPED.sub(_escape_symbol, name)}'"


def _escape_string(found: re.Match[str]) -> str:
    return found[0] if found[0] == "'" else _escape(found[0])


def _escape_symbol(found: re.Match[str]) -> str:
    return found[0] if found[0] == '"' else _escape(found[0])


def _escape(character: str) -> str:
    if character in "\\\"'":
        return "\\" + character
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or f"\\x{ord(character):02x}"


# Reading.


def rows(lines: Lines) -> Iterator[Row]:
    """Yield the records of an object."""
    pending = b""
    for line in lines:
        if line.startswith(ion_binary.MARK) and not lines.index:
            for record in ion_binary.records(lines, line):
                yield _row(lines, record)
                lines.index += 1
            return
        is_first = not pending
        pending += line
        # A record ends in a bracket; to look elsewhere would read a long one once for each line.
        if not is_first and not line.rstrip().endswith(b"}"):
            if len(pending) > RECORD_MAX_BYTES:
                raise ObjectProblem(lines.index, "A record does not end")
            continue
        try:
            found = parse(pending.decode())
        except Incomplete:
            continue
        except UnicodeDecodeError as problem:
            found = [IonProblem(f"it is not UTF-8: {problem}")]
        except (IonProblem, values.ValueProblem) as problem:
            found = [problem]
        pending = b""
        for record in found:
            yield _row(lines, record)
            lines.index += 1
    if pending.strip():
        raise ObjectProblem(lines.index, "The last record does not end")


def _row(lines: Lines, record: Any) -> Row:
    if isinstance(record, Exception):
        return Row(lines.index, lines.end_bytes, problem=record)
    try:
        if not isinstance(record, dict) or not isinstance(record.get("Item"), dict):
            raise RecordProblem('The record has no member "Item" with an item')
        item = values.encode_item(record["Item"])
        names, given = (record.get(f"ExpressionAttribute{each}") for each in ("Names", "Values"))
        condition = condition_of(record, names, given)
    except ValueError as problem:
        return Row(lines.index, lines.end_bytes, problem=problem)
    return Row(lines.index, lines.end_bytes, item, condition)
