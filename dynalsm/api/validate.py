"""Is a request well formed? Types first (SerializationException), then member constraints.

`validate` runs the operation's compiled checker (checkers.py). Only when that is not satisfied
does `explain` walk the request with the shape in hand: it converts what AWS converts (a fraction
where an integer is expected, "true" for a boolean), raises the error that DynamoDB raises, or
finds that the request is fine after all (a subclass of dict, a table name not seen before).

Pure functions of request and settings, callable from any thread.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dynalsm import errors
from dynalsm.api import messages, names
from dynalsm.api.checkers import CHECKERS
from dynalsm.api.shapes import SHAPES, TABLE_NAME_SHAPES, Shape, input_of
from dynalsm.model.settings import Settings
from dynalsm.values import check_shape

# The operations of 13.2's first group: a table name is reported like any member.
DATA_PLANE = frozenset(
    {
        *("PutItem", "GetItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem"),
        *("Query", "Scan", "TransactGetItems", "TransactWriteItems", "SearchVectors"),
    }
)
# Lengths that Settings decides; the compiled checkers know AWS's, so longer ones come here.
SETTABLE = {
    "KeyList": "limit_batch_get_keys",
    "BatchGetRequestMap": "limit_batch_get_keys",
    "WriteRequests": "limit_batch_write_items",
    "BatchWriteItemRequestMap": "limit_batch_write_items",
    "PartiQLBatchRequest": "limit_batch_statements",
    "ParameterizedStatements": "limit_transaction_items",
    "TransactGetItemList": "limit_transaction_items",
    "TransactWriteItemList": "limit_transaction_items",
}
# The operation that another service than the rest answers (reference 1.2).
STRICT = "SearchVectors"
MAX_REPORTED = 10
MAX_KNOWN_NAMES = 10_000
_JAVA_TYPES = {
    "string": "String",
    "integer": "Integer",
    "long": "Long",
    "double": "Double",
    "timestamp": "Date",
    "boolean": "Boolean",
}
# Empty ones are refused by the operations, in words of their own (observed: dynoxide).
_BATCHES = frozenset({"BatchGetRequestMap", "BatchWriteItemRequestMap"})
_JAVA_BITS = {"integer": 31, "long": 63}
_RUST_TYPES = {"string": "a string", "integer": "i32", "list": "a sequence", "map": "a map"}
_BOOLEAN_TEXT = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def validate(operation: str, request: Any, settings: Settings) -> Any:
    """Return the request, converted where DynamoDB converts.

    Raises: SerializationException, ValidationException, AccessDeniedException.
    """
    try:
        if CHECKERS[operation](request, settings.table_names):
            return request
    except (TypeError, AttributeError):
        pass  # a member of the wrong type; explain says which
    return explain(operation, request, settings)


def explain(operation: str, request: Any, settings: Settings) -> Any:
    """Do what `validate` does, the slow way."""
    shape = input_of(operation)
    if operation == STRICT:
        _check_strictly(shape, request)
    converted = _convert_top(shape, request)
    member = shape.members.get("TableName")
    if operation not in DATA_PLANE and member is not None:
        _check_control_name(converted.get("TableName"), member.required, settings)
    walk = _Constraints(operation, settings)
    found = []
    for problem in walk.structure(shape, converted, ""):
        found.append(problem)
        if walk.wording != "classic" or len(found) == MAX_REPORTED:
            break
    if found:
        raise errors.ValidationException(envelope(found))
    for text in _table_names(shape, converted):
        _remember(text, names.resolve_table(text, settings, operation), settings)
    return converted


def _check_strictly(shape: Shape, request: Any) -> None:
    """Refuse what SearchVectors' deserialiser refuses, in its words (observed).

    The columns are those of the request as json.dumps writes it, which is what boto3 sends.
    """
    if not isinstance(request, Mapping):
        return
    seen: dict[str, Any] = {}
    for name, value in request.items():
        seen[name] = value
        member = shape.members.get(name)
        if member is None:
            continue
        problem = None
        if value is None and member.required:
            problem = f"null, expected {_RUST_TYPES[SHAPES[member.shape].kind]}"
        elif isinstance(value, float) and SHAPES[member.shape].kind == "integer":
            problem = f"floating point `{value}`, expected i32"
        if problem is not None:
            raise _serialization(f"invalid type: {problem} at line 1 column {_column(seen) - 1}")
    for name, member in shape.members.items():
        if member.required and name not in request:
            raise errors.ValidationException(
                f"missing field `{name}` at line 1 column {_column(request)}"
            )


def _column(request: Mapping[str, Any]) -> int:
    return len(json.dumps(dict(request), default=str))


def check_value_types(operation: str, request: Any, is_json: bool) -> None:
    """Refuse attribute values of a wrong JSON type, wherever they are in a request.

    Operations meet such values when they encode them, after checks of later layers; so what is
    refused for another reason comes here before it goes out (reference 0.2: types first). Other
    types may be wrong: SearchVectors misses members before it looks at types.
    Raises: SerializationProblem, SerializationException.
    """
    _check_values(input_of(operation), request, is_json)


def _check_values(shape: Shape, value: Any, is_json: bool) -> None:
    if value is None:
        return
    if shape.kind == "value":
        check_shape(value, is_json=is_json)
    elif shape.kind == "structure" and isinstance(value, Mapping):
        for name, member in shape.members.items():
            content, inner = value.get(name), SHAPES[member.shape]
            if inner.kind == "value" and content is not None and not isinstance(content, Mapping):
                _convert_structure(inner, content, "member")
            _check_values(inner, content, is_json)
    elif shape.kind == "list" and isinstance(value, list | tuple):
        for element in value:
            _check_values(SHAPES[shape.element], element, is_json)
    elif shape.kind == "map" and isinstance(value, Mapping):
        for element in value.values():
            _check_values(SHAPES[shape.element], element, is_json)


def _remember(text: str, name: str, settings: Settings) -> None:
    if len(settings.table_names) >= MAX_KNOWN_NAMES:
        settings.table_names.clear()
    settings.table_names[text] = name


def envelope(problems: Sequence[str]) -> str:
    """Return the message around constraint texts."""
    count = len(problems)
    plural = "s" if count > 1 else ""
    return f"{count} validation error{plural} detected: " + "; ".join(problems)


def constraint(value: Any, path: str, text: str, wording: str = "classic") -> str:
    """Return one constraint text: `value` (already printed; None: absent) at `path`."""
    if wording != "classic":
        path = ".".join(part[:1].upper() + part[1:] for part in path.split("."))
        return f"Value at '{path}' failed to satisfy constraint: {text}"
    echo = "null" if value is None else f"'{value}'"
    return f"Value {echo} at '{path}' failed to satisfy constraint: {text}"


def _check_control_name(name: Any, is_required: bool, settings: Settings) -> None:
    if name is None:
        if is_required:
            raise errors.ValidationException(messages.TABLE_NAME_REQUIRED)
        return
    if name.startswith("arn:") or 3 <= len(name) <= 255:
        return
    if settings.wording == "classic":
        raise errors.ValidationException(messages.TABLE_NAME_LENGTH)
    limit = messages.at_least(3) if len(name) < 3 else messages.at_most(255)
    raise errors.ValidationException(envelope([constraint(name, "tableName", limit, "2026")]))


def _table_names(shape: Shape, value: Any) -> Iterator[str]:
    """Yield every table name in a converted request."""
    if shape.name in TABLE_NAME_SHAPES:
        yield value
    elif shape.kind == "structure":
        for name, member in shape.members.items():
            if value.get(name) is not None:
                yield from _table_names(SHAPES[member.shape], value[name])
    elif shape.kind == "list":
        for element in value:
            yield from _table_names(SHAPES[shape.element], element)
    elif shape.kind == "map":
        for key, element in value.items():
            yield from _table_names(SHAPES[shape.key], key)
            yield from _table_names(SHAPES[shape.element], element)


# Types (reference 12).


def _serialization(text: str) -> errors.SerializationException:
    return errors.SerializationException(text)


def _convert_top(shape: Shape, request: Any) -> dict[str, Any]:
    if not isinstance(request, Mapping):
        raise _serialization("")
    return _convert_members(shape, request)


def _convert_members(shape: Shape, value: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for name, content in value.items():
        member = shape.members.get(name)
        if member is not None and content is not None:
            result[name] = _convert(SHAPES[member.shape], content, "member")
    return result


def _convert(shape: Shape, value: Any, place: str) -> Any:
    """Return `value` as the shape's type. `place`: member (of a structure), element or nested."""
    kind = shape.kind
    if kind == "value":
        return value
    if kind == "structure":
        return _convert_structure(shape, value, place)
    if kind == "list":
        return _convert_list(shape, value, place)
    if kind == "map":
        return _convert_map(shape, value, place)
    if kind == "string":
        return _convert_string(value)
    if kind == "boolean":
        return _convert_boolean(value)
    return _convert_number(kind, value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _convert_structure(shape: Shape, value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return _convert_members(shape, value)
    if _is_list(value):
        raise _serialization(
            f"Unrecognized collection type class com.amazonaws.dynamodb.v20120810.{shape.name}"
        )
    raise _serialization(
        "Unexpected field type" if place == "member" else "Unexpected value type in payload"
    )


_NESTED_CAST = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and "
    "java.lang.Class are in module java.base of loader 'bootstrap')"
)


def _convert_list(shape: Shape, value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        raise _serialization("Start of structure or map found where not expected")
    if isinstance(value, set | frozenset):
        value = list(value)
    if not _is_list(value):
        raise _serialization("Unexpected field type" if place == "member" else _NESTED_CAST)
    element = SHAPES[shape.element]
    return [_convert(element, content, "element") for content in value]


def _convert_map(shape: Shape, value: Any, place: str) -> Any:
    element = SHAPES[shape.element]
    if isinstance(value, Mapping):
        if element.kind == "value":
            return value
        return {
            _convert_string(key): _convert(element, content, "element")
            for key, content in value.items()
        }
    if _is_list(value):
        raise _serialization(
            f"Unrecognized collection type java.util.Map<java.lang.String, {_java_class(element)}>"
        )
    raise _serialization("Unexpected field type" if place == "member" else _NESTED_CAST)


def _java_class(shape: Shape) -> str:
    if shape.kind == "string":
        return "java.lang.String"
    if shape.kind == "list":
        return f"java.util.List<{_java_class(SHAPES[shape.element])}>"
    return f"com.amazonaws.dynamodb.v20120810.{shape.name}"


def _refuse_collection(kind: str, value: Any) -> None:
    if isinstance(value, Mapping):
        raise _serialization("Start of structure or map found where not expected")
    if _is_list(value):
        raise _serialization(f"Unrecognized collection type class java.lang.{kind}")


def _token(value: Any) -> str:
    """Return the JSON token that `value` came from, as the deserialiser names it."""
    if value is True or value is False:
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, int):
        return "NUMBER_VALUE"
    return "STRING_VALUE" if isinstance(value, str) else "DECIMAL_VALUE"


def _convert_string(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    _refuse_collection("String", value)
    raise _serialization(f"{_token(value)} cannot be converted to String")


def _convert_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    _refuse_collection("Boolean", value)
    if isinstance(value, str):
        if value.lower() in _BOOLEAN_TEXT:
            return _BOOLEAN_TEXT[value.lower()]
        raise _serialization("Unexpected token received from parser")
    raise _serialization(f"{_token(value)} cannot be converted to Boolean")


def _convert_number(kind: str, value: Any) -> Any:
    java = _JAVA_TYPES[kind]
    _refuse_collection(java, value)
    if kind == "timestamp" and isinstance(value, datetime.datetime):
        return value
    if isinstance(value, bool | str | bytes | bytearray):
        raise _serialization(f"{_token(value)} cannot be converted to {java}")
    try:
        if kind not in ("integer", "long"):
            return float(value)
        number = int(value)
        if number.bit_length() > _JAVA_BITS[kind]:
            raise OverflowError
        return number
    except (TypeError, ValueError, OverflowError):
        raise _serialization(f"{_token(value)} cannot be converted to {java}") from None


# Member constraints (reference 13.1).


class _Constraints:
    """Walks a converted request and yields constraint texts in the model's member order."""

    def __init__(self, operation: str, settings: Settings) -> None:
        self._operation = operation
        self.wording = "2026" if operation == STRICT else settings.wording
        self._set = {name: getattr(settings, limit) for name, limit in SETTABLE.items()}

    def structure(self, shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[str]:
        """Yield what is wrong with the members of a structure at `path` ("": the request)."""
        for name, member in shape.members.items():
            here = f"{path}.{_camel(name)}" if path else _camel(name)
            content = value.get(name)
            if content is not None:
                yield from self._value(SHAPES[member.shape], content, here)
            elif member.required:
                yield self._text(None, here, messages.NOT_NULL)

    def _value(self, shape: Shape, value: Any, path: str) -> Iterator[str]:
        for text in self._own(shape, value):
            yield self._text(java_text(shape, value), path, text)
        if shape.kind == "structure":
            yield from self.structure(shape, value, path)
        elif shape.kind == "list":
            for number, element in enumerate(value, 1):
                yield from self._value(SHAPES[shape.element], element, f"{path}.{number}.member")
        elif shape.kind == "map" and SHAPES[shape.element].kind != "value":
            yield from self._map(shape, value, path)

    def _map(self, shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[str]:
        key, element = SHAPES[shape.key], SHAPES[shape.element]
        if any(True for name in value for _ in self._own(key, name)):
            limits = ", ".join(self._limits(key))
            text = f"Map keys must satisfy constraint: [{limits}]"
            yield self._text(java_text(shape, value), path, text)
        if element.kind != "structure" and any(
            True for content in value.values() for _ in self._own(element, content)
        ):
            limits = ", ".join(self._limits(element))
            text = f"Map value must satisfy constraint: [{limits}]"
            yield self._text(java_text(shape, value), path, text)
        for name, content in value.items():
            if element.kind == "structure":
                yield from self.structure(element, content, f"{path}.{name}.member")
            elif element.kind == "list":
                inner = SHAPES[element.element]
                for number, part in enumerate(content, 1):
                    yield from self._value(inner, part, f"{path}.{name}.member.{number}.member")

    def _own(self, shape: Shape, value: Any) -> Iterator[str]:
        """Yield the constraints that `value` itself breaks."""
        if shape.name in TABLE_NAME_SHAPES:
            yield from self._name(value)
        elif shape.kind in ("string", "list", "map"):
            if (
                shape.min is not None
                and len(value) < shape.min
                and not (shape.name in _BATCHES and self.wording == "classic")
            ):
                yield messages.at_least(shape.min)
            high = self._set.get(shape.name, shape.max)
            if high is not None and len(value) > high:
                yield messages.at_most(high)
            if shape.kind == "string" and not shape.matches(value):
                yield messages.pattern(shape.pattern or "")
            if shape.enum and value not in shape.enum:
                yield messages.enum(shape.enum_text)
        elif shape.kind in ("integer", "long", "double"):
            if shape.min is not None and value < shape.min:
                yield messages.value_at_least(shape.min)
            if shape.max is not None and value > shape.max:
                yield messages.value_at_most(shape.max)

    def _name(self, text: str) -> Iterator[str]:
        if text.startswith("arn:"):
            if len(text) > 1024:
                yield messages.at_most(1024)
            return
        if len(text) < 3:
            yield messages.at_least(1 if not text and self._operation in DATA_PLANE else 3)
        if len(text) > 255:
            yield messages.at_most(255)
        if not names.is_name(text) and text:
            yield messages.pattern(messages.NAME_PATTERN)

    def _limits(self, shape: Shape) -> Iterator[str]:
        """Yield all constraints of a map's keys or values, as AWS lists them."""
        low, high = shape.min, self._set.get(shape.name, shape.max)
        if shape.name in TABLE_NAME_SHAPES:
            low, high = 3, 255
        if high is not None:
            yield messages.at_most(high)
        if low is not None:
            yield messages.at_least(low)
        if shape.name in TABLE_NAME_SHAPES:
            yield messages.pattern(messages.NAME_PATTERN)

    def _text(self, value: str | None, path: str, text: str) -> str:
        return constraint(value, path, text, self.wording)


def _camel(name: str) -> str:
    return name[:1].lower() + name[1:]


def java_text(shape: Shape, value: Any) -> str:
    """Return `value` as DynamoDB echoes it: [a, b], {k=v}, Structure(member=x, other=null)."""
    if value is None:
        return "null"
    if shape.kind == "list":
        inner = SHAPES[shape.element]
        return "[" + ", ".join(java_text(inner, part) for part in value) + "]"
    if shape.kind == "map":
        inner = SHAPES[shape.element]
        return "{" + ", ".join(f"{k}={java_text(inner, part)}" for k, part in value.items()) + "}"
    if shape.kind == "structure":
        members = ", ".join(
            f"{_camel(name)}={java_text(SHAPES[member.shape], value.get(name))}"
            for name, member in shape.members.items()
        )
        return f"{shape.name}({members})"
    if shape.kind == "value":
        return _java_attribute(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _java_attribute(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        [(tag, content)] = value.items()
        return f"AttributeValue({_camel(str(tag))}={content})"
    return f"AttributeValue({value})"
