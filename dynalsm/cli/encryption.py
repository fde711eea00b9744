"""Commands of encryption at rest: new-key, rotate-key."""

from __future__ import annotations

from typing import Annotated

import typer

from dynalsm.cli import keys, output
from dynalsm.cli.failures import check_directory, check_parent


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("new-key")(new_key)
    app.command("rotate-key")(rotate_key)


def new_key(
    file: Annotated[str, typer.Argument(help="The new file; it must not exist yet.")],
) -> None:
    """Make a key for an encrypted database, in a file that only you can read."""
    from dynalsm._core.keyring import write_key_file

    check_parent(file)
    write_key_file(file)
    output.console.print(
        f"{file}: a new key. Keep a copy elsewhere: without it the database cannot be read",
        soft_wrap=True,
    )


def rotate_key(
    path: Annotated[str, typer.Argument(help="Database directory; nobody else has it open.")],
    new_key_file: Annotated[
        str | None,
        typer.Option(help="Have the key in this file open the database from now on: milliseconds."),
    ] = None,
    data: Annotated[
        bool, typer.Option("--data", help="Encrypt everything anew, under a new data key.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a --data that was cut off has stopped.")
    ] = False,
) -> None:
    """Change the keys of an encrypted database. The one it has now is given as to every command."""
    import dynalsm

    check_directory(path, "rotate-key")
    if new_key_file is None and not data and not resume:
        raise ValueError("nothing to do: give --new-key-file FILE, --data or --resume")
    with dynalsm.open(path, create=False, **keys.options()) as database:
        if new_key_file is not None:
            database.rotate_key(new_key_file)
            output.console.print(f"{path}: opens with the key in {new_key_file}", soft_wrap=True)
        if data or resume:
            with output.console.status("encrypting"):
                database.rotate_data_key(resume=not data)
            output.console.print(f"{path}: encrypted anew", soft_wrap=True)
