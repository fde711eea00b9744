"""Repair: make a directory that can be opened of whatever is whole in a damaged one.

    manifest   the newest one whose base can be read, with all its edits that can be read;
               when there is none, what the tables say of their trees (rebuild.py)
    tables     a damaged one is written again from its blocks that are whole
    logs       when one is damaged or missing: every whole record of all of them goes into tables
    others     where edits of the manifest were lost: tables that it does not list are merged in

Nothing is deleted: what was damaged, and what was replaced, is moved to `lost/<number>/` below the
directory, under the path it had. The new manifest is written last: before, the directory is as it
was, and repair can be run again.

Thread safety: none; the caller holds the directory's lock.
"""

from __future__ import annotations

import errno
import heapq
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dynalsm import errors
from dynalsm._core import _testing as tables
from dynalsm._core import edits as rules
from dynalsm._core import files, keyring, lockfile, rebuild, verify
from dynalsm._core.crc32c import checksum
from dynalsm._core.keyring import Keyring, MasterKey
from dynalsm._core.manifest import (
    CURRENT,
    Edit,
    Manifest,
    is_encrypted,
    manifest_name,
    manifest_numbers,
)
from dynalsm._core.recovery import highest_number, log_path, table_file
from dynalsm._core.repair_logs import RANGE_DELETE, entries_of_payload, salvage_records
from dynalsm._core.state import FILE, FILE_BYTES, LEVEL, PARTITION, TREE, UNIQUE_ID, State

LOST = "lost"

_TABLE_MAGIC = b"DLSMSST1"
_FOOTER = struct.Struct("<40xQ12xI")
_BOTTOM_LEVEL = 6
_TABLE_BYTES = 32 << 20

Entry = tuple[bytes, int, bytes]
Place = tuple[int, int]
Commit = list[tuple[int, int, bytes, bytes]]


@dataclass
class Repaired:
    """What repair found, what it saved, and what is lost."""

    problems: list[verify.Problem] = field(default_factory=list)
    #: Entries saved from damaged tables and logs.
    saved: int = 0
    #: What could not be saved, in words: which keys, commits or bytes of which file.
    lost: list[str] = field(default_factory=list)
    #: Where the damaged files are now; None: nothing had to be moved.
    lost_directory: str | None = None


def repair(path: str | os.PathLike[str], *, encryption_key: MasterKey | None = None) -> Repaired:
    """Repair the database in a directory; with nothing to do, nothing is written.

    An encrypted one needs its key; what is written is encrypted. Raises LockedError, FormatError
    (there is none), EncryptionError, CorruptionError when no manifest can be read and no table
    says which tree it is of.
    """
    directory = os.path.abspath(os.fspath(path))
    names = os.listdir(directory) if os.path.isdir(directory) else []
    has_manifest = any(name.startswith(("CURRENT", "MANIFEST-")) for name in names)
    if not has_manifest and not rebuild.table_files(directory):
        raise errors.FormatError("there is no database here", path=directory)
    keys = keyring.find(directory, encryption_key, is_encrypted)
    with lockfile.DirectoryLock(directory):
        if keys is not None:
            keys.settle()
        return repair_locked(directory, deep=True, keys=keys)


def repair_locked(directory: str, *, deep: bool, keys: Keyring | None = None) -> Repaired:
    """As repair(); not deep: only what an open would trip over (REQUIRES: the lock is held)."""
    work = _Repair(directory, deep, keys)
    work.run()
    return work.done


class _Repair:
    def __init__(self, directory: str, deep: bool, keys: Keyring | None) -> None:
        self.directory = directory
        self.deep = deep
        self.keys = keys
        self.done = Repaired()
        self.state = State()
        self.moves: list[str] = []  # paths that go to lost/ once the new manifest counts
        self.number = 0  # the next file's
        self.manifest_lost = False
        self.homes: dict[Place, Place] | None = None  # of a rebuilt state: where tables go
        self.newest_seqno = 0  # of a rebuilt state: in any table
        self._identities: dict[str, int | None] = {}

    def run(self) -> None:
        self._read_manifest()
        self.number = highest_number(self.directory, self.state) + 1
        self._check_tables()
        if self.manifest_lost:
            self._adopt_unlisted()
        self._check_logs()
        if self.homes is not None:
            self.state.flushed = max(self.state.flushed, self.newest_seqno)
        if self.done.problems:
            self._finish()

    def _complain(self, problems: list[verify.Problem]) -> None:
        self.done.problems += problems

    def _next_number(self) -> int:
        self.number += 1
        return self.number - 1

    # ---- manifest

    def _read_manifest(self) -> None:
        try:
            loaded = Manifest.load(self.directory, self.keys)
            if loaded is None:
                raise errors.CorruptionError("there is no manifest", path=self.directory)
            self.state = State.replay(loaded.edits, loaded.path)
            return
        except errors.CorruptionError as error:
            self._complain([verify.Problem.of(error, os.path.join(self.directory, CURRENT))])
        self.manifest_lost = True
        for number in reversed(manifest_numbers(files.list_directory(self.directory))):
            edits, is_whole = Manifest.salvage(self.directory, number, self.keys)
            if edits:
                self.state, failed = _replay_leniently(edits)
                name = manifest_name(number)
                if failed or not is_whole:
                    self.done.lost.append(f"edits of {name}; tables it should list are merged in")
                return
        self._rebuild()

    def _rebuild(self) -> None:
        """Make trees of what the tables say."""
        found = rebuild.read(rebuild.table_files(self.directory), self.keys)
        if not found.names:
            raise errors.CorruptionError(
                "no manifest can be read, and no table says which tree it is of; go back to a "
                "backup",
                path=self.directory,
            )
        self.state, self.homes, lost = found.state()
        self.newest_seqno = found.max_seqno
        self.done.lost += [
            "all manifests: trees that were empty or only in logs have lost their names, and "
            "ranges and replaced entries that had been deleted may be back",
            *lost,
        ]

    # ---- tables

    def _check_tables(self) -> None:
        report = verify.Report()
        for record in verify.records_of(self.state):
            problems = verify.check_table(
                self.directory, self.state, record, report, deep=self.deep, keys=self.keys
            )
            if problems:
                self._complain(problems)
                self._replace(record)
        for problem in verify.overlaps(self.directory, self.state):
            self._complain([problem])
            self._merge_partition(rebuild.place_of(problem.path), [])

    def _replace(self, record: list[Any]) -> None:
        """Put a table of the whole blocks in the place of a damaged one."""
        path = table_file(self.directory, record)
        place = (record[TREE], record[PARTITION])
        del self.state.files[place][record[FILE]]
        if os.path.exists(path):
            self.moves.append(path)
        if (twin := self._whole_twin(record)) is not None:
            again = [*record[:FILE], self._next_number(), *record[FILE + 1 :]]
            shutil.copyfile(twin, table_file(self.directory, again))
            self.state.files[place][again[FILE]] = again
            return
        if self._identity(path) != record[UNIQUE_ID]:
            self.done.lost.append(f"{path}: {_span(record[11], record[12])}")
            return
        entries = list(self._whole_entries(path, record[11], record[12]))
        self.done.saved += len(entries)
        if entries:
            self._write(record[TREE], record[PARTITION], record[LEVEL], entries, record[13])

    def _whole_twin(self, record: list[Any]) -> str | None:
        """The table under another name, if it is whole: files were swapped or renamed."""
        for path in rebuild.table_files(self.directory):
            if self._identity(path) == record[UNIQUE_ID] and _is_whole(path, record, self.keys):
                return path
        return None

    def _identity(self, path: str) -> int | None:
        """The unique id in a table's footer, or in its header when the footer cannot be read."""
        if path not in self._identities:
            self._identities[path] = _read_identity(path)
        return self._identities[path]

    def _whole_entries(self, path: str, smallest: bytes, largest: bytes) -> Iterator[Entry]:
        try:
            table = tables.SSTable(path, keys=self.keys)
            table.load()
        except errors.StorageError as error:
            self.done.lost.append(f"{path}: {_span(smallest, largest)} ({error.message})")
            return
        after: bytes | None = None
        for index in range(table.block_count):
            until = table.separator(index)
            try:
                yield from table.block_entries(index)
            except errors.CorruptionError as error:
                what = f"keys {_key(smallest)}" if after is None else f"keys after {_key(after)}"
                self.done.lost.append(f"{path}: {what} to {_key(until)} ({error.message})")
            after = until
        table.close()

    def _write(
        self, tree: int, partition: int, level: int, entries: list[Entry], ranges_applied: int
    ) -> None:
        record = [tree, partition, level, self._next_number()]
        path = table_file(self.directory, record)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        info = tables.write_table(
            path,
            entries,
            file_id=record[FILE],
            tree_id=tree,
            level=level,
            codec=1,
            keys=self.keys,
            tree_name=self.state.trees[tree][1],
            tree_hashed=self.state.trees[tree][2],
        )
        files.sync_directory(os.path.dirname(path))
        record += [info[name] for name in ("file_bytes", "unique_id", *verify.CLAIMS)]
        self.state.files[tree, partition][record[FILE]] = [*record, ranges_applied]

    def _adopt_unlisted(self) -> None:
        """Merge tables that the lost edits may have named into their partitions."""
        listed = {table_file(self.directory, each) for each in verify.records_of(self.state)}
        strangers: dict[Place, list[str]] = {}
        for path in rebuild.table_files(self.directory):
            if path not in listed and path not in self.moves:
                place = rebuild.place_of(path)
                home = place if self.homes is None else self.homes.get(place, place)
                strangers.setdefault(home, []).append(path)
        for place, paths in strangers.items():
            if place in self.state.files:
                self._merge_partition(place, paths)
            else:
                self.moves += paths
                self.done.lost.append(f"{', '.join(paths)}: of a tree that is not known")

    def _merge_partition(self, place: Place, strangers: list[str]) -> None:
        """Write all tables of a partition as one sorted run of the newest versions.

        A deletion wins over what it deleted as long as it is in any of the tables."""
        records = list(self.state.files[place].values())
        paths = [table_file(self.directory, record) for record in records] + strangers
        runs = [self._whole_entries(path, b"", b"") for path in paths]
        self.state.files[place] = {}
        applied = min((record[13] for record in records), default=0)
        run: list[Entry] = []
        size = 0
        last: bytes | None = None
        for key, tag, value in heapq.merge(*runs, key=lambda entry: (entry[0], -entry[1])):
            if key == last:
                continue
            last = key
            self.done.saved += 1
            run.append((key, tag, value))
            size += len(key) + len(value)
            if size >= _TABLE_BYTES:
                self._write(*place, _BOTTOM_LEVEL, run, applied)
                run, size = [], 0
        if run:
            self._write(*place, _BOTTOM_LEVEL, run, applied)
        self.moves += paths

    # ---- logs

    def _check_logs(self) -> None:
        problems = verify.check_logs(self.directory, self.state, verify.Report(), self.keys)
        if not problems and self.homes is None:
            return
        self._complain(problems)
        last = self.state.flushed
        memory: dict[Place, list[Entry]] = {}
        for number in verify.log_numbers(self.directory, self.state):
            path = log_path(os.path.join(self.directory, "wal"), number)
            for first, count, payload in salvage_records(path, number, self.keys):
                if first > last + 1 and (last or self.homes is None):
                    self.done.lost.append(f"commits {last + 1} to {first - 1} (before {path})")
                try:
                    self._apply(list(entries_of_payload(payload, count)), first, memory)
                except ValueError as error:
                    span = f"commits {first} to {first + count - 1}"
                    self.done.lost.append(f"{path}: {span} ({error})")
                last = max(last, first + count - 1)
            self.moves.append(path)
        for place, entries in sorted(memory.items()):
            entries.sort(key=lambda entry: (entry[0], -entry[1]))
            self.done.saved += len(entries)
            self._write(*place, 0, entries, 0)
        self.state.flushed = last
        self.state.log = self.number
        self.state.closed = []
        self.state.begun = 0
        self.done.lost += [f"what followed there: {problem}" for problem in problems]

    def _apply(self, commit: Commit, first: int, memory: dict[Place, list[Entry]]) -> None:
        for index, (kind, tree_id, key, value) in enumerate(commit):
            seqno = first + index
            tree = self.state.trees.get(tree_id)
            if tree is None and self.homes is not None:
                tree = rebuild.add_nameless(self.state, tree_id, self.done.lost)
            if tree is None or seqno <= self.state.flushed:
                continue
            if kind == RANGE_DELETE:
                for partition, _lower in tree[3]:
                    ranges = self.state.ranges.setdefault((tree_id, partition), [])
                    ranges.append([key, value or None, seqno])
            else:
                place = (tree_id, _partition_of(tree, key))
                memory.setdefault(place, []).append((key, seqno << 8 | kind, value))

    # ---- the end

    def _finish(self) -> None:
        self.state.next_file = max(self.state.next_file, self.number + 1)
        base: Edit = self.state.base()
        base["next"] = self.number + 1
        old = manifest_numbers(files.list_directory(self.directory))
        Manifest.replace(self.directory, self.number, base, self.keys).close()
        if self.manifest_lost:
            self.moves += [os.path.join(self.directory, manifest_name(each)) for each in old]
        if not self.moves:
            return
        taken = len(os.listdir(lost)) if os.path.isdir(lost := self._lost()) else 0
        target = os.path.join(lost, f"{taken + 1:06d}")
        for path in self.moves:
            place = os.path.join(target, os.path.relpath(path, self.directory))
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            files.rename_file(path, place)
        self.done.lost_directory = target

    def _lost(self) -> str:
        return os.path.join(self.directory, LOST)


# ------------------------------------------------------------------------------------- small parts


def _replay_leniently(edits: list[Edit]) -> tuple[State, int]:
    """The state after the edits that fit; and how many did not."""
    state = State()
    failed = 0
    for edit in edits:
        try:
            rules.check(edit)
            state.apply(edit)
        except (KeyError, ValueError):
            failed += 1
    return state, failed


def _partition_of(tree: list[Any], key: bytes) -> int:
    _id, _name, hashed, partitions = tree
    if not hashed:
        return int(partitions[0][0])
    wanted = int.from_bytes(key[:8], "big")
    return int(max((lower, each) for each, lower in partitions if lower <= wanted)[1])


def _key(key: bytes) -> str:
    return repr(key if len(key) <= 64 else key[:64] + b"...")


def _span(smallest: bytes, largest: bytes) -> str:
    return f"keys {_key(smallest)} to {_key(largest)}"


def _is_whole(path: str, record: list[Any], keys: Keyring | None) -> bool:
    try:
        table = tables.SSTable(
            path, file_bytes=record[FILE_BYTES], unique_id=record[UNIQUE_ID], keys=keys
        )
        try:
            table.verify()
        finally:
            table.close()
    except (errors.CorruptionError, errors.EncryptionError):
        return False
    return True


def _read_identity(path: str) -> int | None:
    """See _Repair._identity; docs/format-sstable.md, "Footer"."""
    try:
        data = files.read_file(path)
    except errors.StorageIOError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    footer = data[-_FOOTER.size :]
    if len(footer) == _FOOTER.size and footer[:8] == _TABLE_MAGIC:
        identity, crc = _FOOTER.unpack(footer)
        if checksum(footer[:-4]) == crc:
            return int(identity)
    if data[:8] == _TABLE_MAGIC and len(data) >= 16:
        return int.from_bytes(data[8:16], "little")
    return None
