"""The commands, put together; and the one place that turns failures into exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dynalsm import errors
from dynalsm._version import __version__
from dynalsm.cli import admin, data, demo, output, serving

app = typer.Typer(
    name="dynalsm",
    help="A durable embedded database with DynamoDB's data model and API.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (serving, demo, data, admin):
    module.add_commands(app)

INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        output.console.print(f"dynalsm {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        app(arguments, prog_name="dynalsm", standalone_mode=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing more can be printed.
        sys.stderr.close()
        return 0
    except (errors.Error, ValueError, OSError) as problem:
        output.fail(_one_line(problem))
        return 1
    except ModuleNotFoundError as problem:
        output.fail(str(problem))
        return 1
    return 0


def _one_line(problem: Exception) -> str:
    if isinstance(problem, errors.ApiError):
        return f"{problem.code}: {problem.message}"
    if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, errors.Error):
        return f"{problem.filename or ''}: {problem.strerror}".lstrip(": ")
    return str(problem)
