"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from pathlib import Path

SEEN = []
TABLE = dict(
    TableName="Thing",
    KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    BillingMode="PAY_PER_REQUEST",
)

@pytest.mark.parametrize("turn", [1, 2])
def test_fresh(dynalsm_db, turn):
    assert dynalsm_db.tables == []
    dynalsm_db.create_table(**TABLE).put_item(Item={"k": "x"})
    SEEN.append(dynalsm_db.path)

def test_boto3(dynalsm_db, dynalsm_boto3):
    dynalsm_boto3.resource("dynamodb").create_table(**TABLE)
    assert [table.name for table in dynalsm_db.tables] == ["Thing"]

def test_gone():
    assert len(set(SEEN)) == 2
    assert not any(Path(path).exists() for path in SEEN)
"""


def test_each_test_gets_a_fresh_database(pytester: pytest.Pytester) -> None:
    pytest.importorskip("boto3")
    pytester.makepyfile(SUITE)
    arguments = ["-p", "no:cacheprovider"]
    if not _is_installed():
        arguments += ["-p", "dynalsm.pytest_plugin"]
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=4)


def test_without_memory_files_a_temporary_directory_serves(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setattr("dynalsm.pytest_plugin.MEMORY_DIRECTORY", tmp_path / "missing")
    pytester.makepyfile(SUITE)
    arguments = ["-p", "no:cacheprovider"]
    if not _is_installed():
        arguments += ["-p", "dynalsm.pytest_plugin"]
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=4)


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == "dynalsm" for point in entry_points(group="pytest11"))
