"""A reader of KEYS and of what it seals, in plain Python, from docs/format-encryption.md alone.

It must not import dynalsm.
"""

from __future__ import annotations

from pathlib import Path

import crc32c
import msgpack
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

HEAD_BYTES = 48
TAG_BYTES = 16


class Damage(Exception):
    """The bytes are not what the page says."""


def need(condition: bool, message: str) -> None:
    if not condition:
        raise Damage(message)


def le(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def derive(secret: bytes, salt: bytes, purpose: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt, b"dynalsm 1 " + purpose).derive(secret))


class Keys:
    """The data keys of a database."""

    def __init__(self, directory: Path, master: bytes, name: str = "KEYS") -> None:
        data = (directory / name).read_bytes()
        need(data[:8] == b"DLSMKEYS" and data[8:16] == le(1, 4) + le(0, 4), "magic, format, flags")
        need(data[40:56] == bytes(16), "reserved")
        sealed = data[64:]
        need(data[56:60] == le(len(sealed), 4), "size")
        need(data[60:64] == le(crc32c.crc32c(data[:60] + sealed), 4), "checksum")
        text = derive(master, data[16:40], b"keys").decrypt(bytes(12), sealed, data[:60])
        self.keys = {number: secret for number, _, secret in msgpack.unpackb(text)["keys"]}

    def cipher(self, head: bytes, purpose: bytes) -> AESGCM:
        """The cipher of a file by its head."""
        need(len(head) == HEAD_BYTES and head[40:] == b"LAESMLSD", "mark of the head")
        need(head[32:36] == le(1, 4), "version of the head")
        need(head[36:40] == le(crc32c.crc32c(head[:36]), 4), "checksum of the head")
        number = int.from_bytes(head[:8], "little")
        need(number in self.keys, "the data key")
        return derive(self.keys[number], head[8:32], purpose)


def opened(cipher: AESGCM, sealed: bytes, place: bytes) -> bytes:
    """Where the nonce stands before what is sealed."""
    return cipher.decrypt(sealed[:12], sealed[12:], place)
