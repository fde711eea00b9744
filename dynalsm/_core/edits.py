"""What an edit of the manifest must look like before anything is made of it (docs/format.md).

A checksum proves that bytes are those that were written, not that a program wrote sense into them;
so types and ranges are checked here, and that edits fit each other in state.py.

Thread safety: pure functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Numbers of files, trees and partitions, sizes and counts: far more than there can be, and no sum
# of two of them passes 64 bits.
NUMBER_MAX = 1 << 62
SEQNO_MAX = (1 << 56) - 1
# The engine has an array with a place for every tree there ever was; ids are never used again.
TREE_MAX = 1 << 26
LEVEL_MAX = 6
U64_MAX = (1 << 64) - 1

Check = Callable[[Any], None]


def check(edit: Any) -> None:
    """Raises: ValueError for what is no edit."""
    if not isinstance(edit, dict):
        raise ValueError(f"{edit!r:.100} is no edit")
    for name, value in edit.items():
        rule = _MEMBERS.get(name)
        if rule is None:
            continue  # Newer versions may say more; `format` tells when it matters.
        try:
            rule(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _number(value: Any, most: int = NUMBER_MAX) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.100} is no number from 0 to {most}")


def _tree_id(value: Any) -> None:
    _number(value, TREE_MAX)


def _seqno(value: Any) -> None:
    _number(value, SEQNO_MAX)


def _u64(value: Any) -> None:
    _number(value, U64_MAX)


def _level(value: Any) -> None:
    _number(value, LEVEL_MAX)


def _key(value: Any) -> None:
    if type(value) is not bytes:
        raise ValueError(f"{value!r:.100} is no key")


def _key_or_none(value: Any) -> None:
    if value is not None:
        _key(value)


def _text(value: Any) -> None:
    if type(value) is not str:
        raise ValueError(f"{value!r:.100} is no text")


def _bool(value: Any) -> None:
    if type(value) is not bool:
        raise ValueError(f"{value!r:.100} is not true or false")


def _row(*rules: Check) -> Check:
    def check_row(value: Any) -> None:
        if type(value) is not list or len(value) != len(rules):
            raise ValueError(f"{value!r:.100} is no list of {len(rules)}")
        for rule, each in zip(rules, value, strict=True):
            rule(each)

    return check_row


def _list(rule: Check) -> Check:
    def check_list(value: Any) -> None:
        if type(value) is not list:
            raise ValueError(f"{value!r:.100} is no list")
        for each in value:
            rule(each)

    return check_list


def _partitions(value: Any) -> None:
    """[[id, lower], ...]: from 0 up, each id once."""
    _list(_row(_number, _u64))(value)
    lowers = [lower for _, lower in value]
    if not lowers or lowers[0] != 0 or lowers != sorted(set(lowers)):
        raise ValueError(f"{value!r:.100} does not cut a tree in partitions")
    if len({number for number, _ in value}) != len(value):
        raise ValueError(f"{value!r:.100} has a partition twice")


def _tree(value: Any) -> None:
    _row(_tree_id, _text, _bool, _partitions)(value)
    if not value[2] and len(value[3]) != 1:
        raise ValueError(f"tree {value[0]} is not hashed and has {len(value[3])} partitions")


def _table(value: Any) -> None:
    _row(
        _number, _number, _level, _number, _number, _u64,  # place, file, bytes, unique id
        _number, _number, _seqno, _seqno, _number,  # what it holds
        _key, _key, _seqno,
    )(value)  # fmt: skip
    if value[11] > value[12] or value[8] > value[9]:
        raise ValueError(f"table {value[3]} ends before it begins")


def _closed(value: Any) -> None:
    if value != []:
        _row(_number, _number)(value)


_MEMBERS: dict[str, Check] = {
    "format": _number,
    "hash": _text,
    "next": _number,
    "next_tree": _tree_id,
    "next_partition": _number,
    "log": _number,
    "flushed": _seqno,
    "closed": _closed,
    "begun": _number,
    "trees": _list(_tree),
    "tree": _tree,
    "untree": _number,
    "split": _row(_number, _number, _list(_row(_number, _u64))),
    "drop": _list(_row(_number, _number, _number)),
    "add": _list(_table),
    "ranges": _list(_row(_number, _number, _list(_row(_key, _key_or_none, _seqno)))),
}
