"""Backup files that hold nonsense under right checksums: an input is the bytes of a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import crc32c
import zstandard

from dynalsm import errors
from dynalsm.model import backup_file
from tests.format.log import le, u32, u64
from tests.fuzz.loop import told
from tests.fuzz.mutate import NUMBERS, mutate
from tests.fuzz.storage import change_packed

FRAME_BYTES = 16
HEAD_BYTES = 64


class Pieces:
    """A backup file, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.head = data[:28]
        self.description = data[HEAD_BYTES : HEAD_BYTES + u32(data, 20)]
        self.blocks: list[tuple[bytes, int, int]] = []  # payload, size when unpacked, entries
        self.trailer_place: int | None = None
        at = HEAD_BYTES + len(self.description)
        while at <= u64(data, len(data) - 24):
            size, raw_bytes, count = u32(data, at), u32(data, at + 4), u32(data, at + 8)
            self.blocks.append((data[at + 16 : at + 16 + size], raw_bytes, count))
            at += FRAME_BYTES + size

    def change(self, rng: random.Random) -> None:
        """Change one piece."""
        way = rng.randrange(6)
        if way == 0:
            self.description = change_packed(rng, self.description)
        elif way == 1:
            place = rng.randrange(8, 20)
            self.head = self.head[:place] + bytes([rng.randrange(4)]) + self.head[place + 1 :]
        elif way == 2:
            self.trailer_place = rng.choice([0, HEAD_BYTES, *NUMBERS])
        else:
            place = rng.randrange(len(self.blocks))
            self.blocks[place] = self.changed(rng, *self.blocks[place])
            if rng.random() < 0.1:
                self.blocks.insert(place, rng.choice(self.blocks))

    def changed(
        self, rng: random.Random, payload: bytes, raw_bytes: int, count: int
    ) -> tuple[bytes, int, int]:
        """Change what is in a block, how it is packed, or what its frame says."""
        way = rng.randrange(4)
        if way == 0:
            return payload, rng.choice(NUMBERS) & 0xFFFFFFFF, count
        if way == 1:
            return payload, raw_bytes, rng.choice([0, count + 1, max(count - 1, 0), 1 << 31])
        if way == 2 or not raw_bytes:
            return change_packed(rng, payload), raw_bytes, count
        try:
            plain = change_packed(rng, zstandard.ZstdDecompressor().decompress(payload))
        except zstandard.ZstdError:  # changed before
            return mutate(rng, payload), raw_bytes, count
        return zstandard.compress(plain), len(plain), count

    def bytes(self) -> bytes:
        """Put the file together."""
        out = bytearray(self.head[:20] + le(len(self.description), 4))
        out += le(crc32c.crc32c(self.description), 4) + bytes(32)
        out += le(crc32c.crc32c(bytes(out)), 4) + self.description
        place = len(out)
        for payload, raw_bytes, count in self.blocks:
            place = len(out)
            frame = le(len(payload), 4) + le(raw_bytes, 4) + le(count, 4)
            out += frame + le(crc32c.crc32c(le(place, 8) + frame + payload), 4) + payload
        end = le(place if self.trailer_place is None else self.trailer_place, 8)
        return bytes(out) + end + le(crc32c.crc32c(end), 8) + b"1KABMSLD"


class Backup:
    """See the module's docstring."""

    name = "backup"
    may_log = False
    has_state = False

    def __init__(self, work: Path) -> None:
        self.path = work / "backup"

    def seeds(self) -> list[bytes]:
        chunks = [
            [(b"key %03d" % number, bytes([1, number]) * 20) for number in range(start, start + 60)]
            for start in (0, 60)
        ]
        described = {"table": "t", "schema": {"name": "t", "keys": [["p", "S"]]}, "seqno": 7}
        chunks.append([(b"z", b"")])
        backup_file.write(str(self.path), described, chunks, len)
        return [self.path.read_bytes()]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        data = rng.choice(kept[:1])
        if rng.random() < 0.2:
            return mutate(rng, data)
        pieces = Pieces(data)
        for _ in range(rng.choice([1, 1, 2])):
            pieces.change(rng)
        return pieces.bytes()

    def run(self, data: bytes) -> str:
        self.path.write_bytes(data)
        try:
            with backup_file.BackupFile(str(self.path)) as backup:
                assert isinstance(backup.description, dict)
                assert backup.verify() == backup.totals
                for chunk in backup.chunks():
                    for key, stored in chunk:
                        assert type(key) is bytes and type(stored) is bytes
        except errors.StorageError as error:
            return told(error)
        return "fine"

    def reset(self) -> None:
        """The file is made anew for each input."""

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
