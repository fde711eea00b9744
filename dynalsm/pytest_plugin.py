"""pytest fixtures: a fresh database for each test, in about a millisecond (1.0 measured).

Installed with the package, so a test only has to name a fixture::

    def test_shop(dynalsm_db):            # a dynalsm.Database
        dynalsm_db.create_table(...)

    def test_service(dynalsm_boto3):      # a boto3.Session on the same database
        table = dynalsm_boto3.resource("dynamodb").Table("Music")

The directory lies in memory (/dev/shm) where there is such a place, else in pytest's temporary
directory, and is removed after the test. Nothing else is imported until a fixture is used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dynalsm.database import Database

MEMORY_DIRECTORY = Path("/dev/shm")


@pytest.fixture
def dynalsm_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return an open, empty dynalsm.Database; it is closed and removed after the test."""
    import dynalsm

    directory = _new_directory(tmp_path_factory)
    try:
        # The files die with the test, so there is no reason to wait for a disk.
        with dynalsm.open(directory / "test.db", durability="os") as database:
            yield database
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def dynalsm_boto3(dynalsm_db: Database) -> Any:
    """Return a boto3.Session whose dynamodb clients and resources run on `dynalsm_db`."""
    import dynalsm

    return dynalsm.boto3_session(dynalsm_db)


def _new_directory(factory: pytest.TempPathFactory) -> Path:
    if os.access(MEMORY_DIRECTORY, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="dynalsm-", dir=MEMORY_DIRECTORY))
    return factory.mktemp("dynalsm")
