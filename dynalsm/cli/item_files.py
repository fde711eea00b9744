"""Files of items outside DynamoDB's own formats: JSON lines, CSV and Parquet.

JSON lines and CSV are for people and other tools: sets become arrays, binary base64. Parquet keeps
every value: what has no column type of its own (sets, lists, maps, attributes of several types)
stands in its column as DynamoDB JSON, which the column's metadata says.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast

from dynalsm.cli import output
from dynalsm.cli.parsing import objects_of_lines
from dynalsm.model.buckets import private

Item = dict[str, Any]
Found = tuple[str, Item, float]  # where it stands, the item, how far the file has been read

BATCH_ROWS = 1000
MARK = b"dynalsm"  # of a column's metadata, with the value TYPED
TYPED = b"dynamodb-json"
INT64 = 1 << 63
DECIMAL_DIGITS = 38


def parquet() -> Any:
    """Return pyarrow with its parquet module. Raises: ModuleNotFoundError saying what to do."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            f"Parquet needs {problem.name}: pip install 'dynalsm[parquet]'", name=problem.name
        ) from None
    return pyarrow


# --- reading -----------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, compression: str) -> Iterator[tuple[IO[bytes], Callable[[], float]]]:
    """Open a file for reading; yields (its plain bytes, how far it has been read)."""
    with path.open("rb") as raw:
        plain: Any = raw
        if compression == "GZIP":
            plain = gzip.GzipFile(fileobj=raw)
        elif compression == "ZSTD":
            import zstandard

            reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            plain = io.BufferedReader(cast("io.RawIOBase", reader))
        yield plain, raw.tell


def read_lines(path: Path, compression: str) -> Iterator[Found]:
    """Yield the items of JSON lines. Raises: ValueError with the file, the line and the column."""
    with opened(path, compression) as (lines, position):
        for where, item in objects_of_lines(path.name, lines):
            yield where, item, position()


def read_parquet(path: Path) -> Iterator[Found]:
    """Yield the rows of a Parquet file; how far is in rows. Raises: ValueError with the row."""
    pyarrow = parquet()
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as problem:
        raise ValueError(f"{path.name} is no Parquet file: {problem}") from None
    with file:
        columns = [_column_reader(field) for field in file.schema_arrow]
        row = 0
        for batch in file.iter_batches(BATCH_ROWS):
            for values in batch.to_pylist():
                row += 1
                where = f"{path.name} row {row}"
                item = {}
                for name, convert in columns:
                    if values[name] is not None:
                        item[name] = _converted(convert, values[name], where, name)
                yield where, item, row


def count_parquet(path: Path) -> int:
    """Return how many rows a Parquet file has."""
    pyarrow = parquet()
    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except pyarrow.ArrowInvalid as problem:
        raise ValueError(f"{path.name} is no Parquet file: {problem}") from None


def _converted(convert: Callable[[Any], Any], value: Any, where: str, name: str) -> Any:
    try:
        return convert(value)
    except ValueError as problem:
        raise ValueError(f"{where} column {name}: {problem}") from None


def _column_reader(field: Any) -> tuple[str, Callable[[Any], Any]]:
    typed = (field.metadata or {}).get(MARK) == TYPED
    return field.name, _from_typed if typed else from_arrow


def _from_typed(text: str) -> Any:
    import orjson

    from dynalsm.values.forms import JSON, NATIVE

    return NATIVE.decode_value(JSON.encode_value(orjson.loads(text)))


def from_arrow(value: Any) -> Any:
    """Return a value as an item holds it. Raises: ValueError for numbers that no item can hold."""
    from dynalsm.values.number import parse_number

    if isinstance(value, (bool, str, bytes)) or value is None:
        return value
    if isinstance(value, (int, float, Decimal)):
        return parse_number(repr(value) if isinstance(value, float) else str(value))
    if isinstance(value, dict):
        return {name: from_arrow(member) for name, member in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(member, tuple) for member in value):  # a map column
            return {str(name): from_arrow(member) for name, member in value}
        return [from_arrow(member) for member in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# --- writing -----------------------------------------------------------------------------------


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, gzip when its name ends so, - for stdout; whole or not at all.

    The file is for its owner alone, like the database that it comes from.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.unlink(missing_ok=True)  # one that a killed run left may have another mode
        with open(beside, "xb", opener=private) as raw:
            if path.suffix == ".gz":
                with gzip.open(raw, "wb") as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield raw
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_lines(path: Path, items: Callable[[], Iterable[Item]]) -> None:
    """Write plain JSON, one item a line."""
    with written(path) as file:
        for item in items():
            file.write(output.json_text(item).encode() + b"\n")


def write_csv(path: Path, items: Callable[[], Iterable[Item]], first: list[str]) -> None:
    """Write CSV with a header; the items are read twice, the first time for their attributes."""
    names = dict.fromkeys(first)
    for item in items():
        names.update(dict.fromkeys(item))
    with written(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(names)
        for item in items():
            rows.writerow([_cell(item[name]) if name in item else "" for name in names])
        text.flush()
        text.detach()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = output.json_text(value)
    return text[1:-1] if text.startswith('"') else text


def write_parquet(path: Path, items: Callable[[], Iterable[Item]], first: list[str]) -> None:
    """Write Parquet; the items are read twice, the first time for the types of the columns."""
    pyarrow = parquet()
    columns: dict[str, Column] = {name: Column() for name in first}
    for item in items():
        for name, value in item.items():
            columns.setdefault(name, Column()).note(value)
    schema = pyarrow.schema([_field(pyarrow, name, one) for name, one in columns.items()])
    convert = {name: one.converter() for name, one in columns.items()}
    with written(path) as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        rows: list[Item] = []
        for item in items():
            rows.append({name: convert[name](value) for name, value in item.items()})
            if len(rows) == BATCH_ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema))


@dataclass
class Column:
    """What the values of one attribute have in common."""

    kind: str = ""  # "": none seen yet
    whole_digits: int = 0  # of decimals, before the point
    scale: int = 0  # and after it

    def note(self, value: Any) -> None:
        """Take one more value into account."""
        kind = self._kind_of(value)
        if {kind, self.kind} == {"int", "decimal"}:
            kind = "decimal"
        elif self.kind and kind != self.kind:
            kind = "typed"
        if kind == "decimal" and self.whole_digits + self.scale > DECIMAL_DIGITS:
            kind = "typed"
        self.kind = kind

    def _kind_of(self, value: Any) -> str:
        if isinstance(value, bool):
            return "bool"
        if isinstance(value, str):
            return "string"
        if isinstance(value, Decimal):
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            self.scale = max(self.scale, -exponent)
            self.whole_digits = max(self.whole_digits, len(digits) + exponent, 1)
            is_int = exponent >= 0 and exponent < DECIMAL_DIGITS and -INT64 <= int(value) < INT64
            return "int" if is_int else "decimal"
        return "binary" if isinstance(value, bytes) or hasattr(value, "value") else "typed"

    def converter(self) -> Callable[[Any], Any]:
        """Return what makes a cell of a value."""
        if self.kind == "typed":
            return _as_typed
        if self.kind == "int":
            return int
        return bytes if self.kind == "binary" else _same


def _same(value: Any) -> Any:
    return value


def _as_typed(value: Any) -> str:
    import orjson

    from dynalsm.values.forms import JSON, NATIVE

    return orjson.dumps(JSON.decode_value(NATIVE.encode_value(value))).decode()


def _field(pyarrow: Any, name: str, column: Column) -> Any:
    if column.kind == "typed":
        return pyarrow.field(name, pyarrow.string(), metadata={MARK: TYPED})
    kinds = {
        "": pyarrow.string,
        "string": pyarrow.string,
        "bool": pyarrow.bool_,
        "int": pyarrow.int64,
        "binary": pyarrow.binary,
    }
    if column.kind == "decimal":
        precision = max(column.whole_digits + column.scale, 1)
        return pyarrow.field(name, pyarrow.decimal128(precision, column.scale))
    return pyarrow.field(name, kinds[column.kind]())
