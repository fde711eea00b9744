"""Directories for tests that sync a lot and need no real disk: in memory where there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def scratch_directory(prefix: str = "dynalsm-test-") -> Iterator[str]:
    """A new directory, gone afterwards; on tmpfs if /dev/shm is one that may be written."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix=prefix, dir=base)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
