"""OPERATIONS: the 66 operations by name, and the decorator that supplies their functions.

An operation's module is imported when the operation is first called, so opening a database does
not import what it never uses. Registration happens under the import lock; afterwards the table
only changes from "not loaded" to "loaded", so any thread may read it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from dynalsm import errors

Request = Mapping[str, Any]
Reply = dict[str, Any]
# (database, request, form) -> reply; see the docstring of dynalsm.api.
Function = Callable[[Any, Any, Any], Reply]

MODULES: dict[str, str] = {
    "items": "PutItem GetItem UpdateItem DeleteItem",
    "batch": "BatchGetItem BatchWriteItem",
    "query": "Query Scan",
    "transact": "TransactGetItems TransactWriteItems",
    "search": "SearchVectors",
    "statements": "ExecuteStatement",
    "statement_batches": "BatchExecuteStatement ExecuteTransaction",
    "tables": "CreateTable DescribeTable UpdateTable DeleteTable ListTables",
    "settings": "DescribeLimits DescribeEndpoints DescribeTimeToLive UpdateTimeToLive TagResource "
    "UntagResource ListTagsOfResource PutResourcePolicy GetResourcePolicy DeleteResourcePolicy",
    "insights": "UpdateContributorInsights DescribeContributorInsights ListContributorInsights "
    "EnableKinesisStreamingDestination DisableKinesisStreamingDestination "
    "DescribeKinesisStreamingDestination UpdateKinesisStreamingDestination",
    "replication": "CreateGlobalTable DescribeGlobalTable DescribeGlobalTableSettings "
    "ListGlobalTables UpdateGlobalTable UpdateGlobalTableSettings "
    "DescribeTableReplicaAutoScaling UpdateTableReplicaAutoScaling",
    "backups": "CreateBackup DescribeBackup ListBackups DeleteBackup DescribeContinuousBackups "
    "UpdateContinuousBackups",
    "restores": "RestoreTableFromBackup RestoreTableToPointInTime",
    "transfers": "ExportTableToPointInTime DescribeExport ListExports ImportTable DescribeImport "
    "ListImports",
    "bulk": "StartBulkPutItems DescribeBulkOperation ListBulkOperations CancelBulkOperation",
    "streams": "ListStreams DescribeStream GetShardIterator GetRecords",
}


class Operation:
    """One operation: its name, the module it lives in, and its function once loaded."""

    __slots__ = ("function", "module", "name", "straight")

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self.module = module
        self.function: Function | None = None
        # Answers what is beyond doubt valid, before any check; None: the long way (straight.pyx).
        self.straight: Callable[[Any, Any, Any], Reply | None] | None = None

    def load(self) -> Function:
        """Import the module and return the function.

        Raises: UnknownOperationException while nothing implements the operation.
        """
        if self.function is None:
            module = f"dynalsm.api.{self.module}"
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        if self.function is None:
            raise errors.UnknownOperationException(f"{self.name} is not implemented")
        return self.function


OPERATIONS: dict[str, Operation] = {
    name: Operation(name, module) for module, names in MODULES.items() for name in names.split()
}


def operation(
    name: str, straight: Callable[[Any, Any, Any], Reply | None] | None = None
) -> Callable[[Function], Function]:
    """Register the decorated `(database, request, form) -> reply` as operation `name`."""

    def register(function: Function) -> Function:
        OPERATIONS[name].straight = straight
        OPERATIONS[name].function = function
        return function

    return register
