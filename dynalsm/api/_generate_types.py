"""Write `dynalsm/type_defs.py` from botocore's models: `python -m dynalsm.api._generate_types`.

Names and forms are those of the package mypy-boto3-dynamodb, so that annotations written for it
hold here: `XTypeDef` is shape X as a request has it (Sequence, Mapping), `XOutputTypeDef` as a
reply has it (list, dict) where both exist and differ; such a request takes either.
`--models DIR` names a botocore `data` directory other than the installed one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dynalsm.api._generate_shapes import OPAQUE, SERVICES, load_models
from dynalsm.api.shapes import snake_case

TARGET = Path(__file__).parents[1] / "type_defs.py"
# What a reply leaves out in the ordinary course of things; everything else is there, or the caller
# has asked for it (mypy-boto3-dynamodb draws the same line).
OFTEN_ABSENT = frozenset({"Item", "LastEvaluatedKey", "NextToken"})
CLASSES = {"dynamodb": "DynamoDBMethods", "dynamodbstreams": "StreamsMethods"}
PLAIN = {
    "string": "str",
    "boolean": "bool",
    "integer": "int",
    "long": "int",
    "double": "float",
    "float": "float",
}

HEADER = '''"""The types of requests and replies. Made by dynalsm.api._generate_types; do not edit.

    from dynalsm.type_defs import AttributeValueTypeDef, PutItemInputTypeDef

`PutItemInputTypeDef` is what `db.client.put_item` takes, `PutItemOutputTypeDef` what it returns;
names and forms are those of mypy_boto3_dynamodb.type_defs.
"""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias, TypedDict, Unpack

'''

FIXED = """
class AttributeValueTypeDef(TypedDict):
    S: NotRequired[str]
    N: NotRequired[str]
    B: NotRequired[bytes]
    SS: NotRequired[Sequence[str]]
    NS: NotRequired[Sequence[str]]
    BS: NotRequired[Sequence[bytes]]
    M: NotRequired[Mapping[str, Any]]
    L: NotRequired[Sequence[Any]]
    NULL: NotRequired[bool]
    BOOL: NotRequired[bool]


class ResponseMetadataTypeDef(TypedDict):
    RequestId: str
    HTTPStatusCode: int
    HTTPHeaders: dict[str, str]
    RetryAttempts: int
    HostId: NotRequired[str]

"""


class Writer:
    """Collects the text for one model after the other."""

    def __init__(self) -> None:
        self.enums: dict[str, str] = {}
        self.structures: dict[str, str] = {}
        self.methods: dict[str, list[str]] = {service: [] for service in SERVICES}
        self.shapes: dict[str, Any] = {}
        self.in_requests: set[str] = set()
        self.in_replies: set[str] = set()
        self.unions: dict[str, str] = {}

    def add_service(self, service: str, model: dict[str, Any]) -> None:
        self.shapes = model["shapes"]
        self.in_requests, self.in_replies = set(), set()
        operations = sorted(model["operations"].items())
        for _, operation in operations:
            self._reach(operation["input"]["shape"], self.in_requests)
            if "output" in operation:
                self._reach(operation["output"]["shape"], self.in_replies)
        for name, operation in operations:
            request = self._type(operation["input"]["shape"], is_reply=False)
            reply = self._reply(operation.get("output", {}).get("shape"))
            self.methods[service].append(
                f"{snake_case(name)}(self, **kwargs: Unpack[{request}]) -> {reply}: ..."
            )

    def _reach(self, name: str, found: set[str]) -> None:
        if name in found or name == OPAQUE:
            return
        found.add(name)
        for child in _children(self.shapes[name]):
            self._reach(child, found)

    def _reply(self, name: str | None) -> str:
        if name is None:
            name, members = "Empty", {}
        else:
            members = self.shapes[name]["members"]
        lines = []
        for member, target in members.items():
            hint = self._type(target["shape"], is_reply=True)
            lines.append(f"{member}: " + _optional(hint, member in OFTEN_ABSENT))
        lines.append("ResponseMetadata: ResponseMetadataTypeDef")
        known = f"{name}TypeDef" if name.endswith("Output") else f"{name}ResponseTypeDef"
        self._define(known, lines)
        return known

    def _type(self, name: str, is_reply: bool) -> str:
        if name == OPAQUE:
            return "AttributeValueTypeDef"
        shape = self.shapes[name]
        kind = shape["type"]
        if kind == "structure":
            known = self._structure(name, is_reply)
            if is_reply or not self._has_two_forms(name):
                return known
            union = f"{name}UnionTypeDef"  # what a reply had may be sent again
            self.unions[union] = f"{known} | {self._structure(name, True)}"
            return union
        if kind in ("list", "map"):
            inner = shape["member" if kind == "list" else "value"]["shape"]
            hint = self._type(inner, is_reply)
            if kind == "list":
                return f"{'list' if is_reply else 'Sequence'}[{hint}]"
            return f"{'dict' if is_reply else 'Mapping'}[str, {hint}]"
        if kind == "timestamp":
            return "datetime" if is_reply else "TimestampTypeDef"
        if "enum" in shape:
            values = ", ".join(f'"{value}"' for value in shape["enum"])
            self.enums[f"{name}Type"] = f"Literal[{values}]"
            return f"{name}Type"
        return PLAIN[kind]

    def _structure(self, name: str, is_reply: bool) -> str:
        known = f"{name}TypeDef"
        if is_reply and self._has_two_forms(name):
            known = f"{name}OutputTypeDef"
        if known not in self.structures:
            self.structures[known] = ""  # it may hold itself
            shape = self.shapes[name]
            required = shape.get("required", ())
            self._define(
                known,
                [
                    f"{member}: "
                    + _optional(self._type(target["shape"], is_reply), member not in required)
                    for member, target in shape["members"].items()
                ],
            )
        return known

    def _has_two_forms(self, name: str) -> bool:
        both = name in self.in_requests and name in self.in_replies
        return both and self._has_collection(name, ())

    def _has_collection(self, name: str, seen: tuple[str, ...]) -> bool:
        shape = self.shapes[name]
        if name == OPAQUE or name in seen:
            return False
        if shape["type"] in ("list", "map", "timestamp"):
            return True
        return any(self._has_collection(child, (*seen, name)) for child in _children(shape))

    def _define(self, known: str, lines: list[str]) -> None:
        text = "\n".join(f"    {line}" for line in lines or ["pass"])
        text = f"class {known}(TypedDict):\n{text}\n"
        if self.structures.get(known) not in ("", None, text):
            raise SystemExit(f"{known} would mean two things")
        self.structures[known] = text

    def render(self) -> str:
        """Return the text of type_defs.py."""
        enums = "\n".join(f"{name}: TypeAlias = {self.enums[name]}" for name in sorted(self.enums))
        structures = "\n\n".join(self.structures[name] for name in sorted(self.structures))
        classes = "\n\n".join(
            f"    class {prefix}{CLASSES[service]}:\n"
            + "\n".join(f"        {start} {line}" for line in lines)
            for prefix, start in (("", "def"), ("Async", "async def"))
            for service, lines in self.methods.items()
        )
        unions = "\n".join(
            f"{name}: TypeAlias = {self.unions[name]}" for name in sorted(self.unions)
        )
        return (
            f"{HEADER}{enums}\nTimestampTypeDef: TypeAlias = datetime | float\n\n{FIXED}\n"
            f"{structures}\n\n{unions}\n\nif TYPE_CHECKING:\n\n{classes}\n"
        )


def _children(shape: dict[str, Any]) -> list[str]:
    if shape["type"] == "structure":
        return [target["shape"] for target in shape["members"].values()]
    if shape["type"] == "list":
        return [shape["member"]["shape"]]
    return [shape["value"]["shape"]] if shape["type"] == "map" else []


def _optional(hint: str, is_optional: bool) -> str:
    return f"NotRequired[{hint}]" if is_optional else hint


def render(models: dict[str, dict[str, Any]]) -> str:
    """Return the text of type_defs.py for these models."""
    writer = Writer()
    for service, model in models.items():
        writer.add_service(service, model)
    return writer.render()


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="a botocore data directory")
    TARGET.write_text(render(load_models(parser.parse_args().models)))


if __name__ == "__main__":
    main()
