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
- Raise `errors.ValidationException(text)` and its siblings. ExpressionError, KeyProblem and
  ValueProblem may also simply escape: `as_api_error` below is the one place that translates them
  (with the wording of an *item*; an operation whose texts differ catches them itself).
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

__all__ = ["OPERATIONS", "Operation", "as_api_error", "dispatch", "operation"]


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
        request = validate.validate(name, request, database.settings)
        return function(database, request, form or _wire())
    except errors.ApiError as error:
        error.operation = name
        raise
    except errors.StorageError:
        raise
    except Exception as error:
        translated = as_api_error(error)
        if translated is None:
            raise
        translated.operation = name
        raise translated from error


def as_api_error(error: Exception) -> errors.ApiError | None:
    """Return the API error that a client sees for `error`; None when it is a mistake of ours."""
    if isinstance(error, errors.ApiError):
        return error
    if isinstance(error, errors.StorageError):
        return errors.InternalServerError(str(error))
    translate = _TRANSLATORS.get(type(error).__name__)
    return translate(error) if translate else None


def _wire() -> Any:
    from dynalsm.values.forms import WIRE

    return WIRE


def _key_problem(error: Any) -> errors.ApiError:
    kind, name = error.kind, error.attribute
    if kind == "missing":
        text = messages.key_missing(name)
    elif kind == "type":
        text = messages.key_type(name, error.expected, error.actual)
    elif kind == "empty":
        text = messages.key_empty(name, error.actual)
    elif kind == "too_long":
        text = str(error)
    else:
        text = messages.KEY_SCHEMA_MISMATCH
    return errors.ValidationException(text)


_TRANSLATORS: dict[str, Any] = {
    "ExpressionError": lambda error: errors.ValidationException(str(error)),
    "ValueProblem": lambda error: errors.ValidationException(str(error)),
    "SerializationProblem": lambda error: errors.SerializationException(str(error)),
    "KeyProblem": _key_problem,
}
