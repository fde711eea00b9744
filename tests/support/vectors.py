"""Tables with vector indexes, and what a search of them must find, in plain Python."""

from __future__ import annotations

import math
import struct
from typing import Any

from dynalsm.database import Database

NAME = "Things"
FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def numbers(*elements: Any) -> list[dict[str, str]]:
    """A vector as requests have it."""
    return [{"N": str(element)} for element in elements]


def vector_index(
    name: str, distance: str = "COSINE", dimensions: int = 3, **more: Any
) -> dict[str, Any]:
    """A VectorIndex on the attribute e; `hash` and `filters` name its search schema."""
    schema = [
        {"AttributeName": more.pop("hash"), "SearchSchemaElementType": "HASH"}
        for _ in range("hash" in more)
    ]
    schema += [
        {"AttributeName": each, "SearchSchemaElementType": "INLINE_FILTER"}
        for each in more.pop("filters", ())
    ]
    index: dict[str, Any] = {
        "IndexName": name,
        "VectorAttribute": {"AttributeName": more.pop("attribute", "e")},
        "Dimensions": dimensions,
        "DistanceFunction": distance,
        "Projection": {"ProjectionType": "ALL"},
    }
    if schema:
        index["SearchSchema"] = schema
    return {**index, **more}


def vector_table(*indexes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A CreateTable request with the key p (S); search-schema attributes t (S), c (N), b (B)."""
    kinds = {"t": "S", "c": "N", "b": "B"}
    used = {part["AttributeName"] for each in indexes for part in each.get("SearchSchema", ())}
    request: dict[str, Any] = {
        "TableName": NAME,
        "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
        "AttributeDefinitions": [
            {"AttributeName": "p", "AttributeType": "S"},
            *(
                {"AttributeName": each, "AttributeType": kind}
                for each, kind in kinds.items()
                if each in used
            ),
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if indexes:
        request["VectorIndexes"] = list(indexes)
    return {**request, **more}


def put(db: Database, key: str, vector: Any = None, **attributes: Any) -> None:
    """Put an item; `vector` are the elements of e."""
    item: dict[str, Any] = {"p": {"S": key}, **attributes}
    if vector is not None:
        item["e"] = {"L": numbers(*vector)}
    db.call("PutItem", {"TableName": NAME, "Item": item})


def search(db: Database, index: str, vector: Any, k: int = 10, **more: Any) -> list[Any]:
    """Search and return [(key, score)], best first."""
    request = {"TableName": NAME, "IndexName": index, "SearchVector": numbers(*vector), "TopK": k}
    results = db.call("SearchVectors", {**request, **more})["SearchResults"]
    return [(each["Item"]["p"]["S"], each["Score"]) for each in results]


def as_floats(vector: Any) -> list[float]:
    """Round elements to 32-bit floats."""
    return [struct.unpack("<f", struct.pack("<f", float(each)))[0] for each in vector]


def score(distance: str, left: Any, right: Any) -> float:
    """The score of two vectors by its definition."""
    a, b = as_floats(left), as_floats(right)
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    if distance == "DOT_PRODUCT":
        value = dot
    elif distance == "EUCLIDEAN":
        value = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    else:
        lengths = math.fsum(x * x for x in a) * math.fsum(y * y for y in b)
        value = 1.0 if lengths == 0.0 else min(2.0, max(0.0, 1.0 - dot / math.sqrt(lengths)))
    return max(-FLOAT_MAX, min(FLOAT_MAX, value))
