"""The prompt of `dynalsm sql`: history in a file, completion, several lines, pages of results."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dynalsm import errors
from dynalsm.cli import output
from dynalsm.cli.failures import one_line
from dynalsm.cli.sql import COMMANDS, Quit, Shell, statements

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import PygmentsLexer
except ModuleNotFoundError as problem:  # pragma: no cover - depends on the installation
    raise ModuleNotFoundError(
        f"the prompt needs {problem.name}: pip install 'dynalsm[shell]'; "
        "-c STATEMENT and statements on stdin work without",
        name=problem.name,
    ) from problem

SAMPLED_ITEMS = 25  # read of each table to learn the names of its attributes
WORD = re.compile(r"\\?\w*$")
KEYWORDS = (
    "SELECT FROM WHERE AND OR NOT BETWEEN IN IS MISSING NULL ORDER BY ASC DESC INSERT INTO VALUE "
    "UPDATE SET REMOVE DELETE RETURNING ALL MODIFIED NEW OLD EXISTS begins_with contains "
    "attribute_type size list_append set_add set_delete true false"
).split()


def history_file() -> Path:
    """Return where the statements of earlier sessions are kept ($DYNALSM_HISTORY, or XDG's)."""
    if named := os.environ.get("DYNALSM_HISTORY"):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dynalsm" / "sql_history"


def prompt(shell: Shell, path: str) -> None:
    r"""Ask for statements until \q or the end of the input; what fails is told, and it goes on."""
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=SqlCompleter(shell),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        lexer=_lexer(),
        prompt_continuation=lambda width, _number, _wrapped: "." * (width - 1) + " ",
    )
    shell.more = lambda: _wants_more(session)
    output.errors_console.print(
        rf"[bold]{path}[/]: PartiQL; statements end with ;  \? helps, \q quits".replace(
            "\\", "\\\\"
        )
    )
    while True:
        try:
            text = session.prompt("sql> ")
            shell.run(text)
        except KeyboardInterrupt:
            continue
        except (EOFError, Quit):
            return
        except (errors.Error, ValueError, OSError) as problem:
            output.fail(one_line(problem))


def _history() -> History:
    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def is_complete(text: str) -> bool:
    """Say whether Enter runs the text: it is a command, or a statement's semicolon ends it."""
    found, rest = statements(text)
    return not rest.strip() and bool(found or not text.strip())


def _keys() -> KeyBindings:
    bindings = KeyBindings()

    @Condition
    def ends() -> bool:
        from prompt_toolkit.application import get_app

        return is_complete(get_app().current_buffer.document.text)

    @bindings.add("enter", filter=ends)
    def _accept(event: object) -> None:
        event.current_buffer.validate_and_handle()  # type: ignore[attr-defined]

    return bindings


def _lexer() -> PygmentsLexer | None:
    try:
        from pygments.lexers.sql import SqlLexer
    except ModuleNotFoundError:
        return None
    return PygmentsLexer(SqlLexer)


def _wants_more(session: PromptSession[str]) -> bool:
    from prompt_toolkit.shortcuts import prompt as ask

    try:
        return ask("-- more: Enter; stop: q -- ", in_thread=False).strip().lower() != "q"
    except (EOFError, KeyboardInterrupt):
        return False


class SqlCompleter(Completer):
    """Completes keywords, tables and indexes, attributes, and commands."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._attributes: dict[str, list[str]] = {}  # by table; read once

    def get_completions(self, document: Document, _event: object) -> Iterator[Completion]:
        """Yield what may stand at the cursor."""
        text_before = document.text_before_cursor
        if text_before.count('"') % 2:
            start = text_before.rindex('"')  # a name in quotes has been begun
        else:
            found = WORD.search(text_before)
            start = found.start() if found else len(text_before)
        before, word = text_before[:start], text_before[start:]
        for text, kind in self._candidates(before, word):
            if text.lower().startswith(word.lower()) and text != word:
                yield Completion(text, -len(word), display_meta=kind)

    def _candidates(self, before: str, word: str) -> Iterable[tuple[str, str]]:
        if word.startswith("\\"):
            return [(name, what) for name, what in COMMANDS.items()]
        tables = self._tables()
        if re.search(r"(\b(from|into|update)\s+|\\d\s+)$", before, re.IGNORECASE):
            quoted = not before.endswith("\\d ")
            return [
                (f'"{name}"' if quoted or word[:1] == '"' else name, "table") for name in tables
            ]
        if dotted := re.search(r'"([^"]+)"\.$', before):
            return [(f'"{name}"', "index") for name in self._indexes(dotted.group(1))]
        named = [name for name in tables if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", before)]
        attributes = [name for table in named or tables for name in self._attributes_of(table)]
        return [
            *((name, "attribute") for name in dict.fromkeys(attributes)),
            *((name, "") for name in KEYWORDS),
        ]

    def _tables(self) -> list[str]:
        try:
            return [table.name for table in self._shell.database.tables]
        except errors.Error:
            return []

    def _indexes(self, table: str) -> list[str]:
        try:
            reply = self._shell.database.client.describe_table(TableName=table)
        except errors.Error:
            return []
        described: Mapping[str, Any] = reply["Table"]
        kinds = ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
        return [index["IndexName"] for kind in kinds for index in described.get(kind, ())]

    def _attributes_of(self, table: str) -> list[str]:
        if table not in self._attributes:
            try:
                items = self._shell.database.Table(table).scan(Limit=SAMPLED_ITEMS)["Items"]
            except errors.Error:
                return []
            self._attributes[table] = sorted({name for item in items for name in item})
        return self._attributes[table]
