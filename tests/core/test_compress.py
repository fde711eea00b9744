"""Block compression by every codec there is, held against the zstandard package."""

import json
import os
import random
import subprocess
import sys
import threading

import pytest
import zstandard

from dynalsm import errors
from dynalsm._core import compress

SEED = 5
TEXT = b"".join(b'{"id": %d, "name": "user-%d"}' % (i, i * 31) for i in range(600))[:16384]


def test_a_codec_without_the_gil_was_found():
    # On this platform; elsewhere the fallback is right, but slow enough to want to know.
    assert compress.CODEC in {"zstandard", "libzstd"}


@pytest.mark.parametrize("level", [1, 3, 9])
@pytest.mark.parametrize("size", [20, 255, 256, 257, 65_535, 65_791, 65_792, 1 << 20])
def test_round_trip_at_every_width_of_the_size_field(size, level):
    data = (TEXT * (size // len(TEXT) + 1))[:size]
    packed = compress.compress(data, level)
    if packed is None:
        assert size < 300
        return
    assert compress.frame_size(packed) == size
    assert compress.decompress(packed, size) == data
    assert zstandard.ZstdDecompressor().decompress(packed) == data


def test_frames_are_standard_with_size_and_without_checksum():
    parameters = zstandard.get_frame_parameters(compress.compress(TEXT))
    assert parameters.content_size == len(TEXT)
    assert parameters.has_checksum is False
    assert parameters.dict_id == 0


@pytest.mark.parametrize("size", [0, 1, 300, 70_000])
@pytest.mark.parametrize("checksum", [False, True])
def test_reads_frames_of_the_package(size, checksum):
    data = (TEXT * 5)[:size]
    packed = zstandard.ZstdCompressor(write_checksum=checksum).compress(data)
    assert compress.frame_size(packed) == size
    assert compress.decompress(packed, size) == data


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4096])
def test_what_does_not_shrink_by_a_sixteenth_stays_raw(size):
    assert compress.compress(random.Random(SEED).randbytes(size)) is None


def test_the_sixteenth_is_exact():
    # Random bytes with a tail of zeros: the frame's size is steered to both sides of the limit.
    seen = set()
    for tail in range(200, 320):
        data = random.Random(SEED).randbytes(4096 - tail) + bytes(tail)
        packed = compress.compress(data)
        full = zstandard.ZstdCompressor(level=1).compress(data)
        seen.add(packed is None)
        if packed is not None:
            assert len(packed) <= 4096 - 256
        else:
            assert len(full) > 4096 - 256 - 32
    assert seen == {True, False}


def test_many_at_once_are_what_each_is_alone():
    noise = random.Random(SEED).randbytes(5000)
    sources = [TEXT, noise, b"", TEXT[:100] * 20, b"x"]
    assert compress.compress_many(sources, 3) == [compress.compress(s, 3) for s in sources]
    assert compress.compress_many([]) == []


def test_wrong_size_is_corruption():
    packed = compress.compress(TEXT)
    for size in (0, len(TEXT) - 1, len(TEXT) + 1, 1 << 20):
        with pytest.raises(errors.CorruptionError):
            compress.decompress(packed, size)


def test_cut_frames_are_corruption():
    packed = compress.compress(TEXT)
    for size in range(len(packed)):
        with pytest.raises(errors.CorruptionError):
            compress.decompress(packed[:size], len(TEXT))


def test_damaged_frames_never_crash_or_overrun():
    # zstd without a checksum may give other bytes; the block's own CRC finds that.
    rng = random.Random(SEED)
    packed = compress.compress(TEXT)
    for _ in range(3000):
        data = bytearray(packed)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            assert len(compress.decompress(data, len(TEXT))) == len(TEXT)
        except errors.CorruptionError:
            pass


def test_frame_size_of_what_is_no_frame():
    packed = compress.compress(TEXT)
    for data in (b"", b"\x28\xb5\x2f\xfd", b"x" * 50, packed[:6], b"\x50\x2a\x4d\x18" + bytes(20)):
        assert compress.frame_size(data) == -1
    # No content size in the frame; a reserved bit; a size no file has.
    assert compress.frame_size(b"\x28\xb5\x2f\xfd\x00\x58" + bytes(20)) == -1
    assert compress.frame_size(b"\x28\xb5\x2f\xfd\x68\x58" + bytes(20)) == -1
    assert compress.frame_size(b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 20) == -1


def test_frame_size_agrees_with_the_package_on_every_header():
    rng = random.Random(SEED)
    for descriptor in range(256):
        data = b"\x28\xb5\x2f\xfd" + bytes([descriptor, 0x58]) + rng.randbytes(12) + bytes(4)
        try:
            expected = zstandard.frame_content_size(data)
        except zstandard.ZstdError:
            expected = -1
        if expected >= 1 << 62:
            expected = -1
        assert compress.frame_size(data) == expected, descriptor


def test_several_threads_at_once():
    # More threads than context slots would hold per kind, with blocks of their own.
    failures = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(30):
            data = bytes(rng.choices(b"abcdef", k=rng.randrange(500, 5000)))
            packed = compress.compress(data)
            if compress.decompress(packed, len(data)) != data:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def run_with_codec(codec, code):
    environment = {**os.environ, "DYNALSM_CODEC": codec}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("codec", ["zstandard", "libzstd", "python"])
def test_every_codec_reads_and_writes_the_same(codec, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    (tmp_path / "ours").write_bytes(compress.compress(TEXT, 3))
    code = f"""
import json, os, random, zstandard
from dynalsm import errors
from dynalsm._core import compress
folder = {str(tmp_path)!r}
text = open(folder + "/text", "rb").read()
ours = open(folder + "/ours", "rb").read()
noise = random.Random(1).randbytes(3000)
many = compress.compress_many([text, noise, b"", text[:500]], 1)
damaged = 0
for size in (0, 5, len(ours) - 1):
    try:
        compress.decompress(ours[:size], len(text))
    except errors.CorruptionError:
        damaged += 1
flipped = ours[:200] + bytes(8) + ours[208:]
try:
    wrong = compress.decompress(flipped, len(text)) == text
except errors.CorruptionError:
    wrong = False
print(json.dumps([
    compress.CODEC,
    compress.decompress(ours, len(text)) == text,
    zstandard.ZstdDecompressor().decompress(compress.compress(text, 3)) == text,
    compress.compress(noise) is None,
    [packed is None for packed in many],
    zstandard.ZstdDecompressor().decompress(many[3]) == text[:500],
    damaged,
    wrong,
]))
"""
    done = run_with_codec(codec, code)
    if codec == "libzstd" and "no usable zstd" in done.stderr:
        pytest.skip("no libzstd on this machine")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        codec, True, True, True, [False, True, True, False], True, 3, False,
    ]  # fmt: skip


def test_unknown_codec_is_refused():
    done = run_with_codec("lz4", "import dynalsm._core.compress")
    assert done.returncode != 0
    assert "DYNALSM_CODEC='lz4'" in done.stderr
