"""Types of opening and ending an engine."""

from typing import Any

from dynalsm._core.engine import Engine
from dynalsm._core.keyring import Keyring, MasterKey

SUBDIRECTORIES: tuple[str, ...]

def open_engine(
    engine: Engine,
    create_if_missing: bool,
    error_if_exists: bool,
    master: bytes | None,
    keys: Keyring | None,
) -> None: ...
def find_keys(path: str, encryption_key: MasterKey | None) -> Keyring | None: ...
def flush_before_close(engine: Engine) -> None: ...
def highest_number(path: str, state: Any) -> int: ...
def table_file(path: str, record: list[Any]) -> str: ...
def log_path(directory: str, number: int) -> str: ...
