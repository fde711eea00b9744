"""Files to import: DynamoDB JSON, Ion as text and binary, CSV; plain, gzip, zstd.

An input is three bytes (format, compression, options of CSV) and the object as it lies in the
bucket. Every row must be an item or have a problem that can be told; what a compression holds must
read as it does plain.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import orjson
import zstandard

from dynalsm import values
from dynalsm.expressions import ExpressionError, Placeholders, bind_condition
from dynalsm.model import formats, sources
from dynalsm.model.formats import (
    CSV,
    DYNAMODB_JSON,
    GZIP,
    ION,
    NONE,
    ZSTD,
    Condition,
    CsvOptions,
    ObjectProblem,
    dynamodb_json,
    ion_items,
)
from dynalsm.model.formats.ion_binary import MARK
from dynalsm.values import SerializationProblem, ValueProblem
from tests.fuzz.loop import Fault
from tests.fuzz.mutate import LEAVES, dump, load, mutate, mutate_text, mutate_tree, typed_item

KINDS = (DYNAMODB_JSON, ION, ION, CSV)
BINARY_ION = 2
COMPRESSIONS = (NONE, GZIP, ZSTD)
CSV_OPTIONS = (
    CsvOptions(), CsvOptions(delimiter=";"), CsvOptions(header=("p", "s", "a")),
    CsvOptions(delimiter="\t", types={"s": "N", "b": "B"}), CsvOptions(types={"p": "N"}),
)  # fmt: skip
_QUOTED = re.compile(r"""[^A-Za-z ]""")
ROW_LIMIT = 100_000
ION_WORDS = [
    "$ion_1_0", "Item", "$dynamodb_SS", "$dynamodb_NS", "$dynamodb_BS", "::", "{", "}", "[", "]",
    "{{", "}}", "(", ")", '"', "'", "'''", "null", "null.string", "null.list", "true", "nan",
    "+inf", "1e5", "1d-3", "0x1F", "2020-01-01T", "//", "/*", "*/", "\\u0041", "\\x", "a:", ",",
]  # fmt: skip
CSV_WORDS = ['"', '""', ",", ";", "\t", "\n", "\r\n", "\r", "p", "s", "1", "x" * 70_000, "\x00"]


def sized(head: int, body: bytes) -> bytes:
    """A value of binary Ion with its length."""
    if len(body) < 14:
        return bytes([head | len(body)]) + body
    size = len(body)
    digits = [size & 127 | 128]
    while size := size >> 7:
        digits.insert(0, size & 127)
    return bytes([head | 14, *digits]) + body


def binary_ion() -> bytes:
    """A symbol table and two items: strings, numbers, a blob, a list, a map, sets, null, bool."""
    names = ["Item", "p", "s", "l", "m", "$dynamodb_NS", "b"]
    table = sized(0xB0, b"".join(sized(0x80, name.encode()) for name in names))
    symbols = sized(0xE0, b"\x81\x83" + sized(0xD0, b"\x87" + table))
    number = sized(0x50, b"\xc1\x0c")
    numbers = sized(0xB0, number + sized(0x20, b"\x05"))
    members = b"\x8b" + sized(0x80, b"key") + b"\x8c" + number
    members += b"\x8d" + sized(0xB0, b"\x0f\x11" + sized(0xA0, b"\x00\xff") + b"\x10")
    members += b"\x8e" + sized(0xD0, b"\x8b" + sized(0x80, b"inner" * 5))
    members += b"\x90" + sized(0xE0, b"\x81\x8f" + numbers)
    item = sized(0xD0, b"\x8a" + sized(0xD0, members))
    return MARK + symbols + item + item


class Imports:
    """See the module's docstring."""

    name = "imports"
    may_log = False
    has_state = False

    def __init__(self, work: Path) -> None:
        """No files are needed."""

    def seeds(self) -> list[bytes]:
        rng = random.Random(3)
        items = []
        while len(items) < 4:
            try:
                items.append(values.encode_json_item(typed_item(rng)))
            except (ValueProblem, SerializationProblem):
                continue
        table = b'p,s,a\nkey,1,"x ""y"" z"\nother,2,\n"two\nlines",3,4\n'
        conditional = (
            b'{"Item":{"p":{"S":"x"}},"ConditionExpression":"#p = :v AND size(p) > :n",'
            b'"ExpressionAttributeNames":{"#p":"p"},'
            b'"ExpressionAttributeValues":{":v":{"S":"x"},":n":{"N":"0"}}}\n'
        )
        plain = [
            (0, b"".join(map(dynamodb_json.item_line, items)) + conditional),
            (
                1,
                b'$ion_1_0 {Item:{p:"x"},ConditionExpression:"p = :v",'
                b"ExpressionAttributeValues:{':v':1.5}}\n",
            ),
            (1, b"".join(map(ion_items.item_line, items))),
            (1, b"$ion_1_0\n{Item: {p: 'a' /* c */, n: 0x1F, b: {{aGk=}}, l: [1., null]}}\n"),
            (BINARY_ION, binary_ion()),
            (3, table),
        ]
        return [
            bytes([kind, way, 0]) + self.packed(way, content)
            for kind, content in plain
            for way in range(len(COMPRESSIONS))
        ]

    def packed(self, way: int, content: bytes) -> bytes:
        if COMPRESSIONS[way] == GZIP:
            return gzip.compress(content, 1, mtime=0)
        return zstandard.compress(content) if COMPRESSIONS[way] == ZSTD else content

    def unpacked(self, way: int, content: bytes) -> bytes:
        """What a compression holds; the bytes themselves if they are damaged."""
        try:
            if COMPRESSIONS[way] == GZIP:
                return gzip.decompress(content)
            if COMPRESSIONS[way] == ZSTD:
                reader = zstandard.ZstdDecompressor(max_window_size=1 << 31)
                with reader.stream_reader(content, read_across_frames=True) as stream:
                    return bytes(stream.readall())
        except (OSError, EOFError, zlib.error, zstandard.ZstdError):
            pass
        return content

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        wanted = rng.randrange(len(KINDS))
        data = rng.choice([each for each in kept if each[0] % len(KINDS) == wanted])
        kind, way, options = data[:3]
        way %= len(COMPRESSIONS)
        if rng.random() < 0.1:
            options = rng.randrange(len(CSV_OPTIONS))
        if way and rng.random() < 0.3:
            return bytes([kind, way, options]) + mutate(rng, data[3:])
        content = self.changed(rng, kind, self.unpacked(way, data[3:]), kept)
        if rng.random() < 0.1:
            kind = rng.randrange(len(KINDS))
        way = rng.choice([0, 0, 0, 1, 2])
        return bytes([kind, way, options]) + self.packed(way, content)

    def changed(
        self, rng: random.Random, kind: int, content: bytes, kept: Sequence[bytes]
    ) -> bytes:
        if kind == BINARY_ION or rng.random() < 0.2:
            return mutate(rng, content, [MARK, b"\xee", b"\x0f", b"\xe7", b"\xd1"], kept)
        if kind == 0 and rng.random() < 0.7:
            lines = content.split(b"\n")
            place = rng.randrange(len(lines))
            lines[place] = dump(mutate_tree(rng, load(lines[place]), LEAVES))
            return b"\n".join(lines)
        words = CSV_WORDS if kind == 3 else ION_WORDS
        text = content.decode(errors="surrogateescape")
        return mutate_text(rng, text, words).encode(errors="replace")

    def run(self, data: bytes) -> str:
        if len(data) < 3:
            return "too short"
        kind = KINDS[data[0] % len(KINDS)]
        way = data[1] % len(COMPRESSIONS)
        options = CSV_OPTIONS[data[2] % len(CSV_OPTIONS)]
        rows, outcome = self.read(kind, COMPRESSIONS[way], options, data[3:])
        if way and not outcome.startswith("ObjectProblem"):
            plain = self.unpacked(way, data[3:])
            if plain != data[3:] and self.read(kind, NONE, options, plain)[0] != rows:
                raise Fault("it reads in another way when it is compressed")
        return f"{kind} {outcome}"

    def read(
        self, kind: str, compression: str, options: CsvOptions, content: bytes
    ) -> tuple[list[object], str]:
        """The rows, and what came of the object."""
        rows: list[object] = []
        outcome = "read"
        try:
            for row in formats.read(io.BytesIO(content), kind, compression, options):
                if row.problem is None:
                    values.decode_item(row.item)
                    if row.condition is not None:
                        self.bind(row.condition)
                    rows.append((row.index, row.item, row.condition))
                else:
                    if not type(row.problem).__module__.startswith("dynalsm."):
                        raise Fault(f"{row.problem!r} is no problem of a record")
                    orjson.dumps(sources.explain(row.problem))  # goes into the error log
                    rows.append((row.index, str(row.problem)))
                    outcome = self.told(row.problem)
                assert len(rows) < ROW_LIMIT
        except ObjectProblem as problem:
            rows.append(str(problem))
            return rows, self.told(problem)
        return rows, outcome

    def told(self, problem: Exception) -> str:
        """The kind of a problem: its text up to what it quotes."""
        return f"{type(problem).__name__}: {_QUOTED.split(str(problem), maxsplit=1)[0]}"

    def bind(self, condition: Condition) -> None:
        """As bulk puts do."""
        try:
            given = Placeholders(condition.names, condition.values)
            bind_condition(condition.expression, given).evaluate({"p": "x"})
        except ExpressionError:
            pass

    def reset(self) -> None:
        """There is no state."""

    def close(self) -> None:
        """There are no files."""
