"""`dynalsm demo`: the whole database in one run, on real data.

Creates five tables, loads some 36,000 items, asks, changes, follows the stream, closes, opens again
and compares every item with its source. Each step prints what it did and how long it took. A
result that is not what it must be ends the demo with exit code 1.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynalsm import errors
from dynalsm.cli import demo_data, keys, output

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.resource import Table
    from dynalsm.type_defs import AttributeValueTypeDef

COUNTER_THREADS = 4
COUNTER_TIMES = 50  # each
console = output.console


def add_commands(app: typer.Typer) -> None:
    """Add demo."""
    app.command()(demo)


def demo(
    path: Annotated[
        Path | None,
        typer.Argument(help="Keep the database in this directory; else it is removed at the end."),
    ] = None,
) -> None:
    """Show the database at work on the cities of the world and a discussion forum."""
    if path is not None:
        Demo(path).run()
        console.print(f"\nThe database stays in {path}: try [bold]dynalsm tables {path}[/]")
        return
    with tempfile.TemporaryDirectory(prefix="dynalsm-demo-") as directory:
        Demo(Path(directory) / "demo.db").run()
    console.print("\nThe directory was removed; [bold]dynalsm demo PATH[/] keeps it.")


class DemoFailure(errors.Error):
    """A step did not give what it must give."""


class Demo:
    """One run. The methods are the steps, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.timings: list[tuple[str, float]] = []
        self.cities = demo_data.cities()
        self.database: Database

    def run(self) -> None:
        """Run every step and print the times."""
        import dynalsm

        console.rule(f"dynalsm demo in {self.path}")
        with self.step("open the directory"):
            self.database = dynalsm.open(self.path, **keys.options())
        try:
            self.refuse_a_used_directory()
            self.load()
            self.ask()
            self.change()
            self.follow_the_stream()
        finally:
            with self.step("close"):
                self.database.close()
        with self.step("open again"):
            self.database = dynalsm.open(self.path, **keys.options())
        try:
            self.check_everything()
            self.show_files()
        finally:
            self.database.close()
        output.print_grid(
            ("Step", "Time"),
            [(name, output.duration_text(seconds)) for name, seconds in self.timings],
            "Time of each step",
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step and print it when it has worked."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.timings.append((name, seconds))
        duration = output.duration_text(seconds)
        console.print(f"[green]✓[/] {name} [dim]({duration})[/]", soft_wrap=True)

    def expect(self, found: Any, wanted: Any, what: str) -> None:
        """Stop the demo when a result is wrong."""
        if found != wanted:
            raise DemoFailure(f"{what}: expected {wanted!r}, found {found!r}")

    def table(self, name: str) -> Table:
        """Return a table of the open database."""
        return self.database.Table(name)

    def refuse_a_used_directory(self) -> None:
        """Do not write into a database that has the demo's tables already."""
        present = {table.name for table in self.database.tables}
        taken = sorted(present & {request["TableName"] for request in demo_data.TABLES})
        if taken:
            raise ValueError(
                f"{self.path} already has the tables {', '.join(taken)}: give another directory"
            )

    # --- loading ----------------------------------------------------------------------------

    def load(self) -> None:
        """Create the tables and write all items."""
        with self.step(f"create {len(demo_data.TABLES)} tables with 4 indexes and a stream"):
            for request in demo_data.TABLES:
                self.database.create_table(**request)
        self.fill("City", self.cities)
        self.fill("Follow", demo_data.follows())
        with self.step("load the forum"):
            for name, items in (
                ("Forum", demo_data.forums()),
                ("Thread", demo_data.threads()),
                ("Reply", demo_data.replies()),
            ):
                with self.table(name).batch_writer() as batch:
                    for item in items:
                        batch.put_item(Item=item)

    def fill(self, name: str, items: list[dict[str, Any]]) -> None:
        """Load a table with a progress bar."""
        from rich.progress import Progress

        with (
            self.step(f"load {len(items):,} items into {name}, each batch of 25 on disk"),
            Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
            self.table(name).batch_writer() as batch,
        ):
            for item in progress.track(items, description=f"loading {name}"):
                batch.put_item(Item=item)

    # --- questions --------------------------------------------------------------------------

    def ask(self) -> None:
        """Query tables and indexes in both directions, and scan with a filter."""
        self.ask_the_forum()
        self.ask_for_cities()
        self.ask_for_followers()
        with self.step("scan City with a filter: capitals above 60 degrees north"):
            found = list(
                self.table("City").scan_items(
                    FilterExpression="IsCapital = :yes AND #l.Latitude > :north",
                    ExpressionAttributeNames={"#l": "Location"},
                    ExpressionAttributeValues={":yes": True, ":north": 60},
                )
            )
        output.print_items(
            [{"Name": one["Name"], "Latitude": one["Location"]["Latitude"]} for one in found],
            ("Name",),
        )
        self.expect(bool(found), True, "capitals in the north")

    def ask_the_forum(self) -> None:
        """Threads of a forum; replies between two dates, oldest and newest first."""
        from dynalsm.conditions import Key

        with self.step(f"query the threads of the forum {demo_data.FORUM}"):
            found = self.table("Thread").query(
                KeyConditionExpression=Key("ForumName").eq(demo_data.FORUM)
            )["Items"]
        output.print_items(
            [{"Subject": one["Subject"], "Tags": one["Tags"]} for one in found], ("Subject",)
        )
        self.expect(len(found), 3, "threads of the forum")
        condition = Key("Id").eq(demo_data.REPLY_ID) & Key("ReplyDateTime").between(
            "2011-12-15T00:00:00.000Z", "2011-12-31T00:00:00.000Z"
        )
        replies = self.table("Reply")
        with self.step("query the replies between 15 and 31 December 2011, both ways"):
            forward = replies.query(KeyConditionExpression=condition)["Items"]
            backward = replies.query(KeyConditionExpression=condition, ScanIndexForward=False)
        self.expect(forward, backward["Items"][::-1], "replies newest first")
        output.print_items(backward["Items"][:3], ("ReplyDateTime", "PostedBy", "Message"))
        with self.step("query the replies of one author through the local index PostedBy-Index"):
            mine = replies.query(
                IndexName="PostedBy-Index",
                KeyConditionExpression=Key("Id").eq(demo_data.REPLY_ID) & Key("PostedBy").eq("Ada"),
            )
        self.expect(mine["Count"], demo_data.REPLIES // 3, "replies of Ada")

    def ask_for_cities(self) -> None:
        """The largest cities of a country (LSI) and of a time zone (GSI)."""
        from dynalsm.conditions import Key

        with self.step("query the largest cities of Brazil through the local index ByPopulation"):
            found = self.table("City").query(
                IndexName="ByPopulation",
                KeyConditionExpression=Key("Country").eq("BR") & Key("Population").gt(0),
                ScanIndexForward=False,
                Limit=5,
            )["Items"]
        output.print_items(found, ("Name", "Population", "Country"))
        wanted = sorted(
            (one["Population"] for one in self.cities if one["Country"] == "BR"), reverse=True
        )
        self.expect([one["Population"] for one in found], wanted[:5], "cities of Brazil")
        zone = "Europe/Paris"
        with self.step(f"query the cities of {zone} through the global index ByTimeZone"):
            found = list(
                self.table("City").query_items(
                    IndexName="ByTimeZone",
                    KeyConditionExpression=Key("TimeZone").eq(zone),
                    ScanIndexForward=False,
                )
            )
        output.print_items(found[:5], ("Name", "Population", "Country"))
        self.expect(
            len(found), sum(one["TimeZone"] == zone for one in self.cities), f"cities of {zone}"
        )

    def ask_for_followers(self) -> None:
        """A many-to-many relation from both ends, through the inverted index."""
        from dynalsm.conditions import Key

        edges = demo_data.follows()
        follow = self.table("Follow")
        with self.step("query whom Ada follows, and (inverted index) who follows Ada"):
            followees = follow.query(KeyConditionExpression=Key("Follower").eq("Ada"))["Items"]
            followers = follow.query(
                IndexName="Inverted", KeyConditionExpression=Key("Followee").eq("Ada")
            )["Items"]
        followee_names = ", ".join(one["Followee"] for one in followees)
        follower_names = ", ".join(one["Follower"] for one in followers)
        console.print(f"  Ada follows {followee_names}", soft_wrap=True)
        console.print(f"  Ada is followed by {follower_names}", soft_wrap=True)
        self.expect(
            len(followees), sum(one["Follower"] == "Ada" for one in edges), "followees of Ada"
        )
        self.expect(
            len(followers), sum(one["Followee"] == "Ada" for one in edges), "followers of Ada"
        )

    # --- changes ----------------------------------------------------------------------------

    def change(self) -> None:
        """Conditional update, atomic counter, and two transactions."""
        thread = self.table("Thread")
        key = {"ForumName": demo_data.FORUM, "Subject": demo_data.THREAD}
        answer: dict[str, Any] = {
            "Key": key,
            "UpdateExpression": "SET Answered = :yes",
            "ConditionExpression": "Answered = :no",
            "ExpressionAttributeValues": {":yes": True, ":no": False},
        }
        with self.step("update on a condition: the second time it does not hold"):
            thread.update_item(**answer)
            try:
                thread.update_item(**answer)
            except errors.API_ERRORS["ConditionalCheckFailedException"] as refusal:
                console.print(f"  {refusal}", style="dim", soft_wrap=True)
            else:
                raise DemoFailure("the second conditional update was accepted")
        with self.step(f"count in {COUNTER_THREADS} threads, {COUNTER_TIMES} times each"):
            self.count_views(thread, key)
        found = thread.get_item(Key=key, ConsistentRead=True)["Item"]
        self.expect(found["Views"], COUNTER_THREADS * COUNTER_TIMES, "the atomic counter")
        self.transactions()

    def count_views(self, thread: Table, key: dict[str, Any]) -> None:
        """Add to one counter from several threads at once."""

        def add() -> None:
            for _ in range(COUNTER_TIMES):
                thread.update_item(
                    Key=key,
                    UpdateExpression="ADD #v :one",
                    ExpressionAttributeNames={"#v": "Views"},
                    ExpressionAttributeValues={":one": 1},
                )

        workers = [threading.Thread(target=add) for _ in range(COUNTER_THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def transactions(self) -> None:
        """Post a reply and count it in one transaction: to no thread, then to a real one."""
        posted = "2012-01-01T00:00:00.000Z"
        reply = {"Id": demo_data.REPLY_ID, "ReplyDateTime": posted}
        with self.step("transaction on a thread that does not exist: nothing of it happens"):
            try:
                self.post("No such thread", posted)
            except errors.TransactionCanceledException as refusal:
                reasons = [one["Code"] for one in refusal.members["CancellationReasons"]]
                console.print(f"  cancelled: {', '.join(reasons)}", style="dim")
            else:
                raise DemoFailure("the transaction was accepted")
        self.expect("Item" in self.table("Reply").get_item(Key=reply), False, "the refused reply")
        with self.step("transaction on a real thread: reply, thread and forum change together"):
            self.post(demo_data.THREAD, posted)
        self.expect("Item" in self.table("Reply").get_item(Key=reply), True, "the new reply")
        forum = self.table("Forum").get_item(Key={"Name": demo_data.FORUM})["Item"]
        self.expect(forum["Messages"], demo_data.REPLIES + 1, "messages of the forum")

    def post(self, subject: str, posted: str) -> None:
        """Write a reply and both counters, if the thread exists."""
        one: dict[str, AttributeValueTypeDef] = {":one": {"N": "1"}}
        self.database.client.transact_write_items(
            TransactItems=[
                {
                    "Put": {
                        "TableName": "Reply",
                        "Item": {
                            "Id": {"S": demo_data.REPLY_ID},
                            "ReplyDateTime": {"S": posted},
                            "PostedBy": {"S": "Grace"},
                            "Message": {"S": "Happy new year"},
                        },
                        "ConditionExpression": "attribute_not_exists(Id)",
                    }
                },
                {
                    "Update": {
                        "TableName": "Thread",
                        "Key": {"ForumName": {"S": demo_data.FORUM}, "Subject": {"S": subject}},
                        "UpdateExpression": "SET LastPostedBy = :who ADD Replies :one",
                        "ConditionExpression": "attribute_exists(Subject)",
                        "ExpressionAttributeValues": {**one, ":who": {"S": "Grace"}},
                    }
                },
                {
                    "Update": {
                        "TableName": "Forum",
                        "Key": {"Name": {"S": demo_data.FORUM}},
                        "UpdateExpression": "ADD Messages :one",
                        "ExpressionAttributeValues": one,
                    }
                },
            ]
        )

    def follow_the_stream(self) -> None:
        """Read what happened to the threads, from the beginning."""
        with self.step("read the change stream of Thread"):
            changes = list(self.table("Thread").changes(start="TRIM_HORIZON"))
        # 4 threads loaded, 1 answered, the counter, 1 transaction.
        self.expect(len(changes), 4 + 1 + COUNTER_THREADS * COUNTER_TIMES + 1, "stream records")
        last = changes[-1]
        assert last.old_image is not None and last.new_image is not None
        console.print(
            f"  {len(changes)} records; the last: {last.event_name} {last.keys['Subject']}, "
            f"Replies {last.old_image['Replies']} → {last.new_image['Replies']}"
        )

    # --- after opening again ----------------------------------------------------------------

    def check_everything(self) -> None:
        """Compare what is on disk with the source, item by item."""
        with self.step(f"read everything back and compare {len(self.cities):,} cities"):
            found = {(one["Country"], one["Place"]): one for one in self.table("City").scan_items()}
            wanted = {(one["Country"], one["Place"]): one for one in self.cities}
            self.expect(found.keys() == wanted.keys(), True, "the keys of all cities")
            for key, city in wanted.items():
                if found[key] != city:
                    raise DemoFailure(f"{key} came back different: {found[key]!r}")
        for name, count in (
            ("Follow", len(demo_data.follows())),
            ("Forum", 2),
            ("Thread", 4),
            ("Reply", demo_data.REPLIES + 3),
        ):
            self.expect(self.table(name).scan(Select="COUNT")["Count"], count, f"items in {name}")
        thread_key = {"ForumName": demo_data.FORUM, "Subject": demo_data.THREAD}
        thread = self.table("Thread").get_item(Key=thread_key)["Item"]
        self.expect(thread["Views"], COUNTER_THREADS * COUNTER_TIMES, "the counter")
        self.expect(thread["LastPostedBy"], "Grace", "the transaction")

    def show_files(self) -> None:
        """Print the partitions of the city table and the directory's size."""
        with self.step("flush everything to partition files"):
            self.database.flush()
        rows = [
            (
                f"{part['lower'] >> 48:04x} – {(part['upper'] - 1) >> 48:04x}",
                len(part["files"]),
                output.size_text(part["bytes"]),
                ", ".join(_file_name(file) for file in part["files"]),
            )
            for part in self.partitions("City")
        ]
        output.print_grid(
            ("Hash range", "Files", "Size", "Names"), rows, "Partitions of the table City"
        )
        size_bytes = sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
        console.print(f"The whole directory: {output.size_text(size_bytes)}")

    def partitions(self, name: str) -> list[dict[str, Any]]:
        """Return the engine's description of a table's partitions."""
        handle = self.database.catalog.get(name)
        if handle is None:
            raise DemoFailure(f"the table {name} is gone")
        found: list[dict[str, Any]] = handle.tree.partitions()
        return found


def _file_name(file: Any) -> str:
    name = file.get("name", file.get("path", "")) if isinstance(file, dict) else file
    return Path(str(name)).name
