"""What commands print: tables for people, JSON lines for machines, one line for a failure."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

NUMBER_DIGITS = 38  # as many as an item's number has; longer ones get an exponent
CELL_CHARACTERS = 60  # longer values are cut in tables for people

console = Console(highlight=False)
errors_console = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """Return plain JSON: Decimals as numbers, sets as sorted arrays, bytes as base64."""
    return orjson.dumps(value, default=_as_json, option=orjson.OPT_NON_STR_KEYS).decode()


def number_text(value: Decimal) -> str:
    """Return a number in JSON's notation with all its digits: 1000, not 1E+3, where it fits."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    is_short = len(digits) + max(exponent, 0) <= NUMBER_DIGITS and exponent >= -NUMBER_DIGITS
    return f"{value:f}" if is_short else str(value)


def print_grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Print a table for people; numbers stand on the right."""
    console.print(grid(columns, rows, title))


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Grid:
    """Return a table for people; numbers stand on the right."""
    rows = [list(row) for row in rows]
    made = Grid(title=title or None, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        cells = [row[position] for row in rows]
        is_number = bool(cells) and all(
            isinstance(cell, (int, float, Decimal)) and not isinstance(cell, bool) for cell in cells
        )
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell_text(cell) for cell in row))
    return made


def print_items(items: Sequence[dict[str, Any]], first: Sequence[str], title: str = "") -> None:
    """Print items as a table, the attributes `first` leading."""
    seen = {name: None for item in items for name in item}
    columns = [name for name in first if name in seen]
    columns += [name for name in seen if name not in columns]
    print_grid(columns, [[item.get(name, "") for name in columns] for item in items], title)


def cell_text(value: Any) -> str:
    """Return a value as it stands in a table, cut where it is long."""
    if isinstance(value, bool) or value is None:
        text = {True: "true", False: "false", None: "null"}[value]
    elif isinstance(value, (str, int)):
        text = f"{value:,}" if isinstance(value, int) else value
    elif isinstance(value, Decimal):
        text = f"{value:,f}"
    elif isinstance(value, float):
        text = f"{value:,.1f}"
    else:
        text = json_text(value)
    text = text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"
    return escape(text)


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return ""


def duration_text(seconds: float) -> str:
    """Return a duration as people read it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def fail(message: str) -> None:
    """Print why a command failed, in one line."""
    line = " ".join(str(message).split())
    errors_console.print(
        f"[bold red]dynalsm:[/] {line.replace('[', chr(92) + '[')}", soft_wrap=True
    )


def _as_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        # Every digit, as a number: JSON knows no limit, and a reader that does can ask for text.
        return orjson.Fragment(number_text(value))
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:  # boto3's Binary has no order, and text of its own
            return sorted(value, key=lambda member: bytes(member.value))
    if isinstance(value, (bytes, bytearray)) or hasattr(value, "value"):
        return base64.b64encode(bytes(getattr(value, "value", value))).decode()
    return str(value)
