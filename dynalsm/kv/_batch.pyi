from types import TracebackType
from typing import Self

from _typeshed import ReadableBuffer

from dynalsm.kv._keyspace import Keyspace, PrefixedDB

class WriteBatch:
    def put(
        self,
        key: ReadableBuffer,
        value: ReadableBuffer,
        *,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> None: ...
    def delete(
        self, key: ReadableBuffer, *, keyspace: Keyspace | PrefixedDB | None = None
    ) -> None: ...
    def delete_range(
        self,
        start: ReadableBuffer | None = None,
        stop: ReadableBuffer | None = None,
        *,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: ReadableBuffer | None = None,
        keyspace: Keyspace | PrefixedDB | None = None,
    ) -> None: ...
    def clear(self) -> None: ...
    def write(self) -> None: ...
    def append(self, source: WriteBatch) -> None: ...
    def approximate_size(self) -> int: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
