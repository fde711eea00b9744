"""PynamoDB models on an embedded database: no server, no network, no change to the models.

Run it:  pip install pynamodb 'dynalsm[boto]' && python examples/pynamodb_models.py
"""

from __future__ import annotations

import tempfile

import pynamodb.connection.base
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import Model

import dynalsm


class ByYear(GlobalSecondaryIndex):
    class Meta:
        index_name = "ByYear"
        projection = AllProjection()

    genre = UnicodeAttribute(hash_key=True)
    year = NumberAttribute(range_key=True)


class Song(Model):
    class Meta:
        table_name = "Songs"
        region = "us-east-1"
        billing_mode = "PAY_PER_REQUEST"
        aws_access_key_id = aws_secret_access_key = "any"

    artist = UnicodeAttribute(hash_key=True)
    title = UnicodeAttribute(range_key=True)
    genre = UnicodeAttribute()
    year = NumberAttribute()
    tags = UnicodeSetAttribute(null=True)
    by_year = ByYear()


def use(db: dynalsm.Database) -> None:
    """Let PynamoDB make its clients from a session that runs on `db`."""
    session = dynalsm.boto3_session(db)._session  # botocore's, which is what PynamoDB asks for
    pynamodb.connection.base.get_session = lambda: session


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, dynalsm.open(f"{directory}/music.db") as db:
        use(db)
        Song.create_table(wait=True)
        with Song.batch_write() as batch:
            for number in range(50):
                batch.save(Song("a", f"Song {number:02d}", genre="Rock", year=1980 + number))
        song = Song.get("a", "Song 07")
        song.update(actions=[Song.tags.add({"live"})], condition=Song.year == 1987)
        found = [one.title for one in Song.by_year.query("Rock", Song.year.between(1985, 1989))]
        print(found)
        assert found == [f"Song {number:02d}" for number in range(5, 10)]
        assert db.Table("Songs").get_item(Key={"artist": "a", "title": "Song 07"})["Item"][
            "tags"
        ] == {"live"}


if __name__ == "__main__":
    main()
