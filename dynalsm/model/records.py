"""Records of the model as msgpack, read with suspicion.

A checksum says that bytes are those that were written, not that they make sense. `unpack` takes the
msgpack apart, and `build` makes a dataclass of a map, if every field is there and has the type that
the dataclass declares; lists become tuples where tuples are declared. What is not so is a
CorruptionError that names the record.

Thread safety: functions without shared state, apart from a cache that is only added to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgpack

from dynalsm import errors

_T = TypeVar("_T")
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
_Reader = Callable[[Any], Any]


def unpack(packed: bytes, what: str) -> Any:
    """Return the value of a record. Raises: CorruptionError, which calls the record `what`."""
    try:
        return msgpack.unpackb(packed, strict_map_key=False)
    except Exception as error:  # msgpack has many
        raise damaged(what, error) from None


def build(kind: type[_T], fields: Any, what: str) -> _T:
    """Return a dataclass of a record's map. Raises: CorruptionError."""
    try:
        made: _T = _reader(kind)(fields)
    except ValueError as error:
        raise damaged(what, error) from None
    return made


def damaged(what: str, why: object) -> errors.CorruptionError:
    """Return the error about a record that makes no sense."""
    return errors.CorruptionError(f"{what} is damaged: {why}")


@contextlib.contextmanager
def trusting(what: str) -> Iterator[None]:
    """Turn what nonsense in records leads to into a CorruptionError: for maps without a shape."""
    try:
        yield
    except _NONSENSE as error:
        raise damaged(what, repr(error)) from error


# A reader by type: it takes what msgpack gave, and returns it as declared or raises ValueError.
_readers: dict[Any, _Reader] = {}


def _reader(hint: Any) -> _Reader:
    found = _readers.get(hint)
    if found is None:
        found = _readers[hint] = _make_reader(hint)
    return found


def _make_reader(hint: Any) -> _Reader:
    if hint is Any:
        return lambda value: value
    if dataclasses.is_dataclass(hint):
        return _dataclass_reader(typing.cast("type[Any]", hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return _optional_reader(_reader(inner))
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is dict:
        return _dict_reader(*map(_reader, arguments))
    return _plain_reader(hint)


def _plain_reader(kind: type) -> _Reader:
    allowed: tuple[type, ...] = (float, int) if kind is float else (kind,)

    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise ValueError(f"{value!r:.60} is no {kind.__name__}")
        return value

    return read


def _optional_reader(inner: _Reader) -> _Reader:
    return lambda value: None if value is None else inner(value)


def _tuple_reader(arguments: tuple[Any, ...]) -> _Reader:
    is_open = arguments[-1] is Ellipsis
    readers = [_reader(each) for each in arguments if each is not Ellipsis]

    def read(value: Any) -> Any:
        if type(value) is not list or not (is_open or len(value) == len(readers)):
            raise ValueError(f"{value!r:.60} is no list of the right length")
        if is_open:
            return tuple([readers[0](each) for each in value])
        return tuple([reader(each) for reader, each in zip(readers, value, strict=True)])

    return read


def _dict_reader(key: _Reader, content: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{value!r:.60} is no map")
        return {key(name): content(each) for name, each in value.items()}

    return read


def _plain_types(hint: Any) -> tuple[type, ...]:
    """Return the types whose values a field of this type takes as they are."""
    inner = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
    found = [each for each in inner if each in (int, str, bytes, bool, float, type(None))]
    return (*found, int) if float in found else tuple(found)


def _dataclass_reader(kind: type[Any]) -> _Reader:
    hints = typing.get_type_hints(kind)
    fields = {each.name: each for each in dataclasses.fields(kind)}
    readers = {name: _reader(hints[name]) for name in fields}
    # Most fields are taken as they are: there may be ten thousand records to open.
    plain = {name: _plain_types(hints[name]) for name in fields}
    needed = {
        name
        for name, each in fields.items()
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{value!r:.60} is no map")
        if missing := needed - value.keys():
            raise ValueError(f"{', '.join(sorted(missing))} is missing")
        if unknown := value.keys() - fields.keys():
            raise ValueError(f"there is no field {unknown.pop()!r:.60}")
        for name, each in value.items():
            if type(each) not in plain[name]:
                try:
                    value[name] = readers[name](each)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        return kind(**value)

    return read
