"""The manifest: a log of edits that says which trees, tables and logs make up the database.

What an edit means is the engine's affair; here it is a dict that msgpack can carry.

Byte layout (little-endian; docs/format-log.md)::

    MANIFEST-<number, six digits or more>
      header   magic "DLSMMAN1" | format u32 | min_reader u32 | min_writer u32 | flags u32
               | number u64 | reserved u32 | crc32c u32 over the bytes before it
               and, in an encrypted one (flag 1), the head of an encrypted file; its payloads are
               sealed (docs/format-encryption.md)
      frames   each at a multiple of 8:
               length u32 | crc32c u32 | synced u64 | payload (msgpack) | zeros to a multiple of 8
               crc over number u64, offset of the frame u64, length u32, synced u64, payload;
               synced: the manifest was durable up to here when the frame was written
      mark     a frame of length 0, written (not synced) after everything before it was synced
    CURRENT    "MANIFEST-<number> <crc32c of the name, eight hex digits>\\n"

The first frame is the base: the whole state when the manifest was begun.

Invariants:

1. CURRENT names a manifest whose base is durable: file synced, directory synced, CURRENT written
   aside, synced, renamed, directory synced.
2. A frame behind the base, or a mark, exists only in a manifest that CURRENT names durably or did.
3. A damaged frame is cut off as torn only if nothing behind it proves that it was whole. Marks
   give this proof to the last edit too, as soon as the kernel has written them.
4. After a failed append nothing is appended to that manifest again.

Thread safety: none; the caller holds the engine's lock for trees and versions.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import struct
from dataclasses import dataclass, field
from typing import Any

import msgpack

from dynalsm import errors
from dynalsm._core import files, wal
from dynalsm._core.crc32c import checksum
from dynalsm._core.keyring import HEAD_BYTES, FileSeal, Keyring, refuse_plain

MAGIC = b"DLSMMAN1"
FORMAT = 1
#: The oldest reader and writer that can work with what this version writes, and what this one is.
MIN_READER = MIN_WRITER = 1
READER = WRITER = 2
#: Encrypted manifests need a reader of that format.
ENCRYPTED_FORMAT = 2
ENCRYPTED = 1  # flag of the header
_PURPOSE = b"manifest"

CURRENT = "CURRENT"
_CURRENT_TEXT = re.compile(rb"(MANIFEST-[0-9]{6,20}) ([0-9a-f]{8})\n")
_MANIFEST_NAME = re.compile(r"MANIFEST-([0-9]{6,20})")

_HEADER = struct.Struct("<8sIIIIQI")
_HEADER_BYTES = _HEADER.size + 4
_FRAME = struct.Struct("<IIQ")
_SEALED = struct.Struct("<QQIQ")
_CRC = struct.Struct("<I")

#: A manifest is rolled when it exceeds both of these.
ROLL_BYTES = 1 << 20
ROLL_FACTOR = 4

# A reader beside a writer may lose this many races with manifests being rolled and removed.
_READ_ATTEMPTS = 10

# These are not answered by reading again.
_REFUSALS = (errors.FormatError, errors.EncryptionError)

Edit = dict[Any, Any]


@dataclass(frozen=True)
class LoadedManifest:
    """What a manifest holds: `edits[0]` is the base."""

    number: int
    path: str
    edits: list[Edit]
    #: Behind the last good frame; what follows was cut off by a crash.
    end: int
    #: Behind the base.
    base_end: int
    #: Whether the file goes on behind `end` with bytes that are no frame.
    torn: bool
    #: The newest durable offset that the file itself states.
    synced: int
    min_writer: int
    #: How its payloads are sealed; None: not at all.
    seal: FileSeal | None = field(default=None)
    #: Whether CURRENT named this manifest; False: CURRENT was lost, the manifest proved itself.
    from_current: bool = field(default=True)


def manifest_name(number: int) -> str:
    """Return the file name of a manifest."""
    return f"MANIFEST-{number:06d}"


def manifest_numbers(names: list[str]) -> list[int]:
    """Return the numbers of the manifests among file names, in order."""
    matches = (_MANIFEST_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match)


class Manifest:
    """A manifest being written. Made by `create` or `resume`."""

    def __init__(
        self, directory: str, number: int, file: files.File, keys: Keyring | None = None
    ) -> None:
        self._directory = directory
        self._file = file
        self._keys = keys
        self._seal: FileSeal | None = None
        self._is_poisoned = False
        self.number = number
        self.size = 0
        self.base_end = 0
        # Durable up to here; a mark that follows is not meant to be.
        self._synced = 0
        self._has_unsynced = False
        #: What a failed append may have named: to be kept until the next roll (the caller's).
        self.doubtful: list[object] = []

    # ---- opening ----

    @staticmethod
    def load(directory: str, keys: Keyring | None = None) -> LoadedManifest | None:
        """Read the manifest that CURRENT names. None: there is no database here (yet).

        A directory in which creation was cut off counts as empty. When CURRENT is missing or
        damaged, the newest manifest that proves to have been current is used.
        keys: those of an encrypted database. Raises: CorruptionError, EncryptionError, FormatError
        (written for a newer version), StorageIOError.
        """
        for _ in range(_READ_ATTEMPTS):
            names = files.list_directory(directory)
            text = _read_current(directory) if CURRENT in names else None
            number = _current_number(text)
            try:
                if number is None:
                    has_current = text is not None
                    return _load_without_current(directory, names, keys, has_current=has_current)
                return _load_current(directory, number, names, keys)
            except errors.StorageError as error:
                # Beside a writer, the manifest may have been rolled meanwhile.
                if _read_current(directory) == text or isinstance(error, _REFUSALS):
                    raise
        raise errors.StorageError("CURRENT keeps changing", path=os.path.join(directory, CURRENT))

    @classmethod
    def create(
        cls, directory: str, number: int, first_edit: Edit, keys: Keyring | None = None
    ) -> Manifest:
        """Begin the first manifest of a database: durable, and named by CURRENT, on return.

        REQUIRES: load() returned None. What a cut off creation left is removed.
        """
        names = files.list_directory(directory)
        if CURRENT in names:
            raise errors.StorageError("there is a database already", path=directory)
        leftovers = manifest_numbers(names)
        for leftover in leftovers:
            files.remove_file(os.path.join(directory, manifest_name(leftover)))
        if leftovers:
            # Two manifests without CURRENT would not look like a beginning any more.
            files.sync_directory(directory)
        return cls._begin(directory, number, first_edit, keys)

    @classmethod
    def replace(
        cls, directory: str, number: int, base: Edit, keys: Keyring | None = None
    ) -> Manifest:
        """Begin a manifest that takes the place of all others, whatever state they are in.

        `number` is higher than that of every manifest before; those stay. For repair.
        """
        return cls._begin(directory, number, base, keys)

    @classmethod
    def salvage(
        cls, directory: str, number: int, keys: Keyring | None = None
    ) -> tuple[list[Edit], bool]:
        """Return the edits of a manifest that can be read, and whether that is all of them.

        What lies behind damage is read as well. No edits: not even the base can be read.
        """
        path = os.path.join(directory, manifest_name(number))
        data = files.read_file(path)
        edits: list[Edit] = []
        seal = None
        offset, end = _HEADER_BYTES, len(data) - _FRAME.size
        is_whole = True
        if keys is not None:
            # Found by its mark, should the header be damaged; without it nothing can be read.
            offset += HEAD_BYTES
            try:
                head = data[_HEADER_BYTES:offset].ljust(HEAD_BYTES, b"\0")
                seal = FileSeal.find(keys, head, _PURPOSE, path, _HEADER_BYTES)
            except errors.StorageError:
                return [], False
        while offset <= end:
            found = _frame_at(data, number, offset)
            if found is None:
                if not edits:
                    return [], False
                is_whole = is_whole and not any(data[offset:])
                offset += 8
                continue
            start = offset + _FRAME.size
            if found[0]:
                try:
                    edits.append(_edit_at(data, number, offset, path, seal))
                except errors.CorruptionError:
                    is_whole = False
                    if not edits:
                        return [], False
            offset = _aligned(start + found[0])
        return edits, is_whole

    @classmethod
    def resume(
        cls, directory: str, loaded: LoadedManifest, keys: Keyring | None = None
    ) -> Manifest:
        """Go on appending to a manifest that was loaded; a torn end is cut off first."""
        if loaded.min_writer > WRITER:
            raise errors.FormatError(
                f"a newer version wrote here: format {loaded.min_writer} is needed to write, "
                f"this version has {WRITER}",
                path=loaded.path,
            )
        manifest = cls(directory, loaded.number, files.File(loaded.path, os.O_RDWR), keys)
        manifest._seal = loaded.seal
        try:
            if manifest._file.size() != loaded.end:
                manifest._file.truncate(loaded.end)
            manifest._file.sync()
            if loaded.from_current:
                # The process that put it there may have died before it did this.
                files.sync_directory(directory)
            else:
                _write_current(directory, loaded.number)
        except BaseException:
            manifest.close()
            raise
        manifest.size = loaded.end
        manifest.base_end = loaded.base_end
        manifest._note_synced()
        return manifest

    @classmethod
    def _begin(cls, directory: str, number: int, base: Edit, keys: Keyring | None) -> Manifest:
        path = os.path.join(directory, manifest_name(number))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        manifest = cls(directory, number, files.File(path, flags), keys)
        try:
            header = _header(number, is_encrypted=keys is not None)
            if keys is not None:
                head, manifest._seal = FileSeal.create(keys, _PURPOSE)
                header += head
            data = header + _frame(number, len(header), 0, _pack(base), manifest._seal)
            manifest._file.write(data, 0)
            manifest._file.sync()
            files.sync_directory(directory)
            _write_current(directory, number)
        except BaseException:
            manifest.close()
            _discard(directory, number)
            raise
        # CURRENT is durable from here on, and the mark may say so.
        manifest.size = manifest.base_end = len(data)
        manifest._note_synced()
        return manifest

    # ---- writing ----

    @property
    def path(self) -> str:
        """The manifest's path."""
        return os.path.join(self._directory, manifest_name(self.number))

    @property
    def key_id(self) -> int:
        """The id of the data key it is encrypted under; 0: not encrypted."""
        return self._seal.key_id if self._seal is not None else 0

    @property
    def is_poisoned(self) -> bool:
        """Whether an append failed: only roll() helps."""
        return self._is_poisoned

    @property
    def should_roll(self) -> bool:
        """Whether the manifest has outgrown the state it describes."""
        return self.size > max(ROLL_BYTES, ROLL_FACTOR * self.base_end)

    def append(self, edit: Edit, sync: bool = True) -> None:
        """Append one edit; durable on return unless sync=False.

        On failure it is not known whether the edit will be seen by the next open: keep every file
        that the state with it or without it needs, until roll() has succeeded.
        Raises: StorageIOError, NoSpaceError; PoisonedError after a failure.
        """
        payload = _pack(edit)
        self._check_writable()
        frame = _frame(self.number, self.size, self._synced, payload, self._seal)
        try:
            self._file.write(frame, self.size)
            if sync:
                self._file.sync()
        except BaseException:
            self._poison()
            raise
        self.size += len(frame)
        if sync:
            self._note_synced()
        else:
            self._has_unsynced = True

    def sync(self) -> None:
        """Make the edits appended with sync=False durable."""
        self._check_writable()
        if not self._has_unsynced:
            return
        try:
            self._file.sync()
        except BaseException:
            self._is_poisoned = True
            raise
        self._note_synced()

    def roll(self, number: int, base: Edit) -> None:
        """Go over to a new manifest that begins with `base`, the whole state.

        `number` is higher than that of every manifest before. The one before stays until the next
        roll. On failure this one goes on, or is poisoned if the new one may have become current.
        """
        if number <= self.number:
            raise ValueError(f"manifest {number} does not follow {self.number}")
        _discard(self._directory, number)
        try:
            fresh = Manifest._begin(self._directory, number, base, self._keys)
        except BaseException:
            if not self._is_current():
                self._is_poisoned = True
            raise
        previous = self.number
        self._file.close()
        self._file, self._seal = fresh._file, fresh._seal
        self._is_poisoned = fresh._is_poisoned
        self._synced = fresh._synced
        self._has_unsynced = False
        self.number, self.size, self.base_end = fresh.number, fresh.size, fresh.base_end
        _remove_before(self._directory, previous)

    def close(self) -> None:
        """Close the file; nothing is synced. Again is allowed."""
        self._file.close()

    def _is_current(self) -> bool:
        try:
            return _current_number(_read_current(self._directory)) == self.number
        except errors.StorageError:
            return False

    def _check_writable(self) -> None:
        if self._is_poisoned:
            raise errors.PoisonedError("an earlier write to the manifest failed", path=self.path)

    def _poison(self) -> None:
        self._is_poisoned = True
        try:
            # So that the next open does not see what was reported as failed, if that is possible.
            self._file.truncate(self.size)
        except errors.StorageError:
            pass

    def _note_synced(self) -> None:
        self._synced = self.size
        self._has_unsynced = False
        self._write_mark()

    def _write_mark(self) -> None:
        frame = _frame(self.number, self.size, self.size, b"", None)
        try:
            self._file.write(frame, self.size)
        except errors.StorageError:
            # What was asked for is durable; only the next append has to go elsewhere.
            self._poison()
        else:
            self.size += len(frame)


# ---- bytes ----


def _pack(edit: Edit) -> bytes:
    payload = msgpack.packb(edit, use_bin_type=True)
    assert isinstance(payload, bytes)
    return payload


def _header(number: int, *, is_encrypted: bool) -> bytes:
    fields = [FORMAT, MIN_READER, MIN_WRITER, 0]
    if is_encrypted:
        fields = [FORMAT, ENCRYPTED_FORMAT, ENCRYPTED_FORMAT, ENCRYPTED]
    header = _HEADER.pack(MAGIC, *fields, number, 0)
    return header + _CRC.pack(checksum(header))


def _frame(number: int, offset: int, synced: int, payload: bytes, seal: FileSeal | None) -> bytes:
    if seal is not None:
        size = len(payload) + seal.ADDED_BYTES
        payload = seal.seal(payload, _SEALED.pack(number, offset, size, synced))
    crc = _frame_crc(number, offset, synced, payload)
    padding = bytes(-len(payload) % 8)
    return _FRAME.pack(len(payload), crc, synced) + payload + padding


def _frame_crc(number: int, offset: int, synced: int, payload: bytes | memoryview) -> int:
    sealed = _SEALED.pack(number, offset, len(payload), synced)
    return checksum(payload, checksum(sealed))


def _frame_at(data: bytes, number: int, offset: int) -> tuple[int, int] | None:
    """Return (length, synced) of the frame at `offset`, or None when there is no whole one."""
    start = offset + _FRAME.size
    if start > len(data):
        return None
    length, crc, synced = _FRAME.unpack_from(data, offset)
    if synced > offset or start + length > len(data):
        return None
    payload = memoryview(data)[start : start + length]
    if _frame_crc(number, offset, synced, payload) != crc:
        return None
    if any(data[start + length : _aligned(start + length)]):
        return None
    return length, synced


def _edit_at(data: bytes, number: int, offset: int, path: str, seal: FileSeal | None) -> Edit:
    """The edit in the whole frame at `offset`."""
    length, _crc, synced = _FRAME.unpack_from(data, offset)
    start = offset + _FRAME.size
    payload = data[start : start + length]
    if seal is not None:
        place = _SEALED.pack(number, offset, length, synced)
        payload = seal.open(payload, place, path, offset)
    return _unpack(payload, path, offset)


def _aligned(offset: int) -> int:
    return offset + (-offset % 8)


def _proof_behind(data: bytes, number: int, bad: int) -> bool:
    """Whether a frame behind the bad bytes states that they were durable."""
    for offset in range(_aligned(bad + 1), len(data) - _FRAME.size + 1, 8):
        synced = _FRAME.unpack_from(data, offset)[2]
        if bad < synced <= offset and _frame_at(data, number, offset) is not None:
            return True
    return False


# ---- reading ----


def _read_manifest(directory: str, number: int, keys: Keyring | None) -> LoadedManifest:
    path = os.path.join(directory, manifest_name(number))
    data = files.read_file(path)
    try:
        return _parse_manifest(data, number, path, keys)
    except errors.CorruptionError:
        # Its writer may have appended, and synced, while we were reading.
        again = files.read_file(path)
        if again == data:
            raise
        return _parse_manifest(again, number, path, keys)


def _parse_manifest(data: bytes, number: int, path: str, keys: Keyring | None) -> LoadedManifest:
    min_writer, has_keys = _check_header(data, number, path)
    edits: list[Edit] = []
    offset, base_end, synced = _HEADER_BYTES, 0, 0
    seal = None
    if has_keys:
        offset += HEAD_BYTES
        head = data[_HEADER_BYTES:offset].ljust(HEAD_BYTES, b"\0")
        seal = FileSeal.find(keys, head, _PURPOSE, path, _HEADER_BYTES)
    else:
        refuse_plain(keys, path)
    while (found := _frame_at(data, number, offset)) is not None:
        length, stated = found
        start = offset + _FRAME.size
        if length:
            edits.append(_edit_at(data, number, offset, path, seal))
        offset = _aligned(start + length)
        base_end = base_end or offset
        synced = max(synced, stated)
    torn = any(data[offset:])
    if torn and _proof_behind(data, number, offset):
        raise errors.CorruptionError("an edit of the manifest is damaged", path=path, offset=offset)
    return LoadedManifest(number, path, edits, offset, base_end, torn, synced, min_writer, seal)


def is_encrypted(directory: str) -> bool:
    """Whether the newest manifest in a directory says that it is encrypted."""
    for number in reversed(manifest_numbers(files.list_directory(directory))):
        path = os.path.join(directory, manifest_name(number))
        data = files.read_file(path)
        with contextlib.suppress(errors.CorruptionError):
            return _check_header(data, number, path)[1]
    return False


def _check_header(data: bytes, number: int, path: str) -> tuple[int, bool]:
    """Return (the oldest writer, whether it is encrypted)."""
    if len(data) < _HEADER_BYTES:
        raise errors.CorruptionError("the manifest's header is incomplete", path=path, offset=0)
    magic, format_, min_reader, min_writer, flags, own, _ = _HEADER.unpack_from(data)
    if magic != MAGIC or checksum(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise errors.CorruptionError("the manifest's header is damaged", path=path, offset=0)
    if min_reader > READER:
        raise errors.FormatError(
            f"a newer version wrote here: format {min_reader} is needed to read, "
            f"this version has {READER}",
            path=path,
        )
    if format_ < FORMAT or flags & ~ENCRYPTED:
        raise errors.FormatError("the manifest's format is not known", path=path)
    if own != number:
        raise errors.CorruptionError(
            f"the manifest says that it is number {own}", path=path, offset=24
        )
    return int(min_writer), bool(flags & ENCRYPTED)


def _unpack(payload: bytes, path: str, offset: int) -> Edit:
    try:
        edit = msgpack.unpackb(payload, raw=False, strict_map_key=False)
    except Exception as error:
        raise errors.CorruptionError(
            f"an edit of the manifest cannot be read ({error})", path=path, offset=offset
        ) from error
    if not isinstance(edit, dict):
        raise errors.CorruptionError("an edit is no map", path=path, offset=offset)
    return edit


def _load_current(
    directory: str, number: int, names: list[str], keys: Keyring | None
) -> LoadedManifest:
    try:
        loaded = _read_manifest(directory, number, keys)
    except errors.StorageIOError as error:
        if error.errno != errno.ENOENT:
            raise
        raise errors.CorruptionError(
            f"CURRENT names {manifest_name(number)}, which is missing",
            path=os.path.join(directory, CURRENT),
        ) from None
    if not loaded.edits:
        raise errors.CorruptionError(
            "the manifest's first edit is damaged", path=loaded.path, offset=loaded.end
        )
    for newer in manifest_numbers(names):
        # CURRENT goes forward only: what a roll that was cut off left behind proves nothing.
        if newer > number and _was_current(directory, newer, keys):
            raise errors.CorruptionError(
                f"CURRENT names manifest {number}, but {newer} has been current since",
                path=os.path.join(directory, CURRENT),
            )
    return loaded


def _load_without_current(
    directory: str, names: list[str], keys: Keyring | None, *, has_current: bool
) -> LoadedManifest | None:
    numbers = manifest_numbers(names)
    for number in reversed(numbers):
        if _was_current(directory, number, keys):
            loaded = _read_manifest(directory, number, keys)
            return LoadedManifest(**{**loaded.__dict__, "from_current": False})
    if not has_current and len(numbers) <= 1 and not _holds_data(directory):
        return None
    raise errors.CorruptionError(
        "CURRENT is damaged" if has_current else "CURRENT is missing",
        path=os.path.join(directory, CURRENT),
    )


def _was_current(directory: str, number: int, keys: Keyring | None) -> bool:
    """Whether a manifest has anything behind its base (invariant 2), be it damaged by now."""
    path = os.path.join(directory, manifest_name(number))
    data = files.read_file(path)
    try:
        loaded = _read_manifest(directory, number, keys)
    except errors.CorruptionError:
        return _proof_behind(data, number, 0)
    return loaded.synced >= loaded.base_end > 0


def _holds_data(directory: str) -> bool:
    """Whether there is a table, or a log with a record: creation was over then."""
    places = [os.path.join(directory, name) for name in ("wal", "data")]
    walks = [os.walk(place, onerror=_reraise) for place in places if os.path.isdir(place)]
    for root, _, names in itertools.chain(*walks):
        for name in names:
            if name.endswith(".sst"):
                return True
            if name.endswith(".wal"):
                try:
                    if wal.read_log(os.path.join(root, name), opens=False).records:
                        return True
                except errors.CorruptionError:
                    return True
    return False


def _reraise(error: OSError) -> None:
    raise errors.StorageIOError(
        f"cannot list the directory: {error.strerror}",
        path=str(error.filename),
        errno=error.errno,
    )


# ---- CURRENT ----


def _read_current(directory: str) -> bytes | None:
    try:
        return files.read_file(os.path.join(directory, CURRENT))
    except errors.StorageIOError as error:
        if error.errno == errno.ENOENT:
            return None
        raise


def _current_number(text: bytes | None) -> int | None:
    match = _CURRENT_TEXT.fullmatch(text) if text is not None else None
    if match is None or checksum(match[1]) != int(match[2], 16):
        return None
    return int(match[1].removeprefix(b"MANIFEST-"))


def _write_current(directory: str, number: int) -> None:
    name = manifest_name(number).encode()
    text = b"%s %08x\n" % (name, checksum(name))
    files.write_file_atomically(os.path.join(directory, CURRENT), text)


def _discard(directory: str, number: int) -> None:
    """Remove a manifest that never became current, if it exists and CURRENT does not name it."""
    try:
        if _current_number(_read_current(directory)) != number:
            path = os.path.join(directory, manifest_name(number))
            files.remove_file(path, missing_ok=True)
    except errors.StorageError:
        pass  # It stays behind as an orphan that proves nothing.


def _remove_before(directory: str, number: int) -> None:
    """Remove the manifests before `number`; what stays now goes at the next roll."""
    try:
        for old in manifest_numbers(files.list_directory(directory)):
            if old < number:
                path = os.path.join(directory, manifest_name(old))
                files.remove_file(path, missing_ok=True)
    except errors.StorageError:
        pass  # The roll is done; old manifests only take space.
