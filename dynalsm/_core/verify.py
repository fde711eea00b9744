"""Verification of a whole directory: every byte is read and held against the manifest.

What is checked: CURRENT and the manifest; each table's footer, checksums, key order, block index,
filter and counts, and that it is what the manifest says (size, identity, keys, sequence numbers,
partition, level); that tables of one level below the first do not overlap; that every log is whole
as far as it was durable, and continues the one before.

Thread safety: any thread, beside a writer in this process or another one. A table that goes away
meanwhile (it was compacted) is not counted.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dynalsm import errors
from dynalsm._core import _testing as tables
from dynalsm._core import keyring, names, wal
from dynalsm._core.keyring import Keyring, MasterKey
from dynalsm._core.manifest import CURRENT, Manifest
from dynalsm._core.recovery import find_keys, log_path, table_file
from dynalsm._core.state import FILE, FILE_BYTES, LEVEL, PARTITION, TREE, UNIQUE_ID, State

SMALLEST, LARGEST = 11, 12
# What the record in the manifest says, and the table must agree with: by position.
CLAIMS = {
    "entries": 6,
    "deletions": 7,
    "min_seqno": 8,
    "max_seqno": 9,
    "raw_bytes": 10,
    "smallest": SMALLEST,
    "largest": LARGEST,
}
_HASH_BYTES = 8


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be: where, and what."""

    path: str
    message: str
    offset: int | None = None

    def __str__(self) -> str:
        place = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{place}: {self.message}"

    @classmethod
    def of(cls, error: errors.StorageError, path: str) -> Problem:
        """The problem that an error tells of; `path` where it names none."""
        return cls(error.path or path, error.message, error.offset)


@dataclass
class Report:
    """What was read, and the problems that were found."""

    tables: int = 0
    logs: int = 0
    bytes: int = 0
    entries: int = 0
    #: Of an encrypted database: files under an older data key than the one new files get.
    old_key_files: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def count_key(self, keys: Keyring | None, key_id: int) -> None:
        """Count a file that was read, if it is under an older data key."""
        self.old_key_files += keys is not None and key_id != keys.key_id

    def complain(self, path: str, message: str, offset: int | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(path, message, offset))


def verify(
    path: str | os.PathLike[str],
    progress: Callable[[int], None] | None = None,
    *,
    encryption_key: MasterKey | None = None,
    keys: Keyring | None = None,
) -> Report:
    """Read the database in the directory whole. `progress`: called with the bytes read so far.

    An encrypted one needs its key, or its keyring when it is open. Raises FormatError when there is
    none, or one of a newer version; EncryptionError; StorageIOError when something cannot be read
    for another reason than damage.
    """
    directory = os.path.abspath(os.fspath(path))
    report = Report()
    try:
        files_of_keys = keys is None or keys.directory == directory
        if keys is None:
            keys = find_keys(directory, encryption_key) if os.path.isdir(directory) else None
        loaded = Manifest.load(directory, keys) if os.path.isdir(directory) else None
        if loaded is None:
            raise errors.FormatError("there is no database here", path=directory)
        state = State.replay(loaded.edits, loaded.path)
    except errors.CorruptionError as error:
        report.problems.append(Problem.of(error, os.path.join(directory, CURRENT)))
        return report
    if keys is not None and files_of_keys:
        for name in keyring.damaged(directory):
            report.complain(name, "one of the two files of keys is damaged or missing")
    report.bytes += loaded.end
    report.count_key(keys, loaded.seal.key_id if loaded.seal is not None else 0)
    for record in records_of(state):
        report.problems += check_table(directory, state, record, report, keys=keys)
        if progress is not None:
            progress(report.bytes)
    report.problems += overlaps(directory, state)
    _drop_outdated(directory, report, keys)
    report.problems += check_logs(directory, state, report, keys)
    return report


def records_of(state: State) -> list[list[Any]]:
    """All file records of a state."""
    return [record for records in state.files.values() for record in records.values()]


# ---------------------------------------------------------------------------------------- tables


def check_table(
    directory: str,
    state: State,
    record: list[Any],
    report: Report,
    *,
    deep: bool = True,
    keys: Keyring | None = None,
) -> list[Problem]:
    """Check one table; not deep: as an open does, by its footer and properties."""
    path = table_file(directory, record)
    try:
        table = tables.SSTable(
            path,
            file_id=record[FILE],
            file_bytes=record[FILE_BYTES],
            unique_id=record[UNIQUE_ID],
            keys=keys,
        )
        try:
            if deep:
                table.verify()
            found = table.info()
            key_id = table.key_id
        finally:
            table.close()
    except (errors.CorruptionError, errors.EncryptionError) as error:
        return [Problem.of(error, path)]
    except errors.StorageIOError as error:
        if error.errno != errno.ENOENT:
            raise
        return [Problem(path, "the table is missing")]
    report.count_key(keys, key_id)
    report.tables += 1
    report.bytes += record[FILE_BYTES]
    report.entries += found["entries"]
    problems = [
        Problem(path, f"its {name} is {found[name]!r}; the manifest says {record[place]!r}")
        for name, place in CLAIMS.items()
        if found[name] != record[place]
    ]
    return problems + _outside(path, state, record)


def _outside(path: str, state: State, record: list[Any]) -> list[Problem]:
    """Keys of a hashed tree lie in their partition's range."""
    _id, _name, hashed, partitions = state.trees[record[TREE]]
    if not hashed:
        return []
    bounds = sorted(lower for _partition, lower in partitions)
    lower = next(lower for partition, lower in partitions if partition == record[PARTITION])
    upper = min((each for each in bounds if each > lower), default=1 << 64)
    hashes = [int.from_bytes(record[place][:_HASH_BYTES], "big") for place in (SMALLEST, LARGEST)]
    if all(lower <= each < upper for each in hashes):
        return []
    return [Problem(path, "it holds keys of another partition")]


def overlaps(directory: str, state: State) -> list[Problem]:
    """Tables of one level (below the first) that overlap."""
    problems = []
    for records in state.files.values():
        for level in {record[LEVEL] for record in records.values()} - {0}:
            run = sorted(
                (record for record in records.values() if record[LEVEL] == level),
                key=lambda record: record[SMALLEST],
            )
            problems += [
                Problem(
                    table_file(directory, after), f"it overlaps table {before[FILE]} of its level"
                )
                for before, after in itertools.pairwise(run)
                if after[SMALLEST] <= before[LARGEST]
            ]
    return problems


def _drop_outdated(directory: str, report: Report, keys: Keyring | None) -> None:
    """Forget complaints about tables that a writer beside us has replaced meanwhile."""
    if not report.problems:
        return
    state = State.replay(_edits(directory, keys), directory)
    current = {table_file(directory, record) for record in records_of(state)}
    report.problems = [
        problem
        for problem in report.problems
        if not problem.path.endswith(".sst") or problem.path in current
    ]


def _edits(directory: str, keys: Keyring | None) -> list[dict[str, Any]]:
    loaded = Manifest.load(directory, keys)
    return loaded.edits if loaded is not None else []


# ------------------------------------------------------------------------------------------ logs


def log_numbers(directory: str, state: State) -> list[int]:
    """The logs that may hold something that is in no table, oldest first."""
    return names.log_numbers(os.path.join(directory, "wal"), state.log)


def check_logs(
    directory: str, state: State, report: Report, keys: Keyring | None = None
) -> list[Problem]:
    """Damage in the logs, and logs that are missing or end early although they were durable."""
    logs: list[wal.Log] = []
    problems = []
    for number in log_numbers(directory, state):
        path = log_path(os.path.join(directory, "wal"), number)
        try:
            log = wal.read_log(path, keys)
        except (errors.CorruptionError, errors.EncryptionError) as error:
            problems.append(Problem.of(error, path))
            continue
        except errors.StorageIOError as error:
            if error.errno != errno.ENOENT:
                raise
            continue  # flushed meanwhile
        report.logs += 1
        report.count_key(keys, log.key_id or (0 if keys is None or log.number else keys.key_id))
        report.bytes += log.end
        report.entries += sum(record.entries for record in log.records)
        if log.number:
            logs.append(log)
    return problems or chain_problems(directory, state, logs)


def chain_problems(directory: str, state: State, logs: Iterable[wal.Log]) -> list[Problem]:
    """What an open would call damage between logs (docs/format-log.md, "Between logs")."""
    logs = list(logs)
    home = os.path.join(directory, "wal")
    closed = state.closed[0] if state.closed else 0
    must_be = {state.last_log} if state.last_log >= state.log else set()
    if missing := must_be - {log.number for log in logs}:
        path = log_path(home, missing.pop())
        return [Problem(path, "the log is missing, or its beginning is")]
    last: wal.Log | None = None
    expected = state.flushed + 1
    for place, log in enumerate(logs):
        is_next = last is not None and last.number == log.previous_number
        is_whole = (
            log.previous_number == 0
            or log.previous_number < state.log
            or (is_next and (not log.previous_size or last.end >= log.previous_size))  # type: ignore[union-attr]
        )
        if not is_whole:
            path = log_path(home, log.previous_number)
            offset = last.end if last is not None and is_next else None
            if state.last_log >= log.number or any(later.older_synced for later in logs[place:]):
                what = "the log ends early" if is_next else "the log is missing"
                return [Problem(path, f"{what}, although it was durable", offset)]
            return []  # behind a gap that was never durable: not part of what was promised
        if closed == log.number and not log.clean_end:
            path = log_path(home, log.number)
            return [Problem(path, "the log was closed cleanly and ends early", log.end)]
        for record in log.records:
            if record.first_seqno > expected:
                what = f"commits {expected} to {record.first_seqno - 1} are missing"
                return [Problem(log_path(home, log.number), what, record.offset)]
            expected = max(expected, record.first_seqno + record.entries)
        last = log
    return []
