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
# Of a number with base 2 or 16; attributes hold less than 10^126, which has 419 bits.
_BASED_MAX_CHARACTERS: Final = 500

# Kinds of tokens: the groups of _TOKEN.
_MARK, _STRING, _LONG, _QUOTED, _BLOB, _NUMBER, _NULL, _WORD, _END = range(1, 10)
_SPACE = r"[ \t\r\n\v\f]*(?:(?://[^\r\n]*|/\*(?s:.*?)\*/)[ \t\r\n\v\f]*)*"
_TOKEN = re.compile(
    _SPACE
    + r"(?:"
    + "|".join(
        (
            r"(::|[:,}\[\]]|\{(?!\{))",
            r'"([^"\\\n]*(?:\\(?s:.)[^"\\\n]*)*)"',
            r"'''([^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*)'''",
            r"'(?!'')([^'\\\n]*(?:\\(?s:.)[^'\\\n]*)*)'",
            r"\{\{([A-Za-z0-9+/=\s]*)\}\}",
            r"(-?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[dDeE][+-]?[0-9]+)?)"
            r"(?=[\s,\]})]|//|/\*|\Z))",
            r"(null(?:\.[a-z]+)?(?![A-Za-z0-9_$.]))",
            r"([A-Za-z_$][A-Za-z0-9_$]*)",
            r"(\Z)",
        )
    )
    + ")"
)
_SPACES = re.compile(_SPACE)
_ESCAPE = re.compile(
    r"\\(?:(\r\n|\r|\n)|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S
)
_ESCAPES = dict(zip("abtnfrv0", "\a\b\t\n\f\r\v\0", strict=True)) | {
    character: character for character in "'\"\\/?"
}
SETS = {"$dynamodb_SS": str, "$dynamodb_NS": Decimal, "$dynamodb_BS": bytes}
_VERSION = "$ion_1_0"
_SURROGATE = re.compile("[\ud800-\udfff]")


class IonProblem(ValueError):
    """The text is not Ion, or Ion that no attribute value can hold."""


class Incomplete(IonProblem):
    """The text ends inside a value."""


def parse(text: str) -> list[Any]:
    """Return the top-level values of a text. Raises: IonProblem; Incomplete when more may come."""
    reader = _Reader(text)
    found = []
    while reader.kind != _END:
        value = reader.value(0)
        if value is not _SKIPPED:
            found.append(value)
    return found


_SKIPPED: Final = object()


class _Reader:
    """A place in a text: `kind` and `token` are what comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self.kind = 0
        self.token = ""
        self._next()

    def _next(self) -> None:
        """Go on to the next token."""
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            raise self._unreadable()
        self._place = found.end()
        self.kind = kind = found.lastindex or _END
        self.token = found[kind]

    def value(self, depth: int) -> Any:
        """Read one value with its annotations."""
        kind, token = self.kind, self.token
        if kind in (_WORD, _QUOTED):
            return self._named(depth)
        if kind == _STRING:
            self._next()
            return _unescape(token)
        if kind == _NUMBER:
            self._next()
            return _number(token)
        if kind == _NULL:
            self._next()
            return None
        if kind == _BLOB:
            self._next()
            return _blob(token)
        if kind == _LONG:
            return self._long_string()
        if depth > DEPTH_MAX:
            raise IonProblem(f"values are nested deeper than {DEPTH_MAX} levels")
        if token == "{":
            return self._struct(depth)
        if token == "[":
            return self._list(depth)
        raise self._unexpected("a value")

    def _named(self, depth: int) -> Any:
        """Read what begins with a name: an annotated value, a bool, the version marker."""
        annotations: list[str] = []
        while self.kind in (_WORD, _QUOTED):
            kind, name = self.kind, self.token
            self._next()
            if self.token != "::" or self.kind != _MARK:
                if annotations or kind == _QUOTED:
                    return self._annotated(annotations, _word(name, kind, 1))
                return _word(name, kind, depth)
            annotations.append(_unescape(name))
            self._next()
        return self._annotated(annotations, self.value(depth))

    def _annotated(self, annotations: list[str], read: Any) -> Any:
        wanted = [SETS[name] for name in annotations if name in SETS]
        return as_set(read, wanted[0]) if wanted else read

    def _struct(self, depth: int) -> dict[str, Any]:
        self._next()
        members: dict[str, Any] = {}
        while not self._takes("}"):
            name = self._name()
            if not self._takes(":"):
                raise self._unexpected("':' after a field's name")
            if name in members:
                raise IonProblem(f"the field {name!r} comes twice")
            members[name] = self.value(depth + 1)
            if not self._takes(",") and not self._is("}"):
                raise self._unexpected("',' or '}'")
        return members

    def _name(self) -> str:
        kind, token = self.kind, self.token
        if kind == _LONG:
            return self._long_string()
        if kind not in (_WORD, _QUOTED, _STRING):
            raise self._unexpected("a field's name")
        self._next()
        return _unescape(token)

    def _list(self, depth: int) -> list[Any]:
        self._next()
        members = []
        while not self._takes("]"):
            members.append(self.value(depth + 1))
            if not self._takes(",") and not self._is("]"):
                raise self._unexpected("',' or ']'")
        return members

    def _long_string(self) -> str:
        parts = []
        while self.kind == _LONG:
            parts.append(_unescape(self.token.replace("\r\n", "\n").replace("\r", "\n")))
            self._next()
        return "".join(parts)

    def _is(self, mark: str) -> bool:
        return self.kind == _MARK and self.token == mark

    def _takes(self, mark: str) -> bool:
        """Return whether a mark comes next, and step over it."""
        if self.kind == _MARK and self.token == mark:
            self._next()
            return True
        return False

    def _unexpected(self, wanted: str) -> IonProblem:
        if self.kind == _END:
            return Incomplete(f"{wanted} is missing: the text ends")
        return IonProblem(f"{wanted} is expected, not {self.token[:20]!r}")

    def _unreadable(self) -> IonProblem:
        """Return the problem with a place where no token begins."""
        found = _SPACES.match(self._text, self._place)
        assert found is not None
        rest = self._text[found.end() :]
        # What opens here may go on in the next line: always, or when a backslash hides the end.
        goes_on = self._text.rstrip("\r\n").endswith("\\") and rest[0] in "\"'"
        if (
            goes_on
            or rest.startswith(("'''", "/*"))
            or (rest.startswith("{{") and "}}" not in rest)
        ):
            return Incomplete(f"the text ends inside {rest[:20]!r}")
        return IonProblem(f"no attribute value can hold this: {rest[:20]!r}")


def _word(name: str, kind: int, depth: int) -> Any:
    if kind == _WORD:
        if name in ("true", "false"):
            return name == "true"
        if name == _VERSION and depth == 0:
            return _SKIPPED
    raise IonProblem(f"no attribute value can hold this: {name[:20]!r}")


def _number(text: str) -> Decimal:
    if "_" in text or "x" in text or "X" in text or "b" in text or "B" in text:
        text = text.replace("_", "")
        if re.match("-?0[xXbB]", text):
            if len(text) > _BASED_MAX_CHARACTERS:
                raise IonProblem("a number has more digits than an attribute can hold")
            text = str(int(text, 0))
    plain = text.replace("d", "E").replace("D", "E").replace("e", "E")
    return values.parse_number(plain.replace(".E", "E").rstrip("."))


def _blob(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise IonProblem(f"this blob is no base64: {text[:40]!r}") from None


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


def as_set(members: Any, kind: type) -> frozenset[Any]:
    if not isinstance(members, list) or not all(type(member) is kind for member in members):
        raise IonProblem("a set is a list of members of its one type")
    if len(set(members)) != len(members):
        raise IonProblem("a set holds each member once")
    return frozenset(members)
