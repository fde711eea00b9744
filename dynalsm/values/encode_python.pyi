from collections.abc import Mapping
from typing import Any

def encode_value(value: Any, depth_limit: int = 32) -> bytes:
    """Encode an internal value."""

def encode_item(item: Mapping[str, Any], depth_limit: int = 32) -> bytes:
    """Encode a mapping of attribute name to internal value."""

def encode_native(value: Any, depth_limit: int = 32) -> bytes:
    """Encode a value of boto3's resource interface; TypeError for what boto3 refuses."""

def encode_native_item(item: Any, depth_limit: int = 32) -> bytes:
    """Encode a mapping of attribute name to a value of boto3's resource interface."""
