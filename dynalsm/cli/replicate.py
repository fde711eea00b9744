"""The command that moves tables to another database while they are in use: replicate."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from dynalsm.cli import keys, output
from dynalsm.cli.failures import check_parent

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.replicate import Progress

# How often a line of progress is printed.
TELL_SECONDS = 1.0


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(replicate)


def replicate(
    source: Annotated[
        str, typer.Argument(help="A database directory, http://host:port, or dynamodb://region.")
    ],
    target: Annotated[
        str, typer.Argument(help="Likewise; a directory is made when it is missing.")
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="Table to replicate; may be repeated. By default all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with changes as they come, until Ctrl-C.")
    ] = False,
    copy_only: Annotated[
        bool, typer.Option("--copy-only", help="Copy without a stream, for sources without one.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Begin anew, also into tables that have items already."),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Segments copied at once.")] = 4,
    check: Annotated[
        bool, typer.Option("--check", help="Compare every item of both sides at the end.")
    ] = False,
) -> None:
    """Copy tables to another database, then apply what changes. Run it again to go on."""
    from dynalsm import replicate as replication

    with ExitStack() as opened:
        source_db = opened.enter_context(_open(source, create=False))
        target_db = opened.enter_context(_open(target, create=True))
        names = table or replication.table_names(source_db)
        stop = threading.Event()
        try:
            reports = replication.run(
                source_db,
                target_db,
                tables=names,
                follow=follow,
                copy_only=copy_only,
                restart=restart,
                workers=workers,
                progress=_Teller(),
                stop=stop,
            )
        except KeyboardInterrupt:
            if not follow:
                raise
            output.console.print("stopped; the same command goes on from here")
            reports = []
        for report in reports:
            output.console.print(text_of(report), soft_wrap=True)
        if check:
            _check(source_db, target_db, names)


def _open(path: str, *, create: bool) -> Database:
    import dynalsm

    if "://" in path:
        return dynalsm.open(path)
    if create:
        check_parent(path)
    return dynalsm.open(path, create=create, **keys.options_where_needed(path))


class _Teller:
    """Prints a line for each table now and then. Its caller's threads may share it."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, str]] = {}

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        told_at, phase = self._told.get(progress.table, (0.0, ""))
        if phase != progress.phase or now - told_at >= TELL_SECONDS:
            self._told[progress.table] = (now, progress.phase)
            output.errors_console.print(text_of(progress), soft_wrap=True)


def text_of(progress: Progress) -> str:
    """Return a line for people."""
    if progress.phase == "copy":
        total = max(progress.total_items, progress.items)
        return f"{progress.table}: {progress.items:,} of about {total:,} items copied"
    text = f"{progress.table}: {progress.items:,} items copied, {progress.changes:,} changes"
    if progress.phase == "done":
        return f"{text}, caught up"
    return f"{text}, {progress.lag_seconds:.0f} s behind"


def _check(source: Database, target: Database, names: list[str]) -> None:
    from dynalsm.replicate import compare

    is_equal = True
    for name in names:
        found = compare(source, target, name)
        is_equal = is_equal and found.is_equal
        output.console.print(
            f"{name}: {found.items:,} items compared, {found.missing:,} missing, "
            f"{found.different:,} different, {found.extra:,} only in the target",
            soft_wrap=True,
        )
        for key in found.keys:
            output.console.print(f"  {output.json_text(key)}", soft_wrap=True)
    if not is_equal:
        raise typer.Exit(1)
