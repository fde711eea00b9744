"""Binary: bytes as boto3's resource interface hands them out. Immutable."""

from __future__ import annotations


class Binary(bytes):
    """Binary data of an attribute, as `boto3.dynamodb.types.Binary` is.

    It is bytes: it equals and hashes as them, boto3's serializer takes it, and comparing it with a
    boto3 Binary works from both sides (bytes leave that comparison to boto3's class).
    """

    __slots__ = ()

    def __new__(cls, value: bytes | bytearray) -> Binary:
        if not isinstance(value, (bytes, bytearray)):
            types = ", ".join(str(accepted) for accepted in (bytearray, bytes))
            raise TypeError(f"Value must be of the following types: {types}")
        return super().__new__(cls, value)

    @property
    def value(self) -> bytes:
        """The plain bytes."""
        return bytes(self)

    def __repr__(self) -> str:
        return f"Binary({bytes.__repr__(self)})"
