from typing import Any, Final

KINDS: Final[dict[str, int]]

def decode_value(data: bytes) -> Any:
    """Return the internal value of encoded bytes."""

def decode_item(data: bytes) -> dict[str, Any]:
    """Return the internal values of an encoded item by attribute name."""

def decode_wire(data: bytes) -> dict[str, Any]:
    """Return the typed dict ({"S": "x"}) of encoded bytes, with bytes for B."""

def decode_wire_item(data: bytes) -> dict[str, dict[str, Any]]:
    """Return the typed dicts of an encoded item by attribute name, with bytes for B."""

def decode_native(data: bytes) -> Any:
    """Return the value as boto3's resource interface gives it (Decimal, Binary, set, ...)."""

def decode_native_item(data: bytes) -> dict[str, Any]:
    """Return the values of an encoded item as boto3's resource interface gives them."""
