"""BatchGetItem and BatchWriteItem.

A batch of writes is validated as a whole and then committed as one engine batch: stronger than
DynamoDB, which writes the items one by one (reference 6.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dynalsm.api import parameters, refusals, replies, straight_writes
from dynalsm.api.items import check_item_size, check_key_paths
from dynalsm.api.names import data_table
from dynalsm.api.parameters import Parameters
from dynalsm.api.refusals import refuse
from dynalsm.api.registry import operation
from dynalsm.model import ttl
from dynalsm.model.capacity import Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.settings import Settings
from dynalsm.model.throttle import READ, WRITE, Throttled
from dynalsm.model.writes import ActionProblem, Delete, Put, StaleHandle, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

BATCH_GET: Final = Parameters("BatchGetItem", "ProjectionExpression", "AttributesToGet")

# How many items are read before the size of the reply is looked at.
_SLICE_ITEMS: Final = 25

_ONE_REQUEST: Final = (
    "Supplied AttributeValue has more than one datatypes set, "
    "must contain exactly one of the supported datatypes"
)


class _TableRead:
    """What BatchGetItem reads of one table."""

    __slots__ = ("handle", "is_consistent", "keys", "name", "projection", "request", "sizes")

    def __init__(self, name: str, request: Request) -> None:
        self.name = name
        self.request = request
        self.is_consistent = bool(request.get("ConsistentRead"))
        self.projection: Any = None
        self.handle: TableHandle
        # (key as given, encoded key map), later (key as given, tree key).
        self.keys: list[tuple[Any, bytes]] = []
        self.sizes: list[int] = []


@operation("BatchGetItem")
def batch_get_item(database: Any, request: Request, form: Form) -> Reply:
    """Return items of several tables by their keys."""
    reads = _prepare_reads(request["RequestItems"], form, database.settings)
    for read in reads:
        read.handle = data_table(database, read.name)
    for read in reads:
        encode = read.handle.keys.encode_key
        read.keys = [(given, encode(key)) for given, key in read.keys]
        if read.projection is not None:
            check_key_paths(read.handle, read.projection.paths)
    reply = _run_reads(database, reads, form)
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = [
            Tally(sum(read_units(size, read.is_consistent) for size in read.sizes)).report(
                mode, read.handle.name
            )
            for read in reads
        ]
    return reply


def _prepare_reads(tables: Mapping[str, Any], form: Form, settings: Settings) -> list[_TableRead]:
    wording = settings.wording
    if not tables:
        raise refuse("The requestItems parameter is required for BatchGetItem")
    _check_mixing(tables, wording)
    reads = []
    count = 0
    for name, part in tables.items():
        read = _TableRead(name, part)
        older = parameters.attributes_to_get(part)
        read.projection = BATCH_GET.bind(part, form, settings).projection or older
        count += len(part["Keys"])
        _take_keys(read, form)
        if count > settings.limit_batch_get_keys:
            raise refuse("Too many items requested for the BatchGetItem call")
        reads.append(read)
    return reads


def _check_mixing(tables: Mapping[str, Any], wording: str) -> None:
    """Older members and expressions may not be mixed, not even in different tables."""
    merged: dict[str, Any] = {}
    for part in tables.values():
        merged.update((name, value) for name, value in part.items() if value is not None)
        BATCH_GET.check_mixing(part, wording)
    BATCH_GET.check_mixing(merged, wording)


def _take_keys(read: _TableRead, form: Form) -> None:
    """Encode the keys of one table; refuse a key that is there twice.

    A number spelt in two ways names one item that is returned once (observed: scylladb).
    """
    seen: dict[bytes, Any] = {}
    for given in read.request["Keys"]:
        key = form.encode_item(given)
        if key not in seen:
            seen[key] = given
            read.keys.append((given, key))
        elif seen[key] == given:
            raise refuse(refusals.DUPLICATE_KEYS)


def _run_reads(database: Any, reads: list[_TableRead], form: Form) -> Reply:
    responses: dict[str, list[Any]] = {}
    unprocessed: dict[str, Any] = {}
    whole = room = database.settings.limit_batch_get_bytes
    seqno = 0
    throttle, insights = database.writes.throttle, database.writes.insights
    refusal: Throttled | None = None
    for read in reads:
        found: list[Any] = []
        done = 0
        for key, kept in _stored(read):
            stored = ttl.shown(database.settings, read.handle, key, kept)
            size = read.handle.keys.stored_size(stored) if stored is not None else 0
            if throttle is not None:
                refusal = _draw(throttle, read, size)
                if refusal is not None:
                    break
            if insights.is_on:
                insights.note(read.handle, key)
            if size > room and room < whole:
                room = 0
                break
            room -= size
            done += 1
            read.sizes.append(size)
            if stored is not None:
                found.append(_shaped(read, key, stored, form))
            if read.is_consistent and database.must_wait:
                seqno = max(seqno, database.writes.seqno_near(key))
        responses[read.name] = found
        if done < len(read.keys):
            unprocessed[read.name] = {
                **read.request,
                "Keys": [given for given, _ in read.keys[done:]],
            }
    if refusal is not None and not any(read.sizes for read in reads):
        raise refusals.throttled(refusal)
    if seqno:
        replies.settle(database, seqno)
    return {"Responses": responses, "UnprocessedKeys": unprocessed}


def _draw(throttle: Any, read: _TableRead, size: int) -> Throttled | None:
    """Take the units of one item from the table's bucket; returns why it must wait."""
    try:
        throttle.admit(read.handle, READ)
    except Throttled as problem:
        return problem
    throttle.charge(read.handle, READ, Tally(read_units(size, read.is_consistent)))
    return None


def _stored(read: _TableRead) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (tree key, stored value), reading a slice at a time."""
    for start in range(0, len(read.keys), _SLICE_ITEMS):
        keys = [key for _, key in read.keys[start : start + _SLICE_ITEMS]]
        yield from zip(keys, read.handle.tree.multi_get(keys), strict=True)


def _shaped(read: _TableRead, key: bytes, stored: bytes, form: Form) -> Any:
    keys = read.handle.keys
    if read.projection is None:
        return keys.decode(key, stored, form.kind)
    return replies.projected(keys.join(key, stored), read.projection, form)


# One request of a BatchWriteItem: (table as given, is a put, encoded item or key).
_Request = tuple[str, bool, bytes]


@operation("BatchWriteItem", straight_writes.batch_write_item)
def batch_write_item(database: Any, request: Request, form: Form) -> Reply:
    """Put and delete up to 25 items of several tables."""
    requests = _prepare_writes(request["RequestItems"], form, database.settings)
    refused = _refused_tables(database, requests)
    if refused:
        requests = [part for part in requests if part[0] not in refused]
    while True:
        writes = _make_writes(database, requests)
        try:
            seqno = database.writes.run_all(writes)
            break
        except StaleHandle:
            continue
        except ActionProblem as found:
            raise found.problem from None
    database.finish(seqno)
    reply: Reply = {"UnprocessedItems": {name: request["RequestItems"][name] for name in refused}}
    charge_writes(database, writes)
    add_write_reports(reply, request, writes, form)
    return reply


def _refused_tables(database: Any, requests: list[_Request]) -> list[str]:
    """Return the tables whose throughput is used up. Raises: when all of them are."""
    throttle = database.writes.throttle
    if throttle is None:
        return []
    names = list(dict.fromkeys(name for name, _, _ in requests))
    refused: list[str] = []
    for name in names:
        try:
            throttle.admit(data_table(database, name), WRITE)
        except Throttled as problem:
            refused.append(name)
            if len(refused) == len(names):
                raise refusals.throttled(problem) from None
    return refused


def charge_writes(database: Any, writes: Sequence[Write], factor: int = 1) -> None:
    """Charge writes to their tables, when throughput is enforced; count their keys."""
    throttle, insights = database.writes.throttle, database.writes.insights
    if insights.is_on:
        for write in writes:
            insights.note(write.handle, write.key)
    if throttle is not None:
        for write in writes:
            throttle.charge(write.handle, WRITE, write.tally(factor))


def _prepare_writes(tables: Mapping[str, Any], form: Form, settings: Settings) -> list[_Request]:
    if not tables:
        raise refuse("The requestItems parameter is required for BatchWriteItem")
    requests: list[_Request] = []
    for name, parts in tables.items():
        for part in parts:
            put, delete = part.get("PutRequest"), part.get("DeleteRequest")
            if (put is None) == (delete is None):
                raise refuse(_ONE_REQUEST)
            if put is not None:
                item = form.encode_item(put["Item"])
                check_item_size(item, settings.limit_item_bytes)
                requests.append((name, True, item))
            else:
                requests.append((name, False, form.encode_item(delete["Key"])))
    if len(requests) > settings.limit_batch_write_items:
        raise refuse("Too many items requested for the BatchWriteItem call")
    return requests


def _make_writes(database: Any, requests: list[_Request]) -> list[Write]:
    handles = {name: data_table(database, name) for name, _, _ in requests}
    writes: list[Write] = []
    seen = set()
    for name, is_put, encoded in requests:
        handle = handles[name]
        keys = handle.keys
        key = keys.encode(encoded) if is_put else keys.encode_key(encoded)
        if (handle.name, key) in seen:
            raise refuse(refusals.DUPLICATE_KEYS)
        seen.add((handle.name, key))
        writes.append(Put(handle, key, encoded) if is_put else Delete(handle, key))
    return writes


def add_write_reports(
    reply: Reply,
    request: Request,
    writes: Sequence[Write],
    form: Form,
    factor: int = 1,
    direction: str = "",
) -> None:
    """Add ConsumedCapacity (a list, one per table) and ItemCollectionMetrics (a map) if wanted."""
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        tallies: dict[str, Tally] = {}
        for write in writes:
            tally = tallies.setdefault(write.handle.name, Tally())
            tally.table_units += write.tally(factor).table_units
            write.add_index_units(tally)
        reply["ConsumedCapacity"] = [
            tally.report(mode, name, direction) for name, tally in tallies.items()
        ]
    if request.get("ReturnItemCollectionMetrics") == "SIZE":
        metrics: dict[str, dict[bytes, Any]] = {}
        for write in writes:
            found = replies.item_collection(write.handle, write.key, form)
            if found is not None:
                partition = replies.partition_of(write.handle, write.key)
                metrics.setdefault(write.handle.name, {})[partition] = found
        if metrics:
            reply["ItemCollectionMetrics"] = {
                name: list(found.values()) for name, found in metrics.items()
            }
