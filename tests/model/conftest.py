"""Fixtures of the model tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.store import Store


@pytest.fixture
def store_alone() -> Iterator[Store]:
    """A database of its own, for tests that count or break things."""
    store = Store()
    yield store
    store.database.close()
