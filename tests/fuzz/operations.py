"""Requests of all operations, made by the shapes of the API."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from dynalsm.api import shapes
from dynalsm.api.registry import OPERATIONS
from tests.fuzz.expressions import WORDS, Expressions, Grammar
from tests.fuzz.mutate import dump, load, mutate_text, typed_value
from tests.fuzz.requests import ITEM, KEY, STREAMED, Requests
from tests.support.store import INDEXED, PAIRS, SIMPLE, S, Store
from tests.support.vectors import NAME as VECTORS
from tests.support.vectors import numbers

EXPRESSION_MEMBERS = (
    "ConditionExpression", "FilterExpression", "KeyConditionExpression", "UpdateExpression",
    "ProjectionExpression", "SearchConditionExpression",
)  # fmt: skip


class Generator:
    """Makes requests by the shapes of the API, with names that often exist."""

    names: ClassVar = [SIMPLE, PAIRS, INDEXED, STREAMED, "new", "other"]
    texts: ClassVar[dict[str, list[str]]] = {
        "TableName": names, "TableArn": names, "AttributeName": ["p", "s", "a", "b", "#a"],
        "KeySchemaAttributeName": ["p", "s", "a"], "IndexName": ["by-g", "by-l", "near", "i2"],
        "S3Bucket": ["in", "out", "../x"], "S3Prefix": ["x", "", "../y"],
        "ExpressionAttributeNameVariable": ["#a", "#b", "#p"],
        "ExpressionAttributeValueVariable": [":v", ":w", ":n"],
        "PartiQLStatement": ["SELECT * FROM pairs", "DELETE FROM pairs WHERE p='a' AND s='s1'"],
    }  # fmt: skip

    def __init__(self, rng: random.Random, arn: str) -> None:
        self.rng = rng
        self.arn = arn

    def request(self, operation: str) -> Any:
        return self.value(shapes.input_of(operation), 0)

    def value(self, shape: shapes.Shape, depth: int) -> Any:
        if shape.kind == "structure":
            share = 0.35 if depth < 4 else 0.1
            return {
                name: self.value(shapes.SHAPES[member.shape], depth + 1)
                for name, member in shape.members.items()
                if self.rng.random() < (0.97 if member.required else share)
            }
        if shape.kind == "list":
            count = max(shape.min or 0, self.rng.choice([0, 1, 1, 2])) if depth < 7 else 0
            return [self.value(shapes.SHAPES[shape.element], depth + 1) for _ in range(count)]
        if shape.kind == "map":
            return self.map(shape, depth)
        return self.scalar(shape)

    def map(self, shape: shapes.Shape, depth: int) -> dict[str, Any]:
        if shape.element == "AttributeValue" and self.rng.random() < 0.7:
            return dict(self.rng.choice([KEY, ITEM, {"p": S("a")}, {":v": S("a")}]))
        count = self.rng.choice([0, 1, 1, 2])
        element = shapes.SHAPES[shape.element]
        keys = [self.scalar(shapes.SHAPES[shape.key]) for _ in range(count)]
        return {str(key): self.value(element, depth + 1) for key in keys}

    def scalar(self, shape: shapes.Shape) -> Any:
        rng = self.rng
        if shape.kind == "value":
            return typed_value(rng)
        if shape.enum:
            return rng.choice(shape.enum)
        if shape.kind == "boolean":
            return rng.random() < 0.5
        if shape.kind in ("integer", "long"):
            return rng.choice([shape.min or 1, shape.min or 1, 1, 2, 5, shape.max or 10])
        if shape.kind in ("double", "timestamp"):
            return rng.choice([0, 1.5, 1_700_000_000, 1_699_999_999.5])
        if shape.name in self.texts:
            return rng.choice(self.texts[shape.name])
        if "Arn" in shape.name:
            return rng.choice([self.arn, self.arn + "/index/by-g", self.arn + "/backup/0-0"])
        if "Expression" in shape.name:
            kind = {"Key": "key", "Upd": "update", "Pro": "projection"}.get(shape.name[:3])
            return Grammar(rng).text(kind or "condition")
        return rng.choice(["a", "b-1", "x" * (shape.min or 3)])


def change_expression(rng: random.Random, text: str) -> str:
    return mutate_text(rng, text, WORDS)


class Operations(Requests):
    """All operations, by their shapes."""

    name = "operations"
    special: ClassVar = dict.fromkeys(EXPRESSION_MEMBERS, change_expression)

    def prepare(self, store: Store) -> None:
        self.arn = store("DescribeTable", TableName=INDEXED)["Table"]["TableArn"]

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        rng = random.Random(9)
        made = [(name, self.fresh(rng, name)) for name in OPERATIONS for _ in range(4)]
        vector = {"TableName": VECTORS, "IndexName": "near", "TopK": 2}
        made.append(("SearchVectors", {**vector, "SearchVector": numbers(1, 0, 0)}))
        key = {"p": {"B": "YQ=="}, "s": {"B": ""}}
        made.append(("GetItem", {"TableName": "blobs", "Key": key}))
        return made

    def fresh(self, rng: random.Random, operation: str) -> Any:
        return Generator(rng, self.arn).request(operation)

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        way = rng.random()
        if way < 0.4:
            name = rng.choice(list(OPERATIONS))
            return dump({"operation": name, "request": self.fresh(rng, name)})
        if way < 0.6:
            return dump(self.with_expression(rng))
        return super().make(rng, kept)

    def with_expression(self, rng: random.Random) -> dict[str, Any]:
        """A request around an input of the target for expressions."""
        whole = load(Expressions(self.work).fresh(rng, rng.choice(["condition", "update"])))
        request = {"TableName": rng.choice([PAIRS, INDEXED, STREAMED]), "Key": KEY}
        for member, name in (("names", "Names"), ("values", "Values")):
            if whole[member]:
                request[f"ExpressionAttribute{name}"] = whole[member]
        if whole["kind"] == "update":
            request |= {"UpdateExpression": whole["text"], "ReturnValues": "ALL_NEW"}
            return {"operation": "UpdateItem", "request": request}
        if rng.random() < 0.5:
            del request["Key"]
            request["FilterExpression"] = whole["text"]
            return {"operation": "Scan", "request": request}
        request["ConditionExpression"] = whole["text"]
        return {"operation": "DeleteItem", "request": request}
