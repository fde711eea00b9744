"""What a change record looks like: the bytes that msgpack itself would write."""

from __future__ import annotations

import msgpack
import pytest

from dynalsm.model.change_records import pack_record
from dynalsm.model.changelog import INSERT, MODIFY, REMOVE, Changelog, ChangelogRecord

IMAGES = [b"", b"x" * 255, b"x" * 256, b"x" * 65535, b"x" * 65536]


def log(view: str, **more: bool) -> Changelog:
    return Changelog(ChangelogRecord("Music", "id", "label", view, 4, 0.0, 1, **more), None)


@pytest.mark.parametrize(
    "time", [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 1_700_000_000_000, -1, -32]
)
def test_times_have_every_length(time: int) -> None:
    packed = pack_record(log("KEYS_ONLY"), b"k", None, b"new", time, False)
    assert packed == msgpack.packb((INSERT, time, b"k", None, None, False))


@pytest.mark.parametrize("image", IMAGES, ids=len)
def test_images_have_every_length(image: bytes) -> None:
    both = log("NEW_AND_OLD_IMAGES")
    assert pack_record(both, image, image, b"n", 1, False) == msgpack.packb(
        (MODIFY, 1, image, image, b"n", False)
    )
    assert pack_record(both, b"k", image, None, 1, True) == msgpack.packb(
        (REMOVE, 1, b"k", image, None, True)
    )


@pytest.mark.parametrize(
    ("view", "old", "new"),
    [
        ("KEYS_ONLY", None, None),
        ("NEW_IMAGE", None, b"new"),
        ("OLD_IMAGE", b"old", None),
        ("NEW_AND_OLD_IMAGES", b"old", b"new"),
    ],
)
def test_a_view_keeps_what_it_is_named_for(view: str, old: bytes, new: bytes) -> None:
    packed = pack_record(log(view), b"k", b"old", b"new", 1, False)
    assert msgpack.unpackb(packed) == [MODIFY, 1, b"k", old, new, False]
    # Point-in-time recovery needs both, whatever the stream shows.
    packed = pack_record(log(view, keeps_images=True), b"k", b"old", b"new", 1, False)
    assert msgpack.unpackb(packed) == [MODIFY, 1, b"k", b"old", b"new", False]
