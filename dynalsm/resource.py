"""Table: one table in the shape of boto3's resource, with plain Python values.

Items are dicts of str, int/Decimal, bytes/Binary, bool, None, list, dict and set, as in
`boto3.resource("dynamodb").Table`. Expressions may be text or `Key`/`Attr` objects (or boto3's).

Thread safety: a Table holds no state besides its name and may be shared. A batch writer belongs to
one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from dynalsm.changes import Change, follow
from dynalsm.client import known_members, reject_unknown, response_metadata, with_datetimes
from dynalsm.conditions import ConditionExpressionBuilder
from dynalsm.values.forms import NATIVE

if TYPE_CHECKING:
    from datetime import datetime

    from dynalsm.database import Database

Reply = dict[str, Any]


# The members that take a Key/Attr object in place of text, in the order of their placeholders.
_EXPRESSIONS = (
    *("KeyConditionExpression", "ConditionExpression", "FilterExpression"),
    "SearchConditionExpression",
)
_PLACEHOLDER = re.compile(r"([#:])([nv]\d+)")


def _members(operation: str) -> frozenset[str]:
    """The parameters of a table's method: the operation's without the table's name."""
    return known_members(operation) - {"TableName"}


_GET = _members("GetItem")
_PUT = _members("PutItem")
_UPDATE = _members("UpdateItem")
_DELETE = _members("DeleteItem")
_QUERY = _members("Query")
_SCAN = _members("Scan")
_SEARCH = _members("SearchVectors")
_UPDATE_TABLE = _members("UpdateTable")


class Table:
    """One table: `db.Table("Music")`. Making the object asks nothing; the first call does."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._call = database.call
        self._name = name

    def __repr__(self) -> str:
        return f"dynalsm.Table(name={self._name!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and other._database is self._database
            and other._name == self._name
        )

    def __hash__(self) -> int:
        return hash((id(self._database), self._name))

    # --- items ------------------------------------------------------------------------------

    def get_item(self, **request: Any) -> Reply:
        """Return {"Item": {...}}, without "Item" when there is none.

        Key={...}; ConsistentRead, ProjectionExpression, ExpressionAttributeNames, ...
        """
        if not _GET.issuperset(request):
            reject_unknown(_GET, request)
        request["TableName"] = self._name
        reply = self._call("GetItem", request, NATIVE)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    def put_item(self, **request: Any) -> Reply:
        """Write a whole item in place of any with the same key.

        Item={...}; ConditionExpression (text or Attr), ReturnValues="ALL_OLD", ...
        """
        if not _PUT.issuperset(request):
            reject_unknown(_PUT, request)
        request["TableName"] = self._name
        if "ConditionExpression" in request:
            write_expressions(request)
        reply = self._call("PutItem", request, NATIVE)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    def update_item(self, **request: Any) -> Reply:
        """Change attributes of one item, or create it.

        Key={...}; UpdateExpression, ConditionExpression, ExpressionAttributeValues, ReturnValues.
        """
        if not _UPDATE.issuperset(request):
            reject_unknown(_UPDATE, request)
        return self._run("UpdateItem", request)

    def delete_item(self, **request: Any) -> Reply:
        """Delete one item; no error when there is none. Key={...}; ConditionExpression, ..."""
        if not _DELETE.issuperset(request):
            reject_unknown(_DELETE, request)
        return self._run("DeleteItem", request)

    def query(self, **request: Any) -> Reply:
        """Return one page of the items of one partition key, in sort-key order.

        KeyConditionExpression (text or Key); IndexName, ScanIndexForward, FilterExpression,
        Limit, ExclusiveStartKey, ConsistentRead, Select, ProjectionExpression, ...
        """
        if not _QUERY.issuperset(request):
            reject_unknown(_QUERY, request)
        request["TableName"] = self._name
        key, condition = request.get("KeyConditionExpression"), request.get("FilterExpression")
        if type(key) is not str or (condition is not None and type(condition) is not str):
            write_expressions(request)
        reply = self._call("Query", request, NATIVE)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    def scan(self, **request: Any) -> Reply:
        """Return one page of the whole table. FilterExpression, Segment, TotalSegments, ..."""
        if not _SCAN.issuperset(request):
            reject_unknown(_SCAN, request)
        return self._run("Scan", request)

    def search_vectors(self, **request: Any) -> Reply:
        """Return the items whose vectors are nearest to a vector, best first, with their scores.

        IndexName, SearchVector (numbers: int or Decimal), TopK; SearchConditionExpression (text or
        Attr), ProjectionExpression, ...
        """
        if not _SEARCH.issuperset(request):
            reject_unknown(_SEARCH, request)
        return self._run("SearchVectors", request)

    def query_items(self, **request: Any) -> Iterator[dict[str, Any]]:
        """Yield every item that query() finds, page after page."""
        return self._all_items(self.query, request)

    def scan_items(self, **request: Any) -> Iterator[dict[str, Any]]:
        """Yield every item that scan() finds, page after page."""
        return self._all_items(self.scan, request)

    def batch_writer(self, overwrite_by_pkeys: list[str] | None = None) -> BatchWriter:
        """Return a context manager that puts and deletes in batches of 25.

        With overwrite_by_pkeys, a later request replaces a waiting one with the same values of
        those attributes (one batch may name an item only once).
        """
        return BatchWriter(self._database, self._name, overwrite_by_pkeys)

    def changes(
        self,
        start: str = "TRIM_HORIZON",
        *,
        follow_seconds: float | None = 0.0,
    ) -> Iterator[Change]:
        """Yield the table's stream records, oldest first.

        start: "TRIM_HORIZON" (all that is kept, 24 hours), "LATEST" (from now on), or the
        `sequence_number` of the last change seen. follow_seconds: how long to wait for more after
        the last one: 0 ends at once, None waits for ever.
        """
        return follow(self._database, self._name, start, follow_seconds)

    # --- the table itself -------------------------------------------------------------------

    def load(self) -> None:
        """Check that the table exists (attributes are always fresh; nothing is cached)."""
        self._describe()

    reload = load

    def delete(self) -> Reply:
        """Delete the table with its indexes; its stream stays readable for a day."""
        reply = self._call("DeleteTable", {"TableName": self._name})
        return with_datetimes("DeleteTable", reply)

    def update(self, **request: Any) -> Table:
        """Change the table's settings or indexes (UpdateTable)."""
        if not _UPDATE_TABLE.issuperset(request):
            reject_unknown(_UPDATE_TABLE, request)
        self._call("UpdateTable", {**request, "TableName": self._name})
        return self

    def wait_until_exists(self, **config: Any) -> None:
        """Block until the table is ACTIVE."""
        waiter = self._database.client.get_waiter("table_exists")
        waiter.wait(TableName=self._name, **config)

    def wait_until_not_exists(self, **config: Any) -> None:
        """Block until the table is gone."""
        waiter = self._database.client.get_waiter("table_not_exists")
        waiter.wait(TableName=self._name, **config)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def table_name(self) -> str:
        """The table's name, as DescribeTable calls it."""
        return self._name

    @property
    def table_status(self) -> str:
        """ACTIVE, CREATING, UPDATING, DELETING, ..."""
        return cast(str, self._describe()["TableStatus"])

    @property
    def key_schema(self) -> list[dict[str, str]]:
        """The key attributes with their roles."""
        return cast("list[dict[str, str]]", self._describe()["KeySchema"])

    @property
    def attribute_definitions(self) -> list[dict[str, str]]:
        """The types of all key attributes."""
        return cast("list[dict[str, str]]", self._describe()["AttributeDefinitions"])

    @property
    def item_count(self) -> int:
        """How many items the table holds now (AWS updates its count every six hours)."""
        return int(self._describe()["ItemCount"])

    @property
    def table_size_bytes(self) -> int:
        """The size of all items in DynamoDB's counting."""
        return int(self._describe()["TableSizeBytes"])

    @property
    def creation_date_time(self) -> datetime:
        """When the table was created."""
        return cast("datetime", self._describe()["CreationDateTime"])

    if TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Any:
            """The other members of DescribeTable; they are added below."""

    # --- inside -----------------------------------------------------------------------------

    def _run(self, operation: str, request: dict[str, Any]) -> Reply:
        """REQUIRES: `request` belongs to this call (it is changed)."""
        request["TableName"] = self._name
        write_expressions(request)
        reply = self._call(operation, request, NATIVE)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    def _describe(self) -> dict[str, Any]:
        reply = self._call("DescribeTable", {"TableName": self._name})
        return cast("dict[str, Any]", with_datetimes("DescribeTable", reply)["Table"])

    def _all_items(
        self, read: Callable[..., Reply], request: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        page = dict(request)
        while True:
            reply = read(**page)
            yield from reply.get("Items", ())
            if "LastEvaluatedKey" not in reply:
                return
            page["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


_DESCRIPTION_MEMBERS = {
    "archival_summary": "ArchivalSummary",
    "billing_mode_summary": "BillingModeSummary",
    "deletion_protection_enabled": "DeletionProtectionEnabled",
    "global_secondary_indexes": "GlobalSecondaryIndexes",
    "global_table_version": "GlobalTableVersion",
    "latest_stream_arn": "LatestStreamArn",
    "latest_stream_label": "LatestStreamLabel",
    "local_secondary_indexes": "LocalSecondaryIndexes",
    "on_demand_throughput": "OnDemandThroughput",
    "provisioned_throughput": "ProvisionedThroughput",
    "replicas": "Replicas",
    "restore_summary": "RestoreSummary",
    "sse_description": "SSEDescription",
    "stream_specification": "StreamSpecification",
    "table_arn": "TableArn",
    "table_class_summary": "TableClassSummary",
    "table_id": "TableId",
    "warm_throughput": "WarmThroughput",
}


class _Described:
    """A member of DescribeTable as an attribute of Table; None where there is none.

    A Table.__getattr__ would do the same and slow down every look at an attribute.
    """

    def __init__(self, member: str) -> None:
        self._member = member

    def __get__(self, table: Table | None, owner: type[Table]) -> Any:
        return self if table is None else table._describe().get(self._member)


for _attribute, _member in _DESCRIPTION_MEMBERS.items():
    setattr(Table, _attribute, _Described(_member))


class BatchWriter:
    """Collects puts and deletes and sends them 25 at a time.

    What the database hands back as unprocessed is sent again. Leaving the `with` block sends the
    rest, also after an exception (as boto3 does: what was put was put).
    """

    LIMIT_ITEMS = 25  # of one BatchWriteItem

    def __init__(self, database: Database, table_name: str, keys: list[str] | None) -> None:
        self._call = database.call
        self._table_name = table_name
        self._keys = keys
        self._waiting: list[dict[str, Any]] = []

    def put_item(self, Item: dict[str, Any]) -> None:
        """Put an item with the next batch."""
        self._add({"PutRequest": {"Item": Item}})

    def delete_item(self, Key: dict[str, Any]) -> None:
        """Delete an item with the next batch."""
        self._add({"DeleteRequest": {"Key": Key}})

    def flush(self) -> None:
        """Send everything that waits."""
        while self._waiting:
            self._send()

    def __enter__(self) -> BatchWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flush()

    def _add(self, request: dict[str, Any]) -> None:
        if self._keys:
            wanted = self._identity(request)
            self._waiting = [old for old in self._waiting if self._identity(old) != wanted]
        self._waiting.append(request)
        if len(self._waiting) >= self.LIMIT_ITEMS:
            self._send()

    def _identity(self, request: dict[str, Any]) -> list[Any]:
        if "PutRequest" in request:
            item = request["PutRequest"]["Item"]
        else:
            item = request["DeleteRequest"]["Key"]
        return [item[name] for name in self._keys or ()]

    def _send(self) -> None:
        batch, self._waiting = (
            self._waiting[: self.LIMIT_ITEMS],
            self._waiting[self.LIMIT_ITEMS :],
        )
        reply = self._call("BatchWriteItem", {"RequestItems": {self._table_name: batch}}, NATIVE)
        left = (reply.get("UnprocessedItems") or {}).get(self._table_name)
        if left:
            self._waiting.extend(left)


def write_expressions(request: dict[str, Any]) -> None:
    """Replace Key/Attr objects in a request by text and placeholders, as boto3's resource does.

    REQUIRES: `request` may be changed; the dicts inside it are not.
    """
    builder: ConditionExpressionBuilder | None = None
    for member in _EXPRESSIONS:
        condition = request.get(member)
        if condition is not None and not isinstance(condition, str):
            builder = builder or ConditionExpressionBuilder()
            is_key = member == "KeyConditionExpression"
            _place(request, member, *builder.build_expression(condition, is_key))


def _place(
    request: dict[str, Any],
    member: str,
    text: str,
    names: Mapping[str, str],
    values: Mapping[str, Any],
) -> None:
    """Put one written condition into the request, its placeholders apart from all others."""
    all_names = dict(request.get("ExpressionAttributeNames") or {})
    all_values = dict(request.get("ExpressionAttributeValues") or {})
    if not (all_names.keys().isdisjoint(names) and all_values.keys().isdisjoint(values)):
        mark = f"{member[0].lower()}_"
        text = _PLACEHOLDER.sub(rf"\g<1>{mark}\g<2>", text)
        names = {f"#{mark}{name[1:]}": value for name, value in names.items()}
        values = {f":{mark}{name[1:]}": value for name, value in values.items()}
    all_names.update(names)
    all_values.update(values)
    request[member] = text
    if all_names:
        request["ExpressionAttributeNames"] = all_names
    if all_values:
        request["ExpressionAttributeValues"] = all_values
