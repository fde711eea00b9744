"""The commands on tables, items and the directory, as processes and as functions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import dynalsm
from dynalsm.cli import admin, output
from dynalsm.cli.app import run
from tests.faces.conftest import MUSIC, fill
from tests.support.processes import ServeProcess, environment, run_cli


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with the Music table and five songs."""
    path = tmp_path / "shop.db"
    with dynalsm.open(path, durability="os") as database:
        fill(database.create_table(**MUSIC), 5)
    return path


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print wide enough that no cell is folded."""
    monkeypatch.setattr(output.console, "_width", 200)
    monkeypatch.setattr(output.errors_console, "_width", 200)


class Ran:
    """What one command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.lines = [json.loads(line) for line in out.splitlines() if line[:1] in "{["]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Run a command in this process."""

    def call(*arguments: str | Path) -> Ran:
        code = run([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return call


def test_the_program_runs_as_a_module() -> None:
    shown = run_cli("--version")
    assert (shown.returncode, shown.stdout.strip()) == (0, f"dynalsm {dynalsm.__version__}")
    listed = run_cli("--help")
    for command in ("serve", "demo", "tables", "get", "put", "query", "scan", "stats"):
        assert command in listed.stdout
    assert run_cli("nonsense").returncode == 2
    assert run_cli("tables").returncode == 2


def test_tables(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    shown = cli("tables", path)
    assert shown.code == 0
    assert "Artist + SongTitle" in shown.out
    assert "ByYear" in shown.out
    described = cli("tables", path, "Music", "--json").lines[0]
    assert (described["TableName"], described["ItemCount"]) == ("Music", 5)
    assert "Artist (S) + Year (N)" in cli("tables", path, "Music").out


def test_get_and_put_and_delete(cli, path: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    item = '{"Artist": "a", "SongTitle": "t", "Price": 9.99, "Tags": ["x"], "Big": %d}'
    written = cli("put", path, "Music", item % 12345678901234567890)
    assert (written.code, written.err.strip()) == (0, "1 item written")
    found = cli("get", path, "Music", '{"Artist": "a", "SongTitle": "t"}').lines[0]
    assert found == {
        "Artist": "a", "SongTitle": "t", "Price": 9.99, "Tags": ["x"],
        "Big": 12345678901234567890,
    }  # fmt: skip
    typed = cli("get", path, "Music", '{"Artist": {"S": "a"}, "SongTitle": {"S": "t"}}', "--typed")
    assert typed.lines[0]["Price"] == {"N": "9.99"}
    assert cli("delete", path, "Music", '{"Artist": "a", "SongTitle": "t"}').code == 0
    for command in ("get", "delete"):
        missing = cli(command, path, "Music", '{"Artist": "a", "SongTitle": "t"}')
        assert (missing.code, missing.err.strip()) == (1, "dynalsm: no such item")
    lines = tmp_path / "items.jsonl"
    lines.write_text('{"Artist": "b", "SongTitle": "1"}\n\n{"Artist": "b", "SongTitle": "2"}\n')
    assert cli("put", path, "Music", f"@{lines}").err.strip() == "2 items written"


def test_put_reads_stdin(path: Path) -> None:
    put = run_cli("put", path, "Music", "-", stdin='{"Artist": "c", "SongTitle": "1"}\n')
    assert put.returncode == 0, put.stderr
    assert json.loads(run_cli("query", path, "Music", "c", "--json").stdout)["SongTitle"] == "1"


def test_query(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    artist = "The Acme Band"
    titles = [one["SongTitle"] for one in cli("query", path, "Music", artist, "--json").lines]
    assert titles == [f"song {number:03d}" for number in range(5)]
    ran = cli(
        "query", path, "Music", artist, "--index", "ByYear", "--reverse", "--limit", "2", "--json"
    )
    assert [one["Year"] for one in ran.lines] == [1994, 1993]
    ran = cli(
        "query", path, "Music", "--key-condition", "Artist = :a AND begins_with(SongTitle, :s)",
        "--values", json.dumps({":a": artist, ":s": "song 00", ":y": 1992}),
        "--filter", "#y > :y", "--names", '{"#y": "Year"}', "--projection", "SongTitle", "--json",
    )  # fmt: skip
    assert ran.lines == [{"SongTitle": "song 003"}, {"SongTitle": "song 004"}]
    assert "no items" in cli("query", path, "Music", "Nobody").out
    assert "the first 2" in cli("query", path, "Music", artist, "--limit", "2").out


def test_scan(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    assert len(cli("scan", path, "Music", "--json").lines) == 5
    ran = cli("scan", path, "Music", "--filter", "SongTitle = :s", "--values", '{":s": "song 003"}')
    assert "song 003" in ran.out
    assert "song 004" not in ran.out


def test_the_directory(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    shown = cli("stats", path)
    assert "Music / ByYear" in shown.out
    assert "last_seqno" in cli("stats", path, "--json").lines[0]
    assert cli("compact", path).code == 0
    assert len(cli("scan", path, "Music", "--json").lines) == 5


def test_stats_of_a_running_server_and_again_and_again(path: Path) -> None:
    pytest.importorskip("prometheus_client")
    with ServeProcess(path) as server:
        figures = json.loads(run_cli("stats", server.url, "--json").stdout)
        assert any(name.startswith("dynalsm_") for name in figures)
        for place in (server.url, str(path)):
            watching = subprocess.Popen(
                [sys.executable, "-m", "dynalsm", "stats", place, "--watch", "--json",
                 "--interval", "0.1"],
                stdout=subprocess.PIPE, text=True, env=environment(),
            )  # fmt: skip
            assert watching.stdout is not None
            looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(30) == 0
            watching.stdout.close()
            assert looks[0].keys() == looks[1].keys()
    with ServeProcess(path, "--no-metrics") as server:
        refused = run_cli("stats", server.url)
    assert refused.returncode == 1
    assert "offers no metrics (404): start it with dynalsm serve --metrics" in refused.stderr


def test_stats_of_a_server_with_keys(path: Path, tmp_path: Path) -> None:
    """The key stands in the address: one of the environment is not meant for this server."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"id": "WATCH", "secret": "a/b:c@d", "tables": ["*"]}]}))
    keys.chmod(0o600)
    with ServeProcess(path, "--auth", str(keys)) as server:
        refused = run_cli("stats", server.url)
        place = server.url.replace("http://", "http://WATCH:a%2Fb%3Ac%40d@")
        found = run_cli("stats", place, "--json")
    assert refused.returncode == 1
    assert "stats http://id:secret@host:port" in refused.stderr
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["dynalsm_engine_last_seqno"] > 0


def test_tables_beside_a_writer_counts_what_is_there(path: Path) -> None:
    with dynalsm.open(path) as database:
        fill(database.Table("Music"), 3, "Another")
        described = json.loads(run_cli("tables", path, "Music", "--json").stdout)
    assert described["ItemCount"] == 8
    assert [index["ItemCount"] for index in described["LocalSecondaryIndexes"]] == [8]


def test_bench_measures_and_leaves_nothing_behind(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    place = tmp_path / "place"
    place.mkdir()
    ran = cli("bench", place, "--seconds", "0.01", "--json")
    assert ran.code == 0, ran.err
    assert [row["what"].partition(",")[0] for row in ran.lines] == [
        "put_item", "put_item", "get_item", "query of 20 items",
    ]  # fmt: skip
    for row in ran.lines:
        assert row["count"] >= 1
        assert row["per_second"] > 0
        assert row["latencies"] == sorted(row["latencies"])
    assert list(place.iterdir()) == []
    assert "there is no directory" in cli("bench", place / "missing").err


def test_an_address_works_as_a_directory_does(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    """Every kind of value goes there and comes back, binary ones and sets of them too."""
    pytest.importorskip("boto3")
    typed = {
        "Artist": {"S": "a"}, "SongTitle": {"S": "t"}, "Raw": {"B": "AP8="},
        "Raws": {"BS": ["AA==", "/w=="]}, "Numbers": {"NS": ["10", "9"]},
        "Deep": {"L": [{"B": "AA=="}]},
    }  # fmt: skip
    key = '{"Artist": "a", "SongTitle": "t"}'
    typed_key = '{"Artist": {"S": "a"}, "SongTitle": {"S": "t"}}'
    with ServeProcess(path) as server:
        assert cli("put", server.url, "Music", json.dumps(typed), "--typed").code == 0
        there = {place: (
            cli("get", place, "Music", key).lines[0],
            cli("get", place, "Music", typed_key, "--typed").lines[0],
            cli("query", place, "Music", "a", "--json").lines[0],
            cli("query", place, "Music", "a", "--typed").lines[0],
            cli("export", place, "Music", "-", "--format", "lines").code,
        ) for place in (server.url, str(path))}  # fmt: skip
        assert there[server.url] == there[str(path)]
        plain, again = there[server.url][:2]
        assert plain["Raws"] == ["AA==", "/w=="]
        assert plain["Numbers"] == [9, 10]
        assert {name: sorted(map(str, *value.values())) if "NS" in value else value
                for name, value in again.items()} == {**typed, "Numbers": ["10", "9"]}  # fmt: skip
        read = "SELECT * FROM Music WHERE Artist = 'a'"
        assert cli("sql", server.url, "-c", read, "--json").lines[0] == plain
        assert (
            "more than one"
            in cli("put", server.url, "Music", '{"Artist": {"S": "a", "N": "1"}}', "--typed").err
        )


def test_checkpoint(cli, path: Path) -> None:  # type: ignore[no-untyped-def]
    copy = path.parent / "copy.db"
    made = cli("checkpoint", path, copy)
    assert (made.code, f"{copy}: a copy of {path}" in made.out) == (0, True)
    cli("delete", path, "Music", '{"Artist": "The Acme Band", "SongTitle": "song 000"}')
    assert len(cli("scan", copy, "Music", "--json").lines) == 5
    assert cli("checkpoint", path, copy).code == 1  # it is there already
    assert "needs a database directory" in cli("checkpoint", "http://127.0.0.1:1", copy).err
    assert "there is no directory" in cli("checkpoint", path, path.parent / "a" / "b").err


def test_rates_of_what_changed() -> None:
    rows = admin._with_rates({"a": 30, "b": "x", "c": 5, "new": 1}, {"a": 10, "b": "x", "c": 5}, 2)
    assert rows == [("a", 30, "+10.0"), ("b", "x", ""), ("c", 5, ""), ("new", 1, "")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_for_shells(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    # Without this typer looks for a shell among the processes above, which need not be there.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    shown = run_cli("--show-completion", shell)
    assert shown.returncode == 0, shown.stderr
    assert "_DYNALSM_COMPLETE" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("tables", "MISSING"), "there is no database here"),
        (("tables", "FILE"), "this is a file; a database is a directory"),
        (("query", "PATH", "Music"), "VALUE or --key-condition"),
        (("query", "PATH", "Missing", "x"), "ResourceNotFoundException: Requested resource not"),
        (("query", "PATH", "Music", "x", "--index", "No"), "no index No; it has: ByYear"),
        (("get", "PATH", "Music", "{x"), "key is no JSON: Expecting property name"),
        (("get", "PATH", "Music", "[]"), "key must be a JSON object"),
        (("get", "PATH", "Music", '{"Artist": "a"}'), "does not match the schema"),
        (("put", "PATH", "Music", '{"Artist": "a"}'), "Missing the key SongTitle in the item"),
        (("put", "PATH", "Music", "@missing.json"), "missing.json: No such file"),
        (("scan", "PATH", "Music", "--filter", "a ="), "Invalid FilterExpression"),
        (("scan", "ftp://host", "Music"), "ftp://host is no endpoint"),
    ],
)
def test_failures_are_one_line_on_stderr(  # type: ignore[no-untyped-def]
    cli, path: Path, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    places = {"PATH": str(path), "MISSING": str(tmp_path / "missing"), "FILE": str(file)}
    ran = cli(*(places.get(argument, argument) for argument in arguments))
    assert ran.code == 1
    assert ran.err.startswith("dynalsm: ")
    assert complaint in ran.err
    assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1E+3"), "1000"),
        (Decimal("0.1"), "0.1"),
        (Decimal("0.12345678901234567890123"), "0.12345678901234567890123"),
        (Decimal(10**20), "100000000000000000000"),
        (Decimal("1E+100"), "1E+100"),
        (Decimal("1E-130"), "1E-130"),
        ({"b", "a"}, '["a","b"]'),
        (b"\x00\xff", '"AP8="'),
        (dynalsm.Binary(b"\x00"), '"AA=="'),
    ],
)
def test_plain_json_loses_nothing(value: object, text: str) -> None:
    assert output.json_text(value) == text


def test_sizes_and_times_for_people() -> None:
    assert [output.size_text(n) for n in (0, 1023, 1024, 5 << 20)] == [
        "0 B", "1,023 B", "1.0 KB", "5.0 MB",
    ]  # fmt: skip
    assert [output.duration_text(s) for s in (0.0000123, 0.0123, 12.3)] == [
        "12 µs", "12.3 ms", "12.30 s",
    ]  # fmt: skip
    assert output.cell_text("[red]x") == r"\[red]x"
    assert len(output.cell_text("x" * 100)) == 60


def test_typed_lines_lose_nothing_and_stop_nowhere(tmp_path: Path) -> None:
    # More items than a table for people shows, and the types that plain JSON cannot tell apart.
    with dynalsm.open(tmp_path / "one.db") as db:
        table = db.create_table(
            TableName="Things",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        with table.batch_writer() as batch:
            for number in range(70):
                batch.put_item(
                    Item={"k": f"{number}", "n": 2**70 + number, "s": {"a"}, "b": b"\x00\xff"}
                )
        expected = sorted(table.scan_items(), key=lambda item: item["k"])
    lines = run_cli("scan", tmp_path / "one.db", "Things", "--typed").stdout.splitlines()
    assert (
        len(lines)
        == len(run_cli("scan", tmp_path / "one.db", "Things", "--json").stdout.splitlines())
        == 70
    )
    with dynalsm.open(tmp_path / "two.db") as db:
        db.create_table(
            TableName="Things",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    (tmp_path / "lines").write_text("\n".join(lines))
    put = run_cli("put", tmp_path / "two.db", "Things", f"@{tmp_path / 'lines'}", "--typed")
    assert put.returncode == 0, put.stderr
    with dynalsm.open(tmp_path / "two.db") as db:
        assert sorted(db.Table("Things").scan_items(), key=lambda item: item["k"]) == expected
