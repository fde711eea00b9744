"""Characters to tokens, for every expression except PartiQL.

A token is the piece of text itself; its first character tells its class: a letter (name or
keyword), `#` or `:` with more behind it (placeholder), a digit (list index), punctuation, or a
character that fits nowhere (the parser refuses it where it stands). The end of the text is the
empty string. Offsets are only worked out when an error message needs them.

Thread safety: pure functions.
Invariant: scanning is linear in the text, and no text makes it fail.
"""

from __future__ import annotations

import re
from typing import Final

WHITESPACE: Final = " \t\r\n"
END: Final = ""

# A bare name starts with a letter (observed: scylladb; `_abc` is a syntax error at `_`).
_TOKEN: Final = re.compile(
    r"[#:][A-Za-z0-9_]+|[A-Za-z][A-Za-z0-9_]*|[0-9]+|<>|<=|>=|[^ \t\r\n]", re.ASCII
)


def tokenize(text: str) -> list[str]:
    """Split text into tokens; the last one is END."""
    tokens = _TOKEN.findall(text)
    tokens.append(END)
    return tokens


def syntax_message(text: str, index: int) -> str:
    """Describe the token at `index` of `tokenize(text)` as DynamoDB does.

    `near` is the source from the token before the bad one to the one behind it
    (observed: aws-cdk issue 7591, near "hits : incr"; scylladb, near "SET _123").
    """
    spans = [match.span() for match in _TOKEN.finditer(text)]
    if not spans:
        return 'Syntax error; token: "<EOF>", near: ""'
    if index >= len(spans):
        start, stop = spans[-1]
        return f'Syntax error; token: "<EOF>", near: "{text[start:stop]}"'
    bad = text[spans[index][0] : spans[index][1]]
    start = spans[max(index - 1, 0)][0]
    stop = spans[min(index + 1, len(spans) - 1)][1]
    return f'Syntax error; token: "{bad}", near: "{text[start:stop]}"'
