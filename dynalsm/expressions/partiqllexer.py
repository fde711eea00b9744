"""Characters of a PartiQL statement to tokens.

Thread safety: pure functions.
Invariant: scanning is linear; text that is no token becomes one UNREADABLE token, on which every
rule of the grammar fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Kinds of tokens.
WORD: Final = "word"  # bare identifier or keyword
QUOTED: Final = "quoted"  # "identifier"
STRING: Final = "string"  # 'literal'
NUMBER: Final = "number"
SIGN: Final = "sign"  # punctuation and operators
UNREADABLE: Final = "unreadable"
END: Final = "end"

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*(?s:.*?)\*/)
      | (?P<string>'(?:[^']|'')*+')
      | (?P<quoted>"(?:[^"]|"")*+")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
      | (?P<sign><<|>>|<>|<=|>=|[-+*=<>(){}\[\],.:;?])
      | (?P<unreadable>/\*(?s:.*)|(?s:.))""",
    re.VERBOSE | re.ASCII,
)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the statement; `value` is what a string or quoted identifier stands for."""

    kind: str
    text: str
    offset: int

    @property
    def value(self) -> str:
        quote = self.text[0]
        if self.kind in (STRING, QUOTED):
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text

    def is_sign(self, sign: str) -> bool:
        return self.kind == SIGN and self.text == sign

    def is_word(self, word: str) -> bool:
        """Tell whether this is the keyword (given in upper case), in any mix of case."""
        return self.kind == WORD and self.text.upper() == word


def scan(statement: str) -> list[Token]:
    """Split a statement into tokens without space and comments; the last one is END.

    A lone surrogate, which UTF-8 has no bytes for, makes all of it unreadable.
    """
    if not statement.isascii() and _SURROGATE.search(statement):
        return [Token(UNREADABLE, statement, 0), Token(END, "", len(statement))]
    tokens = [
        Token(str(match.lastgroup), match.group(), match.start())
        for match in _TOKEN.finditer(statement)
        if match.lastgroup != "space"
    ]
    tokens.append(Token(END, "", len(statement)))
    return tokens


def position(statement: str, token: Token) -> str:
    """Say where a token stands, as errors do: `line:column:length`, counted from 1."""
    line = statement.count("\n", 0, token.offset) + 1
    column = token.offset - (statement.rfind("\n", 0, token.offset) + 1) + 1
    return f"{line}:{column}:{len(token.text)}"
