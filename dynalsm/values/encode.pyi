from collections.abc import Mapping
from typing import Any

def encode_value(value: Any, depth_limit: int = 32) -> bytes:
    """Encode an internal value."""

def encode_item(item: Mapping[str, Any], depth_limit: int = 32) -> bytes:
    """Encode a mapping of attribute name to internal value."""

def encode_wire(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a typed dict ({"S": "x"}) with bytes for B, checking all rules of its type."""

def encode_wire_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a dict of attribute name to typed dict, with bytes for B."""

def encode_json(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a typed dict ({"S": "x"}) with base64 text for B, as parsed from JSON."""

def encode_json_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a dict of attribute name to typed dict, with base64 text for B."""

def encode_native(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a value of boto3's resource interface; TypeError for what boto3 refuses."""

def encode_native_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a mapping of attribute name to a value of boto3's resource interface."""
