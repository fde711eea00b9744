"""The DynamoDB API: one function per operation behind one door, `dispatch`.

How an operation is written (in the module that registry.MODULES names for it)::

    from dynalsm.api.registry import operation

    @operation("GetItem")
    def get_item(database, request, form):
        table = names.data_table(database, request["TableName"])   # TableHandle, or RNF
        ...
        return {"Item": form.decode_item(encoded)}

- `request` has passed validate.py: every member has the right type, length, range, enum value and
  pattern, table names are well formed, and required members are there. It is the caller's dict:
  never change it. A member that is None counts as absent, so read optional members with `.get`.
- Attribute values inside `request` are in `form` (values.forms: WIRE, JSON or NATIVE) and are
  untouched; encode them with `form.encode_value` / `form.encode_item` and answer with
  `form.decode_*`.
- Times in replies are epoch seconds as float; `shape_data.TIMESTAMPS` names the members, for the
  faces that show them as datetimes. Request times may be numbers or datetimes: `names.seconds`.
- Raise `errors.ValidationException(text)` and its siblings. What the layers below raise
  (refusals.PROBLEMS) may simply escape: `as_api_error` is the one place that translates it.
- `database` gives `.engine`, `.catalog` (model.catalog), `.settings` (model.settings),
  `.finish(seqno)` (wait until durable as configured).

StorageErrors pass through `dispatch` unchanged, so that an embedded caller sees the path and the
offset; the HTTP server answers them with `as_api_error`.

Thread safety: everything here may be called from any thread.
"""

from __future__ import annotations

from typing import Any

from dynalsm import errors
from dynalsm.api import messages, validate
from dynalsm.api.registry import OPERATIONS, Operation, operation
from dynalsm.values import SerializationProblem
from dynalsm.values.forms import JSON, NATIVE, WIRE

__all__ = ["OPERATIONS", "Operation", "as_api_error", "dispatch", "operation"]

# How often an operation begins again when a table or index is deleted under it.
ATTEMPTS = 3
_REPEATABLE = frozenset(
    "GetItem BatchGetItem TransactGetItems Query Scan SearchVectors PutItem UpdateItem DeleteItem "
    "BatchWriteItem TransactWriteItems ExecuteStatement ExecuteTransaction DescribeTable "
    "DescribeStream GetShardIterator GetRecords".split()
)
# Errors of layers behind the types of attribute values.
_LATER_ERRORS = frozenset({"ValidationException", "ResourceNotFoundException"})


def dispatch(database: Any, name: str, request: dict[str, Any], form: Any = None) -> dict[str, Any]:
    """Run operation `name` and return its reply.

    Attribute values are read and written in `form` (default: WIRE, typed dicts with bytes).
    Raises: ApiError; StorageError when the engine fails.
    """
    entry = OPERATIONS.get(name)
    if entry is None:
        raise errors.UnknownOperationException(operation=name)
    try:
        function = entry.function or entry.load()
        if entry.straight is not None:
            reply = entry.straight(database, request, form or WIRE)
            if reply is not None:
                return reply
        request = validate.validate(name, request, database.settings)
        return function(database, request, form or WIRE)
    except errors.TreeDroppedError as error:
        return _after_drop(database, name, request, form, error)
    except errors.CorruptionError as error:
        if error.path is not None or type(error) is not errors.CorruptionError:
            raise
        # An item or a record, and not a file: only here it is known what was asked for.
        table = request.get("TableName") if isinstance(request, dict) else None
        where = f"{name} of table {table}" if isinstance(table, str) else name
        raise errors.CorruptionError(f"{where}: {error}", path=database.path) from error
    except errors.StorageError:
        raise
    except Exception as error:
        translated = as_api_error(error, name, database.settings.wording)
        if translated is None:
            raise
        if translated.code in _LATER_ERRORS:
            translated = _types_first(translated, name, request, form or WIRE)
        translated.operation = name
        if translated is error:
            raise
        raise translated from error


def _after_drop(
    database: Any, name: str, request: dict[str, Any], form: Any, error: errors.TreeDroppedError
) -> dict[str, Any]:
    """Answer an operation whose table or index was deleted while it ran.

    It begins again, and then finds what there is by now: no table, no such index, or another table
    of that name. A write has not been committed: that is the last thing it does.
    """
    for _ in range(ATTEMPTS if name in _REPEATABLE else 0):
        try:
            checked = validate.validate(name, request, database.settings)
            return OPERATIONS[name].load()(database, checked, form or WIRE)
        except errors.TreeDroppedError as again:
            error = again
        except errors.StorageError:
            raise
        except Exception as problem:
            found = as_api_error(problem, name, database.settings.wording)
            if found is None:
                raise
            found.operation = name
            raise found from problem
    gone = as_api_error(error, name)
    assert gone is not None
    gone.operation = name
    raise gone from error


def _types_first(
    error: errors.ApiError, name: str, request: dict[str, Any], form: Any
) -> errors.ApiError:
    """Return the SerializationException that comes before `error`, if there is one."""
    if form is NATIVE:
        return error
    try:
        validate.check_value_types(name, request, is_json=form is JSON)
    except SerializationProblem as problem:
        return errors.SerializationException(str(problem))
    except errors.SerializationException as earlier:
        return earlier
    return error


def as_api_error(
    error: Exception, name: str = "", wording: str = "classic"
) -> errors.ApiError | None:
    """Return the API error that a client sees for `error`; None when it is a mistake of ours.

    `name` and `wording` decide between the texts that differ by operation and layer.
    """
    if isinstance(error, errors.ApiError):
        return error
    if isinstance(error, errors.TreeDroppedError):
        return errors.ResourceNotFoundException(messages.NOT_FOUND)
    if isinstance(error, errors.StorageError):
        return errors.InternalServerError(str(error))
    from dynalsm.api import refusals

    if isinstance(error, (*refusals.PROBLEMS, SerializationProblem)):
        return refusals.translate(name, wording, error)
    return None
