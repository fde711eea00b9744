"""The JSON-type check of AttributeValues, with DynamoDB's SerializationException texts.

The encoders find problems fast and leave the wording to this module. DynamoDB checks the types of
a whole request before any value rule, so an encoder that meets a value problem asks here first
whether a type problem comes anywhere in the same object. Pure functions; nothing recurses, so
hostile nesting is harmless. Source of the texts: reference section 12.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from dynalsm.values.problems import SerializationProblem

ATTRIBUTE_VALUE: Final = "com.amazonaws.dynamodb.v20120810.AttributeValue"
FOUND_STRUCTURE: Final = "Start of structure or map found where not expected"
UNEXPECTED_FIELD: Final = "Unexpected field type"
UNEXPECTED_ELEMENT: Final = "Unexpected value type in payload"
ITEM_AS_LIST: Final = (
    f"Unrecognized collection type java.util.Map<java.lang.String, {ATTRIBUTE_VALUE}>"
)
VALUE_AS_LIST: Final = f"Unrecognized collection type class {ATTRIBUTE_VALUE}"

_TRUE_TEXTS: Final = frozenset({"true", "1", "yes"})
_FALSE_TEXTS: Final = frozenset({"false", "0", "no"})
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def check_shape(value: Any, *, is_json: bool = True) -> None:
    """Raise SerializationProblem for the first wrong type in one typed attribute value."""
    _walk([("value", value)], is_json)


def check_item_shape(item: Any, *, is_json: bool = True) -> None:
    """Raise SerializationProblem for the first wrong type in a map of attribute values."""
    _walk([("map", item)], is_json)


def boolean_of(value: Any) -> bool:
    """Return the boolean a member stands for; some strings are accepted (observed)."""
    if isinstance(value, bool):
        return value
    _check_boolean(value)
    return str(value).lower() in _TRUE_TEXTS


def _walk(stack: list[tuple[str, Any]], is_json: bool) -> None:
    # A stack instead of recursion; what is found in an object is pushed in reverse, so that the
    # first problem in the order of the document is the one reported.
    while stack:
        kind, value = stack.pop()
        if value is None:
            continue
        if kind == "value":
            if not isinstance(value, dict):
                _fail(VALUE_AS_LIST if isinstance(value, (list, tuple)) else UNEXPECTED_ELEMENT)
            stack.extend(reversed(list(value.items())))
        elif kind in ("M", "map"):
            if not isinstance(value, dict):
                _fail(ITEM_AS_LIST if isinstance(value, (list, tuple)) else UNEXPECTED_FIELD)
            stack.extend([("value", member) for member in reversed(list(value.values()))])
        elif kind in ("L", "SS", "NS", "BS"):
            _check_list(value)
            member_kind = "value" if kind == "L" else kind[0]
            stack.extend([(member_kind, member) for member in reversed(value)])
        elif kind in ("S", "N"):
            _check_string(value)
        elif kind == "B":
            _check_blob(value, is_json)
        elif kind in ("BOOL", "NULL"):
            _check_boolean(value)


def _check_list(value: Any) -> None:
    if isinstance(value, dict):
        _fail(FOUND_STRUCTURE)
    if not isinstance(value, (list, tuple)):
        _fail(UNEXPECTED_FIELD)


def _check_string(value: Any) -> None:
    if not isinstance(value, str):
        _fail(_scalar_text(value, "String", "java.lang.String"))


def _check_boolean(value: Any) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, str):
        if value.lower() in _TRUE_TEXTS or value.lower() in _FALSE_TEXTS:
            return
        _fail("Unexpected token received from parser")
    _fail(_scalar_text(value, "Boolean", "java.lang.Boolean"))


def _check_blob(value: Any, is_json: bool) -> None:
    if isinstance(value, dict):
        _fail(FOUND_STRUCTURE)
    if isinstance(value, (list, tuple)):
        _fail("Unrecognized collection type class java.nio.ByteBuffer")
    if is_json and isinstance(value, str):
        _check_base64(value)
        return
    # In process, a blob is bytes, something that wraps bytes, or text (sent as UTF-8, as
    # botocore does).
    if not is_json and isinstance(
        getattr(value, "value", value), (bytes, bytearray, memoryview, str)
    ):
        return
    _fail("only base-64-encoded strings are convertible to bytes")


def _check_base64(text: str) -> None:
    if len(text) % 4:
        _fail(f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(text)}")
    body = text[:-2] + text[-2:].rstrip("=")
    if len(body) != len(text):
        # The bits behind the last whole byte must be zero; observed (dynalite): this comes before
        # characters that are none of the alphabet.
        last = _BASE64.find(body[-1])
        if last > 0 and last & (3 if len(text) - len(body) == 1 else 15):
            _fail("Invalid last non-pad Base64 character dectected")
    for character in body:
        if character not in _BASE64:
            _fail(f"Invalid base 64 character: '{character}'")


def _scalar_text(value: Any, target: str, java_class: str) -> str:
    if isinstance(value, dict):
        return FOUND_STRUCTURE
    if isinstance(value, (list, tuple)):
        return f"Unrecognized collection type class {java_class}"
    return f"{_token(value)} cannot be converted to {target}"


def _token(value: Any) -> str:
    if value is True:
        return "TRUE_VALUE"
    if value is False:
        return "FALSE_VALUE"
    if isinstance(value, int):
        return "NUMBER_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    return "DECIMAL_VALUE"


def _fail(message: str) -> NoReturn:
    raise SerializationProblem(message)
