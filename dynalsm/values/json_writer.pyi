def json_text(data: bytes) -> bytes:
    """Return the DynamoDB JSON text of an encoded value, as UTF-8."""

def json_item_text(data: bytes) -> bytes:
    """Return the DynamoDB JSON text of an encoded item, as UTF-8."""
