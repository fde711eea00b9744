"""GET /metrics."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

pytest.importorskip("prometheus_client")

from dynalsm.database import Database
from dynalsm.server import ServerThread
from dynalsm.server.metrics import BUCKETS, Metrics
from tests.faces.conftest import MUSIC, fill


def page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(reply.read().decode())


def value(text: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.M)
    assert found, f"{series} is not in:\n{text}"
    return float(found[1])


def test_requests_and_trees_are_counted(disk_db: Database) -> None:
    boto3 = pytest.importorskip("boto3")
    fill(disk_db.create_table(**MUSIC), 3)
    with ServerThread(disk_db) as server:
        client = boto3.client(
            "dynamodb", endpoint_url=server.url, region_name="us-east-1",
            aws_access_key_id="a", aws_secret_access_key="b",
        )  # fmt: skip
        for _ in range(4):
            client.scan(TableName="Music")
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.scan(TableName="Missing")
        text = page(server.url)
    assert value(text, 'dynalsm_requests_total{operation="Scan",status="200"}') == 4
    assert value(text, 'dynalsm_requests_total{operation="Scan",status="400"}') == 1
    assert value(text, 'dynalsm_request_seconds_count{operation="Scan"}') == 5
    assert value(text, "dynalsm_engine_last_seqno") > 0
    assert value(text, 'dynalsm_tree_partitions{part="ByYear",table="Music"}') >= 1
    assert value(text, 'dynalsm_tree_partitions{part="changes",table="Music"}') >= 1


def test_buckets_are_sums(disk_db: Database) -> None:
    metrics = Metrics(disk_db)
    for seconds in (BUCKETS[0], BUCKETS[0] * 1.01, 100.0):
        metrics.count("GetItem", 200, seconds)
    text = metrics.render().decode()
    series = 'dynalsm_request_seconds_bucket{le="%s",operation="GetItem"}'
    assert value(text, series % BUCKETS[0]) == 1
    assert value(text, series % BUCKETS[-1]) == 2
    assert value(text, series % "+Inf") == 3


def test_metrics_can_be_switched_off(disk_db: Database) -> None:
    with ServerThread(disk_db, has_metrics=False) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            page(server.url)
        assert caught.value.code == 404
    assert disk_db.tables == []


def test_failing_work_is_counted(disk_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def stats(self) -> dict[str, object]:
            return {**real.stats(), "failures": {"flush": "no space", "writes": "no space"}}

    real = disk_db.engine
    metrics = Metrics(disk_db)
    assert b"\ndynalsm_engine_failures 0.0\n" in metrics.render()
    monkeypatch.setattr(disk_db, "engine", Failing())
    assert b"\ndynalsm_engine_failures 2.0\n" in metrics.render()
    monkeypatch.undo()
