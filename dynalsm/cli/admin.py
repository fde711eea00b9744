"""Commands on the directory itself: stats, verify, compact, checkpoint."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from dynalsm.cli import output
from dynalsm.cli.data import JsonOption

DirectoryArgument = Annotated[str, typer.Argument(help="Database directory.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module, as far as the engine in use can do them."""
    app.command()(stats)
    app.command()(compact)
    for command, module in ((verify, "verify"), (checkpoint, "checkpoint")):
        if find_spec(f"dynalsm._core.{module}") is not None:
            app.command()(command)


def stats(path: DirectoryArgument, json: JsonOption = False) -> None:
    """Print the engine's figures."""
    import dynalsm
    from dynalsm.server.metrics import tree_labels

    with dynalsm.open(path, read_only=True) as database:
        figures = database.stats()
        labels = tree_labels(database)
    if json:
        output.print_json(figures)
        return
    trees = figures.pop("trees", {})
    output.print_grid(("Figure", "Value"), _flat(figures))
    output.print_grid(
        ("Tree", "Partitions", "On disk", "In memory", "Entries"),
        [
            (
                " / ".join(filter(None, labels.get(name, (name,)))),
                tree["partitions"],
                output.size_text(tree["disk_bytes"]),
                output.size_text(tree["memtable_bytes"]),
                tree["entries"],
            )
            for name, tree in trees.items()
        ],
    )


def verify(path: DirectoryArgument, json: JsonOption = False) -> None:
    """Read every byte of the database and check it; exit code 1 when something is damaged."""
    import dynalsm

    with dynalsm.open(path, read_only=True) as database:
        started = time.perf_counter()
        report = database.verify()
        seconds = time.perf_counter() - started
    if json:
        output.print_json(report)
    else:
        output.console.print(f"verified in {output.duration_text(seconds)}: everything is whole")


def compact(path: DirectoryArgument) -> None:
    """Merge every tree down to its last level."""
    import dynalsm

    with dynalsm.open(path, create=False) as database:
        started = time.perf_counter()
        with output.console.status("compacting"):
            database.flush()
            database.compact()
        output.console.print(f"compacted in {output.duration_text(time.perf_counter() - started)}")


def checkpoint(
    path: DirectoryArgument,
    target: Annotated[str, typer.Argument(help="A directory that does not exist yet.")],
) -> None:
    """Copy the database as it is now, with hard links where the disk allows."""
    import dynalsm

    with dynalsm.open(path, create=False) as database:
        database.checkpoint(target)
    output.console.print(f"checkpoint written to {target}")


def _flat(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested figures as rows; a list is shown by its length."""
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            rows.append((f"{prefix}{name}", f"{len(value)} entries"))
        else:
            rows.append((f"{prefix}{name}", value))
    return rows
