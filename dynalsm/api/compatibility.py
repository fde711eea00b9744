"""How each operation is done here: the data behind the table in docs/compatibility.md.

    python -m dynalsm.api.compatibility          print the table
    python -m dynalsm.api.compatibility FILE     put it between the markers in FILE

tests/api/test_compatibility.py fails when an operation of the installed botocore has no entry here,
or when the page and this file differ. Pure data and text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from dynalsm.api.registry import MODULES, OPERATIONS

SAME: Final = "same"  # the same requests, answers and errors
LOCAL: Final = "local"  # the same answers, with something of one machine in place of AWS's
KEPT: Final = "kept"  # settings are checked, kept and shown; nothing else follows from them
REFUSED: Final = "refused"  # an error that says so

BEGIN, END = "<!-- operations: begin -->", "<!-- operations: end -->"

# Operation -> how it is done, and what is different when that needs a word.
DONE_AS: Final[dict[str, tuple[str, str]]] = {
    "PutItem": (SAME, ""),
    "GetItem": (SAME, "every read is up to date; ConsistentRead also waits for the disk"),
    "UpdateItem": (SAME, ""),
    "DeleteItem": (SAME, ""),
    "BatchGetItem": (SAME, ""),
    "BatchWriteItem": (SAME, "the whole batch is one commit"),
    "Query": (SAME, "a page is of one moment"),
    "Scan": (SAME, "a page is of one moment; the order of partitions is another than on AWS"),
    "TransactGetItems": (SAME, ""),
    "TransactWriteItems": (SAME, "waits up to 10 s for items of another transaction"),
    "SearchVectors": (SAME, "equal scores come in the order of the primary key"),
    "ExecuteStatement": (SAME, ""),
    "BatchExecuteStatement": (SAME, ""),
    "ExecuteTransaction": (SAME, ""),
    "CreateTable": (
        SAME,
        "CREATING in the reply, ACTIVE in the next call, or after `table_delay_seconds`; replicas "
        "are refused",
    ),
    "DescribeTable": (SAME, "item counts and sizes are live"),
    "UpdateTable": (SAME, "UPDATING in the reply, ACTIVE in the next call; replicas are refused"),
    "DeleteTable": (SAME, "DELETING in the reply, gone in the next or after `table_delay_seconds`"),
    "ListTables": (SAME, ""),
    "DescribeLimits": (SAME, ""),
    "DescribeEndpoints": (SAME, "the server's own address"),
    "DescribeTimeToLive": (SAME, ""),
    "UpdateTimeToLive": (SAME, "items go within seconds; changes may follow each other at once"),
    "TagResource": (SAME, ""),
    "UntagResource": (SAME, ""),
    "ListTagsOfResource": (SAME, "all on one page"),
    "PutResourcePolicy": (KEPT, "there are no principals to hold a policy against"),
    "GetResourcePolicy": (KEPT, ""),
    "DeleteResourcePolicy": (KEPT, ""),
    "CreateBackup": (LOCAL, "a directory of hard links in the database's own"),
    "DescribeBackup": (LOCAL, ""),
    "ListBackups": (LOCAL, ""),
    "DeleteBackup": (LOCAL, ""),
    "RestoreTableFromBackup": (LOCAL, ""),
    "DescribeContinuousBackups": (LOCAL, ""),
    "UpdateContinuousBackups": (LOCAL, "the changelog is kept for the window"),
    "RestoreTableToPointInTime": (LOCAL, "up to now, not to five minutes ago"),
    "ExportTableToPointInTime": (LOCAL, "a bucket is a directory under bucket_root"),
    "DescribeExport": (LOCAL, ""),
    "ListExports": (LOCAL, ""),
    "ImportTable": (LOCAL, "a bucket is a directory under bucket_root"),
    "DescribeImport": (LOCAL, ""),
    "ListImports": (LOCAL, ""),
    "StartBulkPutItems": (LOCAL, "a bucket is a directory under bucket_root"),
    "DescribeBulkOperation": (LOCAL, ""),
    "ListBulkOperations": (LOCAL, ""),
    "CancelBulkOperation": (LOCAL, ""),
    "UpdateContributorInsights": (LOCAL, "db.hot_keys() and TopContributors, not CloudWatch"),
    "DescribeContributorInsights": (LOCAL, "TopContributors shows the keys of the last hours"),
    "ListContributorInsights": (SAME, ""),
    "EnableKinesisStreamingDestination": (LOCAL, "JSON lines in the file of kinesis_sinks"),
    "DisableKinesisStreamingDestination": (LOCAL, ""),
    "DescribeKinesisStreamingDestination": (LOCAL, ""),
    "UpdateKinesisStreamingDestination": (LOCAL, ""),
    "CreateGlobalTable": (REFUSED, "as AWS refuses version 2017.11.29 by now"),
    "DescribeGlobalTable": (REFUSED, "there is none"),
    "DescribeGlobalTableSettings": (REFUSED, "there is none"),
    "ListGlobalTables": (SAME, "there are none"),
    "UpdateGlobalTable": (REFUSED, "one machine has no replicas"),
    "UpdateGlobalTableSettings": (REFUSED, "there is none"),
    "DescribeTableReplicaAutoScaling": (KEPT, "this region alone"),
    "UpdateTableReplicaAutoScaling": (KEPT, "nothing scales, because nothing has to"),
    "ListStreams": (SAME, ""),
    "DescribeStream": (SAME, "four shards at the beginning, more as the table grows"),
    "GetShardIterator": (SAME, ""),
    "GetRecords": (SAME, ""),
}


def table() -> str:
    """Return the Markdown table of all operations, in the order of the registry."""
    lines = ["| operation | done as | what it does here |", "| --- | --- | --- |"]
    for name in (name for names in MODULES.values() for name in names.split()):
        kind, note = DONE_AS[name]
        does = (OPERATIONS[name].load().__doc__ or "").partition("\n")[0]
        lines.append(f"| {name} | {kind} | {does}{f' *{_sentence(note)}*' if note else ''} |")
    return "\n".join(lines)


def _sentence(note: str) -> str:
    return note[0].upper() + note[1:] + "."


def with_table(page: str) -> str:
    """Return the text of a page with the table between its markers. Raises: ValueError."""
    head, found, rest = page.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def main(arguments: list[str]) -> None:
    """Print the table, or put it into a file."""
    if not arguments:
        print(table())
        return
    path = Path(arguments[0])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
