"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.store import Store


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A database with the shared tables; tests use keys of their own."""
    shared = Store()
    yield shared
    shared.database.close()
