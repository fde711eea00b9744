"""Repair: make a directory that can be opened of whatever is whole in a damaged one.

    manifest   the newest one whose base can be read, with all its edits that can be read
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
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dynalsm import errors
from dynalsm._core import _testing as tables
from dynalsm._core import edits as rules
from dynalsm._core import files, keyring, lockfile, verify
from dynalsm._core.crc32c import checksum
from dynalsm._core.keyring import Keyring, MasterKey
from dynalsm._core.manifest import CURRENT, Edit, Manifest, manifest_name, manifest_numbers
from dynalsm._core.names import TABLE, number_in
from dynalsm._core.recovery import find_keys, highest_number, log_path, table_file
from dynalsm._core.state import FILE, FILE_BYTES, LEVEL, PARTITION, TREE, UNIQUE_ID, State

LOST = "lost"

_DELETE, _PUT, _RANGE_DELETE = 0, 1, 3
_LOG_HEADER_BYTES = 64
_VARINT_BITS = 70
_RECORD = struct.Struct("<IIIIQQ")
_SEALED = struct.Struct("<QI")
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
    (there is none), EncryptionError, CorruptionError when no manifest can be read.
    """
    directory = os.path.abspath(os.fspath(path))
    names = os.listdir(directory) if os.path.isdir(directory) else []
    if not any(name.startswith(("CURRENT", "MANIFEST-")) for name in names):
        raise errors.FormatError("there is no database here", path=directory)
    keys = find_keys(directory, encryption_key)
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
        self._identities: dict[str, int | None] = {}

    def run(self) -> None:
        self._read_manifest()
        self.number = highest_number(self.directory, self.state) + 1
        self._check_tables()
        if self.manifest_lost:
            self._adopt_unlisted()
        self._check_logs()
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
                raise errors.FormatError("there is no database here", path=self.directory)
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
        raise errors.CorruptionError(
            "no manifest can be read: the names of the trees are lost; go back to a backup",
            path=self.directory,
        )

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
            self._merge_partition(_place_of(problem.path), [])

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
        for path in self._table_files():
            if self._identity(path) == record[UNIQUE_ID] and _is_whole(path, record, self.keys):
                return path
        return None

    def _table_files(self) -> list[str]:
        walk = os.walk(os.path.join(self.directory, "data"))
        return sorted(
            os.path.join(root, name)
            for root, _names, names in walk
            for name in names
            if number_in(name, TABLE) is not None and _is_place(root)
        )

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
        )
        files.sync_directory(os.path.dirname(path))
        record += [info[name] for name in ("file_bytes", "unique_id", *verify.CLAIMS)]
        self.state.files[tree, partition][record[FILE]] = [*record, ranges_applied]

    def _adopt_unlisted(self) -> None:
        """Merge tables that the lost edits may have named into their partitions."""
        listed = {table_file(self.directory, each) for each in verify.records_of(self.state)}
        strangers: dict[Place, list[str]] = {}
        for path in self._table_files():
            if path not in listed and path not in self.moves:
                strangers.setdefault(_place_of(path), []).append(path)
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
        newest: dict[bytes, tuple[int, bytes]] = {}
        for path in paths:
            for key, tag, value in self._whole_entries(path, b"", b""):
                if key not in newest or newest[key][0] < tag:
                    newest[key] = (tag, value)
        self.state.files[place] = {}
        applied = min((record[13] for record in records), default=0)
        run: list[Entry] = []
        size = 0
        for key, (tag, value) in sorted(newest.items()):
            run.append((key, tag, value))
            size += len(key) + len(value)
            if size >= _TABLE_BYTES:
                self._write(*place, _BOTTOM_LEVEL, run, applied)
                run, size = [], 0
        if run:
            self._write(*place, _BOTTOM_LEVEL, run, applied)
        self.done.saved += len(newest)
        self.moves += paths

    # ---- logs

    def _check_logs(self) -> None:
        problems = verify.check_logs(self.directory, self.state, verify.Report(), self.keys)
        if not problems:
            return
        self._complain(problems)
        last = self.state.flushed
        memory: dict[Place, list[Entry]] = {}
        for number in verify.log_numbers(self.directory, self.state):
            path = log_path(os.path.join(self.directory, "wal"), number)
            for first, count, payload in salvage_records(path, number, self.keys):
                if first > last + 1:
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
            if tree is None or seqno <= self.state.flushed:
                continue
            if kind == _RANGE_DELETE:
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


def _is_place(directory: str) -> bool:
    """Whether a directory's name and its parent's are numbers of a partition and a tree."""
    return all(part.isascii() and part.isdecimal() for part in directory.split(os.sep)[-2:])


def _place_of(path: str) -> Place:
    """Tree and partition of a table, by its path."""
    tree, partition = path.split(os.sep)[-3:-1]
    return int(tree), int(partition)


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


def salvage_records(
    path: str, number: int, keys: Keyring | None = None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (first seqno, entries, payload) of every whole record of a log, damaged or not.

    Layout: docs/format-log.md. A record is valid at its own offset in its own log only.
    """
    data = files.read_file(path)
    opened = (lambda _offset, payload: payload) if keys is None else _log_opener(data, path, keys)
    offset = _LOG_HEADER_BYTES
    while offset + _RECORD.size <= len(data):
        size, crc, low, count, seqno, synced = _RECORD.unpack_from(data, offset)
        start = offset + _RECORD.size
        if size and count and low == number & 0xFFFFFFFF and start + size <= len(data):
            sealed = _SEALED.pack(offset, size) + data[offset + 8 : start]
            if checksum(data[start : start + size], checksum(sealed)) == crc:
                payload = opened(offset, data[start : start + size])
                if payload is not None:
                    yield seqno, count, payload
                offset = start + size + -size % 8
                continue
        if not size and not count and not synced:
            rest = data[offset:]
            offset += max(8, (len(rest) - len(rest.lstrip(b"\0"))) & ~7)
        else:
            offset += 8


def _log_opener(data: bytes, path: str, keys: Keyring) -> Callable[[int, bytes], bytes | None]:
    """A function from offset and stored payload of a record to its payload; None: it is false."""
    head = data[_LOG_HEADER_BYTES : _LOG_HEADER_BYTES + keyring.HEAD_BYTES]
    try:
        head = head.ljust(keyring.HEAD_BYTES, b"\0")
        seal = keyring.FileSeal.find(keys, head, b"log", path, _LOG_HEADER_BYTES)
    except errors.StorageError:
        return lambda _offset, _payload: None

    def opened(offset: int, stored: bytes) -> bytes | None:
        place = _SEALED.pack(offset, len(stored)) + data[offset + 8 : offset + _RECORD.size]
        nonce = offset.to_bytes(8, "little") + stored[:4]
        try:
            return seal.open_with(nonce, stored[4:], place, path, offset)
        except errors.CorruptionError:
            return None

    return opened


def entries_of_payload(payload: bytes, count: int) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield (kind, tree id, key, value) of a commit (docs/format.md, "Batches").

    Raises: ValueError when the payload is no commit of `count` entries.
    """
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while place < len(payload) and shift < _VARINT_BITS:
            byte = payload[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number does not end")

    def text() -> bytes:
        nonlocal place
        size = number()
        place += size
        if place > len(payload):
            raise ValueError("an entry passes the end of its commit")
        return payload[place - size : place]

    for _ in range(count):
        if place >= len(payload):
            raise ValueError("entries are missing")
        kind = payload[place]
        if kind not in (_DELETE, _PUT, _RANGE_DELETE):
            raise ValueError(f"there is no entry of kind {kind}")
        place += 1
        tree = number()
        key = text()
        yield kind, tree, key, b"" if kind == _DELETE else text()
    if place != len(payload):
        raise ValueError("bytes behind the last entry")


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
