"""CSV: a header line (or a given header), then an item a line (reference 10.5).

Attributes are S, but for keys of the table and its indexes, which have the type of their
definition; B is base64. An empty cell is an empty text; a row may be shorter than the header, and
lacks the attributes behind its end. Quotes that do not match are a problem of their record: a text
that nobody wrote must not become an item.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator

from dynalsm import values
from dynalsm.limits import ITEM_MAX_BYTES
from dynalsm.model.formats import CsvOptions, Lines, ObjectProblem, RecordProblem, Row


def rows(lines: Lines, options: CsvOptions) -> Iterator[Row]:
    """Yield the records of an object."""
    # The module's limit is one for the process, and too small for a large attribute.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * ITEM_MAX_BYTES))
    reader = csv.reader(_texts(lines), delimiter=options.delimiter, strict=True)
    header = options.header or _header(reader, lines)
    if len(set(header)) != len(header):
        raise ObjectProblem(0, "The header names an attribute twice")
    for cells in _cells(reader, lines):
        try:
            if isinstance(cells, RecordProblem):
                raise cells
            yield Row(lines.index, lines.end_bytes, _item(header, cells, options.types))
        except ValueError as problem:
            yield Row(lines.index, lines.end_bytes, problem=problem)
        lines.index += 1


def _texts(lines: Lines) -> Iterator[str]:
    for number, line in enumerate(lines):
        try:
            text = line.decode()
        except UnicodeDecodeError as problem:
            raise ObjectProblem(lines.index, f"The object is not UTF-8: {problem}") from None
        yield text.removeprefix("\ufeff") if number == 0 else text


def _header(reader: Iterator[list[str]], lines: Lines) -> tuple[str, ...]:
    cells = next(_cells(reader, lines), [])
    if isinstance(cells, RecordProblem):
        raise ObjectProblem(lines.index, str(cells))
    return tuple(cells)


def _cells(reader: Iterator[list[str]], lines: Lines) -> Iterator[list[str] | RecordProblem]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            if "limit" in str(problem):  # the reader is in the middle of a text
                raise ObjectProblem(lines.index, f"The object is no CSV: {problem}") from None
            yield RecordProblem(f"The record is no CSV: {problem}")
            continue
        if cells:
            yield cells


def _item(header: tuple[str, ...], cells: list[str], types: dict[str, str]) -> bytes:
    if len(cells) > len(header):
        raise RecordProblem(f"The record has {len(cells)} fields, and the header has {len(header)}")
    return values.encode_wire_item(
        {
            name: _value(cell, types.get(name, "S"))
            for name, cell in zip(header, cells, strict=False)
        }
    )


def _value(cell: str, kind: str) -> dict[str, str | bytes]:
    if kind != "B":
        return {kind: cell}
    try:
        return {"B": base64.b64decode(cell, validate=True)}
    except ValueError:
        raise RecordProblem(f"A binary key is no base64: {cell}") from None
