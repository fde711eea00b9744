"""The forms in which attribute values come in and go out, one object for each kind of caller.

WIRE
    typed dicts with bytes for B: boto3's client, in process.
JSON
    typed dicts with base64 text for B as parsed from an HTTP request; replies are ready-made JSON
    text, wrapped in `orjson.Fragment`.
NATIVE
    Python values as boto3's resource interface takes and gives them.

The encoders check every rule of attribute values. Immutable; thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from dynalsm.values.decode import (
    KINDS,
    decode_native,
    decode_native_item,
    decode_wire,
    decode_wire_item,
)
from dynalsm.values.encode_python import encode_native, encode_native_item
from dynalsm.values.encode_typed import (
    encode_json,
    encode_json_item,
    encode_wire,
    encode_wire_item,
)
from dynalsm.values.json_writer import json_item_text, json_text


@dataclass(frozen=True, slots=True)
class Form:
    """How one kind of caller writes attribute values.

    The four functions turn a value or an item of this form into encoded bytes and back; encoders
    take `depth_limit` as a second argument. `kind` names the form to compiled readers
    (decode.pxd).
    """

    name: str
    kind: int
    encode_value: Callable[..., bytes]
    encode_item: Callable[..., bytes]
    decode_value: Callable[[bytes], Any]
    decode_item: Callable[[bytes], Any]


def _value_fragment(encoded: bytes) -> orjson.Fragment:
    return orjson.Fragment(json_text(encoded))


def _item_fragment(encoded: bytes) -> orjson.Fragment:
    return orjson.Fragment(json_item_text(encoded))


# The kind that stands for no form at all: encoded bytes.
ENCODED: Final = KINDS["ENCODED"]

WIRE = Form("WIRE", KINDS["WIRE"], encode_wire, encode_wire_item, decode_wire, decode_wire_item)
JSON = Form("JSON", KINDS["JSON"], encode_json, encode_json_item, _value_fragment, _item_fragment)
NATIVE = Form(
    "NATIVE", KINDS["NATIVE"], encode_native, encode_native_item, decode_native, decode_native_item
)
