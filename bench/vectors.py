"""Vector search: recall against exact search, latency, memory, time to build.

    python bench/vectors.py                          # 65,000 vectors of 96 elements
    python bench/vectors.py --rows 20000 --queries 50

Vectors are drawn around `--clusters` centres (as embeddings lie), or with --clusters 0 without any
order at all (the hardest case); queries likewise. The truth is found by numpy in 64 bits. `recall`
is the part of the true nearest `--top` that a search returned. The same searches are made twice:
with every vector compared, and through the graph, when there is one (model/vector_groups.py).
Needs numpy and usearch: pip install 'dynalsm[vectors]'.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import Any

import numpy
from common import machine, machine_text

import dynalsm
from dynalsm.model import vectors

TABLE = "Things"
INDEX = "near"


def draw(rows: int, dimensions: int, clusters: int, seed: int) -> Any:
    """Return random vectors of 32-bit floats."""
    noise = numpy.random.default_rng(seed).standard_normal((rows, dimensions))
    if clusters:
        centres = numpy.random.default_rng(0).standard_normal((clusters, dimensions)) * 2
        noise += centres[numpy.random.default_rng(seed + 1).integers(0, clusters, rows)]
    return noise.astype(numpy.float32)


def nearest(base: Any, query: Any, top: int, distance: str) -> set[int]:
    """Return the true nearest rows."""
    wide, q = base.astype(numpy.float64), query.astype(numpy.float64)
    if distance == "EUCLIDEAN":
        score = ((wide - q) ** 2).sum(1)
    else:
        score = -(wide @ q)
        if distance == "COSINE":
            score /= numpy.linalg.norm(wide, axis=1)
    return set(numpy.argpartition(score, top)[:top].tolist())


def typed(vector: Any) -> list[dict[str, str]]:
    """Return a vector as requests have it."""
    return [{"N": str(each)} for each in vector]


def fill(db: Any, base: Any, distance: str) -> float:
    """Make the table; return the seconds that the puts took."""
    db.call(
        "CreateTable",
        {
            "TableName": TABLE,
            "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "N"}],
            "BillingMode": "PAY_PER_REQUEST",
            "VectorIndexes": [
                {
                    "IndexName": INDEX,
                    "VectorAttribute": {"AttributeName": "e"},
                    "Dimensions": base.shape[1],
                    "DistanceFunction": distance,
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        },
    )
    began = time.perf_counter()
    for first in range(0, len(base), 25):
        puts = [
            {"PutRequest": {"Item": {"p": {"N": str(row)}, "e": {"L": typed(base[row])}}}}
            for row in range(first, min(first + 25, len(base)))
        ]
        db.call("BatchWriteItem", {"RequestItems": {TABLE: puts}})
    return time.perf_counter() - began


def search_all(
    db: Any, queries: Any, truth: list[set[int]], top: int
) -> tuple[float, float, float]:
    """Return (recall, median and longest milliseconds) of all queries."""
    hits, times = 0, []
    for query, true in zip(queries, truth, strict=True):
        call = {
            "TableName": TABLE,
            "IndexName": INDEX,
            "SearchVector": typed(query),
            "TopK": top,
        }
        began = time.perf_counter()
        found = db.call("SearchVectors", call)["SearchResults"]
        times.append((time.perf_counter() - began) * 1000)
        hits += len({int(each["Item"]["p"]["N"]) for each in found} & true)
    return hits / (top * len(truth)), statistics.median(times), max(times)


def run(given: argparse.Namespace, distance: str) -> None:
    """Measure one distance function; print rows of the table."""
    base = draw(given.rows, given.dimensions, given.clusters, 1)
    queries = draw(given.queries, given.dimensions, given.clusters, 2)
    truth = [nearest(base, query, given.top, distance) for query in queries]
    with tempfile.TemporaryDirectory() as path, dynalsm.open(path, durability="os") as db:
        seconds = fill(db, base, distance)
        index = db.catalog.get(TABLE).indexes[INDEX]
        group = index.space.group(index, vectors.scope_of(index, None), db.engine)
        # Nothing builds a graph beside the measurement; it is built below.
        wanted, type(group).needs_graph = type(group).needs_graph, property(lambda _: False)
        search_all(db, queries[:1], truth[:1], given.top)
        recall, median, longest = search_all(db, queries, truth, given.top)
        row = f"| {distance} | {{}} | {{:.4f}} | {{:.1f}} | {{:.1f}} | {{:.0f}} |"
        print(row.format("exact", recall, median, longest, group.size_bytes / 1e6), flush=True)
        began = time.perf_counter()
        group.build_graph(lambda: False)
        built = time.perf_counter() - began
        recall, median, longest = search_all(db, queries, truth, given.top)
        print(row.format("graph", recall, median, longest, group.size_bytes / 1e6))
        type(group).needs_graph = wanted
        print(f"\n{given.rows / seconds:,.0f} puts/s; graph built in {built:.1f} s\n", flush=True)


def main() -> None:
    """Measure what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=65_000)
    parser.add_argument("--dimensions", type=int, default=96)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--distances", default="COSINE,EUCLIDEAN,DOT_PRODUCT")
    given = parser.parse_args()
    print(machine_text(machine()) + "\n")
    print("| distance | search | recall | median ms | longest ms | memory MB |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for distance in given.distances.split(","):
        run(given, distance)


if __name__ == "__main__":
    main()
