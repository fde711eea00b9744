from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

def type_of(value: bytes) -> str:
    """Return the type tag of an encoded value: "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", …"""

def value_size(value: bytes) -> int:
    """Return DynamoDB's size of an encoded value in bytes."""

def item_size(item: bytes) -> int:
    """Return DynamoDB's size of an encoded item in bytes: names and values."""

def get_attribute(item: bytes, name: str) -> bytes | None:
    """Return the encoded value of an attribute of an encoded item, or None."""

def attribute_names(item: bytes) -> list[str]:
    """Return the names of an encoded item's attributes, sorted by their UTF-8 bytes."""

def _probe(what: str, value: bytes, argument: Any) -> Any:
    """Call one of the C functions of codec.pxd that no Python function needs (for tests)."""

def without(item: bytes, names: Iterable[str]) -> bytes:
    """Return the encoded item without the named attributes."""

def select(item: bytes, names: Iterable[str]) -> bytes:
    """Return the encoded item with only the named attributes."""

def merge(item: bytes, attributes: dict[str, bytes]) -> bytes:
    """Return the encoded item with attributes (name -> encoded value) set or replaced."""

def item_from_pairs(attributes: dict[str, bytes]) -> bytes:
    """Return the encoded item of attributes given as name -> encoded value."""

@final
class ItemView(Mapping[str, Any]):
    """A read-only mapping over an encoded item that decodes an attribute when it is asked for."""

    @property
    def encoded(self) -> bytes:
        """The item's bytes."""

    def __init__(self, encoded: bytes) -> None: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or the default."""

    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
