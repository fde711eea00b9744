from typing import Any, final

from dynalsm.model.changelog import ChangelogRecord

@final
class Changelog:
    """A changelog that is open for writing or reading: its record and its tree."""

    record: ChangelogRecord
    tree: Any
    keeps_old: bool
    keeps_new: bool
    def __init__(self, record: ChangelogRecord, tree: Any) -> None: ...

def pack_record(
    changelog: Changelog,
    key_item: bytes,
    old_item: bytes | None,
    new_item: bytes | None,
    milliseconds: int,
    by_ttl: bool,
) -> bytes:
    """Return the value of a record (for tests)."""
