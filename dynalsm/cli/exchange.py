"""Commands that exchange tables with the world: export, import.

json and ion are DynamoDB's own formats, a directory as its exports lay it out; lines (plain JSON),
csv and parquet are single files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from dynalsm.cli import keys, output
from dynalsm.cli.data import (
    PUT_ITEMS,
    PathArgument,
    TableArgument,
    chunks,
    open_for_reading,
    put_plain,
)
from dynalsm.cli.failures import check_directory, check_parent
from dynalsm.cli.progress import bar
from dynalsm.cli.transfer import TimeOption, moment_of

if TYPE_CHECKING:
    from dynalsm.database import Database

DIRECTORY_FORMATS = {"json": "DYNAMODB_JSON", "ion": "ION"}
FILE_FORMATS = ("lines", "csv", "parquet")
EXPORT_FORMATS = (*DIRECTORY_FORMATS, *FILE_FORMATS)
IMPORT_FORMATS = {**DIRECTORY_FORMATS, "csv": "CSV"}
EXTENSIONS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "lines",
    ".ion": "ion",
    ".csv": "csv",
    ".parquet": "parquet",
}
COMPRESSIONS = {".gz": "GZIP", ".zst": "ZSTD", ".zstd": "ZSTD"}
POLL_SECONDS = 0.1
PROGRESS_ITEMS = 1000
SHOWN_ERRORS = 5


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(export)
    app.command("import")(import_)


def export(
    path: PathArgument,
    table: TableArgument,
    target: Annotated[
        Path,
        typer.Argument(
            help="A directory for json and ion, made when missing; else a file, or - for stdout."
        ),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="json (DynamoDB JSON) or ion, in the layout of DynamoDB's exports; lines (plain "
            "JSON), csv or parquet. By default seen from the target's name, else json.",
        ),
    ] = None,
    at: TimeOption = None,
) -> None:
    """Write a table as DynamoDB JSON, Ion, JSON lines, CSV or Parquet."""
    kind = format_ or _kind_of_target(target)
    if kind not in EXPORT_FORMATS:
        raise ValueError(f"--format is {', '.join(EXPORT_FORMATS)}, not {kind}")
    if kind in DIRECTORY_FORMATS:
        _export_directory(path, table, target, DIRECTORY_FORMATS[kind], at)
    elif at is not None:
        raise ValueError(f"--at needs --format json or ion, not {kind}")
    else:
        _export_file(path, table, target, kind)


def _kind_of_target(target: Path) -> str:
    name = target.with_suffix("") if target.suffix in COMPRESSIONS else target
    if name.suffix == ".jsonl":
        return "lines"
    kind = EXTENSIONS.get(name.suffix, "")
    return kind if kind in FILE_FORMATS else "json"


def _export_directory(path: str, table: str, directory: Path, kind: str, at: str | None) -> None:
    import dynalsm
    from dynalsm.model import exports, pitr
    from dynalsm.model.buckets import Bucket

    check_directory(path, "an export in DynamoDB's layout", "; --format lines works here")
    moment = None if at is None else moment_of(at)["RestoreDateTime"].timestamp()
    with dynalsm.open(path, create=False, **keys.options()) as database:
        handle = database.catalog.get(table)
        if handle is None:
            raise ValueError(f"there is no table {table}")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        bucket = Bucket(str(directory.resolve()))
        with bar("exporting", database.Table(table).item_count) as tell:
            try:
                totals = exports.write_now(
                    database, handle, bucket, kind, moment, lambda items: tell(items, items)
                )
            except pitr.NotRestorable:
                raise ValueError(
                    f"{table} at {at}: point-in-time recovery does not reach it"
                ) from None
    output.console.print(f"{totals.items:,} items, {directory / totals.manifest}", soft_wrap=True)


def _export_file(path: str, table: str, target: Path, kind: str) -> None:
    from dynalsm.cli import item_files

    count = 0
    # A read-only handle shows one moment, so both readings of the table see the same items.
    with open_for_reading(path) as database:
        read = database.Table(table)
        first = [element["AttributeName"] for element in read.key_schema]
        passes = 1 if kind == "lines" else 2
        # Beside a writer the count is not known.
        with bar("exporting", read.item_count * passes or None) as tell:
            done = 0

            def items() -> Iterator[dict[str, Any]]:
                nonlocal count, done
                count = 0
                for item in read.scan_items():
                    count += 1
                    done += 1
                    yield item
                    if done % PROGRESS_ITEMS == 0:
                        tell(count, done)
                tell(count, done)

            if kind == "lines":
                item_files.write_lines(target, items)
            elif kind == "csv":
                item_files.write_csv(target, items, first)
            else:
                item_files.write_parquet(target, items, first)
    told = output.errors_console if str(target) == "-" else output.console
    told.print(f"{count:,} items, {target}", soft_wrap=True)


def import_(
    path: Annotated[str, typer.Argument(help="Database directory; made when missing.")],
    table: Annotated[str, typer.Argument(help="Name of the new table.")],
    source: Annotated[Path, typer.Argument(help="A file, or a directory such as of an export.")],
    key: Annotated[
        list[str], typer.Option(help="Key attribute and type, pk:S; twice with a sort key.")
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="json (DynamoDB JSON), ion, csv, lines (plain JSON) or parquet; by default seen "
            "from the name and the first line.",
        ),
    ] = None,
    compression: Annotated[
        str | None, typer.Option(help="none, gzip or zstd; by default seen from names.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV; by default a comma.")] = None,
    header: Annotated[str | None, typer.Option(help="Of CSV without one: a,b,c.")] = None,
) -> None:
    """Make a new table of files: DynamoDB JSON, Ion, CSV, JSON lines or Parquet."""
    check_directory(path, "import", "; put and batch writes work there")
    check_parent(path)
    source = source.resolve(strict=True)
    found, packed = _seen(source)
    packed = (compression or packed).upper()
    if packed not in ("NONE", "GZIP", "ZSTD"):
        raise ValueError(f"--compression is none, gzip or zstd, not {compression}")
    kind = format_ or found
    if kind == "json" and format_ is None and source.is_file() and _is_plain(source, packed):
        kind = "lines"
    if kind not in (*IMPORT_FORMATS, *FILE_FORMATS):
        raise ValueError(
            f"say --format: {', '.join(dict.fromkeys((*IMPORT_FORMATS, *FILE_FORMATS)))}"
        )
    if kind in IMPORT_FORMATS:
        csv = {"Delimiter": delimiter, "HeaderList": header.split(",") if header else None}
        _import_as_dynamodb(path, _creation(table, key), source, kind, packed, csv)
    elif source.is_dir():
        raise ValueError(f"{source} is a directory; {kind} is read from a file")
    else:
        _import_file(path, _creation(table, key), source, kind, packed)


def _is_plain(source: Path, packed: str) -> bool:
    """Say whether the first line is an item itself, not DynamoDB's {"Item": {...typed...}}."""
    from dynalsm.cli.item_files import opened

    with opened(source, packed) as (lines, _):
        first = next((line for line in lines if line.strip()), b"")
    try:
        value = orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(value, dict):
        return False
    item = value.get("Item")
    return not (len(value) == 1 and isinstance(item, dict) and _looks_typed(item))


def _looks_typed(item: dict[str, Any]) -> bool:
    return all(isinstance(value, dict) and len(value) == 1 for value in item.values())


def _import_as_dynamodb(
    path: str,
    creation: dict[str, Any],
    source: Path,
    kind: str,
    packed: str,
    csv: dict[str, Any],
) -> None:
    import dynalsm

    csv = {name: value for name, value in csv.items() if value is not None}
    bucket, prefix = (source, "") if source.is_dir() else (source.parent, source.name)
    more: dict[str, Any] = {"bucket_root": str(bucket.parent), "job_wait_seconds": 0.0}
    with dynalsm.open(path, **more, **keys.options()) as database:
        request: Any = {
            "S3BucketSource": {"S3Bucket": bucket.name, "S3KeyPrefix": prefix},
            "InputFormat": IMPORT_FORMATS[kind],
            "InputCompressionType": packed,
            "TableCreationParameters": creation,
        }
        if csv:
            request["InputFormatOptions"] = {"Csv": csv}
        reply = database.client.import_table(**request)
        described = reply["ImportTableDescription"]
        # Progress is counted in plain bytes: of packed files nobody knows how many there will be.
        total = None if packed != "NONE" else sum(file.stat().st_size for file in _files(source))
        with bar("importing", total) as tell:
            while described["ImportStatus"] == "IN_PROGRESS":
                time.sleep(POLL_SECONDS)
                reply = database.client.describe_import(ImportArn=described["ImportArn"])
                described = reply["ImportTableDescription"]
                tell(int(described["ProcessedItemCount"]), int(described["ProcessedSizeBytes"]))
        told = _first_errors(Path(described["CloudWatchLogGroupArn"]))
    imported = int(described["ImportedItemCount"])
    output.console.print(f"{creation['TableName']}: {imported:,} items imported")
    if described["ImportStatus"] != "COMPLETED":
        for line in told:
            output.fail(line)
        output.fail(
            f"{described['FailureMessage']} ({int(described['ErrorCount']):,} errors; see "
            f"{described['CloudWatchLogGroupArn']})"
        )
        raise typer.Exit(1)


def _first_errors(log: Path) -> list[str]:
    """Return the first complaints of an import, each with the file and the record."""
    if not log.is_file():
        return []
    told: list[str] = []
    with log.open("rb") as lines:
        for line in lines:
            if len(told) == SHOWN_ERRORS:
                break
            entry = orjson.loads(line)
            place = entry["itemS3Pointer"]
            told.append(
                f"{place['key']} record {place['itemIndex'] + 1}: {entry['errorMessages'][0]}"
            )
    return told


def _import_file(path: str, creation: dict[str, Any], source: Path, kind: str, packed: str) -> None:
    import dynalsm
    from dynalsm.cli import item_files

    total: float
    if kind == "parquet":
        total = item_files.count_parquet(source)
        found = item_files.read_parquet(source)
    else:
        total = source.stat().st_size
        found = item_files.read_lines(source, packed)
    # One wait for the disk at the end is enough: before that there is no table.
    with dynalsm.open(path, durability="os", **keys.options()) as database:
        database.create_table(**creation)
        try:
            with bar("importing", total) as tell:
                count = _load(database, creation["TableName"], found, tell)
        except BaseException:
            database.Table(creation["TableName"]).delete()
            output.fail(f"nothing is imported: {creation['TableName']} is removed again")
            raise
        database.flush()
    output.console.print(f"{creation['TableName']}: {count:,} items imported")


def _load(
    database: Database,
    table: str,
    found: Iterator[tuple[str, dict[str, Any], float]],
    tell: Callable[[int, float], None],
) -> int:
    count, done, told = 0, 0.0, 0

    def located() -> Iterator[tuple[str, dict[str, Any]]]:
        nonlocal done
        for where, item, position in found:
            done = position
            yield where, item

    for chunk in chunks(located(), PUT_ITEMS):
        for written in put_plain(database, table, chunk):
            count += written
        if count - told >= PROGRESS_ITEMS:
            told = count
            tell(count, done)
    tell(count, done)
    return count


def _files(source: Path) -> list[Path]:
    """Return the data files of a source."""
    skipped = ("manifest-", "_started")
    found = [source] if source.is_file() else sorted(source.rglob("*"))
    return [file for file in found if file.is_file() and not file.name.startswith(skipped)]


def _seen(source: Path) -> tuple[str | None, str]:
    """Return (format, compression) as the names of files tell them."""
    for file in _files(source):
        compression = COMPRESSIONS.get(file.suffix.lower())
        name = file.with_suffix("") if compression else file
        return EXTENSIONS.get(name.suffix.lower()), compression or "NONE"
    return None, "NONE"


def _creation(table: str, key: list[str]) -> dict[str, Any]:
    parts = [part.rpartition(":") for part in key]
    if not 1 <= len(parts) <= 2 or any(kind not in ("S", "N", "B") for _, _, kind in parts):
        raise ValueError("--key is an attribute and its type, such as pk:S; at most twice")
    return {
        "TableName": table,
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, _, kind in parts
        ],
        "KeySchema": [
            {"AttributeName": name, "KeyType": role}
            for (name, _, _), role in zip(parts, ("HASH", "RANGE"), strict=False)
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
