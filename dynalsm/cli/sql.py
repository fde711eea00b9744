r"""`dynalsm sql`: PartiQL from -c, from stdin, or at a prompt with history and completion.

Statements end with a semicolon; the last one of -c and of stdin need not. Commands that begin with
a backslash stand on a line of their own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynalsm import errors
from dynalsm.cli import output
from dynalsm.cli.data import (
    JsonOption,
    PathArgument,
    key_text,
    open_for_reading,
    open_for_writing,
    print_description,
)
from dynalsm.cli.failures import one_line

if TYPE_CHECKING:
    from dynalsm.database import Database

PAGE_ITEMS = 50  # shown at once at the prompt
COMMANDS = {
    r"\d": "list the tables; with a name, show that table",
    r"\i": "run the statements of a file",
    r"\json": "lines of JSON or tables for people, in turn",
    r"\page": "how many items are shown at once; 0: all",
    r"\timing": "show how long each statement took, or not, in turn",
    r"\?": "this help",
    r"\q": "quit (also Ctrl-D)",
}
EXAMPLES = (
    """SELECT * FROM "Music" WHERE Artist = 'a' AND begins_with(SongTitle, 'x');""",
    """INSERT INTO "Music" VALUE {'Artist': 'a', 'SongTitle': 't', 'Year': 1999};""",
    """UPDATE "Music" SET Plays = 1 WHERE Artist = 'a' AND SongTitle = 't' RETURNING ALL NEW *;""",
    """DELETE FROM "Music" WHERE Artist = 'a' AND SongTitle = 't';""",
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(sql)


def sql(
    path: PathArgument,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Run this and end; may be given several times."),
    ] = None,
    json: JsonOption = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only read; works beside a writer.")
    ] = False,
) -> None:
    r"""Run PartiQL: at a prompt, from stdin, or with -c. \? at the prompt helps.

    The first statement that fails ends the run with exit code 1; the prompt goes on.
    """
    is_prompt = not command and sys.stdin.isatty()
    with (open_for_reading if read_only else open_for_writing)(path) as database:
        shell = Shell(database, json, is_timed=is_prompt)
        if is_prompt:
            from dynalsm.cli.sql_prompt import prompt

            prompt(shell, path)
            return
        texts = command or [sys.stdin.read()]
        for text in texts:
            shell.run(text)


class Quit(Exception):
    r"""\q was given."""


class Shell:
    """Runs statements on one database and prints what comes of them."""

    def __init__(self, database: Database, json: bool, is_timed: bool) -> None:
        self.database = database
        self.json = json
        self.is_timed = is_timed
        self.page_items = PAGE_ITEMS if is_timed else 0
        # Asked between two pages whether to go on; set by the prompt.
        self.more: Callable[[], bool] = lambda: True

    def run(self, text: str) -> None:
        """Run all statements and commands of a text. Raises: errors.Error, ValueError, OSError."""
        found, rest = statements(text)
        if rest.strip():
            found.append(rest)
        for number, statement in enumerate(found, 1):
            try:
                self.run_one(statement)
            except (errors.ApiError, ValueError) as problem:
                if len(found) == 1:
                    raise
                raise ValueError(f"statement {number}: {one_line(problem)}") from problem

    def run_one(self, statement: str) -> None:
        """Run one statement, or one command that begins with a backslash."""
        statement = statement.strip()
        if statement.startswith("\\"):
            self._command(statement)
            return
        started = time.perf_counter()
        count = self._show(statement)
        if self.is_timed:
            took = output.duration_text(time.perf_counter() - started)
            things = "ok" if count is None else f"{count:,} item{'s' if count != 1 else ''}"
            output.errors_console.print(f"{things} ({took})")

    def _show(self, statement: str) -> int | None:
        """Print what a statement gives; returns how many items, None for a plain write."""
        count = 0
        is_read = statement.lstrip("( \t\r\n")[:6].upper() == "SELECT"
        for page in self._pages(statement):
            if count and not self.more():
                break
            if self.json:
                for item in page:
                    output.print_json(item)
            elif page:
                output.print_items(page, self._key_names(statement))
            count += len(page)
        if is_read and not count and not self.json and not self.is_timed:
            output.console.print("no items")
        return count if is_read or count else None

    def _pages(self, statement: str) -> Iterator[list[dict[str, Any]]]:
        from dynalsm.values.forms import NATIVE

        request: dict[str, Any] = {"Statement": statement}
        waiting: list[dict[str, Any]] = []
        size = self.page_items
        while True:
            reply = self.database.call("ExecuteStatement", request, NATIVE)
            waiting += reply.get("Items", ())
            is_last = "NextToken" not in reply
            while size and len(waiting) > size:
                yield waiting[:size]
                waiting = waiting[size:]
            if waiting and (is_last or not size or len(waiting) == size):
                yield waiting
                waiting = []
            if is_last:
                return
            request["NextToken"] = reply["NextToken"]

    def _key_names(self, statement: str) -> list[str]:
        """The key of the table that a statement reads: its columns come first."""
        words = statement.replace('"', " ").replace(".", " ").split()
        for position, word in enumerate(words[:-1]):
            if word.upper() in ("FROM", "INTO", "UPDATE"):
                try:
                    schema = self.database.Table(words[position + 1].rstrip(";")).key_schema
                except errors.ApiError:
                    return []
                return [element["AttributeName"] for element in schema]
        return []

    # --- commands ---------------------------------------------------------------------------

    def _command(self, line: str) -> None:
        name, _, argument = line.rstrip(";").strip().partition(" ")
        argument = argument.strip().strip('"')
        if name == r"\q":
            raise Quit
        if name in (r"\?", r"\h", r"\help"):
            self._help()
        elif name in (r"\d", r"\dt"):
            self._describe(argument)
        elif name == r"\i":
            self.run(Path(argument).read_text(encoding="utf-8"))
        elif name == r"\json":
            self.json = not self.json
        elif name == r"\timing":
            self.is_timed = not self.is_timed
        elif name == r"\page" and argument.isdecimal():
            self.page_items = int(argument)
        else:
            raise ValueError(f"there is no command {line}; \\? lists them")

    def _help(self) -> None:
        output.print_grid(("Command", ""), list(COMMANDS.items()))
        output.console.print("Statements end with a semicolon:")
        for example in EXAMPLES:
            output.console.print("  " + example, markup=False)

    def _describe(self, name: str) -> None:
        database = self.database
        if name:
            description = database.client.describe_table(TableName=name)["Table"]
            output.print_json(description) if self.json else print_description(description)
            return
        described = [
            database.client.describe_table(TableName=each.name)["Table"] for each in database.tables
        ]
        if self.json:
            for one in described:
                output.print_json(one)
        else:
            rows = [
                (one["TableName"], key_text(one["KeySchema"]), int(one["ItemCount"]))
                for one in described
            ]
            output.print_grid(("Table", "Key", "Items"), rows)


def statements(text: str) -> tuple[list[str], str]:
    """Cut a text into (whole statements, what is left); knows quotes, comments and \\ lines."""
    found: list[str] = []
    current: list[str] = []
    position = 0
    while position < len(text):
        mark = text[position]
        if mark in "'\"":
            end = text.find(mark, position + 1)
            if end < 0:
                return found, "".join(current) + text[position:]
            current.append(text[position : end + 1])
            position = end + 1
            continue
        if mark == "\\" and not "".join(current).strip():
            line, _, _ = text[position:].partition("\n")
            found.append(line)
            current = []
            position += len(line)
            continue
        if text.startswith("--", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
            continue
        if mark == ";":
            if statement := "".join(current).strip():
                found.append(statement)
            current = []
        else:
            current.append(mark)
        position += 1
    return found, "".join(current)
