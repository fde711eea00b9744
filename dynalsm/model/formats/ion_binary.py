"""A reader of binary Ion 1.0, into the values that ion_reader.py gives for Ion text.

An object is a row of top-level values, each with its length before it: so a record that is no item
costs only itself. Field names are numbers of a symbol table that the object defines on the way;
tables shared between objects (imports) are refused, as exports have none.

    type descriptor   high four bits: type, low four: length (14: a VarUInt follows, 15: null)
    VarUInt           seven bits a byte, most significant first, the last byte has bit 7 set
    VarInt            likewise; bit 6 of the first byte is the sign
    annotations       type 14: length, length of the symbols, the symbols, the value

Thread safety: a reader belongs to one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from dynalsm import values
from dynalsm.model.formats import RECORD_MAX_BYTES, ObjectProblem
from dynalsm.model.formats.ion_reader import SETS, IonProblem, as_set

if TYPE_CHECKING:
    from dynalsm.model.formats import Lines

MARK: Final = b"\xe0\x01\x00\xea"
# Attribute values nest to 32 levels; a record and its wrappers need a few more.
DEPTH_MAX: Final = 40
# Of a VarUInt: what it stands for (a length, a symbol, an exponent) has far fewer.
_VARIABLE_MAX_BYTES: Final = 9
_NUMBER_MAX_BYTES: Final = 64  # 10^126 has 53

_SYSTEM_SYMBOLS: Final = (
    "$0", "$ion", "$ion_1_0", "$ion_symbol_table", "name", "version", "imports", "symbols",
    "max_id", "$ion_shared_symbol_table",
)  # fmt: skip
_SYMBOL_TABLE: Final = 3  # the number of $ion_symbol_table
_LONG, _NULL = 14, 15
(
    _NOTHING, _BOOL, _POSITIVE, _NEGATIVE, _FLOAT, _DECIMAL, _TIMESTAMP, _SYMBOL, _STRING, _CLOB,
    _BLOB, _LIST, _SEXP, _STRUCT, _ANNOTATED,
) = range(15)  # fmt: skip
_KINDS: Final = {_TIMESTAMP: "timestamp", _CLOB: "clob", _SEXP: "s-expression", _SYMBOL: "symbol"}
_SKIPPED: Final = object()
_SORTED_STRUCT: Final = 1  # a struct's length that means: a VarUInt follows, and names are sorted


def records(lines: Lines, first: bytes) -> Iterator[Any]:
    """Yield each record, or the IonProblem with it. `first`: what was read of the object already.

    Raises: ObjectProblem when the object cannot be read on.
    """
    source = _Source(lines, first)
    symbols = list(_SYSTEM_SYMBOLS)
    while (head := source.read(1)) != b"":
        if head[0] == MARK[0]:
            if head + source.exactly(3) != MARK:
                raise ObjectProblem(lines.index, "The object is of an unknown version of Ion")
            symbols = list(_SYSTEM_SYMBOLS)
            continue
        body = source.body(head[0])
        try:
            read = _Reader(body, symbols).top_level()
        except (IonProblem, values.ValueProblem) as problem:
            read = problem
        except UnicodeDecodeError as problem:
            read = IonProblem(f"it is not UTF-8: {problem}")
        except (IndexError, struct.error):
            read = IonProblem("it ends early")
        if isinstance(read, list):
            symbols = read
        elif read is not _SKIPPED:
            yield read


class _Source:
    """The bytes of an object."""

    def __init__(self, lines: Lines, first: bytes) -> None:
        self._lines = lines
        self._waiting = first

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        if len(self._waiting) < size:
            self._waiting += self._lines.read(size - len(self._waiting))
        found, self._waiting = self._waiting[:size], self._waiting[size:]
        return found

    def exactly(self, size: int) -> bytes:
        """Return so many bytes. Raises: ObjectProblem."""
        found = self.read(size)
        if len(found) < size:
            raise ObjectProblem(self._lines.index, "The last record does not end")
        return found

    def body(self, head: int) -> bytes:
        """Return the whole value that begins with `head`."""
        kind, size = head >> 4, head & 15
        length = b""
        if size == _LONG or (kind == _STRUCT and size == _SORTED_STRUCT):
            while not length or not length[-1] & 0x80:
                length += self.exactly(1)
                if len(length) > 5:
                    self._refuse()
            size = _unsigned(length, 0)[0]
        elif size == _NULL or kind == _BOOL:
            size = 0
        if size > RECORD_MAX_BYTES:
            self._refuse()
        return bytes((head,)) + length + self.exactly(size)

    def _refuse(self) -> None:
        raise ObjectProblem(self._lines.index, f"A record exceeds {RECORD_MAX_BYTES} bytes")


class _Reader:
    """One top-level value. Running over the end of `data` is an IndexError."""

    def __init__(self, data: bytes, symbols: list[str]) -> None:
        self._data = data
        self._symbols = symbols
        self._at = 0

    def top_level(self) -> Any:
        """Return the value, _SKIPPED for padding, or a list: the symbols from here on."""
        kind = self._data[0] >> 4
        if kind == _NOTHING and self._data[0] & 15 != _NULL:
            return _SKIPPED
        if kind == _ANNOTATED:
            _, annotations = self._annotations()
            if annotations[:1] == [_SYMBOL_TABLE]:
                return self._symbol_table()
            self._at = 0
        found = self.value(0)
        # A list can be no record, and must not be taken for symbols.
        return IonProblem("a record is a struct") if isinstance(found, list) else found

    def _symbol_table(self) -> list[str]:
        end = self._head()[1]
        appends, added = False, []
        for name, place in self._fields(end):
            self._at = place
            if name == "imports":
                kind, stop = self._head()
                appends = kind == _SYMBOL and self._data[place + 1 : stop] == b"\x03"
                if not appends and stop > self._at:
                    raise IonProblem("shared symbol tables are not supported")
            elif name == "symbols":
                listed = self.value(1)
                if not isinstance(listed, list):
                    raise IonProblem("symbols are a list")
                added = [each if isinstance(each, str) else "" for each in listed]
        return [*(self._symbols if appends else _SYSTEM_SYMBOLS), *added]

    def _head(self) -> tuple[int, int]:
        """Read a type descriptor; return (type, end of the value)."""
        head = self._data[self._at]
        self._at += 1
        kind, size = head >> 4, head & 15
        if size == _NULL:
            raise IonProblem("no attribute value can hold a null of a type")
        if kind == _BOOL:
            return kind, self._at
        if size == _LONG or (kind == _STRUCT and size == _SORTED_STRUCT):
            size, self._at = _unsigned(self._data, self._at)
        if self._at + size > len(self._data):
            raise IonProblem("a value is longer than the record")
        return kind, self._at + size

    def value(self, depth: int) -> Any:
        """Read a value. Recursion ends at DEPTH_MAX."""
        if depth > DEPTH_MAX:
            raise IonProblem(f"values are nested more than {DEPTH_MAX} deep")
        head = self._data[self._at]
        if head == _NULL:  # null.null
            self._at += 1
            return None
        if head >> 4 == _ANNOTATED:
            end, annotations = self._annotations()
            wanted = [SETS[name] for name in map(self._symbol, annotations) if name in SETS]
            read = self.value(depth + 1)
            if self._at != end:
                raise IonProblem("annotations hold one value")
            return as_set(read, wanted[0]) if wanted else read
        kind, end = self._head()
        if kind == _BOOL:
            if head & 15 > 1:
                raise IonProblem("a bool is 0 or 1")
            return bool(head & 15)
        if kind == _STRUCT:
            return self._struct(end, depth)
        if kind == _LIST:
            return self._list(end, depth)
        if kind in _KINDS:
            raise IonProblem(f"no attribute value can hold a {_KINDS[kind]}")
        body = self._data[self._at : end]
        self._at = end
        return _scalar(kind, body)

    def _struct(self, end: int, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, _ in self._fields(end, depth):
            if name in members:
                raise IonProblem(f"the member {name[:40]!r} is there twice")
            members[name] = self.value(depth + 1)
        return members

    def _fields(self, end: int, depth: int = 0) -> Iterator[tuple[str, int]]:
        """Yield (name, where the value begins); whoever takes it reads the value or not."""
        place = self._at
        while place < end:
            number, place = _unsigned(self._data, place)
            self._at = place
            is_padding = self._data[place] >> 4 == _NOTHING and self._data[place] != _NULL
            after = place + 1 if self._data[place] == _NULL else self._end(place)
            if after > end:
                raise IonProblem("a value is longer than what holds it")
            if not is_padding:
                yield self._symbol(number), place
            place = self._at = after

    def _end(self, place: int) -> int:
        """Return where the value at `place` ends."""
        before, self._at = self._at, place
        end = self._head()[1]
        self._at = before
        return end

    def _list(self, end: int, depth: int) -> list[Any]:
        members = []
        while self._at < end:
            head = self._data[self._at]
            if head >> 4 == _NOTHING and head != _NULL:
                self._at = self._head()[1]
                continue
            members.append(self.value(depth + 1))
        if self._at != end:
            raise IonProblem("a value is longer than what holds it")
        return members

    def _annotations(self) -> tuple[int, list[int]]:
        """Read what is before an annotated value; return (where that ends, symbol numbers)."""
        _, end = self._head()
        size, self._at = _unsigned(self._data, self._at)
        stop = self._at + size
        found = []
        while self._at < stop:
            number, self._at = _unsigned(self._data, self._at)
            found.append(number)
        return end, found

    def _symbol(self, number: int) -> str:
        if not 0 < number < len(self._symbols):
            raise IonProblem(f"the symbol {number} is not defined")
        return self._symbols[number]


def _scalar(kind: int, body: bytes) -> Any:
    if kind == _STRING:
        return body.decode()
    if kind == _BLOB:
        return body
    if kind in (_POSITIVE, _NEGATIVE):
        sign = "-" if kind == _NEGATIVE else ""
        return values.parse_number(f"{sign}{_magnitude(body)}")
    if kind == _FLOAT and len(body) in (0, 4, 8):
        number = struct.unpack(">f" if len(body) == 4 else ">d", body)[0] if body else 0.0
        return values.parse_number(repr(number))
    if kind == _DECIMAL:
        return _decimal(body)
    raise IonProblem(f"no attribute value can hold type {kind} of Ion")


def _magnitude(data: bytes) -> int:
    """Return a number without sign. What is longer than an attribute's digits is not read."""
    if len(data.lstrip(b"\0")) > _NUMBER_MAX_BYTES:
        raise IonProblem("a number has more digits than an attribute can hold")
    return int.from_bytes(data)


def _decimal(body: bytes) -> Decimal:
    if not body:
        return Decimal(0)
    sign, exponent = body[0] & 0x40, body[0] & 0x3F
    place = 1
    while not body[place - 1] & 0x80:
        if place == _VARIABLE_MAX_BYTES:
            raise IonProblem("a number is longer than any that is meant")
        exponent = exponent << 7 | body[place] & 0x7F
        place += 1
    if sign:
        exponent = -exponent
    rest = body[place:]
    coefficient = _magnitude(bytes((rest[0] & 0x7F,)) + rest[1:]) if rest else 0
    minus = "-" if rest and rest[0] & 0x80 else ""
    return values.parse_number(f"{minus}{coefficient}E{exponent}")


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    """Read a VarUInt; return it and where it ends."""
    number = 0
    limit = place + _VARIABLE_MAX_BYTES
    while True:
        if place == limit:
            raise IonProblem("a number is longer than any that is meant")
        byte = data[place]
        place += 1
        number = number << 7 | byte & 0x7F
        if byte & 0x80:
            return number, place
