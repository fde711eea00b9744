"""Commands on a directory that may be damaged: verify, repair."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dynalsm.cli import keys, output
from dynalsm.cli.data import JsonOption
from dynalsm.cli.failures import FAILED, check_directory

DirectoryArgument = Annotated[str, typer.Argument(help="Database directory.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(verify)
    app.command()(repair)


def verify(path: DirectoryArgument, json: JsonOption = False) -> None:
    """Read every byte, and compare files, manifest, tables and indexes with each other.

    Works beside a process that writes. Exit code 1 when something is wrong.
    """
    import dynalsm
    from dynalsm._core import verify as files

    check_directory(path, "verify")
    with output.console.status("reading"):
        report = files.verify(path, **keys.options())
        problems = [_described(problem) for problem in report.problems]
        if report.is_sound:
            with dynalsm.open(path, read_only=True, **keys.options()) as database:
                problems = [{"message": str(one)} for one in database.index_differences()]
    if json:
        output.print_json(
            {
                "tables": report.tables,
                "logs": report.logs,
                "bytes": report.bytes,
                "entries": report.entries,
                "old_key_files": report.old_key_files,
                "problems": problems,
            }
        )
    else:
        output.console.print(
            f"{report.tables} tables, {report.logs} logs, {output.size_text(report.bytes)}, "
            f"{report.entries} entries read"
        )
        if report.old_key_files:
            output.console.print(
                f"{report.old_key_files} files are under an older data key: "
                "dynalsm rotate-key --resume"
            )
        for problem in problems:
            output.console.print(_line(problem), markup=False, soft_wrap=True)
        output.console.print(f"{len(problems)} problems" if problems else "sound")
    if problems:
        raise typer.Exit(FAILED)


def repair(path: DirectoryArgument, json: JsonOption = False) -> None:
    """Save what is whole of a damaged database; nobody else has it open.

    Nothing is deleted: damaged files go to its directory lost/. Copy the directory first.
    """
    import dynalsm
    from dynalsm._core import repair as files

    check_directory(path, "repair")
    with output.console.status("repairing"):
        done = files.repair(path, **keys.options())
        with dynalsm.open(path, create=False, **keys.options()) as database:
            mended = database.mend_indexes()
    if json:
        output.print_json(
            {
                "problems": [_described(problem) for problem in done.problems],
                "saved": done.saved,
                "lost": done.lost,
                "lost_directory": done.lost_directory,
                "mended_index_entries": len(mended),
            }
        )
        return
    for problem in done.problems:
        output.console.print(_line(_described(problem)), markup=False, soft_wrap=True)
    for loss in done.lost:
        output.console.print(f"lost: {loss}", markup=False, soft_wrap=True)
    if done.lost_directory is not None:
        output.console.print(f"{done.saved} entries saved; damaged files: {done.lost_directory}")
    if mended:
        output.console.print(f"{len(mended)} index entries brought in line with their items")
    if not done.problems and not mended:
        output.console.print("nothing to repair")


def _described(problem: Any) -> dict[str, Any]:
    return {"path": problem.path, "offset": problem.offset, "message": problem.message}


def _line(problem: dict[str, Any]) -> str:
    if "path" not in problem:
        return str(problem["message"])
    place = problem["path"]
    if problem["offset"] is not None:
        place += f" at byte {problem['offset']}"
    return f"{place}: {problem['message']}"
