"""Continuous backups."""

from __future__ import annotations

from tests.support.store import SIMPLE, Store


def test_a_table_without_point_in_time_recovery(store: Store) -> None:
    # observed (alternator): right after a table was created; AWS says ENABLED a little later.
    expected = {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "DISABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"},
        }
    }
    assert store("DescribeContinuousBackups", TableName=SIMPLE) == expected
    arn = store.database.settings.table_arn(SIMPLE)
    assert store("DescribeContinuousBackups", TableName=arn) == expected


def test_an_unknown_table_is_not_found_under_the_name_of_backups(store: Store) -> None:
    error = store.refused(
        "DescribeContinuousBackups", "TableNotFoundException", TableName="nowhere"
    )
    assert error.message == "Table not found: nowhere"
    store.refused("DescribeContinuousBackups")
