"""`dynalsm serve` as a process of its own, with boto3's real client."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")
from botocore.config import Config  # noqa: E402
from botocore.exceptions import BotoCoreError, ClientError  # noqa: E402

import dynalsm  # noqa: E402
from dynalsm import errors  # noqa: E402
from tests.faces.conftest import MUSIC, fill  # noqa: E402
from tests.support.processes import ServeProcess, run_cli  # noqa: E402


def resource(url: str, key: str = "any", secret: str = "any") -> Any:
    return boto3.resource(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_what_was_acknowledged_is_there_after_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with ServeProcess(path) as server:
        fill(resource(server.url).create_table(**MUSIC), 10)
        code, printed = server.stop()
    assert code == 0
    assert "stopped; the database is closed" in printed
    with dynalsm.open(path) as database:
        assert len(list(database.Table("Music").scan_items())) == 10


def test_what_was_acknowledged_is_there_after_sigkill(tmp_path: Path) -> None:
    """Eight clients write until the server is killed; every acknowledged item must be there."""
    path = tmp_path / "shop.db"
    acknowledged: list[str] = []
    with ServeProcess(path) as server:
        resource(server.url).create_table(**MUSIC)

        def write(client: int) -> None:
            table = resource(server.url).Table("Music")
            for number in range(10_000):
                title = f"{client}-{number}"
                try:
                    table.put_item(Item={"Artist": "a", "SongTitle": title})
                except (BotoCoreError, ClientError):
                    return
                acknowledged.append(title)
                if len(acknowledged) >= 200:
                    server.process.send_signal(signal.SIGKILL)

        writers = [threading.Thread(target=write, args=(client,)) for client in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        server.process.wait(30)
    assert len(acknowledged) >= 200
    with dynalsm.open(path) as database:
        found = {item["SongTitle"] for item in database.Table("Music").scan_items()}
    assert found >= set(acknowledged)


def test_a_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with ServeProcess(path) as server:
        refused = run_cli("serve", path)
        assert refused.returncode == 1
        assert str(server.process.pid) in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
        with pytest.raises(errors.LockedError) as caught:
            dynalsm.open(path)
        assert caught.value.pid == server.process.pid


def test_a_reader_works_beside_the_server(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with ServeProcess(path) as server:
        fill(resource(server.url).create_table(**MUSIC), 3)
        found = run_cli("scan", path, "Music", "--json")
        assert found.returncode == 0, found.stderr
        titles = [json.loads(line)["SongTitle"] for line in found.stdout.splitlines()]
        assert titles == ["song 000", "song 001", "song 002"]
        through = run_cli("scan", server.url, "Music", "--json")
        assert through.stdout == found.stdout


def test_a_port_in_use(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "one.db") as server:
        port = server.url.rpartition(":")[2]
        refused = run_cli("serve", tmp_path / "two.db", "--port", port)
    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        f"dynalsm: port {port} of 127.0.0.1 is in use: "
        "stop the other program or give another --port"
    )


def test_signatures_are_checked_against_the_key_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    entries = [
        {"id": "WRITER", "secret": "w"},
        {"id": "READER", "secret": "r", "read_only": True, "tables": ["Music"]},
    ]
    keys.write_text(json.dumps({"keys": entries}))
    keys.chmod(0o600)
    with ServeProcess(tmp_path / "shop.db", "--auth", str(keys)) as server:
        fill(resource(server.url, "WRITER", "w").create_table(**MUSIC), 2)
        reader = resource(server.url, "READER", "r").Table("Music")
        assert reader.scan()["Count"] == 2
        for ask, code in (
            (lambda: fill(reader, 1), "AccessDeniedException"),
            (lambda: resource(server.url, "READER", "x").Table("Music").scan(),
             "InvalidSignatureException"),
            (lambda: resource(server.url, "NOBODY", "x").Table("Music").scan(),
             "UnrecognizedClientException"),
        ):  # fmt: skip
            with pytest.raises(ClientError) as caught:
                ask()
            assert caught.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--host", "0.0.0.0"), "--allow-anonymous"),
        (("--auth", "missing.json"), "cannot read missing.json"),
        (("--tls-cert", "x.pem"), "https needs both --tls-cert and --tls-key"),
        (("--tls-cert", "x.pem", "--tls-key", "y.pem"), "cannot use the certificate x.pem"),
        (("--memory-mib", "0"), "--memory-mib is a number from 1"),
        (("--table-delay", "-1"), "--table-delay is a number of seconds from 0"),
        (("--durability", "fast"), "durability is one of commit, interval, os"),
        (("--host", "192.0.2.1", "--allow-anonymous"), "192.0.2.1 is no address of this machine"),
    ],
)
def test_wrong_options_give_one_clear_line(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    refused = run_cli("serve", tmp_path / "shop.db", *options)
    assert refused.returncode == 1
    assert complaint in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_tables_stay_creating_and_deleting_for_a_while(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "shop.db", "--table-delay", "0.4") as server:
        tables = resource(server.url)
        client = tables.meta.client
        config = {"Delay": 0.05, "MaxAttempts": 100}
        table = tables.create_table(**MUSIC)
        assert client.describe_table(TableName="Music")["Table"]["TableStatus"] == "CREATING"
        client.get_waiter("table_exists").wait(TableName="Music", WaiterConfig=config)
        fill(table, 1)
        table.delete()
        assert client.describe_table(TableName="Music")["Table"]["TableStatus"] == "DELETING"
        client.get_waiter("table_not_exists").wait(TableName="Music", WaiterConfig=config)
