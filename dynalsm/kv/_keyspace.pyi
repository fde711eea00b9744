import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from _typeshed import ReadableBuffer

from dynalsm._core import Tree
from dynalsm.kv._batch import WriteBatch
from dynalsm.kv._iterator import Iterator, RawIterator

Default = TypeVar("Default")

class Keyspace:
    @property
    def name(self) -> str | bytes | os.PathLike[str]: ...
    def _attach(self, name: object, database: object, tree: Tree) -> None: ...
    def place(self) -> tuple[Tree, None]: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: None = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: Default,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> bytes | Default: ...
    def put(
        self, key: ReadableBuffer, value: ReadableBuffer, *, sync: bool | None = None
    ) -> None: ...
    def delete(self, key: ReadableBuffer, *, sync: bool | None = None) -> None: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: None = None,
        *,
        fill_cache: bool | None = True,
    ) -> list[bytes | None]: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: Default,
        *,
        fill_cache: bool | None = True,
    ) -> list[bytes | Default]: ...
    def write_batch(self, *, transaction: bool = False, sync: bool | None = None) -> WriteBatch: ...
    def delete_range(
        self,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        *,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        sync: bool | None = None,
    ) -> None: ...
    def ingest(self, items: Iterable[tuple[ReadableBuffer, ReadableBuffer]]) -> int: ...
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator: ...
    def raw_iterator(
        self,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> RawIterator: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: ReadableBuffer) -> PrefixedDB: ...
    def __iter__(self) -> Iterator: ...
    @property
    def closed(self) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    def get_property(self, name: bytes) -> bytes | None: ...
    def compact_range(
        self, *, start: ReadableBuffer | None = None, stop: ReadableBuffer | None = None
    ) -> None: ...
    def approximate_size(self, start: ReadableBuffer, stop: ReadableBuffer) -> int: ...
    def approximate_sizes(self, *ranges: tuple[ReadableBuffer, ReadableBuffer]) -> list[int]: ...

class PrefixedDB:
    @property
    def db(self) -> Keyspace: ...
    @property
    def prefix(self) -> bytes: ...
    def __init__(self, db: Keyspace, prefix: bytes) -> None: ...
    def place(self) -> tuple[Tree, bytes]: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: None = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: Default,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> bytes | Default: ...
    def put(
        self, key: ReadableBuffer, value: ReadableBuffer, *, sync: bool | None = None
    ) -> None: ...
    def delete(self, key: ReadableBuffer, *, sync: bool | None = None) -> None: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: None = None,
        *,
        fill_cache: bool | None = True,
    ) -> list[bytes | None]: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: Default,
        *,
        fill_cache: bool | None = True,
    ) -> list[bytes | Default]: ...
    def write_batch(self, *, transaction: bool = False, sync: bool | None = None) -> WriteBatch: ...
    def delete_range(
        self,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        *,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        sync: bool | None = None,
    ) -> None: ...
    def ingest(self, items: Iterable[tuple[ReadableBuffer, ReadableBuffer]]) -> int: ...
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: ReadableBuffer) -> PrefixedDB: ...
    def __iter__(self) -> Iterator: ...

class Snapshot:
    def __init__(self, db: Keyspace, prefix: bytes | None = None) -> None: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: None = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: ReadableBuffer,
        default: Default,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> bytes | Default: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: None = None,
        *,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> list[bytes | None]: ...
    @overload
    def multi_get(
        self,
        keys: Iterable[ReadableBuffer],
        default: Default,
        *,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> list[bytes | Default]: ...
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> Iterator: ...
    def raw_iterator(
        self,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> RawIterator: ...
    def close(self) -> None: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __iter__(self) -> Iterator: ...
