"""Commands on the directory itself: stats, compact, checkpoint."""

from __future__ import annotations

import base64
import sys
import time
from typing import Annotated, Any
from urllib.parse import unquote

import typer

from dynalsm.cli import keys, output
from dynalsm.cli.data import JsonOption
from dynalsm.cli.failures import check_directory, check_parent

DirectoryArgument = Annotated[str, typer.Argument(help="Database directory.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(stats)
    app.command()(compact)
    app.command()(checkpoint)


def stats(
    path: Annotated[
        str, typer.Argument(help="Database directory, or a server's http://host:port.")
    ],
    json: JsonOption = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show them again and again, with rates; Ctrl-C ends.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two looks of --watch.")
    ] = 2.0,
) -> None:
    """Print the engine's figures: of a directory as it is on disk, or of a running server."""
    if watch:
        _watch(path, json, interval)
        return
    figures, trees = _look(path)
    if json:
        output.print_json(figures | ({"trees": trees} if trees else {}))
        return
    output.print_grid(("Figure", "Value"), _flat(figures))
    if trees:
        output.console.print(_tree_grid(trees))


def _look(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (figures, figures of each tree)."""
    if "://" in path:
        return _metrics(path), {}
    import dynalsm
    from dynalsm.server.metrics import tree_labels

    # Read-only handles show the moment at which they were opened: each look opens anew.
    with dynalsm.open(path, read_only=True, **keys.options()) as database:
        figures = database.stats()
        labels = tree_labels(database)
    trees = figures.pop("trees", {})
    for name, tree in trees.items():
        tree["label"] = " / ".join(filter(None, labels.get(name, (name,))))
    return figures, trees


def _metrics(url: str) -> dict[str, Any]:
    """Return a server's metrics by name, counters and gauges only. Raises: ValueError, OSError."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no server of ours; stats needs a directory or http://host:port")
    url, headers = _without_key(url)
    try:
        request = Request(f"{url.rstrip('/')}/metrics", headers=headers)
        with urlopen(request, timeout=10) as reply:
            text = reply.read().decode()
    except HTTPError as problem:
        if problem.code in (401, 403):
            raise ValueError(
                f"{url} asks for a key that may see all tables: stats http://id:secret@host:port"
            ) from None
        raise ValueError(
            f"{url} offers no metrics ({problem.code}): start it with dynalsm serve --metrics"
        ) from None
    except URLError as problem:
        raise ValueError(f"{url} cannot be reached: {problem.reason}") from None
    figures = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#") and "_bucket" not in name and "_created" not in name:
            number = float(value)
            figures[name] = int(number) if number.is_integer() else number
    return figures


def _without_key(url: str) -> tuple[str, dict[str, str]]:
    """Split an address into one without a key, and the header for the key that stood in it.

    Only a key that was written for this server is sent to it: those of the environment are
    AWS's, and Basic authorization would show the secret to whoever answers.
    """
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    key, at, host = place.rpartition("@")
    if not at:
        return url, {}
    text = base64.b64encode(unquote(key).encode()).decode()
    return f"{scheme}://{host}{slash}{path}", {"Authorization": f"Basic {text}"}


def _tree_grid(trees: dict[str, Any]) -> Any:
    return output.grid(
        ("Tree", "Partitions", "On disk", "In memory", "Entries"),
        [
            (
                tree["label"],
                tree["partitions"],
                output.size_text(tree["disk_bytes"]),
                output.size_text(tree["memtable_bytes"]),
                tree["entries"],
            )
            for tree in trees.values()
        ],
    )


def _watch(path: str, json: bool, interval_seconds: float) -> None:
    """Print figures with their change per second until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    before: dict[str, Any] = {}
    looked = time.monotonic()
    with Live(console=output.console, auto_refresh=False, screen=False) as live:
        try:
            while True:
                figures, trees = _look(path)
                now = time.monotonic()
                flat = dict(_flat(figures))
                if json:
                    output.print_json(figures | ({"trees": trees} if trees else {}))
                    sys.stdout.flush()
                else:
                    rows = _with_rates(flat, before, now - looked)
                    shown = [output.grid(("Figure", "Value", "Per second"), rows)]
                    live.update(
                        Group(*shown, *([_tree_grid(trees)] if trees else [])), refresh=True
                    )
                before, looked = flat, now
                time.sleep(interval_seconds)
        except KeyboardInterrupt:
            return


def _with_rates(
    flat: dict[str, Any], before: dict[str, Any], seconds: float
) -> list[tuple[str, Any, str]]:
    rows = []
    for name, value in flat.items():
        rate = ""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and isinstance(before.get(name), (int, float)) and value != before[name]:
            rate = f"{(value - before[name]) / seconds:+,.1f}"
        rows.append((name, value, rate))
    return rows


def compact(path: DirectoryArgument) -> None:
    """Merge every tree down to its last level."""
    import dynalsm

    check_directory(path, "compact")
    with dynalsm.open(path, create=False, **keys.options()) as database:
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


def checkpoint(
    path: DirectoryArgument,
    target: Annotated[str, typer.Argument(help="The new directory; it must not exist yet.")],
) -> None:
    """Copy the whole database, as it is now, to a new directory (by hard links where possible)."""
    import dynalsm

    check_directory(path, "checkpoint")
    check_parent(target)
    with dynalsm.open(path, create=False, **keys.options()) as database:
        started = time.perf_counter()
        database.checkpoint(target)
        took = output.duration_text(time.perf_counter() - started)
    output.console.print(f"{target}: a copy of {path} ({took})", soft_wrap=True)
