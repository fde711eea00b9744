"""bench/partitions.py: what the simulation says must add up."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "partitions.py"


@pytest.fixture(scope="module")
def partitions() -> Any:
    spec = importlib.util.spec_from_file_location("bench_partitions", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("skew", [0.0, 0.99, 1.5])
def test_splitting_keeps_every_key_once(partitions: Any, skew: float) -> None:
    keys = partitions.make_keys(2000, 20_000.0, skew, 1e9)
    assert keys.total == pytest.approx(20_000)
    ranges = partitions.split(keys, partitions.equal_ranges(keys, 4))
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == 2000
    for first, end in ranges:
        assert end - first == 1 or keys.load(first, end) <= partitions.PARTITION_RATE


def test_bytes_split_as_well(partitions: Any) -> None:
    keys = partitions.make_keys(1000, 10.0, 0.0, 100e9)
    ranges = partitions.split(keys, partitions.equal_ranges(keys, 1))
    assert len(ranges) >= 10
    assert all(
        (end - first) * keys.bytes_each <= partitions.PARTITION_BYTES for first, end in ranges
    )


def test_even_keys_stay_even_and_one_hot_key_does_not(partitions: Any) -> None:
    even = partitions.simulate(20_000, 4000.0, 0.0, 1e9, 4)
    assert even.uneven_nodes < 1.05
    assert (even.hot_keys, even.refused) == (0, 0)
    hot = partitions.simulate(20_000, 4000.0, 2.0, 1e9, 4)
    assert hot.hot_keys >= 1
    # The first key of Zipf's law with exponent 2 gets 6 / pi^2 of everything.
    assert hot.refused == pytest.approx(0.6079 - 0.25, abs=0.001)


def test_a_new_node_takes_its_share_and_no_more(partitions: Any) -> None:
    outcome = partitions.simulate(20_000, 40_000.0, 0.5, 1e9, 8)
    assert outcome.moved == pytest.approx(1 / 9, abs=0.03)
    assert outcome.moved <= 1 / 9
