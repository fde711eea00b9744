"""Measurements in one table a month; old months are archived and dropped whole.

Dropping a table gives its files back at once; deleting a million items would write a million
deletions. Within the present table, single measurements may expire by their time to live. An
archived month is files in the layout of DynamoDB's exports, and can be brought back by an import.

Run it:  python examples/time_series.py
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dynalsm
from dynalsm.conditions import Key
from dynalsm.model import exports
from dynalsm.model.buckets import Bucket


class Series:
    """Measurements by sensor and time, in tables named Measurements-2026-11 and so on."""

    def __init__(self, db: dynalsm.Database) -> None:
        self.db = db
        self._known = {table.name for table in db.tables}

    def table_of(self, at: datetime) -> dynalsm.Table:
        """Return the table of a moment; a new one where there is none."""
        name = f"Measurements-{at:%Y-%m}"
        if name not in self._known:
            self.db.create_table(
                TableName=name,
                KeySchema=[
                    {"AttributeName": "Sensor", "KeyType": "HASH"},
                    {"AttributeName": "At", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": "Sensor", "AttributeType": "S"},
                    {"AttributeName": "At", "AttributeType": "S"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
            self.db.client.update_time_to_live(
                TableName=name,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": "ExpiresAt"},
            )
            self._known.add(name)
        return self.db.Table(name)

    def add(self, sensor: str, at: datetime, value: int, keep: timedelta | None = None) -> None:
        """Write one measurement, for a while if asked."""
        item: dict[str, Any] = {"Sensor": sensor, "At": at.isoformat(), "Value": value}
        if keep is not None:
            item["ExpiresAt"] = int((at + keep).timestamp())
        self.table_of(at).put_item(Item=item)

    def between(self, sensor: str, start: datetime, end: datetime) -> list[dict[str, Any]]:
        """Return the measurements of a sensor from start to end, through all months between."""
        found = []
        month = start.replace(day=1)
        while month <= end:
            if f"Measurements-{month:%Y-%m}" in self._known:
                found += self.table_of(month).query_items(
                    KeyConditionExpression=Key("Sensor").eq(sensor)
                    & Key("At").between(start.isoformat(), end.isoformat())
                )
            month = (month + timedelta(days=32)).replace(day=1)
        return found

    def archive(self, at: datetime, directory: Path) -> int:
        """Export the month of a moment and drop its table; returns how many items it had."""
        name = f"Measurements-{at:%Y-%m}"
        handle = self.db.catalog.get(name)
        assert handle is not None
        directory.mkdir(parents=True, exist_ok=True)
        totals = exports.write_now(self.db, handle, Bucket(str(directory)), "DYNAMODB_JSON")
        self.db.Table(name).delete()
        self._known.discard(name)
        return totals.items


def wait_until_expired(table: dynalsm.Table, key: dict[str, Any]) -> None:
    """Wait until the sweep, once a second, has removed an item whose time is over."""
    deadline = time.monotonic() + 20
    while "Item" in table.get_item(Key=key):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        with dynalsm.open(path / "series.db", bucket_root=directory) as db:
            series = Series(db)
            now = datetime.now(UTC)
            this_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            start = (this_month - timedelta(days=1)).replace(day=20)
            times = [start + timedelta(hours=hour) for hour in range(24 * 15)]
            for hour, at in enumerate(times):
                series.add("cellar", at, hour)
            print("tables:", ", ".join(table.name for table in db.tables))
            # Both months are read, and nobody notices.
            found = series.between("cellar", times[200], times[320])
            assert [one["Value"] for one in found] == list(range(200, 321))
            series.add("attic", now, 0, keep=timedelta(hours=-1))
            wait_until_expired(series.table_of(now), {"Sensor": "attic", "At": now.isoformat()})
            print("the measurement whose time was over is gone")
            old = series.table_of(start)
            key_schema, definitions = old.key_schema, old.attribute_definitions
            archived = series.archive(start, path / "archive")
            print(f"{old.name}: {archived} items archived, the table dropped")
            assert archived == sum(at.month == start.month for at in times)
            db.client.import_table(
                S3BucketSource={"S3Bucket": "archive"},
                InputFormat="DYNAMODB_JSON",
                InputCompressionType="GZIP",
                TableCreationParameters={
                    "TableName": old.name,
                    "KeySchema": key_schema,
                    "AttributeDefinitions": definitions,
                    "BillingMode": "PAY_PER_REQUEST",
                },
            )
            old.wait_until_exists()
            again = len(list(old.scan_items()))
            print(f"and brought back: {again} items")
            assert again == archived


if __name__ == "__main__":
    main()
