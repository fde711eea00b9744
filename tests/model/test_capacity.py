"""Units and their reports."""

from __future__ import annotations

import pytest

from dynalsm.model.capacity import Tally, index_write_units, read_units, write_units


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (409_600, 400)])
def test_write_units(size: int, units: int) -> None:
    assert write_units(size) == units


@pytest.mark.parametrize(
    ("size", "consistent", "eventual"),
    [(0, 1, 0.5), (4096, 1, 0.5), (4097, 2, 1), (409_600, 100, 50)],
)
def test_read_units(size: int, consistent: float, eventual: float) -> None:
    assert read_units(size, True) == consistent
    assert read_units(size, False) == eventual


@pytest.mark.parametrize(
    ("old", "new", "same_key", "is_equal", "units"),
    [
        (0, 0, False, True, 0),
        (0, 1500, False, False, 2),
        (1500, 0, False, False, 2),
        (1500, 1500, True, True, 0),
        (100, 2500, True, False, 3),
        (100, 2500, False, False, 1 + 3),
    ],
)
def test_index_write_units(old: int, new: int, same_key: bool, is_equal: bool, units: int) -> None:
    assert index_write_units(old, new, same_key, is_equal) == units


def test_report_names_only_touched_indexes() -> None:
    tally = Tally(2)
    assert tally.report("TOTAL", "t") == {"TableName": "t", "CapacityUnits": 2.0}
    tally.add_index(True, "l", 1)
    tally.add_index(False, "g", 1)
    tally.add_index(False, "g", 2)
    assert tally.report("INDEXES", "t") == {
        "TableName": "t",
        "CapacityUnits": 6.0,
        "Table": {"CapacityUnits": 2.0},
        "LocalSecondaryIndexes": {"l": {"CapacityUnits": 1.0}},
        "GlobalSecondaryIndexes": {"g": {"CapacityUnits": 3.0}},
    }


def test_report_of_a_transaction_has_a_direction() -> None:
    report = Tally(2).report("INDEXES", "t", "ReadCapacityUnits")
    assert report["ReadCapacityUnits"] == report["CapacityUnits"] == 2.0
    assert report["Table"] == {"CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}
