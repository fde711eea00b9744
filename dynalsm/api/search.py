"""SearchVectors: the items whose vectors are nearest to a vector.

On AWS another service answers this operation, so a few things are not as elsewhere: the
deserialiser is strict (validate.py), and consumed capacity is in bytes. Order of checks and texts:
reference 1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynalsm import limits, values
from dynalsm.api import messages, refusals, replies
from dynalsm.api.names import data_table
from dynalsm.api.parameters import Parameters
from dynalsm.api.refusals import refuse
from dynalsm.api.registry import operation
from dynalsm.expressions.evaluate import type_tag
from dynalsm.expressions.searchcondition import LABEL, SearchCondition
from dynalsm.model import vectors
from dynalsm.model.capacity import vector_request_bytes
from dynalsm.model.handles import IndexHandle, TableHandle
from dynalsm.model.schema import ACTIVE, DELETING
from dynalsm.model.vector_rows import VectorQuery, entry_floats
from dynalsm.model.vector_source import query_floats, vector_value
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

SEARCH: Final = Parameters("SearchVectors", "SearchConditionExpression ProjectionExpression")

INVALID_VECTOR: Final = (
    "Search vector contains invalid values. All values in the search vector must be a 32-bit "
    "floating-point number attribute"
)
HASH_REQUIRED: Final = "SearchConditionExpression must be provided when SearchSchema has a HASH key"
REPLY_TOO_LARGE: Final = "The response of SearchVectors exceeds the maximum size of 16 MB"


@operation("SearchVectors")
def search_vectors(database: Any, request: Request, form: Form) -> Reply:
    """Return the TopK nearest items, best first."""
    wording = database.settings.wording
    top_k = request["TopK"]
    if top_k > limits.VECTOR_MAX_TOP_K:
        raise refuse(
            f"Provided TopK value '{top_k}' is out of valid range. The value must be between 1 "
            f"and {limits.VECTOR_MAX_TOP_K} inclusive"
        )
    SEARCH.check_mixing(request, wording)
    bound = SEARCH.bind(request, form, database.settings)
    handle = data_table(database, request["TableName"])
    index = _index(handle, request["IndexName"])
    query = _query(index, request["SearchVector"], form)
    hash_value, wanted = _restrictions(handle, index, bound.search_condition)
    found = vectors.search(database, index, query, top_k, hash_value, wanted)
    reply: Reply = {"SearchResults": _results(index, found.hits, bound.projection, form)}
    if request.get("ReturnConsumedCapacity") not in (None, "NONE"):
        size = vector_request_bytes(found.examined_bytes)
        reply["ConsumedCapacity"] = {"VectorSearchRequestBytes": float(size)}
    return reply


def _index(handle: TableHandle, name: str) -> IndexHandle:
    index = handle.indexes.get(name)
    # What is said of an index of another kind is unverified.
    if index is None or index.vectors is None or index.schema.status == DELETING:
        raise refusals.unknown_index(name)
    if index.schema.status != ACTIVE:
        raise refuse(f"Cannot search backfilling vector index: {name}")
    return index


def _query(index: IndexHandle, elements: Any, form: Form) -> VectorQuery:
    """Return the search vector; its elements are looked at before their number (observed)."""
    spec = index.schema.vector
    assert spec is not None
    floats = query_floats(list(map(form.encode_value, elements)))
    if floats is None:
        raise refuse(INVALID_VECTOR)
    if len(elements) != spec.dimensions:
        raise refuse(
            f"Input search vector dimension {len(elements)} does not match vector index dimension "
            f"{spec.dimensions}"
        )
    return VectorQuery(floats, spec.distance)


def _restrictions(
    handle: TableHandle, index: IndexHandle, condition: SearchCondition | None
) -> tuple[bytes | None, dict[str, bytes]]:
    """Return (encoded HASH value or None, {INLINE_FILTER attribute: encoded value})."""
    assert index.vectors is not None
    equalities = {} if condition is None else _checked(handle, index, condition)
    hash_name = index.vectors.hash_name
    hash_value = None
    if hash_name is not None:
        if hash_name not in equalities:
            raise refuse(HASH_REQUIRED)
        hash_value = equalities.pop(hash_name)
    return hash_value, equalities


def _checked(
    handle: TableHandle, index: IndexHandle, condition: SearchCondition
) -> dict[str, bytes]:
    assert index.vectors is not None
    known = {*index.vectors.filters, index.vectors.hash_name}
    for path, _ in condition.equalities:
        if path[0] not in known:
            raise refuse(
                f"{LABEL} must not contain any attributes that is not in SearchSchema. Invalid "
                f"attribute: {path[0]}"
            )
    equalities = condition.by_attribute()
    hash_name = index.vectors.hash_name
    if hash_name is not None and hash_name not in equalities:
        raise refuse(HASH_REQUIRED)
    for name, value in equalities.items():
        declared, actual = handle.schema.attributes[name], type_tag(value)
        if actual != declared:
            raise refuse(
                f"Type of '{name}' attribute in {LABEL} ({actual}) does not match type in search "
                f"schema ({declared})"
            )
        if name == hash_name and value in ("", b""):
            raise refuse(messages.key_empty(name, declared))
    return {name: values.encode_value(value) for name, value in equalities.items()}


def _results(
    index: IndexHandle, hits: list[vectors.Hit], projection: Any, form: Form
) -> list[dict[str, Any]]:
    """Return the results: projected attributes, the vector only when it is asked for."""
    spec = index.schema.vector
    assert spec is not None
    name = spec.attribute
    wants_vector = projection is not None and name in projection.attributes
    results = []
    size_bytes = 0
    for hit in hits:
        item = index.keys.join(hit.key, hit.stored)
        if wants_vector:
            floats = entry_floats(hit.stored, name.encode(), spec.dimensions)
            item = values.merge(item, {name: vector_value(floats)})
        else:
            item = values.without(item, [name])
        size_bytes += len(item)
        if projection is None:
            shown = form.decode_item(item)
        else:
            shown = replies.projected(item, projection, form)
        results.append({"Item": shown, "Score": hit.score})
    if size_bytes > limits.VECTOR_REPLY_MAX_BYTES:
        raise refuse(REPLY_TOO_LARGE)
    return results
