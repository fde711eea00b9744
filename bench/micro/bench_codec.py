"""Encoding and decoding of one realistic item (about 520 bytes) in every form, and tree keys.

Run: pytest bench/micro/bench_codec.py --benchmark-only -o python_files='bench_*.py' -p no:xdist
Compared against what a program would use otherwise: boto3's TypeSerializer, json, msgpack.
"""

from decimal import Decimal
from typing import Any

import msgpack
import orjson
import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from dynalsm import values
from dynalsm.model.keys import IndexKeys, TableKeys

# An order as web shops keep them. Its DynamoDB size is 520 bytes.
NATIVE: dict[str, Any] = {
    "pk": "CUSTOMER#8f14e45f-ceea-467f-a0e6-1b2c3d4e5f60",
    "sk": "ORDER#2026-10-05T14:23:11.482Z#000731",
    "type": "order",
    "status": "SHIPPED",
    "created_at": 1791210191482,
    "updated_at": 1791296591482,
    "version": 7,
    "total": Decimal("149.97"),
    "currency": "EUR",
    "gift": False,
    "coupon": None,
    "email": "jane.doe@example.com",
    "tags": {"web", "priority", "eu-west"},
    "address": {
        "street": "12 Rue de la Paix",
        "city": "Paris",
        "zip": "75002",
        "country": "FR",
        "lat": Decimal("48.8698"),
        "lon": Decimal("2.3311"),
    },
    "lines": [
        {"sku": "SKU-10045", "qty": 2, "price": Decimal("39.99")},
        {"sku": "SKU-20911", "qty": 1, "price": Decimal("69.99")},
    ],
    "note": "Please ring the bell twice; leave the parcel with the neighbour if nobody answers.",
    "digest": b"\x9f\x86\xd0\x81\x88\x4c\x7d\x65\x9a\x2f\xea\xa0\xc5\x5a\xd0\x15",
}
ENCODED = values.encode_native_item(NATIVE)
WIRE = values.decode_wire_item(ENCODED)
JSON = orjson.loads(values.json_item_text(ENCODED))
INTERNAL = values.decode_item(ENCODED)
KEYS = TableKeys("pk", "S", "sk", "S")
INDEX = IndexKeys("GSI", KEYS, [("status", "S")], [("created_at", "N")], ("ALL", ()))
TREE_KEY, STORED = KEYS.record(ENCODED)
KEY_ITEM = KEYS.key_item(TREE_KEY)
WIRE_KEY = values.decode_wire_item(KEY_ITEM)


def test_the_item_is_what_it_is_said_to_be() -> None:
    assert 480 <= values.item_size(ENCODED) <= 560
    assert values.encode_wire_item(WIRE) == values.encode_json_item(JSON) == ENCODED


CASES: dict[str, Any] = {
    "encode_internal": lambda: values.encode_item(INTERNAL),
    "encode_wire": lambda: values.encode_wire_item(WIRE),
    "encode_json": lambda: values.encode_json_item(JSON),
    "encode_native": lambda: values.encode_native_item(NATIVE),
    "decode_internal": lambda: values.decode_item(ENCODED),
    "decode_wire": lambda: values.decode_wire_item(ENCODED),
    "decode_native": lambda: values.decode_native_item(ENCODED),
    "json_item_text": lambda: values.json_item_text(ENCODED),
    "item_size": lambda: values.item_size(ENCODED),
    "get_attribute": lambda: values.get_attribute(ENCODED, "status"),
    "view_one_attribute": lambda: values.ItemView(ENCODED)["status"],
    "select_three": lambda: values.select(ENCODED, ("pk", "sk", "total")),
    "keys_encode": lambda: KEYS.encode(ENCODED),
    "keys_encode_key": lambda: KEYS.encode_key(KEY_ITEM),
    "keys_record": lambda: KEYS.record(ENCODED),
    "keys_join": lambda: KEYS.join(TREE_KEY, STORED),
    "keys_index_entry": lambda: INDEX.entry(ENCODED),
    "encode_wire_key": lambda: values.encode_wire_item(WIRE_KEY),
    "peer_boto3_serialize": lambda: {k: TypeSerializer().serialize(v) for k, v in NATIVE.items()},
    "peer_boto3_deserialize": lambda: {
        k: TypeDeserializer().deserialize(v) for k, v in WIRE.items()
    },
    "peer_msgpack_pack_json": lambda: msgpack.packb(JSON),
    "peer_msgpack_unpack": lambda: msgpack.unpackb(ENCODED),
    "peer_orjson_dumps_json": lambda: orjson.dumps(JSON),
}


@pytest.mark.parametrize("name", CASES)
def test_codec(benchmark: Any, name: str) -> None:
    benchmark(CASES[name])
