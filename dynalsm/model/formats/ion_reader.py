"""Ion text into internal values: what of Ion 1.0 can be part of an item, in any layout.

Read are null, bool, int, decimal, float, string (short and long), blob, list and struct, comments
and annotations. `$dynamodb_SS`, `_NS` and `_BS` before a list make a set; other annotations say
nothing. Symbols, timestamps, clobs and S-expressions have no counterpart among attribute values
and are problems. `$ion_1_0` at the top level is skipped.

Thread safety: pure functions.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any, Final

from dynalsm import values

# Deeper than any item may be: the item's own check speaks of 32.
DEPTH_MAX: Final = 64

_SPACE = re.compile(r"(?:[ \t\r\n\v\f]+|//[^\r\n]*|/\*.*?\*/)*", re.S)
_STRING = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"', re.S)
_LONG_STRING = re.compile(r"'''([^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*)'''", re.S)
_QUOTED = re.compile(r"'([^'\\\n]*(?:\\.[^'\\\n]*)*)'", re.S)
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NUMBER = re.compile(
    r"-?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[dDeE][+-]?[0-9]+)?)"
)
_BLOB = re.compile(r"\{\{([A-Za-z0-9+/=\s]*)\}\}")
_NULL = re.compile(r"null(?:\.[a-z]+)?(?![A-Za-z0-9_$])")
_ESCAPE = re.compile(
    r"\\(?:(\r\n|\r|\n)|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S
)
_ESCAPES = dict(zip("abtnfrv0", "\a\b\t\n\f\r\v\0", strict=True)) | {
    character: character for character in "'\"\\/?"
}
_SETS = {"$dynamodb_SS": str, "$dynamodb_NS": Decimal, "$dynamodb_BS": bytes}
_VERSION = "$ion_1_0"
_SURROGATE = re.compile("[\ud800-\udfff]")
_END = re.compile(r"(?=[\s,\]})]|//|/\*|$)")


class IonProblem(ValueError):
    """The text is not Ion, or Ion that no attribute value can hold."""


class Incomplete(IonProblem):
    """The text ends inside a value."""


def parse(text: str) -> list[Any]:
    """Return the top-level values of a text. Raises: IonProblem; Incomplete when more may come."""
    reader = _Reader(text)
    found = []
    while not reader.at_end():
        value = reader.value(0)
        if value is not _SKIPPED:
            found.append(value)
    return found


_SKIPPED: Final = object()


class _Reader:
    """A place in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def at_end(self) -> bool:
        """Skip white space and comments; return whether nothing follows."""
        self._skip()
        return self._place >= len(self._text)

    def value(self, depth: int) -> Any:
        """Read one value with its annotations."""
        if depth > DEPTH_MAX:
            raise IonProblem(f"values are nested deeper than {DEPTH_MAX} levels")
        annotations = []
        while (name := self._annotation()) is not None:
            annotations.append(name)
        read = self._plain(depth)
        wanted = [_SETS[name] for name in annotations if name in _SETS]
        return _as_set(read, wanted[0]) if wanted else read

    def _annotation(self) -> str | None:
        """Read `name::` if that is what follows."""
        start = self._place
        self._skip()
        name = None
        if self._ahead("'") and not self._ahead("'''"):
            name = _unescape(self._match(_QUOTED, "a quoted symbol")[1])
        elif (found := _WORD.match(self._text, self._place)) is not None:
            name = found[0]
            self._place = found.end()
        if name is not None:
            self._skip()
            if self._take("::"):
                return name
        self._place = start
        return None

    def _plain(self, depth: int) -> Any:
        self._skip()
        first = self._text[self._place : self._place + 1]
        if first == "{":
            return self._blob() if self._ahead("{{") else self._struct(depth)
        if first == "[":
            return self._list(depth)
        if first == '"':
            return _unescape(self._match(_STRING, "a string")[1])
        if self._ahead("'''"):
            return self._long_string()
        if first.isdigit() or first == "-":
            return self._number()
        if first == "":
            raise Incomplete("the text ends where a value should be")
        return self._word(depth)

    def _word(self, depth: int) -> Any:
        if (found := _NULL.match(self._text, self._place)) is not None:
            self._place = found.end()
            return None
        found = _WORD.match(self._text, self._place)
        word = found[0] if found is not None else ""
        if found is not None and word in ("true", "false"):
            self._place = found.end()
            return word == "true"
        if found is not None and word == _VERSION and depth == 0:
            self._place = found.end()
            return _SKIPPED
        shown = self._text[self._place : self._place + 20]
        raise IonProblem(f"no attribute value can hold this: {shown!r}")

    def _struct(self, depth: int) -> dict[str, Any]:
        self._place += 1
        members: dict[str, Any] = {}
        while not self._closes("}"):
            name = self._name()
            self._skip()
            if not self._take(":"):
                raise self._unexpected("':' after a field's name")
            if name in members:
                raise IonProblem(f"the field {name!r} comes twice")
            members[name] = self.value(depth + 1)
            self._separate("}")
        return members

    def _name(self) -> str:
        self._skip()
        if self._ahead('"'):
            return _unescape(self._match(_STRING, "a field's name")[1])
        if self._ahead("'''"):
            return self._long_string()
        if self._ahead("'"):
            return _unescape(self._match(_QUOTED, "a field's name")[1])
        return self._match(_WORD, "a field's name")[0]

    def _list(self, depth: int) -> list[Any]:
        self._place += 1
        members = []
        while not self._closes("]"):
            members.append(self.value(depth + 1))
            self._separate("]")
        return members

    def _closes(self, bracket: str) -> bool:
        if self.at_end():
            raise Incomplete(f"{bracket!r} is missing")
        return self._take(bracket)

    def _separate(self, bracket: str) -> None:
        """Skip the comma behind a member; before the closing bracket there may be none."""
        if self.at_end():
            raise Incomplete(f"{bracket!r} is missing")
        if not self._take(",") and not self._ahead(bracket):
            raise self._unexpected(f"',' or {bracket!r}")

    def _blob(self) -> bytes:
        if (found := _BLOB.match(self._text, self._place)) is None:
            if "}}" in self._text[self._place :]:
                raise IonProblem("a blob is base64; clobs are no attribute values")
            raise Incomplete("a blob does not end")
        self._place = found.end()
        try:
            return base64.b64decode("".join(found[1].split()), validate=True)
        except ValueError:
            raise IonProblem(f"this blob is no base64: {found[1][:40]!r}") from None

    def _long_string(self) -> str:
        parts = []
        while self._ahead("'''"):
            text = self._match(_LONG_STRING, "a long string")[1]
            parts.append(_unescape(text.replace("\r\n", "\n").replace("\r", "\n")))
            self._skip()
        return "".join(parts)

    def _number(self) -> Decimal:
        text = self._match(_NUMBER, "a number")[0]
        if _END.match(self._text, self._place) is None:
            raise self._unexpected("the end of a number")
        plain = text.replace("_", "").replace("d", "E").replace("D", "E")
        if re.match("-?0[xXbB]", plain):
            plain = str(int(text.replace("_", ""), 0))
        return values.parse_number(plain.replace(".E", "E").rstrip("."))

    # The text.

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        assert found is not None
        self._place = found.end()
        if self._ahead("/*"):
            raise Incomplete("a comment does not end")

    def _ahead(self, text: str) -> bool:
        return self._text.startswith(text, self._place)

    def _take(self, text: str) -> bool:
        if self._ahead(text):
            self._place += len(text)
            return True
        return False

    def _match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self._text, self._place)
        if found is None:
            raise self._unexpected(what)
        self._place = found.end()
        return found

    def _unexpected(self, wanted: str) -> IonProblem:
        rest = self._text[self._place : self._place + 20]
        if not rest:
            return Incomplete(f"{wanted} is missing")
        # What opens here may go on in the next line: a long string always, others when a
        # backslash hides the line's end.
        goes_on = self._text.rstrip("\r\n").endswith("\\") and rest[0] in "\"'"
        kind = Incomplete if goes_on or rest.startswith("'''") else IonProblem
        return kind(f"{wanted} is expected at {rest!r}")


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescaped, text)
    if _SURROGATE.search(text):
        try:  # two escapes that are halves of one character
            text = text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise IonProblem("half of a character is missing") from None
    return text


def _unescaped(found: re.Match[str]) -> str:
    line_end, byte, short, long, plain = found.groups()
    if line_end is not None:
        return ""
    digits = byte or short or long
    if digits is not None:
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise IonProblem(f"no character has the number {digits}") from None
    if plain not in _ESCAPES:
        raise IonProblem(f"the escape \\{plain} is unknown")
    return _ESCAPES[plain]


def _as_set(members: Any, kind: type) -> frozenset[Any]:
    if not isinstance(members, list) or not all(type(member) is kind for member in members):
        raise IonProblem("a set is a list of members of its one type")
    if len(set(members)) != len(members):
        raise IonProblem("a set holds each member once")
    return frozenset(members)
