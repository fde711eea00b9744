"""PartiQL statements as reads and writes of the data model.

A write statement becomes one of the writes of model/writes.py; its WHERE must fix the whole
primary key. A SELECT becomes a plan: ranges of tree keys, one per partition that WHERE allows, or
everything. What WHERE says about sort keys narrows the ranges, and the whole WHERE is then tested
on every item, so narrowing can only save work, never change an answer.

Messages are complete; they are raised as ExpressionError (reference 11).

Thread safety: functions without state; plans and writes belong to one request.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from dynalsm import values
from dynalsm.expressions import error
from dynalsm.expressions.ast import And, Between, Call, Compare, Constant, Path, Slot, Steps
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.evaluate import type_tag
from dynalsm.expressions.partiql import Delete as DeleteStatement
from dynalsm.expressions.partiql import Exists, Insert, Select, Update, choices, equalities
from dynalsm.limits import PAGE_MAX_BYTES, STATEMENT_IN_MAX_KEYS
from dynalsm.model import writes
from dynalsm.model.catalog import IndexHandle, TableHandle
from dynalsm.model.reads import Page, after, read_page
from dynalsm.model.schema import ACTIVE

NO_FULL_KEY: Final = "Where clause does not contain a mandatory equality on all key attributes"
KEY_TYPE: Final = "Key attribute's data type should match its data type in table's schema"
UNKNOWN_INDEX: Final = "The table does not have the specified index"
CONSISTENT_GSI: Final = "Strongly consistent read is not supported on Global Secondary Indexes"
INDEX_IN_WRITE: Final = (
    "FROM clause may only contain a single table name in data manipulation statements"
)
ORDER_NEEDS_WHERE: Final = "Must have WHERE clause in the statement when using ORDER BY clause."
ORDER_NEEDS_PARTITION: Final = (
    "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY "
    "clause."
)

TOO_MANY_KEYS: Final = (
    "The number of values of hash key {} in the WHERE clause exceeds the limit of "
    f"{STATEMENT_IN_MAX_KEYS}"
)
ORDER_MIXED: Final = "ORDER BY clause must have one direction for all sort key attributes"

_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Range = tuple[bytes | None, bytes | None]
# Where a page ended: which range, and the last tree key in it (empty: at its beginning).
Position = tuple[int, bytes]


def refused(text: str) -> ExpressionError:
    """Return the error with this complete message."""
    return ExpressionError(text, error.PARAMETER)


# Writes.


class InsertWrite(writes.Put):
    """INSERT: a put that fails when the item exists."""

    __slots__ = ()

    def decide(self) -> None:
        if self.old_stored is not None:
            self.is_failed = True
        else:
            self.is_change = True


class DeleteWrite(writes.Delete):
    """DELETE: a missing item is a success whatever WHERE says."""

    __slots__ = ()

    def decide(self) -> None:
        if self.old_stored is not None:
            super().decide()


def write_of(handle: TableHandle, statement: Any) -> writes.Write:
    """Return the write for an INSERT, UPDATE, DELETE or EXISTS.

    Raises: ExpressionError, KeyProblem, IndexKeyProblem, ItemTooLarge.
    """
    if isinstance(statement, Insert):
        item = values.encode_item(statement.item)
        _check_key_types(handle, statement.item)
        return InsertWrite(handle, handle.keys.encode(item), item)
    if isinstance(statement, Exists):
        return writes.Check(handle, full_key(handle, statement.select), statement.select.where)
    if statement.index is not None:
        raise refused(INDEX_IN_WRITE)
    key = full_key(handle, statement)
    if isinstance(statement, DeleteStatement):
        return DeleteWrite(handle, key, statement.where)
    assert isinstance(statement, Update)
    write = writes.Update(handle, key, statement.update, statement.where)
    write.must_exist = True
    return write


def full_key(handle: TableHandle, statement: Any) -> bytes:
    """Return the tree key that WHERE fixes. Raises: ExpressionError, KeyProblem."""
    key = find_full_key(handle, statement)
    if key is None:
        raise refused(NO_FULL_KEY)
    return key


def find_full_key(handle: TableHandle, statement: Any) -> bytes | None:
    """Return the tree key that WHERE fixes, or None when it leaves a key attribute open."""
    fixed = equalities(statement.where)
    if not all(name in fixed for name in handle.keys.names):
        return None
    key = {name: fixed[name] for name in handle.keys.names}
    _check_key_types(handle, key)
    return handle.keys.encode_key(values.encode_item(key))


def _check_key_types(handle: TableHandle, item: dict[str, Any]) -> None:
    for name in handle.keys.names:
        if name in item and type_tag(item[name]) != handle.schema.attributes[name]:
            raise refused(KEY_TYPE)


# SELECT.


class SelectPlan:
    """What a SELECT reads. `is_point` says that each range holds at most one item."""

    __slots__ = (
        "fetches", "handle", "index", "is_merged", "is_point", "prefixes", "ranges", "reverse",
        "source", "where",
    )  # fmt: skip

    def __init__(self, handle: TableHandle, select: Select, consistent: bool) -> None:
        self.handle = handle
        self.index: IndexHandle | None = None
        self.source: TableHandle | IndexHandle = handle
        self.where = select.where
        if select.index is not None:
            self.index = self.source = _index(handle, select.index, consistent)
        hash_names, range_names = self.key_names
        self.reverse = _is_reverse(select, hash_names, range_names)
        self.fetches = self._needs_items(select)
        self.is_point = False
        self.prefixes: list[bytes] = []  # what the keys of each range start with
        self.ranges: list[Range] = self._ranges(hash_names, range_names, select.order)
        # Ordered by a sort key first, several partitions are read side by side.
        self.is_merged = (
            bool(select.order)
            and select.order[0][0][0] in range_names
            and len(self.ranges) > 1
            and not self.is_point
        )
        if select.order and self.is_scan:
            raise refused(ORDER_NEEDS_PARTITION)

    @property
    def is_scan(self) -> bool:
        """Return whether everything is read, WHERE naming no partition."""
        return self.ranges == [(None, None)]

    @property
    def key_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The hash and the range attributes of what is read."""
        if self.index is not None:
            return self.index.schema.hash_key, self.index.schema.range_key
        names = self.handle.keys.names
        return names[:1], names[1:]

    def _needs_items(self, select: Select) -> bool:
        """Return whether attributes are wanted that a local index does not hold."""
        index = self.index
        if index is None or index.schema.projection.kind == "ALL":
            return False
        held = {*index.keys.names, *index.schema.projection.attributes}
        missing = [str(path[0]) for path in select.paths or () if path[0] not in held]
        if missing and index.kind == "GSI":
            raise refused(
                "One or more parameter values were invalid: Global secondary index "
                f"{index.name} does not project [{', '.join(dict.fromkeys(missing))}]"
            )
        return bool(missing)

    def _ranges(
        self,
        hash_names: tuple[str, ...],
        range_names: tuple[str, ...],
        order: Sequence[tuple[Steps, bool]],
    ) -> list[Range]:
        parts = [choices(self.where, name) for name in hash_names]
        if any(part is None for part in parts):
            return [(None, None)]
        kinds = self.handle.schema.attributes
        distinct = [
            _key_values(name, part or [], kinds[name])
            for name, part in zip(hash_names, parts, strict=True)
        ]
        if math.prod(map(len, distinct)) > STATEMENT_IN_MAX_KEYS:
            raise refused(TOO_MANY_KEYS.format(", ".join(hash_names)))
        combinations = list(itertools.product(*distinct))
        for path, descending in reversed(order):  # stable: the first one named decides
            if path[0] in hash_names:
                place = hash_names.index(str(path[0]))
                combinations.sort(key=itemgetter(place), reverse=descending)
        same, operator, operands = _sort_condition(self.where, range_names, kinds)
        self.is_point = self.index is None and len(same) == len(range_names)
        keys = self.source.keys
        self.prefixes = [
            keys.partition_prefix(*map(values.encode_value, combination))
            for combination in combinations
        ]
        return [keys.sort_range(prefix, operator, operands, same) for prefix in self.prefixes]

    def read(
        self,
        position: Position,
        limit: int | None,
        snapshot: Any,
        limit_bytes: int = PAGE_MAX_BYTES,
    ) -> tuple[Page, Position | None]:
        """Read one page from a position; returns it and where to go on, None at the end."""
        page = Page(limit_bytes)
        if self.is_merged:
            return self._read_merged(page, position, limit, snapshot)
        start, last_key = position
        for number in range(start, len(self.ranges)):
            lower, upper = self.ranges[number]
            if last_key:
                lower, upper = (lower, last_key) if self.reverse else (after(last_key), upper)
                last_key = b""
            self._read_range(lower, upper, page, limit, snapshot)
            if page.last_key is not None:
                if self.is_point:
                    following = number + 1
                    return page, (following, b"") if following < len(self.ranges) else None
                return page, (number, page.last_key)
        return page, None

    def _read_range(
        self, lower: bytes | None, upper: bytes | None, page: Page, limit: int | None, snapshot: Any
    ) -> None:
        read_page(
            self.source,
            lower,
            upper,
            reverse=self.reverse,
            limit=limit,
            condition=self.where,
            fetch_from=self.handle if self.fetches else None,
            snapshot=snapshot,
            into=page,
        )

    def _read_merged(
        self, page: Page, position: Position, limit: int | None, snapshot: Any
    ) -> tuple[Page, Position | None]:
        """Read a page of all ranges together, by sort key; equal ones in the ranges' order."""
        walks = [
            self._sort_parts(number, lower, upper, snapshot)
            for number, (lower, upper) in enumerate(self._ranges_after(position))
        ]
        for part, number in heapq.merge(*walks, key=itemgetter(0), reverse=self.reverse):
            key = self.prefixes[number] + part
            self._read_range(key, after(key), page, limit, snapshot)
            if page.last_key is not None:
                return page, (number, key)
        return page, None

    def _sort_parts(
        self, number: int, lower: bytes | None, upper: bytes | None, snapshot: Any
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the keys of one range without what they have in common."""
        size = len(self.prefixes[number])
        tree = self.source.tree
        with tree.cursor(
            lower, upper, reverse=self.reverse, snapshot=snapshot, values=False
        ) as cursor:
            for key in cursor:
                yield key[size:], number

    def _ranges_after(self, position: Position) -> list[Range]:
        """Return what is left of the ranges behind a position in their merged order."""
        last_number, last_key = position
        if not last_key:
            return self.ranges
        part = last_key[len(self.prefixes[last_number]) :]
        left: list[Range] = []
        for number, (lower, upper) in enumerate(self.ranges):
            assert lower is not None and upper is not None
            edge = self.prefixes[number] + part
            # At equal sort keys, ranges up to the last one have been read.
            if (number <= last_number) != self.reverse:
                edge = after(edge)
            if self.reverse:
                left.append((lower, max(lower, min(upper, edge))))
            else:
                left.append((min(upper, max(lower, edge)), upper))
        return left


def _index(handle: TableHandle, name: str, consistent: bool) -> IndexHandle:
    index = handle.indexes.get(name)
    if index is None or index.schema.status != ACTIVE:
        raise refused(UNKNOWN_INDEX)
    if index.kind == "VECTOR":
        raise refused("Scan operation not supported on this index type.")
    if consistent and index.kind == "GSI":
        raise refused(CONSISTENT_GSI)
    return index


def _is_reverse(select: Select, hash_names: Sequence[str], range_names: Sequence[str]) -> bool:
    """Return the direction that ORDER BY asks for. Raises: ExpressionError."""
    if not select.order:
        return False
    if select.where is None:
        raise refused(ORDER_NEEDS_WHERE)
    directions = set()
    for path, descending in select.order:
        name = path[0]
        if len(path) > 1 or name not in (*hash_names, *range_names):
            raise refused(
                f"Variable reference {name} in ORDER BY clause must be part of the primary key"
            )
        if name in range_names:
            directions.add(descending)
    if len(directions) > 1:  # keys are stored in one order, which can be read in two
        raise refused(ORDER_MIXED)
    return True in directions


def _key_values(name: str, given: list[Any], wanted: str) -> list[Any]:
    """Return the distinct values of a hash attribute."""
    if len(given) > STATEMENT_IN_MAX_KEYS:
        raise refused(TOO_MANY_KEYS.format(name))
    for value in given:
        if type_tag(value) != wanted:
            raise refused(KEY_TYPE)
    return list(dict.fromkeys(given))


def _sort_condition(
    where: Any, range_names: tuple[str, ...], kinds: dict[str, str]
) -> tuple[list[bytes], str | None, list[bytes]]:
    """Return (equalities on leading range attributes, operator, operands) found in WHERE."""
    clauses: dict[str, list[tuple[str, list[Any]]]] = {}
    if where is not None:
        tree = where.tree
        for term in tree.terms if isinstance(tree, And) else (tree,):
            found = _clause(term, where.values)
            if found is not None:
                clauses.setdefault(found[0], []).append(found[1:])
    same: list[bytes] = []
    for name in range_names:
        usable = [
            clause
            for clause in clauses.get(name, ())
            if all(type_tag(value) == kinds[name] for value in clause[1])
        ]
        equal = next((given for operator, given in usable if operator == "="), None)
        if equal is None:
            if usable:
                operator, given = usable[0]
                return same, operator, [values.encode_value(value) for value in given]
            break
        same.append(values.encode_value(equal[0]))
    return same, None, []


def _clause(term: Any, given: tuple[Any, ...]) -> tuple[str, str, list[Any]] | None:
    """Return (attribute, operator, operands) when a term compares an attribute to constants."""
    if isinstance(term, Compare) and term.operator in _MIRRORED:
        operator, nodes = term.operator, [term.left, term.right]
        if not isinstance(term.left, Path):
            operator, nodes = _MIRRORED[operator], nodes[::-1]
    elif isinstance(term, Between):
        operator, nodes = "BETWEEN", [term.operand, term.lower, term.upper]
    elif isinstance(term, Call) and term.function == "begins_with":
        operator, nodes = "begins_with", list(term.arguments)
    else:
        return None
    path, *rest = nodes
    if not isinstance(path, Path) or len(path.steps) > 1:
        return None
    operands = []
    for node in rest:
        if isinstance(node, Constant):
            operands.append(node.value)
        elif isinstance(node, Slot):
            operands.append(given[node.index])
        else:
            return None
    return str(path.steps[0]), operator, operands
