from collections.abc import Iterable

OPERATIONS: tuple[str, ...]

def set_fault(
    kinds: str | Iterable[str] = ...,
    nth: int = 1,
    errnum: int = ...,
    *,
    short_write: bool = False,
    for_ever: bool = False,
    path: str = "",
) -> None: ...
def clear_fault() -> None: ...
def operation_count(kind: str | None = None) -> int: ...
def start_recording() -> None: ...
def stop_recording() -> list[tuple[str, str, str | None, int, bytes | None]]: ...
