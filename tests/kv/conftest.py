"""Fixtures of the byte-key store's tests: an open database, and its directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dynalsm import kv


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def db(path: str) -> Iterator[kv.DB]:
    with kv.DB(path, create_if_missing=True, error_if_exists=True) as opened:
        yield opened
