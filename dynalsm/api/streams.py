"""ListStreams, DescribeStream, GetShardIterator, GetRecords (reference 9).

A stream is a row of changelogs that are shown, its generations (model/changelog.py). Each has so
many shards; shard n holds a range of the partition-key hash, which is that of one shard of the
generation before, its parent, or a part of it. Only the shards of the newest one are open. Sequence
numbers are the engine's, written with 21 digits, so they grow within a shard and across shards.

An iterator is a token that says where to read on; nothing is kept for it on this side.
"""

from __future__ import annotations

import base64
import contextlib
import re
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgpack

from dynalsm import errors, limits, values
from dynalsm.api import messages, names
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import changelog
from dynalsm.model.changelog import Change, Changelog, ChangelogRecord

LIST_LIMIT = 100
SEQNO_MAX = (1 << 56) - 1  # the engine's
_ARN = re.compile(
    r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]{12}):table/([a-zA-Z0-9_.-]+)/stream/([^/|]+)"
)
_SHARD_ID = re.compile(r"shardId-([0-9]{20})-([0-9a-f]{8})")


@operation("ListStreams")
def list_streams(database: Any, request: Request, _form: Any) -> Reply:
    """List streams by table and age, those of deleted tables too."""
    wanted = request.get("TableName")
    table = None if wanted is None else names.plain_name(database.settings, wanted)
    newest = {
        (record.table, record.stream): record
        for record in sorted(database.catalog.logs(), key=lambda record: record.generation)
    }
    records = sorted(
        (
            record
            for record in newest.values()
            if table in (None, record.table) and _is_shown(database, record)
        ),
        key=_list_key,
    )
    first = 0
    if request.get("ExclusiveStartStreamArn") is not None:
        start = _parse_arn(request["ExclusiveStartStreamArn"])
        first = bisect_right(records, start, key=_list_key)
    limit = request.get("Limit") or LIST_LIMIT
    page = records[first : first + limit]
    reply: Reply = {
        "Streams": [
            {
                "StreamArn": _arn(database, record),
                "TableName": record.table,
                "StreamLabel": record.stream,
            }
            for record in page
        ]
    }
    if first + limit < len(records):
        reply["LastEvaluatedStreamArn"] = reply["Streams"][-1]["StreamArn"]
    return reply


@operation("DescribeStream")
def describe_stream(database: Any, request: Request, _form: Any) -> Reply:
    """Describe a stream and its shards."""
    generations = _open(database, request["StreamArn"])
    record = generations[-1].record
    start = request.get("ExclusiveStartShardId")
    shards = [
        (log, number)
        for log in generations
        for number in range(log.record.shards)
        if start is None or _shard_id(log.record, number) > start
    ]
    if request.get("ShardFilter"):
        parent = request["ShardFilter"]["ShardId"]
        shards = [each for each in shards if _parent_id(generations, *each) == parent]
    limit = request.get("Limit") or LIST_LIMIT
    described: Reply = {
        "StreamArn": _arn(database, record),
        "StreamLabel": record.stream,
        "StreamStatus": "ENABLED" if record.closed_at is None else "DISABLED",
        "StreamViewType": record.view,
        "CreationRequestDateTime": _created_at(record),
        "TableName": record.table,
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in record.key_schema],
        "Shards": [_describe_shard(database, generations, *each) for each in shards[:limit]],
    }
    if limit < len(shards):
        described["LastEvaluatedShardId"] = described["Shards"][-1]["ShardId"]
    return {"StreamDescription": described}


@operation("GetShardIterator")
def get_shard_iterator(database: Any, request: Request, _form: Any) -> Reply:
    """Return a token for the place in a shard where reading is to begin."""
    generations = _open(database, request["StreamArn"])
    log, shard = _find_shard(generations, request["ShardId"])
    seqno, from_horizon = _start(database, log, shard, request)
    place = _Place(log.record.generation, shard, seqno, from_horizon)
    return {"ShardIterator": _token(database, log.record, place)}


@operation("GetRecords")
def get_records(database: Any, request: Request, form: Any) -> Reply:
    """Return the records behind an iterator, and an iterator for what follows."""
    log, place = _parse_token(database, request["ShardIterator"])
    record = log.record
    readable = _readable(database, record)
    begin = _begin(database, log, place.shard, readable)
    if place.seqno < begin and not place.from_horizon:
        _refuse_trimmed()
    page = changelog.read(
        log,
        place.shard,
        max(place.seqno, begin),
        readable,
        request.get("Limit") or limits.GET_RECORDS_MAX,
        limits.GET_RECORDS_MAX_BYTES,
    )
    reply: Reply = {"Records": [_record(database, record, change, form) for change in page.changes]}
    # The last records of a shard that was closed a moment ago may not be durable yet.
    if not (page.is_end and record.end_seqno is not None and readable >= record.end_seqno):
        following = place._replace(seqno=page.next_seqno, from_horizon=False)
        reply["NextShardIterator"] = _token(database, record, following)
    return reply


# Streams.


def _is_shown(database: Any, record: ChangelogRecord) -> bool:
    """Return whether a changelog is a stream that is open, or was until a day ago."""
    if record.closed_at is None:
        return record.is_stream
    settings = database.settings
    oldest: float = settings.clock() - settings.stream_retention_seconds
    return record.is_stream and record.closed_at > oldest


def _list_key(record: ChangelogRecord | tuple[str, str]) -> tuple[str, str]:
    return record if isinstance(record, tuple) else (record.table, record.stream)


def _arn(database: Any, record: ChangelogRecord) -> str:
    return f"{database.settings.table_arn(record.table)}/stream/{record.stream}"


def _created_at(record: ChangelogRecord) -> float:
    """Return when the first generation was made, which may be gone: the label says it."""
    return datetime.fromisoformat(record.stream).replace(tzinfo=UTC).timestamp()


def _parse_arn(arn: str) -> tuple[str, str]:
    """Return (table name, label). Raises: ValidationException."""
    match = _ARN.fullmatch(arn)
    if match is None:
        fail(f"Invalid StreamArn: {arn}")
    return match[3], match[4]


def _open(database: Any, arn: str) -> list[Changelog]:
    """Return the generations of a stream that are shown, the oldest first.

    Raises: ValidationException, ResourceNotFoundException.
    """
    catalog = database.catalog
    newest = catalog.find_log(*_parse_arn(arn))
    if newest is None or not _is_shown(database, newest) or _arn(database, newest) != arn:
        raise errors.API_ERRORS["ResourceNotFoundException"](messages.stream_not_found(arn))
    of_stream = [
        record
        for record in catalog.logs()
        if (record.table_id, record.stream) == (newest.table_id, newest.stream)
    ]
    opened: list[Changelog] = []
    for record in sorted(of_stream, key=lambda record: record.generation):
        if _is_shown(database, record):
            # One that is trimmed away in this moment is as good as not shown.
            with contextlib.suppress(KeyError):
                opened.append(catalog.open_log(record))
    if not opened:
        raise errors.API_ERRORS["ResourceNotFoundException"](messages.stream_not_found(arn))
    return opened


# Shards and sequence numbers.


def _shard_id(record: ChangelogRecord, number: int) -> str:
    return f"shardId-{int(record.created_at * 1000):020d}-{number:08x}"


def _find_shard(generations: list[Changelog], shard_id: str) -> tuple[Changelog, int]:
    """Return a shard as its generation and number. Raises: ResourceNotFoundException."""
    match = _SHARD_ID.fullmatch(shard_id)
    number = int(match[2], 16) if match else 0
    for log in generations:
        if number < log.record.shards and _shard_id(log.record, number) == shard_id:
            return log, number
    raise errors.API_ERRORS["ResourceNotFoundException"](
        f"{messages.NOT_FOUND}: Shard does not exist: {shard_id}"
    )


def _parent_id(generations: list[Changelog], log: Changelog, number: int) -> str | None:
    """Return the id of the shard that held a shard's hash range before, None when it is gone."""
    wanted = log.record.generation - 1
    for before in generations:
        if before.record.generation == wanted:
            return _shard_id(before.record, number * before.record.shards // log.record.shards)
    return None


def sequence_number(seqno: int) -> str:
    """Return an engine sequence number as streams show it: 21 digits."""
    return f"1{seqno:020d}"


def _parse_sequence_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) == 21 and text[0] == "1"):
        invalid(f"Invalid SequenceNumber: {text}")
    if int(text[1:]) > SEQNO_MAX:
        invalid(f"Invalid SequenceNumber: {text}")
    return int(text[1:])


def _readable(database: Any, record: ChangelogRecord) -> int:
    readable = changelog.readable_seqno(database.engine)
    return readable if record.end_seqno is None else min(readable, record.end_seqno)


def _begin(database: Any, log: Changelog, shard: int, readable: int) -> int:
    settings = database.settings
    return changelog.first_seqno(
        log, shard, settings.clock(), readable, settings.stream_retention_seconds
    )


def _describe_shard(
    database: Any, generations: list[Changelog], log: Changelog, number: int
) -> dict[str, Any]:
    record = log.record
    begin = _begin(database, log, number, _readable(database, record))
    described: dict[str, Any] = {
        "ShardId": _shard_id(record, number),
        "SequenceNumberRange": {"StartingSequenceNumber": sequence_number(begin)},
    }
    if record.end_seqno is not None:
        end = sequence_number(max(begin, record.end_seqno))
        described["SequenceNumberRange"]["EndingSequenceNumber"] = end
    parent = _parent_id(generations, log, number)
    if parent is not None:
        described["ParentShardId"] = parent
    return described


def _start(database: Any, log: Changelog, shard: int, request: Request) -> tuple[int, bool]:
    """Return (sequence number, whether the oldest record there is will do)."""
    kind, text = request["ShardIteratorType"], request.get("SequenceNumber")
    needs_number = kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
    if needs_number and text is None:
        invalid(f"SequenceNumber must be specified for ShardIteratorType {kind}")
    if not needs_number and text is not None:
        invalid(f"SequenceNumber must not be specified for ShardIteratorType {kind}")
    if kind == "TRIM_HORIZON":
        return 0, True
    if kind == "LATEST":
        return database.engine.last_seqno + 1, False
    readable = _readable(database, log.record)
    if kind == "AT_TIMESTAMP":
        moment = names.seconds(request.get("Timestamp"))
        if moment is None:
            invalid("Timestamp must be specified for ShardIteratorType AT_TIMESTAMP")
        return changelog.seqno_at(log, shard, int(moment * 1000), readable), True
    seqno = _parse_sequence_number(str(text))
    if seqno < _begin(database, log, shard, readable):
        _refuse_trimmed()
    return seqno + (kind == "AFTER_SEQUENCE_NUMBER"), False


def _refuse_trimmed() -> None:
    raise errors.API_ERRORS["TrimmedDataAccessException"](
        "The operation attempted to read past the oldest stream record in a shard"
    )


# Iterators.


class _Place(NamedTuple):
    """Where an iterator stands."""

    generation: int
    shard: int
    seqno: int
    # Whether it begins at whatever is the oldest record when it is used.
    from_horizon: bool


def _token(database: Any, record: ChangelogRecord, place: _Place) -> str:
    issued = int(database.settings.clock() * 1000)
    packed = base64.urlsafe_b64encode(msgpack.packb((*place, issued, record.table_id[:8])))
    return f"{_arn(database, record)}|1|{packed.decode()}"


def _parse_token(database: Any, token: str) -> tuple[Changelog, _Place]:
    arn, _, packed = token.partition("|1|")
    try:
        generation, shard, seqno, from_horizon, issued, table_id = msgpack.unpackb(
            base64.b64decode(packed, altchars=b"-_", validate=True)
        )
    except (ValueError, TypeError, msgpack.UnpackException):
        fail("Invalid ShardIterator")
    counts = (generation, shard, seqno, issued)
    if type(from_horizon) is not bool or any(type(each) is not int for each in counts):
        fail("Invalid ShardIterator")
    if not 0 <= seqno <= SEQNO_MAX + 1:
        fail("Invalid ShardIterator")
    place = _Place(generation, shard, seqno, from_horizon)
    age_seconds = database.settings.clock() - issued / 1000
    generations = _open(database, arn)
    if generations[-1].record.table_id[:8] != table_id:
        fail("Invalid ShardIterator")
    lifetime = database.settings.iterator_lifetime_seconds
    if age_seconds > lifetime:
        raise errors.API_ERRORS["ExpiredIteratorException"](
            f"Iterator expired: it is {age_seconds:.0f} seconds old, and iterators live "
            f"{lifetime:.0f} seconds"
        )
    if 0 <= place.generation < generations[0].record.generation:
        _refuse_trimmed()
    found = [log for log in generations if log.record.generation == place.generation]
    if not found or not 0 <= place.shard < found[0].record.shards:
        fail("Invalid ShardIterator")
    return found[0], place


# Records.


def _record(database: Any, record: ChangelogRecord, change: Change, form: Any) -> dict[str, Any]:
    view = record.view
    body: dict[str, Any] = {
        "ApproximateCreationDateTime": float(change.milliseconds // 1000),
        "Keys": form.decode_item(change.keys),
        "SequenceNumber": sequence_number(change.seqno),
        "StreamViewType": view,
    }
    size = values.item_size(change.keys)
    if change.new_item is not None and view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"):
        body["NewImage"] = form.decode_item(change.new_item)
        size += values.item_size(change.new_item)
    if change.old_item is not None and view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"):
        body["OldImage"] = form.decode_item(change.old_item)
        size += values.item_size(change.old_item)
    body["SizeBytes"] = size
    shown: dict[str, Any] = {
        "eventID": f"{record.table_id.replace('-', '')[:16]}{change.seqno:016x}",
        "eventName": changelog.KIND_NAMES[change.kind],
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": database.settings.region,
        "dynamodb": body,
    }
    if change.by_ttl:
        shown["userIdentity"] = {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}
    return shown
