"""Commands that keep and bring back whole tables: backup, restore, recovery.

PATH is a database directory or the URL of an endpoint. A directory must not be open elsewhere: with
a server on it, give the server's URL.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynalsm.cli import output
from dynalsm.cli.data import JsonOption, PathArgument, TableArgument, open_for_writing

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.type_defs import BackupDetailsTypeDef, PointInTimeRecoverySpecificationTypeDef

TimeOption = Annotated[
    str | None, typer.Option(help="A moment: 2026-10-05T14:23:11 (UTC if nothing is said).")
]
POLL_SECONDS = 0.1


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (backup, restore, recovery):
        app.command()(command)


def backup(
    path: PathArgument,
    table: Annotated[str | None, typer.Argument(help="Table to back up; none: list.")] = None,
    name: Annotated[str, typer.Option(help="Name of the new backup.")] = "backup",
    delete: Annotated[str | None, typer.Option(help="Id or ARN of a backup to delete.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte of the backups that are listed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Back up a table, or list the backups."""
    with open_for_writing(path) as database:
        client = database.client
        if delete is not None:
            client.delete_backup(BackupArn=_arn_of(database, delete) or delete)
        elif table is not None:
            reply = client.create_backup(TableName=table, BackupName=name)
            arn = reply["BackupDetails"]["BackupArn"]
            described = _finished_backup(database, arn)
            output.print_json(described) if json else output.console.print(
                f"{arn}: {output.size_text(described['BackupSizeBytes'])}", soft_wrap=True
            )
        else:
            _list_backups(database, verify, json)


def _finished_backup(database: Database, arn: str) -> BackupDetailsTypeDef:
    while True:
        reply = database.client.describe_backup(BackupArn=arn)
        details = reply["BackupDescription"]["BackupDetails"]
        if details["BackupStatus"] != "CREATING":
            return details
        time.sleep(POLL_SECONDS)


def _list_backups(database: Database, verify: bool, json: bool) -> None:
    found = _all_backups(database)
    if verify:
        from dynalsm.model import backup as backups
        from dynalsm.model import backup_tables

        for summary in found:
            kept = backups.of(database)
            path = kept.path(summary["BackupArn"].rpartition("/")[2])
            with backup_tables.open_backup(path, kept.keys) as file:
                file.verify()
    if json:
        for summary in found:
            output.print_json(summary)
    elif found:
        rows = [
            (
                one["TableName"],
                one["BackupName"],
                one["BackupType"],
                f"{one['BackupCreationDateTime']:%Y-%m-%d %H:%M:%S}",
                output.size_text(one["BackupSizeBytes"]),
                one["BackupArn"].rpartition("/")[2],
            )
            for one in found
        ]
        output.print_grid(("Table", "Name", "Kind", "Made", "Size", "Id"), rows)
    else:
        output.console.print("no backups")


def _all_backups(database: Database) -> list[dict[str, Any]]:
    pages = database.client.get_paginator("list_backups").paginate(BackupType="ALL")
    return [summary for page in pages for summary in page["BackupSummaries"]]


def _arn_of(database: Database, text: str) -> str | None:
    """Return the ARN of a backup given by its ARN or id, None when there is no such id."""
    if text.startswith("arn:"):
        return text
    arns = (str(summary["BackupArn"]) for summary in _all_backups(database))
    return next((arn for arn in arns if arn.endswith(f"/backup/{text}")), None)


def restore(
    path: PathArgument,
    source: Annotated[str, typer.Argument(help="Id or path of a backup, or a table.")],
    target: Annotated[str, typer.Argument(help="Name of the new table.")],
    at: TimeOption = None,
    sequence_number: Annotated[
        int | None, typer.Option(help="A sequence number, as stream records have.")
    ] = None,
) -> None:
    """Make a new table of a backup, or of a moment of a table with point-in-time recovery."""
    with open_for_writing(path) as database:
        arn = _arn_of(database, source)
        if arn is not None:
            database.client.restore_table_from_backup(TargetTableName=target, BackupArn=arn)
        elif sequence_number is not None:
            _restore_to_number(database, source, target, sequence_number)
        elif _is_backup(source):
            from dynalsm.model import restore as restores

            _wait_for_job(restores.from_file(database, str(Path(source).resolve()), target))
        else:
            moment = {"UseLatestRestorableTime": True} if at is None else moment_of(at)
            database.client.restore_table_to_point_in_time(
                SourceTableName=source, TargetTableName=target, **moment
            )
        database.client.get_waiter("table_exists").wait(TableName=target)
        items = database.client.describe_table(TableName=target)["Table"]["ItemCount"]
    output.console.print(f"{target} restored: {int(items):,} items")


def _is_backup(path: str) -> bool:
    from dynalsm.model import backup_tables

    return backup_tables.is_backup(path)


def _restore_to_number(database: Database, source: str, target: str, number: int) -> None:
    from dynalsm.model import pitr
    from dynalsm.model import restore as restores

    handle = database.catalog.get(source)
    if handle is None:
        raise ValueError(f"there is no table {source}")
    # Streams write the engine's number with a 1 and zeros before it, 21 digits in all.
    seqno = int(str(number)[1:]) if len(str(number)) == 21 else number
    try:
        _wait_for_job(restores.to_seqno(database, handle, target, seqno))
    except pitr.NotRestorable:
        raise ValueError(
            f"{source} cannot be restored to {number}: point-in-time recovery does not reach it"
        ) from None


def _wait_for_job(job: Any) -> None:
    job.done.wait()
    if job.error is not None:
        raise job.error


def moment_of(text: str) -> dict[str, Any]:
    """Return RestoreDateTime of a moment as people write it. Raises: ValueError."""
    moment = datetime.fromisoformat(text)
    return {"RestoreDateTime": moment if moment.tzinfo else moment.replace(tzinfo=UTC)}


def recovery(
    path: PathArgument,
    table: TableArgument,
    on: Annotated[
        bool | None, typer.Option("--on/--off", help="Turn it on or off; neither: show it.")
    ] = None,
    days: Annotated[int | None, typer.Option(help="How far back, 1 to 35 days.")] = None,
) -> None:
    """Show or change the point-in-time recovery of a table."""
    with open_for_writing(path) as database:
        if on is not None or days is not None:
            wanted: PointInTimeRecoverySpecificationTypeDef = {
                "PointInTimeRecoveryEnabled": on is not False
            }
            if days is not None:
                wanted["RecoveryPeriodInDays"] = days
            database.client.update_continuous_backups(
                TableName=table, PointInTimeRecoverySpecification=wanted
            )
        reply = database.client.describe_continuous_backups(TableName=table)
    shown = reply["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    text = f"{table}: {shown['PointInTimeRecoveryStatus']}"
    if "EarliestRestorableDateTime" in shown:
        earliest, latest = shown["EarliestRestorableDateTime"], shown["LatestRestorableDateTime"]
        text += f", from {earliest:%Y-%m-%d %H:%M:%S} to {latest:%Y-%m-%d %H:%M:%S}"
    output.console.print(text)
