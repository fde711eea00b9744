"""What it costs to find that a request is valid.

    python -m pytest bench/micro/bench_validate.py --benchmark-only

The checkers look at each member once. Medians on a 2-core machine: GetItem 0.33 us, PutItem
with a condition 0.47, Query 0.45, TransactWriteItems of ten puts 2.9, BatchWriteItem of 25 4.4.
"""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm.api import validate
from dynalsm.model.settings import Settings

KEY = {"pk": {"S": "a"}}
CONDITION = {
    "ConditionExpression": "#a = :a",
    "ExpressionAttributeNames": {"#a": "a"},
    "ExpressionAttributeValues": {":a": {"S": "x"}},
}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "get": ("GetItem", {"TableName": "Music", "Key": KEY}),
    "put": ("PutItem", {"TableName": "Music", "Item": KEY, **CONDITION}),
    "query": (
        "Query",
        {
            "TableName": "Music",
            "KeyConditionExpression": "pk = :a",
            "ExpressionAttributeValues": {":a": {"S": "x"}},
            "Limit": 10,
        },
    ),
    "transact": (
        "TransactWriteItems",
        {"TransactItems": [{"Put": {"TableName": "Music", "Item": KEY}}] * 10},
    ),
    "batch": (
        "BatchWriteItem",
        {"RequestItems": {"Music": [{"PutRequest": {"Item": KEY}}] * 25}},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_validate(benchmark: Any, name: str) -> None:
    operation, request = REQUESTS[name]
    settings = Settings()
    validate.validate(operation, request, settings)  # the table's name becomes known
    benchmark(validate.validate, operation, request, settings)
