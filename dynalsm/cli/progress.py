"""A bar for long work: how much is done, how fast, how long it takes. Only on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dynalsm.cli import output

Tell = Callable[[int, float], None]


@contextmanager
def bar(doing: str, total: float | None) -> Iterator[Tell]:
    """Show a bar while the block runs; yields tell(items, done), where `done` is in total's unit.

    Without a total there is no time left to show, only the rate.
    """
    started = time.perf_counter()
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[items]:,} items, {task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(compact=True),
        console=output.errors_console,
        disable=not output.errors_console.is_terminal,
    )
    with shown:
        task = shown.add_task(doing, total=total, items=0, rate=0.0)

        def tell(items: int, done: float) -> None:
            rate = items / max(time.perf_counter() - started, 1e-6)
            shown.update(task, completed=done, items=items, rate=rate)

        yield tell
