"""dynalsm.aio: the database on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import aio, errors
from dynalsm.api.registry import OPERATIONS
from dynalsm.api.shapes import snake_case
from dynalsm.conditions import Attr, Key
from dynalsm.database import Database
from dynalsm.paging import WaiterError
from tests.faces.conftest import MUSIC
from tests.support.databases import memory_database

Test = Callable[[aio.AsyncDatabase], Awaitable[None]]


def on_disk(path: Path, test: Test) -> None:
    """Run a test on a database that waits for the disk at every commit."""

    async def main() -> None:
        async with aio.open(path / "test.db") as db:
            await test(db)

    asyncio.run(main())


class CountingEngine:
    """An engine whose disk takes its time: every wait is counted and blocks until allowed."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.waits: list[int] = []
        self.allowed = threading.Event()
        self.durable_seqno = 0
        self.durability = "commit"
        self.problem: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def wait_durable(self, seqno: int) -> None:
        self.waits.append(seqno)
        assert self.allowed.wait(30)
        if self.problem is not None:
            raise self.problem
        self.durable_seqno = max(self.durable_seqno, seqno)


def slow_disk(db: Database) -> CountingEngine:
    engine = CountingEngine(db.engine)
    db.engine = engine  # type: ignore[assignment]
    db._must_wait = True
    return engine


def songs(count: int) -> list[dict[str, Any]]:
    return [
        {"Artist": "a", "SongTitle": f"{number:02d}", "Year": number} for number in range(count)
    ]


def test_every_operation_is_a_coroutine_of_one_client() -> None:
    clients = (aio.AsyncDynamoDBClient, aio.AsyncStreamsClient)
    for operation in OPERATIONS:
        homes = [one for one in clients if hasattr(one, snake_case(operation))]
        assert len(homes) == 1, operation
        assert inspect.iscoroutinefunction(getattr(homes[0], snake_case(operation)))


def test_a_tour(tmp_path: Path) -> None:
    async def test(db: aio.AsyncDatabase) -> None:
        music = await db.create_table(**MUSIC)
        assert [table.name for table in await db.tables()] == ["Music"]
        async with music.batch_writer() as batch:
            for song in songs(60):
                await batch.put_item(Item=song)
            await batch.delete_item(Key={"Artist": "a", "SongTitle": "00"})
        backwards = music.query_items(
            KeyConditionExpression=Key("Artist").eq("a"), ScanIndexForward=False, Limit=7
        )
        found = [song["Year"] async for song in backwards]
        assert found == list(range(59, 0, -1))
        assert len([song async for song in music.scan_items(Limit=10)]) == 59
        key = {"Artist": "a", "SongTitle": "05"}
        await music.update_item(
            Key=key, UpdateExpression="ADD Plays :n", ExpressionAttributeValues={":n": 1},
            ConditionExpression=Attr("Year").eq(5),
        )  # fmt: skip
        assert (await music.get_item(Key=key))["Item"]["Plays"] == 1
        with pytest.raises(errors.ConditionalCheckFailedException):
            await music.put_item(Item=key, ConditionExpression=Attr("Artist").not_exists())
        await music.delete_item(Key=key)
        await db.client.transact_write_items(
            TransactItems=[
                {
                    "Put": {
                        "TableName": "Music",
                        "Item": {"Artist": {"S": "t"}, "SongTitle": {"S": n}},
                    }
                }
                for n in "xy"
            ]
        )
        assert (await music.query(KeyConditionExpression=Key("Artist").eq("t")))["Count"] == 2
        reply = await db.client.get_item(
            TableName="Music", Key={"Artist": {"S": "t"}, "SongTitle": {"S": "x"}}
        )
        assert reply["Item"]["SongTitle"] == {"S": "x"}
        await music.update(BillingMode="PAY_PER_REQUEST")
        assert (await music.describe())["TableStatus"] == "ACTIVE"
        await music.wait_until_exists()
        await db.flush()
        await db.compact()
        assert (await db.stats())["last_seqno"] > 0
        await music.delete()
        await music.wait_until_not_exists()

    on_disk(tmp_path, test)
    with dynalsm.open(tmp_path / "test.db") as database:  # it was closed
        assert database.tables == []


def test_pages_follow_the_sync_paginator(tmp_path: Path) -> None:
    async def test(db: aio.AsyncDatabase) -> None:
        music = await db.create_table(**MUSIC)
        for song in songs(10):
            await music.put_item(Item=song)
        for config in ({"PageSize": 3}, {"PageSize": 4, "MaxItems": 6}, {"MaxItems": 3}):
            pages = db.client.get_paginator("scan").paginate(
                TableName="Music", PaginationConfig=config
            )
            expected = db.sync.client.get_paginator("scan").paginate(
                TableName="Music", PaginationConfig=config
            )
            assert [page["Items"] async for page in pages] == [page["Items"] for page in expected]
        assert db.client.can_paginate("query")
        with pytest.raises(ValueError, match="put_item has no pages"):
            db.client.get_paginator("put_item")
        with pytest.raises(WaiterError, match="Max attempts exceeded"):
            await db.client.get_waiter("table_exists").wait(
                TableName="Missing", WaiterConfig={"Delay": 0.001, "MaxAttempts": 2}
            )

    on_disk(tmp_path, test)


def test_tasks_share_a_wait_for_the_disk_and_no_thread_waits_for_each() -> None:
    with memory_database() as database:
        database.create_table(**MUSIC)
        engine = slow_disk(database)

        async def main() -> None:
            db = aio.AsyncDatabase(database)
            music = db.Table("Music")
            tasks = [asyncio.create_task(music.put_item(Item=song)) for song in songs(50)]
            before = threading.active_count()
            done, _ = await asyncio.wait(tasks, timeout=0.2)
            assert not done  # nothing is acknowledged before the disk has it
            assert threading.active_count() <= before + 1
            # An eventually consistent read waits for nobody, and the loop is free meanwhile.
            assert (await music.get_item(Key={"Artist": "a", "SongTitle": "07"}))["Item"]
            engine.allowed.set()
            await asyncio.gather(*tasks)
            assert len(engine.waits) <= 2  # the first turn's, and that of those who came meanwhile
            await db.close()

        asyncio.run(main())


def test_a_refusal_waits_for_what_it_saw_and_a_failing_disk_is_told() -> None:
    with memory_database() as database:
        database.create_table(**MUSIC)
        engine = slow_disk(database)

        async def main() -> None:
            db = aio.AsyncDatabase(database)
            music = db.Table("Music")
            put = asyncio.create_task(music.put_item(Item=songs(1)[0]))
            cancelled = asyncio.create_task(music.put_item(Item=songs(2)[1]))
            await asyncio.sleep(0.05)
            cancelled.cancel()
            engine.problem = errors.StorageIOError("the disk is gone", path="x")
            engine.allowed.set()
            with pytest.raises(errors.StorageIOError, match="the disk is gone"):
                await put
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            engine.problem = None
            await db.close()

        asyncio.run(main())


def test_sync_calls_on_the_same_thread_still_wait() -> None:
    """What a coroutine collects must not leave the loop's thread without its own waits."""
    with memory_database() as database:
        database.create_table(**MUSIC)
        engine = slow_disk(database)
        engine.allowed.set()

        async def main() -> None:
            db = aio.AsyncDatabase(database)
            await db.Table("Music").put_item(Item=songs(1)[0])
            waits = len(engine.waits)
            database.Table("Music").put_item(Item=songs(2)[1])
            assert len(engine.waits) == waits + 1
            await db.close()

        asyncio.run(main())


def test_changes(tmp_path: Path) -> None:
    async def test(db: aio.AsyncDatabase) -> None:
        music = await db.create_table(**MUSIC)
        latest = music.changes("LATEST", follow_seconds=None)
        for song in songs(5):
            await music.put_item(Item=song)
        seen = [change async for change in music.changes()]
        assert sorted(change.keys["SongTitle"] for change in seen) == [f"{n:02d}" for n in range(5)]
        rest = music.changes(seen[2].sequence_number)
        assert [change.sequence_number async for change in rest] == [
            change.sequence_number for change in seen[3:]
        ]
        for _ in range(5):
            await anext(latest)
        waiting = asyncio.create_task(anext(latest))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        # A commit of another thread wakes it up as well.
        await asyncio.to_thread(db.sync.Table("Music").delete_item, Key=seen[0].keys)
        change = await asyncio.wait_for(waiting, 10)
        assert change.event_name == "REMOVE"
        await latest.aclose()
        assert db.sync._listeners == []
        assert [one async for one in music.changes("LATEST", follow_seconds=0.02)] == []

    on_disk(tmp_path, test)


def test_close_ends_a_follower_and_refuses_what_comes_later(tmp_path: Path) -> None:
    async def main() -> None:
        db = await aio.open(tmp_path / "test.db")
        music = await db.create_table(**MUSIC)
        waiting = asyncio.create_task(anext(music.changes(follow_seconds=None)))
        await asyncio.sleep(0.05)
        await asyncio.gather(db.close(), db.close())
        with pytest.raises(errors.ClosedError):
            await asyncio.wait_for(waiting, 10)
        for later in (music.get_item(Key={"Artist": "a", "SongTitle": "b"}), db.stats()):
            with pytest.raises(errors.ClosedError):
                await later
        assert db.closed
        assert "closed" in repr(db)

    asyncio.run(main())


def test_close_lets_writes_under_way_end(tmp_path: Path) -> None:
    async def main() -> None:
        db = await aio.open(tmp_path / "test.db")
        music = await db.create_table(**MUSIC)
        tasks = [asyncio.create_task(music.put_item(Item=song)) for song in songs(30)]
        await asyncio.sleep(0)
        await db.close()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    with dynalsm.open(tmp_path / "test.db", read_only=True) as database:
        assert database.Table("Music").scan()["Count"] == 30


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    async def test(db: aio.AsyncDatabase) -> None:
        with pytest.raises(TypeError, match="Unknown parameter"):
            await db.client.put_item(Table="x")
        with pytest.raises(TypeError, match="Unknown parameter"):
            await db.Table("Music").get_item(Item={})
        with pytest.raises(errors.ResourceNotFoundException, match="has no stream"):
            await db.create_table(**{**MUSIC, "StreamSpecification": {"StreamEnabled": False}})
            db.Table("Music").changes()

    on_disk(tmp_path, test)


def test_a_directory_that_is_no_database(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(errors.FormatError):
            await aio.open(tmp_path / "missing", create=False)

    asyncio.run(main())


def test_an_endpoint(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    pytest.importorskip("httptools")
    from dynalsm.server.run import ServerThread

    async def main(url: str) -> None:
        async with aio.open(url) as db:
            music = await db.create_table(**MUSIC)
            await asyncio.gather(*(music.put_item(Item=song) for song in songs(20)))
            assert len([song async for song in music.scan_items()]) == 20
            assert len([change async for change in music.changes()]) == 20
            with pytest.raises(errors.ConditionalCheckFailedException):
                await music.put_item(
                    Item=songs(1)[0], ConditionExpression=Attr("Artist").not_exists()
                )
            with pytest.raises(errors.Error, match="needs a database directory"):
                await db.stats()

    with memory_database() as database, ServerThread(database) as server:
        asyncio.run(main(server.url))
