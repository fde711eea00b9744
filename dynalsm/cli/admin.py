"""Commands on the directory itself: stats, compact."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from dynalsm.cli import output
from dynalsm.cli.data import JsonOption
from dynalsm.cli.failures import check_directory

DirectoryArgument = Annotated[str, typer.Argument(help="Database directory.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(stats)
    app.command()(compact)


def stats(path: DirectoryArgument, json: JsonOption = False) -> None:
    """Print the engine's figures."""
    import dynalsm
    from dynalsm.server.metrics import tree_labels

    check_directory(path, "stats", "; GET /metrics of a server has such figures")
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


def compact(path: DirectoryArgument) -> None:
    """Merge every tree down to its last level."""
    import dynalsm

    check_directory(path, "compact")
    with dynalsm.open(path, create=False) as database:
        started = time.perf_counter()
        with output.console.status("compacting"):
            database.flush()
            database.compact()
        output.console.print(f"compacted in {output.duration_text(time.perf_counter() - started)}")


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
