"""Random changes: of bytes, and of trees of plain values as JSON and msgpack have them.

Every function takes its random source, so that a seed makes the same input again.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

# What breaks parsers: the ends of integer types, and lengths that are not there.
NUMBERS = [
    0, 1, 2, 7, 8, 31, 32, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1 << 20,
    (1 << 24) - 1, 1 << 24, (1 << 28) - 1, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
    (1 << 56) - 1, 1 << 56, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
]  # fmt: skip
TEXTS = [
    "", "a", "é", "\x00", "\ud800", "\U0001f600", "x" * 300, "'", '"', "\\", "../..", "null", "{",
    "-1", "1e400", "NaN", "true", "#a", ":v", "$", "\n", "a.b[0]", "x" * 70_000,
]  # fmt: skip
LEAVES: list[Any] = [
    None, True, False, 0, -1, 1.5, -1.5e300, 10**18, -(10**18), [], {}, [[]], {"": None},
    {"S": "x"}, {"N": "1"}, {"N": 1}, {"SS": []}, {"NULL": False}, {"B": "!"}, {"L": [{}]},
    {"M": {"a": {}}}, {"S": "x", "N": "1"}, {"X": 1}, *TEXTS,
]  # fmt: skip


def varint(number: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def mutate(
    rng: random.Random, data: bytes, words: Sequence[bytes] = (), others: Sequence[bytes] = ()
) -> bytes:
    """Change a few bytes, runs of bytes, numbers or words."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        _change(rng, out, words, others)
    return bytes(out)


def _change(
    rng: random.Random, out: bytearray, words: Sequence[bytes], others: Sequence[bytes]
) -> None:
    size = len(out)
    at = rng.randrange(size + 1)
    way = rng.randrange(11)
    if way == 0 and size:
        out[at % size] ^= 1 << rng.randrange(8)
    elif way == 1 and size:
        out[at % size] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    elif way == 2:
        del out[at : at + rng.choice([1, 1, 2, 4, 8, 100])]
    elif way == 3:
        out[at:at] = rng.randbytes(rng.choice([1, 1, 2, 4, 9]))
    elif way == 4:
        width = rng.choice([1, 2, 4, 8])
        number = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
        out[at : at + width] = number.to_bytes(width, rng.choice(["little", "big"]))
    elif way == 5:
        out[at : at + rng.choice([0, 1, 1, 2, 5])] = varint(rng.choice(NUMBERS))
    elif way == 6:
        piece = out[at : at + rng.choice([1, 4, 20, 200])]
        out[at:at] = piece * rng.choice([1, 1, 2, 40, 300 if len(piece) < 20 else 2])
    elif way == 7:
        del out[at:]
    elif way == 8 and words:
        out[at : at + rng.choice([0, 0, 1, 4])] = rng.choice(words)
    elif way == 9 and others:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        out[at : at + rng.randrange(20)] = other[start : start + rng.choice([4, 20, 200])]
    elif size:
        to = rng.randrange(size)
        out[at % size], out[to] = out[to], out[at % size]


def mutate_tree(rng: random.Random, value: Any, leaves: Sequence[Any]) -> Any:
    """Return a copy with something in it replaced, left out, doubled or renamed."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.08:
        return _new_leaf(rng, value, leaves)
    if isinstance(value, list):
        copy: Any = list(value)
        place: Any = rng.randrange(len(copy))
    else:
        copy = dict(value)
        place = rng.choice(list(copy))
    way = rng.random()
    if way < 0.12:
        del copy[place]
    elif way < 0.18:
        if isinstance(copy, list):
            copy += [copy[place]] * rng.choice([1, 2, 300])
        else:
            copy[rng.choice([*TEXTS, *copy])] = copy.pop(place)
    elif way < 0.22 and isinstance(copy, dict):
        copy[rng.choice(TEXTS)] = rng.choice(leaves)
    elif way < 0.27:
        copy[place] = nest(rng, copy[place])
    else:
        copy[place] = mutate_tree(rng, copy[place], leaves)
    return copy


def _new_leaf(rng: random.Random, value: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.7:
        number = rng.choice([*NUMBERS, value + 1, value - 1, value ^ 1 << rng.randrange(16)])
        return min(max(number, -(1 << 63)), (1 << 64) - 1)
    if isinstance(value, bytes) and rng.random() < 0.8:
        return mutate(rng, value)
    if isinstance(value, str) and rng.random() < 0.5:
        return mutate(rng, value.encode(errors="surrogatepass")).decode(errors="ignore")
    return rng.choice(leaves)


def nest(rng: random.Random, value: Any) -> Any:
    """Put a value inside of others."""
    way = rng.randrange(4)
    for _ in range(rng.choice([1, 2, 33, 150])):
        value = ([value], {"a": value}, {"L": [value]}, {"M": {"a": value}})[way]
    return value


# ------------------------------------------------------------------------------------------- text

_TOKEN = re.compile(r"[#:$@]?\w+|\s+|.", re.DOTALL)


def mutate_text(rng: random.Random, text: str, words: Sequence[str]) -> str:
    """Change tokens: leave some out, double, swap, replace or insert them; or change bytes."""
    if rng.random() < 0.15:
        return mutate(rng, text.encode(errors="surrogatepass")).decode(errors="replace")
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        place = rng.randrange(len(tokens) + 1)
        way = rng.randrange(7)
        if way == 0:
            del tokens[place : place + rng.choice([1, 1, 2, 5])]
        elif way == 1:
            tokens[place:place] = [rng.choice(words)]
        elif way == 2:
            tokens[place : place + 1] = [rng.choice(words)]
        elif way == 3 and tokens:
            piece = tokens[place : place + rng.choice([1, 3, 8])]
            tokens[place:place] = piece * rng.choice([1, 1, 2, 30])
        elif way == 4 and tokens:
            other = rng.randrange(len(tokens))
            place %= len(tokens)
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif way == 5:
            start, end = sorted((place, rng.randrange(len(tokens) + 1)))
            tokens[start:end] = ["(", *tokens[start:end], ")"]
        else:
            tokens[place:place] = [rng.choice(TEXTS)]
    return "".join(tokens)


# ------------------------------------------------------------------------------------------- JSON


def dump(value: Any) -> bytes:
    """JSON of anything, surrogates included."""
    return json.dumps(value, separators=(",", ":")).encode()


def load(data: bytes) -> Any:
    """What `dump` made; None for other bytes."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


# ----------------------------------------------------------------------------------------- values

NUMERALS = [
    "0", "-0", "1", "-1", "2.50", "1e125", "1E-130", "9" * 38, "9" * 39, "1e126", "1e-131", "007",
    "-0.0e5", "1.", ".5", "+1", "12345678901234567890.12345678901234567890", "1e38", "x", "", " 1",
]  # fmt: skip
NAMES = ["p", "s", "a", "b", "c", "l", "g", "h", "k", "d", "é", "a.b", "x" * 300]


def typed_value(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A typed attribute value as JSON has it, mostly a good one."""
    kind = rng.choice(["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M", "S", "N"])
    texts = ["", "a", "ab", "é", "\U0001f600", "x" * 70, "m.n"]
    numerals = NUMERALS if rng.random() < 0.1 else NUMERALS[:6]
    blobs = ["", "YQ==", "AAEC", "/////w=="]
    if kind in ("SS", "NS", "BS"):
        pool = {"SS": texts, "NS": numerals, "BS": blobs}[kind]
        return {kind: rng.sample(pool, rng.choice([1, 1, 2, 4]))}
    if kind in ("L", "M") and depth:
        inner = [typed_value(rng, depth - 1) for _ in range(rng.choice([0, 1, 2, 4]))]
        named = dict(zip(rng.sample(NAMES, 4), inner, strict=False))
        return {kind: inner if kind == "L" else named}
    simple = {"S": texts, "N": numerals, "B": blobs, "BOOL": [True, False], "NULL": [True]}
    kind = kind if kind in simple else "S"
    return {kind: rng.choice(simple[kind])}


def typed_item(rng: random.Random) -> dict[str, Any]:
    """An item, without regard to any key schema."""
    return {name: typed_value(rng) for name in rng.sample(NAMES[:10], rng.randrange(7))}
