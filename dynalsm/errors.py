"""Every exception dynalsm raises, in one tree.

::

    Error
    ├── StorageError                  the engine: names the file, and the offset where there is one
    │   ├── CorruptionError           bytes on disk are not what was written
    │   ├── StorageIOError            the system refused a read or a write (also an OSError)
    │   │   └── NoSpaceError          the disk is full; writes work again after space is made
    │   ├── LockedError               another process holds the directory
    │   ├── ClosedError               database, snapshot or cursor is closed (also RuntimeError)
    │   ├── ReadOnlyError             a write through a read-only handle
    │   ├── PoisonedError             an fsync failed: no write until the database is reopened
    │   ├── ForkedProcessError        the handle was inherited through fork()
    │   ├── FormatError               no dynalsm database, or one written by a newer version
    │   ├── EncryptionError           a key is missing, wrong, or one too many
    │   └── StorageLimitError         a key, value or batch beyond the engine's limits
    └── ApiError                      a DynamoDB error: code, message and `.response` as in botocore
        ├── ValidationException, ResourceNotFoundException, ConditionalCheckFailedException, ...
        └── (one class per name in API_ERRORS)

Storage errors are raised by `dynalsm._core`; API errors by `dynalsm.api` and `dynalsm.model`.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The root of everything dynalsm raises on purpose."""


class StorageError(Error):
    """The storage engine could not do what was asked.

    `message` is the text without the place; `path` names the file or directory concerned, `offset`
    the byte in it; both may be None.
    """

    def __init__(
        self, message: str, *, path: str | None = None, offset: int | None = None
    ) -> None:
        where = ""
        if path is not None:
            where = f" [{path}" + (f" at byte {offset}" if offset is not None else "") + "]"
        super().__init__(message + where)
        self.message = message
        self.path = path
        self.offset = offset


class TreeDroppedError(StorageError):
    """The tree was dropped, before the call or while it read: it may have missed entries."""


class CorruptionError(StorageError):
    """Bytes on disk fail their checksum or contradict each other."""


class StorageIOError(StorageError, OSError):
    """The operating system refused a file operation; `errno` says why.

    `is_final`: a change failed (a write, a sync, a name), and not for something that passes, such
    as space or descriptors. The engine accepts no write after it (PoisonedError).
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        errno: int | None = None,
        is_final: bool = False,
    ) -> None:
        StorageError.__init__(self, message, path=path, offset=offset)
        self.errno = errno
        self.is_final = is_final


class NoSpaceError(StorageIOError):
    """The disk (or a quota) is full. Reads go on; writes work again after space is made."""


class LockedError(StorageError):
    """Another process has the database open for writing; `pid` is its process id when known."""

    def __init__(self, message: str, *, path: str | None = None, pid: int | None = None) -> None:
        super().__init__(message, path=path)
        self.pid = pid


class ClosedError(StorageError, RuntimeError):
    """The handle was used after close()."""


class ReadOnlyError(StorageError):
    """A write was tried through a read-only handle."""


class PoisonedError(StorageError):
    """An earlier fsync or write failed in a way that leaves the state of the disk unknown.

    Reads go on; every write is refused until the database is reopened
    (see "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    """


class ForkedProcessError(StorageError):
    """The handle was opened by a parent process; open the database again in this one."""


class FormatError(StorageError):
    """The directory holds no dynalsm database, or one that needs a newer version."""


class EncryptionError(StorageError):
    """The database is encrypted and the key is missing or wrong, or it is not and there is one.

    Nothing was changed.
    """


class StorageLimitError(StorageError, ValueError):
    """A key, value, name or batch is larger than the engine takes."""


# The namespace of each error name on the wire (reference 12; the part before "#" of "__type").
DYNAMODB_NAMESPACE = "com.amazonaws.dynamodb.v20120810"
SERVICE_NAMESPACE = "com.amazon.coral.service"
VALIDATE_NAMESPACE = "com.amazon.coral.validate"
AVAILABILITY_NAMESPACE = "com.amazon.coral.availability"


class ApiError(Error):
    """A DynamoDB error: `code`, `message`, HTTP `status`, and members beside the message.

    `response` has botocore's shape: {"Error": {"Code", "Message"}, "ResponseMetadata": {...}, ...}.
    """

    namespace = DYNAMODB_NAMESPACE
    status = 400
    # A few errors spell their text member "Message" on the wire (reference 12).
    message_member = "message"

    def __init__(self, message: str = "", operation: str = "", **members: Any) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.members = members

    @property
    def code(self) -> str:
        """The DynamoDB error name, e.g. "ValidationException"."""
        return type(self).__name__

    @property
    def response(self) -> dict[str, Any]:
        """The error in the shape of botocore's ClientError.response."""
        return {
            "Error": {"Code": self.code, "Message": self.message},
            "ResponseMetadata": {"HTTPStatusCode": self.status},
            **self.members,
        }

    def __str__(self) -> str:
        where = f" when calling the {self.operation} operation" if self.operation else ""
        return f"An error occurred ({self.code}){where}: {self.message}"


class ValidationException(ApiError):
    """A request breaks a rule."""

    namespace = VALIDATE_NAMESPACE


class SerializationException(ApiError):
    """A member of the request has the wrong JSON type."""

    namespace = SERVICE_NAMESPACE
    message_member = "Message"


class ThrottlingException(ApiError):
    """Throughput of an on-demand table was exceeded, or the control plane is busy."""

    namespace = AVAILABILITY_NAMESPACE


class InternalServerError(ApiError):
    """The storage engine failed underneath the operation."""

    status = 500


class TransactionCanceledException(ApiError):
    """A transaction was refused; `members["CancellationReasons"]` has one entry per action."""

    message_member = "Message"


class IdempotentParameterMismatchException(ApiError):
    """A client token was used again with other parameters."""

    message_member = "Message"


class TransactionInProgressException(ApiError):
    """The transaction with this token is still running."""

    message_member = "Message"


class AccessDeniedException(ApiError):
    """The caller may not touch this resource."""

    namespace = SERVICE_NAMESPACE
    message_member = "Message"


class UnknownOperationException(ApiError):
    """There is no such operation."""

    namespace = SERVICE_NAMESPACE


class MissingAuthenticationTokenException(ApiError):
    """The request is not signed."""

    namespace = SERVICE_NAMESPACE


class IncompleteSignatureException(ApiError):
    """The signature lacks a part."""

    namespace = SERVICE_NAMESPACE


class InvalidSignatureException(ApiError):
    """The signature does not match."""

    namespace = SERVICE_NAMESPACE


class UnrecognizedClientException(ApiError):
    """The access key is not known."""

    namespace = SERVICE_NAMESPACE


# Names that need nothing beyond the base class.
_PLAIN_NAMES = (
    "BackupInUseException BackupNotFoundException ConditionalCheckFailedException "
    "ContinuousBackupsUnavailableException DuplicateItemException ExpiredIteratorException "
    "ExportConflictException ExportNotFoundException GlobalTableAlreadyExistsException "
    "GlobalTableNotFoundException ImportConflictException ImportNotFoundException "
    "IndexNotFoundException InvalidEndpointException InvalidExportTimeException "
    "InvalidRestoreTimeException ItemCollectionSizeLimitExceededException LimitExceededException "
    "PointInTimeRecoveryUnavailableException PolicyNotFoundException "
    "ProvisionedThroughputExceededException ReplicaAlreadyExistsException "
    "ReplicaNotFoundException ReplicatedWriteConflictException RequestLimitExceeded "
    "ResourceInUseException ResourceNotFoundException TableAlreadyExistsException "
    "TableInUseException TableNotFoundException TransactionConflictException "
    "TrimmedDataAccessException"
).split()


def _plain(name: str) -> type[ApiError]:
    return type(name, (ApiError,), {"__doc__": f"DynamoDB's {name}.", "__module__": __name__})


API_ERRORS: dict[str, type[ApiError]] = {name: _plain(name) for name in _PLAIN_NAMES}
for _class in (
    ValidationException,
    SerializationException,
    ThrottlingException,
    InternalServerError,
    TransactionCanceledException,
    IdempotentParameterMismatchException,
    TransactionInProgressException,
    AccessDeniedException,
    UnknownOperationException,
    MissingAuthenticationTokenException,
    IncompleteSignatureException,
    InvalidSignatureException,
    UnrecognizedClientException,
):
    API_ERRORS[_class.__name__] = _class


def __getattr__(name: str) -> type[ApiError]:
    try:
        return API_ERRORS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
