"""One typed attribute value and what can be done with it; knows no table and no storage.

An *encoded value* is canonical msgpack (docs/format-items.md): equal values have equal bytes. An
*encoded item* is an encoded map of its attributes. *Internal values* are what expressions work on:
str, Decimal, bytes, bool, None, list, dict, and frozenset of str, Decimal or bytes.
"""

from dynalsm.values.binary import Binary
from dynalsm.values.codec import (
    ItemView,
    attribute_names,
    get_attribute,
    item_from_pairs,
    item_size,
    merge,
    select,
    type_of,
    value_size,
    without,
)
from dynalsm.values.decode import (
    decode_item,
    decode_native,
    decode_native_item,
    decode_value,
    decode_wire,
    decode_wire_item,
)
from dynalsm.values.encode_python import (
    encode_item,
    encode_native,
    encode_native_item,
    encode_value,
)
from dynalsm.values.encode_typed import (
    encode_json,
    encode_json_item,
    encode_wire,
    encode_wire_item,
)
from dynalsm.values.forms import JSON, NATIVE, WIRE, Form
from dynalsm.values.json_writer import json_item_text, json_text
from dynalsm.values.number import (
    add,
    decode_number,
    encode_number,
    number_text,
    parse_number,
    subtract,
)
from dynalsm.values.problems import SerializationProblem, ValueProblem
from dynalsm.values.shape import check_item_shape, check_shape

__all__ = [
    "JSON",
    "NATIVE",
    "WIRE",
    "Binary",
    "Form",
    "ItemView",
    "SerializationProblem",
    "ValueProblem",
    "add",
    "attribute_names",
    "check_item_shape",
    "check_shape",
    "decode_item",
    "decode_native",
    "decode_native_item",
    "decode_number",
    "decode_value",
    "decode_wire",
    "decode_wire_item",
    "encode_item",
    "encode_json",
    "encode_json_item",
    "encode_native",
    "encode_native_item",
    "encode_number",
    "encode_value",
    "encode_wire",
    "encode_wire_item",
    "get_attribute",
    "item_from_pairs",
    "item_size",
    "json_item_text",
    "json_text",
    "merge",
    "number_text",
    "parse_number",
    "select",
    "subtract",
    "type_of",
    "value_size",
    "without",
]
