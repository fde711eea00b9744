"""Write `shape_data.py` from botocore's service models: `python -m dynalsm.api._generate_shapes`.

The models are facts about the wire (member names, types, limits); nothing else of botocore is
used, and nothing of it is needed at run time. `--models DIR` names a botocore `data` directory
other than the installed one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("shape_data.py")
SERVICES = ("dynamodb", "dynamodbstreams")
# Attribute values are written in the caller's form; the codec reads them, not the shapes.
OPAQUE = "AttributeValue"
SCALARS = {"string", "integer", "long", "double", "float", "boolean", "timestamp", "blob"}

HEADER = '''"""Every member of every request, as data. Made by _generate_shapes.py; do not edit.

STRUCTURES: name -> "Member:Shape Member:Shape* ..." ("*": required), in the model's order.
LISTS: name -> (element, min, max). MAPS: name -> (key, value, min, max).
STRINGS: name -> (min, max, pattern, "ENUM VALUES"). NUMBERS: name -> (kind, min, max).
PLAIN: name -> kind, for scalars without limits. OPERATIONS: name -> (service, input structure).
TIMESTAMPS: operation -> paths in its reply that hold epoch seconds ("[]" any element, "{}" any
value). An unlimited side is None. "AttributeValue" is a leaf.
"""

# ruff: noqa: E501
# fmt: off
'''


class Facts:
    """What the two models say, merged."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {
            name: {}
            for name in (
                "OPERATIONS", "STRUCTURES", "LISTS", "MAPS", "STRINGS", "NUMBERS", "PLAIN",
                "TIMESTAMPS",
            )
        }  # fmt: skip

    def add_service(self, service: str, model: dict[str, Any]) -> None:
        shapes = model["shapes"]
        for name, operation in model["operations"].items():
            wanted = operation["input"]["shape"]
            self.tables["OPERATIONS"][name] = (service, wanted)
            self._add_shape(wanted, shapes)
            paths = _timestamps(operation.get("output", {}).get("shape"), shapes, ())
            if paths:
                self.tables["TIMESTAMPS"][name] = paths

    def _add_shape(self, name: str, shapes: dict[str, Any]) -> None:
        shape = shapes[name]
        kind = shape["type"]
        if name == OPAQUE or any(name in table for table in self.tables.values()):
            return
        low, high = shape.get("min"), shape.get("max")
        if kind == "structure":
            required = shape.get("required", ())
            self.tables["STRUCTURES"][name] = " ".join(
                f"{member}:{target['shape']}" + "*" * (member in required)
                for member, target in shape["members"].items()
            )
            children = [target["shape"] for target in shape["members"].values()]
        elif kind == "list":
            children = [shape["member"]["shape"]]
            self.tables["LISTS"][name] = (*children, low, high)
        elif kind == "map":
            children = [shape["key"]["shape"], shape["value"]["shape"]]
            self.tables["MAPS"][name] = (*children, low, high)
        else:
            self._add_scalar(name, kind, shape)
            return
        for child in children:
            self._add_shape(child, shapes)

    def _add_scalar(self, name: str, kind: str, shape: dict[str, Any]) -> None:
        low, high = shape.get("min"), shape.get("max")
        if kind not in SCALARS:
            raise SystemExit(f"{name}: unknown kind {kind!r}")
        enum = " ".join(shape.get("enum", ()))
        if kind == "string" and (enum or low or high or "pattern" in shape):
            self.tables["STRINGS"][name] = (low, high, shape.get("pattern"), enum)
        elif low is not None or high is not None:
            self.tables["NUMBERS"][name] = (kind, low, high)
        else:
            self.tables["PLAIN"][name] = kind


def _timestamps(name: str | None, shapes: dict[str, Any], seen: tuple[str, ...]) -> list[str]:
    if name is None or name == OPAQUE or name in seen:
        return []
    shape = shapes[name]
    kind = shape["type"]
    if kind == "timestamp":
        return [""]
    if kind == "structure":
        steps = [(f".{m}", t["shape"]) for m, t in shape["members"].items()]
    elif kind in ("list", "map"):
        steps = [
            ("[]", shape["member"]["shape"]) if kind == "list" else ("{}", shape["value"]["shape"])
        ]
    else:
        return []
    seen = (*seen, name)
    return [
        (step + rest).lstrip(".") if not seen[1:] else step + rest
        for step, child in steps
        for rest in _timestamps(child, shapes, seen)
    ]


def load_models(directory: str | None) -> dict[str, dict[str, Any]]:
    """Return service name -> model, from `directory` or from the installed botocore."""
    from botocore.loaders import Loader

    loader = Loader(
        extra_search_paths=[directory] if directory else [],
        include_default_search_paths=directory is None,
    )
    return {service: loader.load_service_model(service, "service-2") for service in SERVICES}


def facts(models: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the tables of shape_data.py for these models."""
    gathered = Facts()
    for service, model in models.items():
        gathered.add_service(service, model)
    return gathered.tables


def render(tables: dict[str, dict[str, Any]]) -> str:
    """Return the text of shape_data.py."""
    parts = [HEADER]
    for name, table in tables.items():
        value = "list[str]" if name == "TIMESTAMPS" else "str" if name in TEXT else "tuple"
        hint = f"dict[str, {value if value != 'tuple' else ROWS[name]}]"
        rows = "".join(f"    {json.dumps(key)}: {_literal(table[key])},\n" for key in sorted(table))
        parts.append(f"{name}: {hint} = {{\n{rows}}}\n")
    return "\n".join(parts)


TEXT = ("STRUCTURES", "PLAIN")
ROWS = {
    "OPERATIONS": "tuple[str, str]",
    "LISTS": "tuple[str, int | None, int | None]",
    "MAPS": "tuple[str, str, int | None, int | None]",
    "STRINGS": "tuple[int | None, int | None, str | None, str]",
    "NUMBERS": "tuple[str, int | None, int | None]",
}


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="a botocore data directory")
    arguments = parser.parse_args()
    TARGET.write_text(render(facts(load_models(arguments.models))))


if __name__ == "__main__":
    main()
