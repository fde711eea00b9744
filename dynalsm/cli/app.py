"""The commands, put together; and the one place that turns failures into exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from dynalsm._version import __version__
from dynalsm.cli import (
    admin,
    bench,
    data,
    demo,
    encryption,
    exchange,
    health,
    keys,
    output,
    replicate,
    serving,
    sql,
    transfer,
)
from dynalsm.cli.failures import guarded

app = typer.Typer(
    name="dynalsm",
    help="A durable embedded database with DynamoDB's data model and API.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (demo, data, sql, admin, health, encryption, transfer, exchange, replicate, bench):
    module.add_commands(app)


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
    encryption_key_file: Annotated[
        str | None, typer.Option(keys.OPTION, envvar=keys.VARIABLE, help=keys.HELP)
    ] = None,
) -> None:
    keys.use(encryption_key_file)


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def _serve(context: typer.Context) -> None:
    """Serve a database to boto3, the AWS CLI and every other DynamoDB client."""
    raise typer.Exit(serving.run(context.args))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    return guarded(lambda: app(arguments, prog_name="dynalsm", standalone_mode=True), output.fail)
