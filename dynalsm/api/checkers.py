"""The fast half of validation: one compiled checker per operation, made from its shape.

`CHECKERS["GetItem"](request, known_names)` returns True when the request is beyond doubt valid,
and anything else (False, or a TypeError or AttributeError on the way) when it needs a closer
look by validate.explain. A checker looks at each member once and calls nothing for the common
scalars: about 0.3 us for a GetItem (bench/micro/bench_validate.py). Checkers are made on first
use and then only read; making one twice in two threads is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dynalsm.api.shapes import SHAPES, TABLE_NAME_SHAPES, Shape, input_of, python_pattern

Checker = Callable[[Any, Any], bool]

# What a Java number of the kind holds; validate.explain refuses more.
_LARGEST = {"integer": 2**31 - 1, "long": 2**63 - 1}


class _Checkers(dict[str, Checker]):
    def __missing__(self, operation: str) -> Checker:
        checker = self[operation] = _compile(input_of(operation))
        return checker


CHECKERS = _Checkers()


def _compile(shape: Shape) -> Checker:
    """Return the checker of a structure: source text for it and all below it, executed once."""
    writer = _Writer()
    writer.define(shape)
    namespace: dict[str, Any] = dict(writer.constants)
    exec("\n".join(writer.lines), namespace)
    checker: Checker = namespace[f"check_{shape.name}"]
    return checker


class _Writer:
    """Collects the functions that one checker needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._defined: set[str] = set()

    def define(self, shape: Shape) -> None:
        """Add the function `check_<name>(v, known)` for a structure, list or map."""
        if shape.name in self._defined:
            return
        self._defined.add(shape.name)
        body = {"structure": self._structure, "list": self._list, "map": self._map}[shape.kind]
        lines = body(shape)
        self.lines.append(f"def check_{shape.name}(v, known):")
        self.lines += [f"    {line}" for line in lines] + ["    return True"]

    def _structure(self, shape: Shape) -> list[str]:
        lines = ["get = v.get"]
        for name, member in shape.members.items():
            bad = self._failing(SHAPES[member.shape], "m")
            lines.append(f"m = get({name!r})")
            if member.required:
                lines.append(f"if {bad or 'm is None'}: return False")
            elif bad:
                lines.append(f"if m is not None and ({bad}): return False")
        return lines

    def _list(self, shape: Shape) -> list[str]:
        lines = ["if type(v) is not list: return False", *_length(shape)]
        bad = self._failing(SHAPES[shape.element], "e")
        if bad:
            lines += ["for e in v:", f"    if {bad}: return False"]
        return lines

    def _map(self, shape: Shape) -> list[str]:
        lines = ["if type(v) is not dict: return False", *_length(shape)]
        tests = [self._failing(SHAPES[shape.key], "k") or "type(k) is not str"]
        bad = self._failing(SHAPES[shape.element], "e")
        if bad:
            lines += ["for k, e in v.items():", f"    if {tests[0]} or {bad}: return False"]
        # A map of attribute values is an item or key: the codec checks its names on the way.
        return lines

    def _failing(self, shape: Shape, v: str) -> str:
        """Return an expression that is true when `v` (not None) breaks the shape; "" if none."""
        if shape.name in TABLE_NAME_SHAPES:
            return f"{v} not in known"
        kind = shape.kind
        if kind == "value":
            return ""
        if kind in ("structure", "list", "map"):
            plain = kind == "map" and SHAPES[shape.element].kind == "value"
            if plain and shape.min is None and shape.max is None:
                return f"type({v}) is not dict"
            self.define(shape)
            return f"not check_{shape.name}({v}, known)"
        if kind == "string":
            return self._bad_string(shape, v)
        if kind == "boolean":
            return f"{v} is not True and {v} is not False"
        types = "is not int" if kind in ("integer", "long") else "not in (int, float)"
        return " or ".join([f"type({v}) {types}", *_range(shape, v)])

    def _bad_string(self, shape: Shape, v: str) -> str:
        if shape.enum:
            self.constants[f"ENUM_{shape.name}"] = frozenset(shape.enum)
            return f"{v} not in ENUM_{shape.name}"
        tests = [f"type({v}) is not str"]
        if shape.min:
            tests.append(f"len({v}) < {shape.min}")
        if shape.max is not None:
            tests.append(f"len({v}) > {shape.max}")
        if shape.pattern:
            match = re.compile(python_pattern(shape.pattern)).fullmatch
            self.constants[f"match_{shape.name}"] = match
            tests.append(f"not match_{shape.name}({v})")
        return " or ".join(tests)


def _range(shape: Shape, v: str) -> list[str]:
    tests = []
    if shape.min is not None:
        tests.append(f"{v} < {shape.min}")
    if shape.max is not None:
        tests.append(f"{v} > {shape.max}")
    elif shape.kind in _LARGEST:
        tests.append(f"{v} > {_LARGEST[shape.kind]}")
    if shape.min is None and shape.kind in _LARGEST:
        tests.append(f"{v} < {-_LARGEST[shape.kind]}")
    return tests


def _length(shape: Shape) -> list[str]:
    tests = []
    if shape.min:
        tests.append(f"len(v) < {shape.min}")
    if shape.max is not None:
        tests.append(f"len(v) > {shape.max}")
    return [f"if {' or '.join(tests)}: return False"] if tests else []
