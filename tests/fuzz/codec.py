"""The item codec: any bytes as an encoded item, and any JSON as a typed item.

All readers of whole values must agree whether bytes are one. What JSON the encoders take must come
out of every form as it went in. An input is a byte that says which, and the bytes or the JSON.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynalsm import errors, values
from dynalsm.values import SerializationProblem, ValueProblem
from tests.fuzz.loop import Fault, told
from tests.fuzz.mutate import LEAVES, dump, load, mutate, mutate_tree, typed_item
from tests.values import test_damage

BYTES, JSON = 0, 1
Reader = Callable[[bytes], Any]
VALUE_READERS: list[Reader] = [
    values.decode_value, values.decode_native, values.decode_wire, values.json_text,
]  # fmt: skip
ITEM_READERS: list[Reader] = [
    values.decode_item, values.decode_native_item, values.decode_wire_item, values.json_item_text,
]  # fmt: skip


class Codec:
    """See the module's docstring."""

    name = "codec"
    may_log = False
    has_state = False

    def __init__(self, work: Path) -> None:
        self.words = [bytes([byte]) for byte in (0x80, 0x90, 0xA0, 0xC0, 0xC1, *range(0xC4, 0xE0))]

    def seeds(self) -> list[bytes]:
        item = test_damage.ITEM
        found = [bytes([BYTES]) + item]
        for keys in (test_damage.TABLE, test_damage.LOCAL, test_damage.GLOBAL):
            found += [bytes([BYTES]) + each for each in self.entry(keys, item)]
        return [*found, bytes([JSON]) + values.json_item_text(item)]

    def entry(self, keys: Any, item: bytes) -> tuple[bytes, bytes]:
        if keys is test_damage.TABLE:
            return keys.encode(item), keys.strip(item)
        key, stored = keys.entry(item)
        return key, stored

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        if rng.random() < 0.6:
            some = [each for each in kept if each[0] == BYTES]
            return bytes([BYTES]) + mutate(rng, rng.choice(some)[1:], self.words, some)
        if rng.random() < 0.3:
            return bytes([JSON]) + dump(typed_item(rng))
        tree = load(rng.choice([each for each in kept if each[0] == JSON])[1:])
        for _ in range(rng.choice([1, 1, 3])):
            tree = mutate_tree(rng, tree, LEAVES)
        return bytes([JSON]) + dump(tree)

    def run(self, data: bytes) -> str:
        if data[:1] == bytes([JSON]):
            return self.from_json(load(data[1:]))
        test_damage.read_all(data[1:])
        as_value = self.agreed(VALUE_READERS, data[1:])
        self.agreed(ITEM_READERS, data[1:])
        return "a value" if as_value else "bytes"

    def agreed(self, readers: list[Reader], data: bytes) -> bool:
        """Whether all readers take the bytes."""
        took = set()
        for read in readers:
            try:
                read(data)
                took.add((True, read.__name__))
            except (errors.CorruptionError, ValueError):
                took.add((False, read.__name__))
        if len({each for each, _ in took}) > 1:
            raise Fault(f"readers disagree on {data!r:.200}: {sorted(took)}")
        return (True, readers[0].__name__) in took

    def from_json(self, tree: Any) -> str:
        try:
            item = values.encode_json_item(tree)
        except (ValueProblem, SerializationProblem) as problem:
            return told(problem)
        again = [
            values.encode_json_item(load(values.json_item_text(item))),
            values.encode_wire_item(values.decode_wire_item(item)),
            values.encode_native_item(values.decode_native_item(item)),
            values.encode_item(values.decode_item(item)),
        ]
        if any(each != item for each in again):
            raise Fault(f"{item!r} came back as {again!r}")
        values.item_size(item)
        return "an item"

    def reset(self) -> None:
        """There is no state."""

    def close(self) -> None:
        """There are no files."""
