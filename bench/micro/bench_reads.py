"""GetItem and Query in process: what a call costs without items, with one, with a page.

    python -m pytest bench/micro/bench_reads.py --benchmark-only -o python_files='bench_*.py'

The item is that of bench/items.py, about 520 bytes in ten attributes; 20 share a partition key.
`long` goes the way of requests that need a closer look (straight.pyx says which do not).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.api import OPERATIONS
from dynalsm.model.pages import read_page
from dynalsm.values import JSON, NATIVE, WIRE, Form

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import items

Run = Callable[[Callable[[], Any]], Any]
QUERY: dict[str, Any] = {
    "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
    "FilterExpression": "age < :limit",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    engine = items.Dynalsm(str(tmp_path_factory.mktemp("reads") / "db"), sync=False)
    for number in range(4000):
        engine.put(items.make_item(number))
    yield engine.plain
    engine.close()


@pytest.fixture(params=["straight", "long"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    for name in ("GetItem", "Query"):
        OPERATIONS[name].load()
    saved = {name: OPERATIONS[name].straight for name in ("GetItem", "Query")}
    if request.param == "long":
        for name in saved:
            OPERATIONS[name].straight = None
    yield request.param
    for name, function in saved.items():
        OPERATIONS[name].straight = function


@pytest.mark.parametrize("pk", ["user#000007", "nobody"], ids=["found", "missing"])
def test_get_item(benchmark: Run, table: Any, way: str, pk: str) -> None:
    benchmark(lambda: table.get_item(Key={"pk": pk, "sk": 7}))


@pytest.mark.parametrize("high", [-1, 0, 19], ids=["none", "one", "twenty"])
def test_query(benchmark: Run, table: Any, way: str, high: int) -> None:
    def run() -> Any:
        values = {":pk": "user#000007", ":low": -2, ":high": high, ":limit": 1000000}
        return table.query(**QUERY, ExpressionAttributeValues=values)

    assert run()["Count"] == high + 1
    benchmark(run)


@pytest.mark.parametrize(
    "form", [None, NATIVE, WIRE, JSON], ids=["bytes", "native", "wire", "json"]
)
def test_page(benchmark: Run, table: Any, form: Form | None) -> None:
    database: dynalsm.Database = table._database
    handle: Any = database.catalog.get("Plain")
    prefix = handle.keys.partition_prefix(NATIVE.encode_value("user#000007"))
    lower, upper = handle.keys.sort_range(prefix)
    more = {} if form is None else {"form": form.kind}
    benchmark(lambda: read_page(handle, lower, upper, **more))
