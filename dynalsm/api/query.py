"""Query and Scan: one page of a table or an index.

Both go through the checks of reference 13.3 in order, end in the same `_read`, and differ in how
the range of tree keys comes about: from key conditions, or from a segment of the hash space.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynalsm import values
from dynalsm.api import messages, parameters, plans, refusals, replies, straight
from dynalsm.api.items import check_key_paths
from dynalsm.api.names import data_table
from dynalsm.api.parameters import Bound, Parameters
from dynalsm.api.refusals import refuse
from dynalsm.api.registry import operation
from dynalsm.expressions.keycondition import Resolved
from dynalsm.expressions.static import value_text
from dynalsm.model import ttl
from dynalsm.model.capacity import Tally, read_units, scan_units
from dynalsm.model.catalog import IndexHandle, TableHandle
from dynalsm.model.keys import KeyProblem, segment_of
from dynalsm.model.pages import Page, read_page
from dynalsm.model.reads import after
from dynalsm.model.schema import CREATING, DELETING
from dynalsm.model.settings import Settings
from dynalsm.model.throttle import READ
from dynalsm.values import Form, ValueProblem
from dynalsm.values.forms import ENCODED

Request = Mapping[str, Any]
Reply = dict[str, Any]

QUERY: Final = Parameters(
    "Query",
    "ProjectionExpression FilterExpression KeyConditionExpression",
    "AttributesToGet QueryFilter ConditionalOperator KeyConditions",
)
SCAN: Final = Parameters(
    "Scan",
    "ProjectionExpression FilterExpression",
    "AttributesToGet ScanFilter ConditionalOperator",
)

# Problems of values in ExclusiveStartKey that are reported without the usual prefix
# (observed: dynalite).
_BARE_KINDS: Final = frozenset(
    ("number_format", "number_precision", "number_overflow", "number_underflow", "duplicate")
)


class _Read:
    """One page to read: where, between which keys, and what of it to return."""

    __slots__ = (
        "bound",
        "fetches",
        "handle",
        "index",
        "is_consistent",
        "is_scan",
        "is_single",
        "lower",
        "reverse",
        "source",
        "start",
        "upper",
    )

    def __init__(
        self, database: Any, request: Request, bound: Bound, *, is_scan: bool = False
    ) -> None:
        self.bound = bound
        self.handle: TableHandle = data_table(database, request["TableName"])
        self.index: IndexHandle | None = None
        self.source: TableHandle | IndexHandle = self.handle
        self.is_consistent = bool(request.get("ConsistentRead"))
        self.reverse = request.get("ScanIndexForward") is False
        # No second row is possible, hence no LastEvaluatedKey.
        self.is_single = False
        self.is_scan = is_scan
        self.fetches = False
        self.lower: bytes | None = None
        self.upper: bytes | None = None
        self.start: bytes | None = None
        name = request.get("IndexName")
        if name is not None:
            self._take_index(name)

    def _take_index(self, name: str) -> None:
        index = self.handle.indexes.get(name)
        if index is None or index.schema.status == DELETING:
            raise refusals.unknown_index(name)
        if index.kind == "VECTOR":
            raise refusals.not_readable("Scan" if self.is_scan else "Query")
        if index.kind == "GSI" and self.is_consistent:
            raise refuse(refusals.CONSISTENT_GSI)
        if index.schema.status == CREATING:
            raise refuse(f"Cannot read from backfilling global secondary index: {name}")
        self.index = self.source = index

    def check_selection(self, select: str | None) -> None:
        """Find out whether the table's items are needed; refuse what a global index lacks."""
        index = self.index
        if index is None or index.schema.projection.kind == "ALL":
            return
        projection = self.bound.projection
        if select == "ALL_ATTRIBUTES":
            if index.kind == "GSI":
                raise refusals.select_all_of_gsi(index.name)
            self.fetches = True
        elif projection is not None:
            held = {*index.keys.names, *index.schema.projection.attributes}
            missing = [path[0] for path in projection.paths if path[0] not in held]
            if missing and index.kind == "GSI":
                raise refusals.not_projected(index.name, list(dict.fromkeys(missing)))
            self.fetches = bool(missing)


@operation("Query", straight.query)
def query(database: Any, request: Request, form: Form) -> Reply:
    """Read one page of one partition, in sort-key order."""
    bound, start = _prepare(QUERY, "QueryFilter", request, form, database.settings)
    read = _Read(database, request, bound)
    hash_names, range_names = _key_names(read)
    if start is not None:
        _check_start_count(read, start, refusals.STARTING_KEY)
        _check_start_pieces(read, start, hash_names)
    resolved = _resolve(read, bound.key_condition)
    _set_range(read, resolved)
    if start is not None:
        _check_start_pieces(read, start, range_names)
        _start_query(read, start, resolved)
    projection, condition = bound.projection, bound.filter
    if projection is not None:
        check_key_paths(read.handle, projection.paths)
    if condition is not None:
        _check_filter_keys(read, condition, request)
    read.check_selection(request.get("Select"))
    if condition is not None:
        check_key_paths(read.handle, condition.paths)
    if not read.fetches and plans.is_missing(request, read.handle):
        placeholders = QUERY.placeholders(request, form, database.settings)
        plans.keep(request, placeholders, read.handle, read.index, is_single=read.is_single)
    return _reply(database, request, form, read)


@operation("Scan")
def scan(database: Any, request: Request, form: Form) -> Reply:
    """Read one page of a whole table or index, or of one segment of it."""
    bound, start = _prepare(SCAN, "ScanFilter", request, form, database.settings)
    read = _Read(database, request, bound, is_scan=True)
    if start is not None:
        on_table = read.index is None
        text = refusals.STARTING_KEY_SCHEMA if on_table else refusals.STARTING_KEY
        _check_start_count(read, start, text)
        if not on_table:
            hash_names, range_names = _key_names(read)
            _check_start_pieces(read, start, (*hash_names, *range_names))
    read.check_selection(request.get("Select"))
    total = request.get("TotalSegments")
    if total is not None:
        read.lower, read.upper = read.source.keys.hash_range(request["Segment"], total)
    if start is not None:
        _start_scan(read, start, request)
    for part in (bound.projection, bound.filter):
        if part is not None:
            check_key_paths(read.handle, part.paths)
    return _reply(database, request, form, read)


# Everything that can be said without looking at the table.


def _prepare(
    kind: Parameters, filter_member: str, request: Request, form: Form, settings: Settings
) -> tuple[Bound, bytes | None]:
    """Check and bind; returns the bound parameters and the encoded ExclusiveStartKey."""
    wording = settings.wording
    kind.check_mixing(request, wording)
    get = request.get
    older_filter = projection = None
    has_filter = get(filter_member) is not None or get("ConditionalOperator") is not None
    if has_filter and kind is QUERY:
        older_filter = parameters.older_filter(request, filter_member, form)
    if get("AttributesToGet") is not None:
        projection = parameters.attributes_to_get(request)
    if has_filter and kind is SCAN:
        older_filter = parameters.older_filter(request, filter_member, form)
    start = get("ExclusiveStartKey")
    if start is not None:
        start = _encode_start(start, form, wording, kind.operation)
    if kind is SCAN:
        _check_segments(request)
    elif get("KeyConditions") is None and get("KeyConditionExpression") is None:
        raise refuse(refusals.NO_KEY_CONDITION)
    if get("Select") is not None:
        _check_select(request, wording, is_query=kind is QUERY)
    bound = kind.bind(request, form, settings)
    if older_filter is not None:
        bound.filter = older_filter
    if projection is not None:
        bound.projection = projection
    if kind is QUERY and bound.key_condition is None:
        bound.key_condition = parameters.key_conditions(request, form)
    return bound, start


def _encode_start(start: Any, form: Form, wording: str, name: str) -> bytes:
    try:
        return form.encode_item(start)
    except ValueProblem as problem:
        text = problem.current if refusals.is_current(name, wording) else problem.classic
        if problem.kind not in _BARE_KINDS and problem.detail[:1] != ("NS",):
            text = f"{refusals.STARTING_KEY}: {text}"
        raise refuse(text) from None


def _check_segments(request: Request) -> None:
    segment, total = request.get("Segment"), request.get("TotalSegments")
    if segment is not None and total is None:
        raise refuse(refusals.TOTAL_SEGMENTS_MISSING)
    if total is None:
        return
    if segment is None:
        raise refuse(refusals.SEGMENT_MISSING)
    if segment >= total:
        raise refuse(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {total}"
        )


def _check_select(request: Request, wording: str, *, is_query: bool) -> None:
    select = request["Select"]
    given = [
        name
        for name in ("AttributesToGet", "ProjectionExpression")
        if request.get(name) is not None
    ]
    if select == "SPECIFIC_ATTRIBUTES":
        if not given:
            envelope = refusals.ENVELOPE if is_query else ""
            raise refuse(envelope + refusals.SPECIFIC_NEEDS_PROJECTION)
    elif given:
        raise refuse(f"Cannot specify the {given[0]} when choosing to get {select}")
    if select == "ALL_PROJECTED_ATTRIBUTES" and request.get("IndexName") is None:
        envelope = refusals.ENVELOPE if is_query and wording != "classic" else ""
        raise refuse(envelope + refusals.PROJECTED_NEEDS_INDEX)


# The range of a Query.


def _key_names(read: _Read) -> tuple[tuple[str, ...], tuple[str, ...]]:
    index = read.index
    if index is not None:
        return index.schema.hash_key, index.schema.range_key
    names = read.handle.keys.names
    return names[:1], names[1:]


def _resolve(read: _Read, condition: Any) -> Resolved:
    hash_names, range_names = _key_names(read)
    resolved: Resolved = condition.resolve(hash_names, range_names, read.handle.schema.attributes)
    read.is_single = read.index is None and len(resolved[1]) == len(range_names)
    return resolved


def _set_range(read: _Read, resolved: Resolved) -> None:
    hash_values, equalities, last = resolved
    encode = values.encode_value
    keys = read.source.keys
    prefix = keys.partition_prefix(*map(encode, hash_values))
    operator, operands = last if last is not None else (None, ())
    read.lower, read.upper = keys.sort_range(
        prefix, operator, [encode(value) for value in operands], [encode(v) for v in equalities]
    )


def _check_filter_keys(read: _Read, condition: Any, request: Request) -> None:
    hash_names, range_names = _key_names(read)
    for name in (*hash_names, *range_names):
        if name in condition.attributes:
            is_older = request.get("QueryFilter") is not None
            raise refusals.filter_on_key("QueryFilter" if is_older else "Filter Expression", name)


# Where to go on.


def _check_start_count(read: _Read, start: bytes, text: str) -> None:
    if len(values.attribute_names(start)) != len(read.source.keys.names):
        raise refuse(text)


def _check_start_pieces(read: _Read, start: bytes, names: tuple[str, ...]) -> None:
    """Check key attributes of what is read; those of the table come later (observed: dynalite)."""
    for name in names:
        value = values.get_attribute(start, name)
        if value is None:
            raise refuse(refusals.STARTING_KEY)
        if values.type_of(value) != read.handle.schema.attributes[name]:
            raise refuse(messages.KEY_SCHEMA_MISMATCH)


def _start_key(read: _Read, start: bytes) -> bytes:
    try:
        return read.source.keys.encode_key(start)
    except KeyProblem as problem:
        text = refusals.key_text(problem, in_item=False)
        raise refuse(f"{refusals.STARTING_KEY}: {text}") from None


def _start_query(read: _Read, start: bytes, resolved: Resolved) -> None:
    key = _start_key(read, start)
    hash_names, range_names = _key_names(read)
    hash_values, equalities, last = resolved
    if read.index is None and not range_names:
        name = hash_names[0]
        given = value_text(values.decode_item(start)[name])
        raise refuse(
            "The provided exclusive start key is invalid: ExclusiveStartKey: "
            f"{{{name}=AttributeValue: {{{given}}}}}"
        )
    assert read.lower is not None and read.upper is not None
    pairs = zip(hash_names, map(values.encode_value, hash_values), strict=True)
    inside = read.source.keys.encode_key(values.merge(start, dict(pairs)))
    has_sort_condition = bool(equalities) or last is not None
    if has_sort_condition and not read.lower <= inside < read.upper:
        raise refuse(refusals.STARTING_KEY_PREDICATE)
    if inside != key:
        raise refuse(
            refusals.NOT_RESTARTABLE if has_sort_condition else refusals.STARTING_KEY_OUTSIDE
        )
    _go_on_after(read, key)


def _start_scan(read: _Read, start: bytes, request: Request) -> None:
    key = _start_key(read, start)
    total = request.get("TotalSegments")
    if total is not None and segment_of(key, total) != request["Segment"]:
        raise refuse(
            f"{refusals.STARTING_KEY}: Invalid ExclusiveStartKey. Please use ExclusiveStartKey "
            f"with correct Segment. TotalSegments: {total} Segment: {request['Segment']}"
        )
    _go_on_after(read, key)


def _go_on_after(read: _Read, key: bytes) -> None:
    if read.reverse:
        read.upper = key
    else:
        read.lower = after(key)


# Reading and replying.


def _reply(database: Any, request: Request, form: Form, read: _Read) -> Reply:
    if database.writes.is_watched:
        # A Query stays in one partition, whose key its lower bound begins with.
        key = None if read.is_scan else read.lower
        replies.admit(database, read.handle, READ, read.index, key, is_whole=False)
    counts_only = request.get("Select") == "COUNT"
    projection = read.bound.projection
    # Items are decoded while the page is read, unless only parts of them are wanted.
    kind = form.kind if projection is None else ENCODED
    page = _read(database, read, request.get("Limit"), not counts_only, kind)
    reply: Reply = {}
    if not counts_only:
        items = page.items
        reply["Items"] = items if projection is None else _shaped(items, projection, form)
    reply["Count"] = page.count
    reply["ScannedCount"] = page.scanned
    if page.last_key is not None and not read.is_single:
        reply["LastEvaluatedKey"] = form.decode_item(read.source.keys.key_item(page.last_key))
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None or database.writes.throttle is not None:
        replies.report(database, reply, mode, read.handle, _tally(read, page))
    return reply


def _read(database: Any, read: _Read, limit: int | None, wants_items: bool, kind: int) -> Page:
    must_settle = read.is_consistent and database.must_wait
    snapshot: Any = database.engine.snapshot() if must_settle or read.fetches else None
    try:
        page = read_page(
            read.source,
            read.lower,
            read.upper,
            reverse=read.reverse,
            limit=limit,
            condition=ttl.read_filter(database.settings, read.handle, read.bound.filter),
            wants_items=wants_items,
            fetch_from=read.handle if read.fetches else None,
            snapshot=snapshot,
            limit_bytes=database.settings.limit_page_bytes,
            form=kind,
        )
        if must_settle:
            replies.settle(database, snapshot.seqno)
        return page
    finally:
        if snapshot is not None:
            snapshot.close()


def _shaped(items: list[bytes], projection: Any, form: Form) -> list[Any]:
    if projection.is_top_level:
        decode, select, names = form.decode_item, values.select, projection.attributes
        return [decode(select(item, names)) for item in items]
    return [replies.projected(item, projection, form) for item in items]


def _tally(read: _Read, page: Page) -> Tally:
    if read.is_scan and read.index is None:
        bounds = (read.lower, read.upper)
        schema = read.handle.schema
        return Tally(scan_units(schema, page.size_bytes, read.is_consistent, bounds, page.last_key))
    units = read_units(page.size_bytes, read.is_consistent)
    if read.index is None:
        return Tally(units)
    tally = Tally(sum(read_units(size, read.is_consistent) for size in page.fetched_sizes))
    tally.add_index(read.index.kind == "LSI", read.index.name, units)
    return tally
