"""Following a table's stream."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.changes import Change
from dynalsm.database import Database
from dynalsm.resource import Table
from tests.faces.conftest import MUSIC, fill


def write_three(music: Table) -> None:
    key = {"Artist": "a", "SongTitle": "t"}
    music.put_item(Item={**key, "Year": 1999})
    music.put_item(Item={**key, "Year": 2000})
    music.delete_item(Key=key)


def test_changes_in_order_with_plain_values(music: Table) -> None:
    write_three(music)
    key = {"Artist": "a", "SongTitle": "t"}
    first, second, third = music.changes()
    assert [one.event_name for one in (first, second, third)] == ["INSERT", "MODIFY", "REMOVE"]
    assert first.keys == key
    assert (first.old_image, first.new_image) == (None, {**key, "Year": Decimal(1999)})
    assert second.old_image == first.new_image
    assert (third.old_image, third.new_image) == (second.new_image, None)
    assert int(first.sequence_number) < int(second.sequence_number) < int(third.sequence_number)
    assert abs(first.created_seconds - time.time()) < 60
    assert not first.is_expiry
    assert first.record["eventSource"] == "aws:dynamodb"


def test_going_on_after_a_sequence_number(music: Table) -> None:
    fill(music, 30)
    seen = list(music.changes())
    assert len(seen) == 30
    rest = list(music.changes(start=seen[11].sequence_number))
    assert [one.sequence_number for one in rest] == [one.sequence_number for one in seen[12:]]
    assert list(music.changes(start=seen[-1].sequence_number)) == []


def test_records_of_all_shards_are_merged_by_sequence_number(music: Table) -> None:
    for number in range(200):
        music.put_item(Item={"Artist": f"artist {number}", "SongTitle": "t"})
    seen = [int(one.sequence_number) for one in music.changes()]
    assert len(seen) == 200
    assert seen == sorted(seen)


def test_latest_means_from_the_call_on(music: Table) -> None:
    write_three(music)
    changes = music.changes(start="LATEST")
    music.put_item(Item={"Artist": "new", "SongTitle": "t"})
    assert [one.keys["Artist"] for one in changes] == ["new"]


def test_a_follower_wakes_up_on_a_commit(music: Table) -> None:
    """Without polling: the change is there long before a poll interval would have passed."""
    found: list[Change] = []
    arrived = threading.Event()

    def follow() -> None:
        for change in music.changes(start="LATEST", follow_seconds=10):
            found.append(change)
            arrived.set()
            return

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.05)  # let it wait
    music.put_item(Item={"Artist": "new", "SongTitle": "t"})
    assert arrived.wait(2)
    follower.join()
    assert found[0].keys["Artist"] == "new"


def test_patience_ends(music: Table) -> None:
    started = time.monotonic()
    assert list(music.changes(follow_seconds=0.1)) == []
    assert 0.09 < time.monotonic() - started < 2


def test_close_wakes_a_waiting_follower(db: Database, music: Table) -> None:
    failure: list[Exception] = []

    def follow() -> None:
        try:
            list(music.changes(follow_seconds=None))
        except errors.ClosedError as error:
            failure.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.05)
    db.close()
    follower.join(5)
    assert not follower.is_alive()
    assert len(failure) == 1


def test_an_ended_stream_ends_the_loop(music: Table) -> None:
    write_three(music)
    music.update(StreamSpecification={"StreamEnabled": False})
    assert len(list(music.changes(follow_seconds=None))) == 3


def test_a_table_without_a_stream_says_how_to_get_one(db: Database) -> None:
    plain = {name: value for name, value in MUSIC.items() if name != "StreamSpecification"}
    table = db.create_table(**plain)
    with pytest.raises(errors.API_ERRORS["ResourceNotFoundException"], match="StreamSpecification"):
        table.changes()


@pytest.mark.parametrize("start", ["zzz", "", "1_0", "-5", "\uff11", 5, None, "9" * 60, "latest"])
def test_a_start_that_is_no_place_is_refused_at_once(music: Table, start: Any) -> None:
    with pytest.raises(errors.ValidationException, match="start is TRIM_HORIZON, LATEST or the"):
        music.changes(start=start)


def test_follow_seconds_are_a_number(music: Table) -> None:
    with pytest.raises(errors.ValidationException, match="follow_seconds is a number of seconds"):
        music.changes(follow_seconds="1")  # type: ignore[arg-type]
