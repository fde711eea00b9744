"""`dynalsm export` and `import`: JSON lines, CSV and Parquet; DynamoDB's own are elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.cli import output
from dynalsm.cli.app import run
from tests.support.processes import run_cli

KEYS = ("--key", "k:S", "--key", "n:N")
ITEMS: list[dict[str, Any]] = [
    {"k": "a", "n": Decimal(1), "whole": Decimal(7), "part": Decimal("1.25"), "yes": True},
    {"k": "b", "n": Decimal(2), "whole": Decimal(-(2**63)), "mixed": "text", "tags": {"x", "y"}},
    {"k": "c", "n": Decimal("2.5"), "part": Decimal(3), "mixed": Decimal(5), "raw": b"\x00\xff",
     "deep": {"list": [Decimal(1), None, {"b": b"\x01"}]}, "nothing": None},
    {"k": "d", "n": Decimal(10) ** 37, "large": Decimal("1E+125"), "odd, \"name\"": "a\nb,c"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.console, "_width", 200)
    monkeypatch.setattr(output.errors_console, "_width", 200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a table that has every kind of value."""
    path = tmp_path / "one.db"
    with dynalsm.open(path, durability="os") as database:
        table = database.create_table(
            TableName="Things",
            KeySchema=[
                {"AttributeName": "k", "KeyType": "HASH"},
                {"AttributeName": "n", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "k", "AttributeType": "S"},
                {"AttributeName": "n", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        for item in ITEMS:
            table.put_item(Item=item)
    return path


def done(*arguments: str | Path, code: int = 0) -> None:
    assert run([str(argument) for argument in arguments]) == code


@pytest.mark.parametrize("kind", ["jsonl", "csv", "jsonl.gz", "parquet", "json", "ion"])
def test_exports_are_for_their_owner_alone(path: Path, tmp_path: Path, kind: str) -> None:
    """Whatever the umask, and whatever an earlier or a killed run left."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    target = tmp_path / f"out.{kind}" if kind not in ("json", "ion") else tmp_path / "out"
    if target.suffix:
        for left in (target, target.with_name(f".{target.name}.part")):
            left.write_text("left")
            left.chmod(0o644)
    before = os.umask(0)
    try:
        done("export", path, "Things", target, *(() if target.suffix else ("--format", kind)))
    finally:
        os.umask(before)
    made = [target, *target.rglob("*")] if target.is_dir() else [target]
    for each in made:
        wanted = 0o700 if each.is_dir() else 0o600
        assert stat.S_IMODE(each.stat().st_mode) == wanted, each


def items(path: Path, name: str) -> list[dict[str, Any]]:
    with dynalsm.open(path, read_only=True) as database:
        return sorted(database.Table(name).scan_items(), key=lambda item: item["k"])


def test_parquet_keeps_every_value(path: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet  # noqa: F811

    file = tmp_path / "things.parquet"
    done("export", path, "Things", file)
    schema = pyarrow.parquet.read_schema(file)
    assert schema.field("whole").type == pyarrow.int64()
    assert schema.field("part").type == pyarrow.decimal128(3, 2)
    assert schema.field("raw").type == pyarrow.binary()
    assert schema.field("mixed").type == pyarrow.string()
    done("import", tmp_path / "two.db", "Things", file, *KEYS)
    assert items(tmp_path / "two.db", "Things") == ITEMS


def test_parquet_of_other_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet  # noqa: F811

    rows = [{"k": "a", "n": 1, "f": 0.1, "l": [1, 2], "s": {"x": "y"}, "none": None}]
    table = pyarrow.Table.from_pylist(rows)
    table = table.append_column(
        "m", pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    )
    table = table.append_column("t", pyarrow.array([0], pyarrow.timestamp("s")))
    file = tmp_path / "things.parquet"
    pyarrow.parquet.write_table(table, file)
    done("import", tmp_path / "two.db", "Things", file, *KEYS)
    assert items(tmp_path / "two.db", "Things") == [
        {"k": "a", "n": 1, "f": Decimal("0.1"), "l": [1, 2], "s": {"x": "y"}, "m": {"a": 1},
         "t": "1970-01-01T00:00:00"}
    ]  # fmt: skip
    rows = [{"k": "a", "n": 1.0}, {"k": "b", "n": float("nan")}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    done("import", tmp_path / "two.db", "Again", file, *KEYS, code=1)
    assert "things.parquet row 2 column n: " in capsys.readouterr().err
    file.write_bytes(b"PAR")
    done("import", tmp_path / "two.db", "Again", file, *KEYS, code=1)
    assert "things.parquet is no Parquet file" in capsys.readouterr().err


def test_without_pyarrow_the_extra_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    done("export", path, "Things", path.parent / "x.parquet", code=1)
    assert "Parquet needs pyarrow: pip install 'dynalsm[parquet]'" in capsys.readouterr().err
    assert not (path.parent / "x.parquet").exists()


@pytest.mark.parametrize("name", ["things.jsonl", "things.jsonl.gz", "things.ndjson"])
def test_json_lines(path: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    done("export", path, "Things", file)
    text = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    assert sorted(json.loads(line)["k"] for line in text.splitlines()) == ["a", "b", "c", "d"]
    done("import", tmp_path / "two.db", "Things", file, *KEYS)
    found = items(tmp_path / "two.db", "Things")
    assert found[0] == ITEMS[0]
    assert found[3] == ITEMS[3]
    assert found[1]["tags"] == ["x", "y"]  # plain JSON has no sets


def test_json_lines_packed_by_zstd(tmp_path: Path) -> None:
    import zstandard

    file = tmp_path / "things.jsonl.zst"
    file.write_bytes(zstandard.compress(b'{"k": "a", "n": 1}\n{"k": "b", "n": 2}\n'))
    done("import", tmp_path / "two.db", "Things", file, *KEYS)
    assert [item["k"] for item in items(tmp_path / "two.db", "Things")] == ["a", "b"]


def test_csv(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "things.csv"
    done("export", path, "Things", file)
    import csv

    with file.open(newline="", encoding="utf-8") as lines:
        rows = {row["k"]: row for row in csv.DictReader(lines)}
    assert list(rows["a"])[:2] == ["k", "n"]
    assert (rows["a"]["part"], rows["a"]["yes"], rows["c"]["raw"]) == ("1.25", "true", "AP8=")
    assert rows["b"]["tags"] == '["x","y"]'
    assert rows["d"]['odd, "name"'] == "a\nb,c"
    done("import", tmp_path / "two.db", "Things", file, *KEYS)
    assert len(items(tmp_path / "two.db", "Things")) == 4


def test_stdout_and_a_server(path: Path) -> None:
    ran = run_cli("export", path, "Things", "-", "--format", "lines")
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 4
    assert ran.stderr.strip() == "4 items, -"


def test_a_wrong_line_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "things.jsonl"
    file.write_text('{"k": "a", "n": 1}\n{"k": "a", "n": 1e999}\n')
    done("import", tmp_path / "two.db", "Things", file, *KEYS, code=1)
    told = capsys.readouterr().err
    assert "nothing is imported: Things is removed again" in told
    assert "things.jsonl line 2: the number 1e999 at column 17: Number overflow" in told
    file.write_text('{"k": "a", "n": 1}\n{"k": "a"}\n')
    done("import", tmp_path / "two.db", "Things", file, *KEYS, code=1)
    assert "things.jsonl line 2: ValidationException: One or more" in capsys.readouterr().err
    with dynalsm.open(tmp_path / "two.db") as database:
        assert database.tables == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("export", "PATH", "Things", "out", "--format", "lines", "--at", "2026-01-01"),
         "--at needs --format json or ion"),
        (("export", "PATH", "Nope", "out.csv"), "Requested resource not found"),
        (("export", "http://127.0.0.1:1", "Things", "out"), "needs a database directory"),
        (("import", "http://127.0.0.1:1", "Things", "FILE"), "needs a database directory"),
        (("import", "PATH", "Again", "FILE"), "say --format: json, ion, csv, lines, parquet"),
        (("import", "PATH", "Again", "FILE", "--format", "xml"), "say --format"),
        (("import", "PATH", "Again", "DIRECTORY", "--format", "lines"), "is read from a file"),
        (("import", "PATH", "Again", "FILE", "--compression", "rar"), "none, gzip or zstd"),
        (("import", "PATH", "Things", "FILE", "--format", "lines"), "Table already exists"),
    ],
)  # fmt: skip
def test_mistakes(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    file = path.parent / "file.txt"
    file.write_text('{"k": "a", "n": 1}')
    places = {"PATH": str(path), "FILE": str(file), "DIRECTORY": str(path.parent)}
    given = [places.get(one, one) for one in arguments]
    if given[0] == "import":
        given += KEYS
    done(*given, code=1)
    assert complaint in capsys.readouterr().err
    assert not Path("out").exists()


def test_progress_is_shown_on_a_terminal(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from rich.console import Console

    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(output, "errors_console", terminal)
    done("export", path, "Things", tmp_path / "things.jsonl")
    assert "exporting" in shown.getvalue()
    assert "4 items" in shown.getvalue()
    assert "a second" in shown.getvalue()
    assert "100%" in shown.getvalue()
