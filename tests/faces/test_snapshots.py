"""Reads at a snapshot: nothing that happens later can be seen, and nothing can be changed."""

from __future__ import annotations

from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.conditions import Key
from dynalsm.database import Database
from dynalsm.resource import Table
from tests.faces.conftest import MUSIC, fill

ACME = "The Acme Band"
HERS = {"Artist": ACME, "SongTitle": "song 001"}


@pytest.fixture(params=["memory", "disk"])
def music(request: pytest.FixtureRequest, db: Database) -> Table:
    if request.param == "memory":
        return db.create_table(**MUSIC)
    disk: Database = request.getfixturevalue("disk_db")
    return disk.create_table(**MUSIC)


def database_of(table: Table) -> Any:
    return table._database


def change_everything(music: Table) -> None:
    music.delete_item(Key={"Artist": ACME, "SongTitle": "song 000"})
    music.update_item(
        Key=HERS, UpdateExpression="SET Plays = :n", ExpressionAttributeValues={":n": 1}
    )
    fill(music, 9, artist="No One You Know")
    fill(music, 30)


def test_every_read_shows_the_moment(music: Table) -> None:
    fill(music, 20)
    with database_of(music).snapshot() as then:
        change_everything(music)
        old = then.Table("Music")
        where = Key("Artist").eq(ACME)
        assert old.get_item(Key={"Artist": ACME, "SongTitle": "song 000"})["Item"]["Year"] == 1990
        assert old.get_item(Key=HERS, ConsistentRead=True)["Item"] == {**HERS, "Year": 1991}
        assert old.query(KeyConditionExpression=where)["Count"] == 20
        by_year = old.query(IndexName="ByYear", KeyConditionExpression=where & Key("Year").lt(1995))
        assert by_year["Count"] == 5
        assert old.scan(ConsistentRead=True)["Count"] == 20
        assert old.scan(IndexName="ByYear")["Count"] == 20
        typed = {name: {"S": value} for name, value in HERS.items()}
        client = then.client
        got = client.batch_get_item(RequestItems={"Music": {"Keys": [typed]}})
        assert "Plays" not in got["Responses"]["Music"][0]
        got = client.transact_get_items(
            TransactItems=[{"Get": {"TableName": "Music", "Key": typed}}]
        )
        assert "Plays" not in got["Responses"][0]["Item"]
        got = client.execute_statement(
            Statement="SELECT * FROM Music WHERE Artist = 'No One You Know'"
        )
        assert got["Items"] == []
    assert music.scan()["Count"] == 39


def test_pages_of_a_snapshot_belong_together(music: Table) -> None:
    fill(music, 10)
    with database_of(music).snapshot() as then:
        seen = []
        for item in then.Table("Music").query_items(
            KeyConditionExpression=Key("Artist").eq(ACME), Limit=3
        ):
            seen.append(item["SongTitle"])
            music.delete_item(Key={"Artist": ACME, "SongTitle": "song 009"})
            fill(music, 20)
        assert seen == [f"song {number:03d}" for number in range(10)]


def test_a_snapshot_is_only_read(music: Table) -> None:
    fill(music, 2)
    with database_of(music).snapshot() as then:
        old = then.Table("Music")
        calls: list[Any] = [
            lambda: old.put_item(Item=HERS),
            lambda: old.delete_item(Key=HERS),
            lambda: then.client.delete_table(TableName="Music"),
            lambda: then.client.execute_statement(
                Statement="DELETE FROM Music WHERE Artist = 'x' AND SongTitle = 'song 001'"
            ),
            lambda: then.client.execute_transaction(
                TransactStatements=[
                    {"Statement": "INSERT INTO Music VALUE {'Artist': 'x', 'SongTitle': 'y'}"}
                ]
            ),
        ]
        for call in calls:
            with pytest.raises(errors.ReadOnlyError, match="can only be read"):
                call()
    assert music.scan()["Count"] == 2


def test_tables_are_those_of_the_moment_that_are_left(db: Database) -> None:
    db.create_table(**MUSIC)
    db.create_table(**{**MUSIC, "TableName": "Old"})
    with db.snapshot() as then:
        db.Table("Old").delete()
        db.create_table(**{**MUSIC, "TableName": "Old"}).put_item(Item=HERS)
        db.create_table(**{**MUSIC, "TableName": "New"})
        assert then.client.list_tables()["TableNames"] == ["Music"]
        assert then.client.describe_table(TableName="Music")["Table"]["TableName"] == "Music"
        for name in ("Old", "New"):
            with pytest.raises(errors.ResourceNotFoundException):
                then.Table(name).scan()


def test_an_end(disk_db: Database) -> None:
    db = disk_db
    db.create_table(**MUSIC)
    then = db.snapshot()
    assert then.seqno == db.engine.last_seqno
    assert "at" in repr(then)
    then.close()
    then.close()
    with pytest.raises(errors.ClosedError):
        then.Table("Music").scan()


def test_a_snapshot_of_a_closed_database(tmp_path: Any) -> None:
    db = dynalsm.open(tmp_path / "x", durability="os")
    db.create_table(**MUSIC)
    then = db.snapshot()
    db.close()
    with pytest.raises(errors.ClosedError):
        then.Table("Music").get_item(Key=HERS)
