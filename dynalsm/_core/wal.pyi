from os import PathLike
from typing import NamedTuple, final

from dynalsm._core.keyring import Keyring

_Path = str | bytes | PathLike[str] | PathLike[bytes]

class Record(NamedTuple):
    offset: int
    first_seqno: int
    entries: int
    payload: bytes

class Log(NamedTuple):
    number: int
    previous_number: int
    previous_size: int
    previous_seqno: int
    records: list[Record]
    end: int
    clean_end: bool
    torn: bool
    older_synced: bool
    key_id: int

def read_log(path: _Path, keys: Keyring | None = None, *, opens: bool = True) -> Log: ...

@final
class LogWriter:
    def __init__(
        self,
        path: _Path,
        number: int,
        previous_number: int = 0,
        previous_size: int = 0,
        previous_seqno: int = 0,
        *,
        mapped: bool = True,
        keys: Keyring | None = None,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def synced(self) -> int: ...
    @property
    def allocated(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def is_mapped(self) -> bool: ...
    @property
    def older_synced(self) -> bool: ...
    @older_synced.setter
    def older_synced(self, value: bool) -> None: ...
    def append(self, payload: bytes, first_seqno: int, count: int = 1) -> None: ...
    def sync(self) -> None: ...
    def finish(self, next_seqno: int = 0, *, mark: bool = True) -> None: ...
    def close(self) -> None: ...
