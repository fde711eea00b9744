"""Read the JSON of command lines and of files of JSON lines; what is wrong is told with its place.

Numbers become exact Decimals within DynamoDB's range. Every failure is a ValueError whose text
names the file, the line and the column where there is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse one JSON object; `what` names it in the message. Raises: ValueError."""
    from dynalsm.values.number import parse_number

    def number(token: str) -> Decimal:
        try:
            return parse_number(token)
        except ValueError as problem:
            raise _Refused(token, str(problem)) from None

    def constant(token: str) -> NoReturn:
        raise _Refused(token, "DynamoDB has no such number")

    try:
        value = json.loads(text, parse_float=number, parse_int=number, parse_constant=constant)
    except json.JSONDecodeError as problem:
        place = f"column {problem.colno}"
        if problem.lineno > 1:
            place = f"line {problem.lineno} {place}"
        raise ValueError(f"{what} is no JSON: {problem.msg} at {place}") from None
    except _Refused as refused:
        column = text.find(refused.token) + 1
        shown = refused.token if len(refused.token) <= 40 else refused.token[:37] + "..."
        raise ValueError(f"{what}: the number {shown} at column {column}: {refused}") from None
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f'{what} must be a JSON object such as {{"Name": "x"}}')
    return value


class _Refused(Exception):
    """A number that no item can hold."""

    def __init__(self, token: str, reason: str) -> None:
        super().__init__(reason)
        self.token = token


def objects_of(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where it stands, object) of JSON text, of @FILE, or of - for stdin.

    Raises: ValueError, OSError.
    """
    if source == "-":
        yield from objects_of_lines("stdin", sys.stdin.buffer)
    elif source.startswith("@"):
        with Path(source[1:]).open("rb") as lines:
            yield from objects_of_lines(source[1:], lines)
    else:
        yield "item", parse_object(source, "item")


def objects_of_lines(name: str, lines: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where it stands, object) of lines of bytes; `name` is what they come from."""
    for number, line in enumerate(lines, 1):
        where = f"{name} line {number}"
        try:
            text = line.decode()
        except UnicodeDecodeError as problem:
            raise ValueError(
                f"{where} is no UTF-8 text: byte {line[problem.start]:#04x} at column "
                f"{len(line[: problem.start].decode()) + 1}"
            ) from None
        if text.strip():
            yield where, parse_object(text, where)
