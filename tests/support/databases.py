"""Databases for tests of the upper layers, without a disk."""

from __future__ import annotations

from typing import Any

from dynalsm.database import Database
from dynalsm.model.settings import Settings
from tests.support.memory_engine import MemoryEngine


def memory_database(**settings: Any) -> Database:
    """Return a Database on the plain-Python engine; nothing is durable."""
    return Database(MemoryEngine(), Settings(**settings))  # type: ignore[arg-type]
