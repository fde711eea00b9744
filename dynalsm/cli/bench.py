"""`dynalsm bench`: what this machine and its disk give; comparisons are under bench/."""

from __future__ import annotations

import itertools
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynalsm.cli import output
from dynalsm.cli.data import JsonOption

if TYPE_CHECKING:
    from dynalsm.resource import Table

ITEMS = 20_000  # read back by the measurements of reads
THREADS = 8
TEXT = "x" * 100

Step = Callable[[], Any]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(bench)


def bench(
    directory: Annotated[
        Path | None, typer.Argument(help="Where to measure: a directory on the disk in question.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="For each measurement.")] = 2.0,
    json: JsonOption = False,
) -> None:
    """Measure reads and durable writes here, in a database that is removed afterwards."""
    import dynalsm
    from dynalsm.conditions import Key

    if directory is not None and not directory.is_dir():
        raise ValueError(f"there is no directory {directory} to measure in")
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="dynalsm-bench-", dir=directory) as place,
        dynalsm.open(Path(place, "bench.db")) as database,
    ):
        table = database.create_table(
            TableName="Bench",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        _fill(table)
        chosen = random.Random(7)  # the same keys each time

        def key() -> dict[str, Any]:
            number = chosen.randrange(ITEMS)
            return {"pk": f"{number // 20}", "sk": number % 20}

        numbers = itertools.count()

        def put() -> None:
            table.put_item(Item={"pk": "new", "sk": next(numbers), "text": TEXT})

        measured: tuple[tuple[str, Step, int], ...] = (
            ("put_item, on the disk", put, 1),
            (f"put_item, on the disk, {THREADS} threads", put, THREADS),
            ("get_item", lambda: table.get_item(Key=key()), 1),
            (
                "query of 20 items",
                lambda: table.query(KeyConditionExpression=Key("pk").eq(key()["pk"])),
                1,
            ),
        )
        for name, step, threads in measured:
            with output.errors_console.status(name):
                rows.append({"what": name, **_measure(step, threads, seconds)})
    if json:
        for row in rows:
            output.print_json(row)
        return
    output.print_grid(
        ("", "A second", "Median", "99 of 100 within"),
        [
            (row["what"], int(row["per_second"]), *map(output.duration_text, row["latencies"]))
            for row in rows
        ],
    )


def _fill(table: Table) -> None:
    with table.batch_writer() as batch:
        for number in range(ITEMS):
            batch.put_item(Item={"pk": f"{number // 20}", "sk": number % 20, "text": TEXT})


def _measure(step: Step, threads: int, seconds: float) -> dict[str, Any]:
    """Run a step again and again on so many threads; returns its rate and latencies."""
    taken: list[list[float]] = [[] for _ in range(threads)]
    ends_at = time.perf_counter() + seconds

    def work(mine: list[float]) -> None:
        while (started := time.perf_counter()) < ends_at or not mine:
            step()
            mine.append(time.perf_counter() - started)

    began = time.perf_counter()
    workers = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    elapsed = time.perf_counter() - began
    latencies = sorted(itertools.chain.from_iterable(taken))
    count = len(latencies)
    return {
        "count": count,
        "per_second": count / elapsed,
        "latencies": (latencies[count // 2], latencies[min(count - 1, count * 99 // 100)]),
    }
