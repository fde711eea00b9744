"""Benchmarks over items: YCSB's mixes are what it says, and what is reported adds up."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def program(name: str) -> Any:
    """Import a program of bench/, which imports its neighbours by their bare names."""
    sys.path.insert(0, str(BENCH))
    try:
        spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH))
    return module


@pytest.fixture(scope="module")
def ycsb() -> Any:
    return program("ycsb")


def test_mixes(ycsb: Any) -> None:
    for mix, shares in ycsb.MIXES.items():
        operations = ycsb.make_operations(mix, 500, 4000)
        counts = Counter(kind for kind, *_ in operations)
        for kind, share in shares.items():
            assert counts[kind] == pytest.approx(4000 * share, rel=0.25)
        inserted = [number for kind, number, *_ in operations if kind == ycsb.INSERT]
        assert inserted == list(range(500, 500 + len(inserted)))


def test_reads_of_d_are_of_what_is_new(ycsb: Any) -> None:
    newest, near = 500, 0
    operations = ycsb.make_operations("D", 500, 2000)
    for kind, number, *_ in operations:
        if kind == ycsb.INSERT:
            newest += 1
        else:
            assert 0 <= number < newest
            near += newest - number <= 50
    assert near > len(operations) / 2


def test_both_engines_do_the_same(ycsb: Any, tmp_path: Path) -> None:
    source = random.Random(5)
    records = [ycsb.make_record(number, source) for number in range(120)]
    engines = [engine(str(tmp_path / engine.name), False) for engine in ycsb.ENGINES]
    for engine in engines:
        engine.load(records)
        for mix in ycsb.MIXES:
            ycsb.run_mix(engine, ycsb.make_operations(mix, 120, 60), records[0])
    ours, theirs = (engine.scan("user000000", 0, 1000) for engine in engines)
    assert ours == theirs
    assert len(ours) > 120
    for engine in engines:
        engine.close()


def test_figures(ycsb: Any) -> None:
    rates = ycsb.measure(records=60, operations=40, rounds=1, mixes="AE", sync=False)
    assert list(rates) == ["load", "A", "E"]
    assert all(rate > 0 for found in rates.values() for rate in found.values())


def test_what_items_take(tmp_path: Path) -> None:
    """More indexes and a stream are more bytes; nothing is written that was not handed over."""
    footprint = program("footprint")
    found = {
        (indexes, streamed): footprint.measure_writes(100, indexes, streamed, str(tmp_path))
        for indexes, streamed in ((0, False), (2, True))
    }
    plain, rich = found[0, False], found[2, True]
    assert 400 < plain["json"] == rich["json"] < 600
    for name in ("put, engine", "put again, engine", "kept"):
        assert 0 < plain[name] < rich[name]
    # The item alone is smaller than its JSON; two copies of it and its images are not.
    assert plain["put, engine"] < 1 < rich["put, engine"]
    assert list(tmp_path.iterdir()) == []


def test_programs_that_start() -> None:
    footprint = program("footprint")
    milliseconds, mebibytes = footprint.run_program("pass")
    assert milliseconds > 0
    assert 1 < mebibytes < 1000
    with pytest.raises(RuntimeError):
        footprint.run_program("raise SystemExit(1)")


def test_growth(tmp_path: Path) -> None:
    growth = program("growth")
    found = growth.measure([60, 120], 20, 1, 64, str(tmp_path))
    assert [one["size"] for one in found] == [60, 120]
    for one in found:
        assert set(one["mean"]) == set(growth.OPERATIONS)
        assert all(0 < one["mean"][name] <= one["slowest"][name] * 20 for name in one["mean"])
        assert one["disk_mib"] > 0
