from typing import Any

def encode_wire(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a typed dict ({"S": "x"}) with bytes for B, checking all rules of its type."""

def encode_wire_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a dict of attribute name to typed dict, with bytes for B."""

def encode_json(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a typed dict ({"S": "x"}) with base64 text for B, as parsed from JSON."""

def encode_json_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a dict of attribute name to typed dict, with base64 text for B."""
