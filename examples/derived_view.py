"""A consumer of the change stream that keeps a view: how many songs each genre has.

The view and the place in the stream are written in one transaction, so a consumer that dies between
two changes counts nothing twice and forgets nothing: the next one goes on from what is stored.

Run it:  python examples/derived_view.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import dynalsm

CONSUMER = "genre-counts"


def create(db: dynalsm.Database) -> None:
    """Make the table of songs with its stream, and the table of the view."""
    for name, key, stream in (("Songs", "Title", True), ("Genres", "Genre", False)):
        db.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            **(
                {"StreamSpecification": {
                    "StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
                if stream else {}
            ),
        )  # fmt: skip


def consume(db: dynalsm.Database, limit_changes: int | None = None) -> int:
    """Bring the view up to date; returns how many changes that took."""
    place = db.Table("Genres").get_item(Key={"Genre": f"#{CONSUMER}"}, ConsistentRead=True)
    start = place.get("Item", {}).get("At", "TRIM_HORIZON")
    count = 0
    # follow_seconds=None would wait for more, for ever: that is what a service does.
    for change in db.Table("Songs").changes(start=start):
        if count == limit_changes:
            break
        _apply(db, change, start)
        start = change.sequence_number
        count += 1
    return count


def _apply(db: dynalsm.Database, change: dynalsm.Change, expected: str) -> None:
    old = (change.old_image or {}).get("Genre")
    new = (change.new_image or {}).get("Genre")
    steps = [_add(genre, by) for genre, by in ((old, -1), (new, 1)) if genre and old != new]
    db.client.transact_write_items(TransactItems=[*steps, _move(change.sequence_number, expected)])


def _add(genre: str, by: int) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": "Genres",
            "Key": {"Genre": {"S": genre}},
            "UpdateExpression": "ADD Songs :by",
            "ExpressionAttributeValues": {":by": {"N": str(by)}},
        }
    }


def _move(to: str, expected: str) -> dict[str, Any]:
    """The place in the stream moves only from where this consumer believes it to be."""
    is_first = expected == "TRIM_HORIZON"
    return {
        "Update": {
            "TableName": "Genres",
            "Key": {"Genre": {"S": f"#{CONSUMER}"}},
            "UpdateExpression": "SET #at = :to",
            "ConditionExpression": "attribute_not_exists(#at)" if is_first else "#at = :old",
            "ExpressionAttributeNames": {"#at": "At"},
            "ExpressionAttributeValues": {
                ":to": {"S": to}, **({} if is_first else {":old": {"S": expected}}),
            },
        }
    }  # fmt: skip


def view(db: dynalsm.Database) -> dict[str, int]:
    """Return the view."""
    items: Iterable[dict[str, Any]] = db.Table("Genres").scan_items()
    return {one["Genre"]: int(one["Songs"]) for one in items if "Songs" in one}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with dynalsm.open(f"{directory}/music.db") as db:
            create(db)
            songs = db.Table("Songs")
            for number in range(30):
                genre = ("Rock", "Jazz", "Folk")[number % 3]
                songs.put_item(Item={"Title": f"Song {number}", "Genre": genre})
            print("changes:", consume(db, limit_changes=17), "then the consumer stops")
        with dynalsm.open(f"{directory}/music.db") as db:
            songs = db.Table("Songs")
            songs.put_item(Item={"Title": "Song 0", "Genre": "Jazz"})
            songs.delete_item(Key={"Title": "Song 1"})
            print("changes:", consume(db), "after a restart")
            print("view:", view(db))
            assert view(db) == {"Rock": 9, "Jazz": 10, "Folk": 10}
            assert consume(db) == 0


if __name__ == "__main__":
    main()
