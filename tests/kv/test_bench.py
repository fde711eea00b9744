"""bench/kv.py runs and reports, on this engine and one that is always there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / "bench" / "kv.py").exists(), reason="no benchmarks beside the tests"
)
def test_the_benchmark_runs(tmp_path: Path) -> None:
    only = (
        "fillrandom,bulkload,fillsync_8t,readrandom_2t,multiget100,readchunks,ycsb_E,reopen_clean"
    )
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "bench" / "kv.py"), "--keys", "500", "--rounds", "1"),
            *("--syncs", "16", "--engines", "dynalsm,sqlite3", "--only", only),
            *("--json", str(tmp_path / "kv.json"), "--directory", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr, done.stderr
    document = json.loads((tmp_path / "kv.json").read_text())
    assert list(document["results"]) == only.split(",")
    assert all(set(each) == {"dynalsm", "sqlite3"} for each in document["results"].values())
    for workload in only.split(","):
        assert f"| {workload} |" in done.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["kv.json"]  # nothing is left
