"""The formats of exports and imports: DynamoDB JSON, Ion, CSV; plain, gzip or zstd.

`read` walks an object and yields a Row per record. A record that is no item is a Row with a
problem; an object that cannot be read any further raises ObjectProblem. Writers turn one encoded
item or change into one line.

Thread safety: functions without shared state; a reader belongs to one thread.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import zstandard

DYNAMODB_JSON: Final = "DYNAMODB_JSON"
ION: Final = "ION"
CSV: Final = "CSV"
NONE: Final = "NONE"
GZIP: Final = "GZIP"
ZSTD: Final = "ZSTD"

# Longest record in a text object: an item of 400 KB, written as wastefully as JSON allows.
RECORD_MAX_BYTES: Final = 16 * 1024 * 1024


class ObjectProblem(Exception):
    """The rest of an object cannot be read; `index` records came before the place."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index


class RecordProblem(ValueError):
    """A record is no item; the text says why."""


@dataclass(frozen=True)
class Condition:
    """A condition that comes with a record: as in PutItem, values internal."""

    expression: str
    names: dict[str, str] | None = None
    values: dict[str, Any] | None = None


def condition_of(record: dict[str, Any], names: Any, values: Any) -> Condition | None:
    """Return the condition beside an item, None when there is none. Raises: RecordProblem."""
    expression = record.get("ConditionExpression")
    if expression is None:
        return None
    if not isinstance(expression, str):
        raise RecordProblem("ConditionExpression is no text")
    if names is not None and not (
        isinstance(names, dict) and all(isinstance(name, str) for name in names.values())
    ):
        raise RecordProblem("ExpressionAttributeNames is no map of names")
    if values is not None and not isinstance(values, dict):
        raise RecordProblem("ExpressionAttributeValues is no map of values")
    return Condition(expression, names, values)


@dataclass(frozen=True)
class Row:
    """One record of an object: an encoded item, or the problem with it.

    `end_bytes` is how much of the uncompressed object has been read with it.
    """

    index: int
    end_bytes: int
    item: bytes = b""
    condition: Condition | None = None
    problem: Exception | None = None


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV object is laid out. `types`: attribute -> S, N, B for those that are not S."""

    delimiter: str = ","
    header: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)


def read(source: BinaryIO, kind: str, compression: str, csv: CsvOptions) -> Iterator[Row]:
    """Yield the records of an object. Raises: ObjectProblem."""
    from dynalsm.model.formats import csv_items, dynamodb_json, ion_items

    lines = _Lines(source, compression)
    if kind == DYNAMODB_JSON:
        return dynamodb_json.rows(lines)
    if kind == ION:
        return ion_items.rows(lines)
    return csv_items.rows(lines, csv)


class _Lines:
    """The lines of an object, decompressed. `index` is set by whoever counts records."""

    def __init__(self, source: BinaryIO, compression: str) -> None:
        if compression == GZIP:
            self._stream: Any = gzip.GzipFile(fileobj=source)
        elif compression == ZSTD:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 31)
            # mypy's stubs know the reader as no raw stream, which it is.
            raw: Any = reader.stream_reader(source, read_across_frames=True)
            self._stream = io.BufferedReader(raw, 1 << 20)
        else:
            self._stream = source
        self.end_bytes = 0
        self.index = 0

    def __iter__(self) -> Iterator[bytes]:
        while line := self._next():
            yield line

    def _next(self) -> bytes:
        """Return the next line, b"" at the end."""
        try:
            line: bytes = self._stream.readline(RECORD_MAX_BYTES)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as problem:
            raise ObjectProblem(self.index, f"The object cannot be read: {problem}") from None
        if len(line) == RECORD_MAX_BYTES and not line.endswith(b"\n"):
            raise ObjectProblem(self.index, f"A record exceeds {RECORD_MAX_BYTES} bytes")
        self.end_bytes += len(line)
        return line

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end, where lines have no meaning."""
        found = b""
        try:
            while len(found) < size and (piece := self._stream.read(size - len(found))):
                found += piece
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as problem:
            raise ObjectProblem(self.index, f"The object cannot be read: {problem}") from None
        self.end_bytes += len(found)
        return found


Lines = _Lines
