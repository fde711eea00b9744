"""Commands on tables and items: tables, get, put, delete, query, scan.

PATH is a database directory or the URL of an endpoint. Commands that only read open the directory
read-only, so they work beside a running server.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynalsm.cli import keys, output
from dynalsm.cli.parsing import objects_of, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynalsm.database import Database
    from dynalsm.resource import Table

    Located = tuple[str, dict[str, Any]]  # where an item stands, and the item

PathArgument = Annotated[str, typer.Argument(help="Database directory, or http://host:port.")]
TableArgument = Annotated[str, typer.Argument(help="Table name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for machines.")]
NamesOption = Annotated[str | None, typer.Option(help='JSON: {"#n": "Name"}.')]
ValuesOption = Annotated[str | None, typer.Option(help='JSON: {":v": 1}.')]
PUT_ITEMS = 25  # written together: a batch of BatchWriteItem
SHOWN_ITEMS = 50  # in a table for people, unless --limit says otherwise
LimitOption = Annotated[
    int | None,
    typer.Option(min=1, help=f"Most items to print; {SHOWN_ITEMS}, or all with --json or --typed."),
]
FilterOption = Annotated[str | None, typer.Option("--filter", help="FilterExpression.")]
IndexOption = Annotated[str | None, typer.Option(help="Index name.")]
ProjectionOption = Annotated[str | None, typer.Option(help="ProjectionExpression.")]
TypedOption = Annotated[bool, typer.Option("--typed", help='Values are DynamoDB JSON: {"S": "x"}.')]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (tables, get, put, delete, query, scan):
        app.command()(command)


def open_for_reading(path: str) -> Database:
    """Open a database that must exist, beside a writer if there is one."""
    import dynalsm

    if "://" in path:
        return dynalsm.open(path)
    return dynalsm.open(path, read_only=True, **keys.options())


def open_for_writing(path: str) -> Database:
    """Open a database that must exist."""
    import dynalsm

    if "://" in path:
        return dynalsm.open(path)
    return dynalsm.open(path, create=False, **keys.options())


def tables(
    path: PathArgument,
    table: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    json: JsonOption = False,
) -> None:
    """List the tables, or describe one."""
    with open_for_reading(path) as database:
        _count(database)
        if table is not None:
            description = database.client.describe_table(TableName=table)["Table"]
            output.print_json(description) if json else print_description(description)
            return
        described = [
            database.client.describe_table(TableName=each.name)["Table"] for each in database.tables
        ]
    if json:
        for description in described:
            output.print_json(description)
    elif described:
        output.print_grid(
            ("Table", "Status", "Key", "Indexes", "Items", "Size"),
            [
                (
                    one["TableName"],
                    one["TableStatus"],
                    key_text(one["KeySchema"]),
                    ", ".join(index["IndexName"] for index in _indexes(one)),
                    int(one["ItemCount"]),
                    output.size_text(one["TableSizeBytes"]),
                )
                for one in described
            ],
        )
    else:
        output.console.print("no tables")


def _count(database: Database) -> None:
    """Count items beside a writer, whose counters stand in its memory until it closes."""
    if hasattr(database, "engine"):
        with output.errors_console.status("counting"):
            for recount in database.catalog.begin_recounts():
                recount()


def get(
    path: PathArgument,
    table: TableArgument,
    key: Annotated[str, typer.Argument(help='Key as JSON: {"Artist": "x"}.')],
    typed: TypedOption = False,
    json: JsonOption = False,
) -> None:
    """Print one item, as JSON in any case; exit code 1 when there is none."""
    del json  # taken so that scripts may give it to every command
    with open_for_reading(path) as database:
        if typed:
            reply = _call_typed(database, "GetItem", table, "Key", parse_object(key, "key"))
        else:
            reply = database.Table(table).get_item(Key=parse_object(key, "key"))
    if "Item" not in reply:
        output.fail("no such item")
        raise typer.Exit(1)
    output.print_json(reply["Item"])


def put(
    path: PathArgument,
    table: TableArgument,
    item: Annotated[str, typer.Argument(help="Item as JSON; @FILE reads a file, - reads stdin.")],
    typed: TypedOption = False,
) -> None:
    """Write one item, or every line of a file of JSON items."""
    count = 0
    try:
        with open_for_writing(path) as database:
            write = _put_typed if typed else put_plain
            for chunk in chunks(objects_of(item), PUT_ITEMS):
                for written in write(database, table, chunk):
                    count += written
    finally:
        if count or sys.exc_info()[0] is None:
            output.errors_console.print(f"{count:,} item{'s' if count != 1 else ''} written")


def _put_typed(database: Database, table: str, chunk: list[Located]) -> Iterator[int]:
    for where, item in chunk:
        with at(where):
            _call_typed(database, "PutItem", table, "Item", item)
        yield 1


def put_plain(database: Database, table: str, chunk: list[Located]) -> Iterator[int]:
    """Write items together, yielding how many; where that is refused, one by one, to find which."""
    from dynalsm import errors

    target = database.Table(table)
    try:
        with target.batch_writer() as batch:
            for _, item in chunk:
                batch.put_item(Item=item)
    except (errors.ValidationException, ValueError):
        for where, item in chunk:
            with at(where):
                target.put_item(Item=item)
            yield 1
    else:
        yield len(chunk)


@contextmanager
def at(where: str) -> Iterator[None]:
    """Name the place of an item that is refused."""
    from dynalsm import errors
    from dynalsm.cli.failures import one_line

    try:
        yield
    except (errors.ValidationException, ValueError) as problem:
        if where == "item":
            raise
        raise ValueError(f"{where}: {one_line(problem)}") from problem


def chunks(found: Iterator[Located], size: int) -> Iterator[list[Located]]:
    """Cut into lists; what was read before a line that is wrong is handed out first."""
    chunk: list[Located] = []
    try:
        for one in found:
            chunk.append(one)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except ValueError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def delete(
    path: PathArgument,
    table: TableArgument,
    key: Annotated[str, typer.Argument(help='Key as JSON: {"Artist": "x"}.')],
) -> None:
    """Delete one item; exit code 1 when there is none."""
    with open_for_writing(path) as database:
        reply = database.Table(table).delete_item(
            Key=parse_object(key, "key"), ReturnValues="ALL_OLD"
        )
    if "Attributes" not in reply:
        output.fail("no such item")
        raise typer.Exit(1)


def query(
    path: PathArgument,
    table: TableArgument,
    value: Annotated[str | None, typer.Argument(help="The partition key's value.")] = None,
    key_condition: Annotated[
        str | None, typer.Option(help="KeyConditionExpression, in place of VALUE.")
    ] = None,
    index: IndexOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the highest sort key.")] = False,
    filter_: FilterOption = None,
    projection: ProjectionOption = None,
    names: NamesOption = None,
    values: ValuesOption = None,
    limit: LimitOption = None,
    json: JsonOption = False,
    typed: TypedOption = False,
) -> None:
    """Print the items of one partition key, in the order of the sort key."""
    request = _read_request(index, filter_, projection, names, values)
    if reverse:
        request["ScanIndexForward"] = False
    with open_for_reading(path) as database:
        target = database.Table(table)
        schema = _schema(target, index)
        if key_condition is not None:
            request["KeyConditionExpression"] = key_condition
        elif value is not None:
            request["KeyConditionExpression"] = _equals(target, schema[0], value)
        else:
            raise ValueError("query needs the partition key's VALUE or --key-condition")
        _print_found(target.query_items(**request), schema, limit, json, typed)


def scan(
    path: PathArgument,
    table: TableArgument,
    index: IndexOption = None,
    filter_: FilterOption = None,
    projection: ProjectionOption = None,
    names: NamesOption = None,
    values: ValuesOption = None,
    limit: LimitOption = None,
    json: JsonOption = False,
    typed: TypedOption = False,
) -> None:
    """Print the items of a whole table or index."""
    request = _read_request(index, filter_, projection, names, values)
    with open_for_reading(path) as database:
        target = database.Table(table)
        _print_found(target.scan_items(**request), _schema(target, index), limit, json, typed)


def _print_found(
    found: Iterator[dict[str, Any]], schema: list[str], limit: int | None, json: bool, typed: bool
) -> None:
    """Lines for machines (typed: DynamoDB JSON, which loses nothing), or a table for people."""
    if typed:
        from dynalsm.values import encode_native_item, json_item_text

        for item in itertools.islice(found, limit):
            text = json_item_text(encode_native_item(item))
            sys.stdout.write(text.decode() + "\n")
        return
    if json:
        for item in itertools.islice(found, limit):
            output.print_json(item)
        return
    shown = SHOWN_ITEMS if limit is None else limit
    items = list(itertools.islice(found, shown))
    if not items:
        output.console.print("no items")
        return
    output.print_items(items, schema)
    if len(items) == shown and next(found, None) is not None:
        output.console.print(f"the first {shown:,}; --limit shows more")


def _read_request(
    index: str | None,
    filter_: str | None,
    projection: str | None,
    names: str | None,
    values: str | None,
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "IndexName": index,
        "FilterExpression": filter_,
        "ProjectionExpression": projection,
        "ExpressionAttributeNames": parse_object(names, "--names") if names else None,
        "ExpressionAttributeValues": parse_object(values, "--values") if values else None,
    }
    return {name: value for name, value in request.items() if value is not None}


def _schema(table: Table, index: str | None) -> list[str]:
    """Return the key attributes of a table or of one of its indexes."""
    schema = table.key_schema
    if index is not None:
        described = [
            *(table.local_secondary_indexes or ()),
            *(table.global_secondary_indexes or ()),
        ]
        found = [one for one in described if one["IndexName"] == index]
        if not found:
            known = ", ".join(one["IndexName"] for one in described) or "none"
            raise ValueError(f"{table.name} has no index {index}; it has: {known}")
        schema = found[0]["KeySchema"]
    return [element["AttributeName"] for element in schema]


def _equals(table: Table, name: str, value: str) -> Any:
    from dynalsm.conditions import Key

    types = {one["AttributeName"]: one["AttributeType"] for one in table.attribute_definitions}
    if types[name] == "N":
        from dynalsm.values.number import parse_number

        try:
            return Key(name).eq(parse_number(value))
        except ValueError as problem:
            raise ValueError(f"{name} is a number, and {value!r} is none: {problem}") from None
    return Key(name).eq(value.encode() if types[name] == "B" else value)


def _call_typed(
    database: Database, operation: str, table: str, member: str, item: dict[str, Any]
) -> dict[str, Any]:
    """Run an operation with an item in DynamoDB JSON, whose binary values are base64."""
    from dynalsm.values.forms import JSON, WIRE

    if hasattr(database, "engine"):
        return database.call(operation, {"TableName": table, member: item}, JSON)
    # boto3 encodes bytes itself, so it must be given bytes.
    request = {"TableName": table, member: WIRE.decode_item(JSON.encode_item(item))}
    reply = database.call(operation, request)
    if "Item" in reply:
        reply["Item"] = JSON.decode_item(WIRE.encode_item(reply["Item"]))
    return reply


def _indexes(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        *description.get("LocalSecondaryIndexes", ()),
        *description.get("GlobalSecondaryIndexes", ()),
    ]


def key_text(schema: Sequence[Mapping[str, Any]]) -> str:
    """Return the key attributes' names as one text."""
    return " + ".join(element["AttributeName"] for element in schema)


def print_description(description: Mapping[str, Any]) -> None:
    """Show a table with its indexes, for people."""
    types = {
        one["AttributeName"]: one["AttributeType"] for one in description["AttributeDefinitions"]
    }
    rows = [("table", _typed_key(description["KeySchema"], types), "", description["ItemCount"])]
    rows += [
        (
            index["IndexName"],
            _typed_key(index["KeySchema"], types),
            index["Projection"]["ProjectionType"],
            index.get("ItemCount", 0),
        )
        for index in _indexes(description)
    ]
    title = f"{description['TableName']}: {description['TableStatus']}"
    output.print_grid(("", "Key", "Projection", "Items"), rows, title)
    stream = description.get("StreamSpecification")
    if stream:
        output.console.print(f"stream: {stream['StreamViewType']}")


def _typed_key(schema: list[dict[str, str]], types: dict[str, str]) -> str:
    return " + ".join(f"{one['AttributeName']} ({types[one['AttributeName']]})" for one in schema)
