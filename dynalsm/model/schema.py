"""What a table is, as data: TableSchema, IndexSchema, Projection and their parts.

Frozen dataclasses: a change makes a new object with `dataclasses.replace`. `pack` and `unpack`
turn a TableSchema into the msgpack map stored in the catalog and back; fields that are added
later need a default, so that older records still open.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import msgpack

from dynalsm.model import records

PAY_PER_REQUEST = "PAY_PER_REQUEST"
PROVISIONED = "PROVISIONED"

# States of tables and indexes, as the API spells them.
ACTIVE = "ACTIVE"
CREATING = "CREATING"
DELETING = "DELETING"

# What key attributes may be.
KEY_TYPES = ("S", "N", "B")
_WHAT = "the record of a table"
# Kind of index -> part of its tree's name.
_TREE_LETTERS = {"LSI": "l", "GSI": "g", "VECTOR": "v"}


@dataclass(frozen=True)
class Projection:
    """Which attributes an index entry holds besides the keys. kind: ALL, KEYS_ONLY, INCLUDE."""

    kind: str = "ALL"
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Throughput:
    """Provisioned units, and when they last changed (epoch seconds)."""

    read_units: int = 0
    write_units: int = 0
    increased_at: float | None = None
    decreased_at: float | None = None
    # Decreases on the UTC day `decreases_day` (days since 1970).
    decreases: int = 0
    decreases_day: int = 0


@dataclass(frozen=True)
class Ceiling:
    """OnDemandThroughput: the most units a second an on-demand table may use; None: no limit."""

    read_units: int | None = None
    write_units: int | None = None


@dataclass(frozen=True)
class Warm:
    """WarmThroughput: units per second the table is prepared for."""

    read_units: int
    write_units: int


@dataclass(frozen=True)
class VectorSpec:
    """What makes an index a vector index."""

    attribute: str
    dimensions: int
    # COSINE, EUCLIDEAN or DOT_PRODUCT.
    distance: str
    # (attribute name, HASH or INLINE_FILTER), in the order given.
    search_schema: tuple[tuple[str, str], ...] = ()

    @property
    def hash_name(self) -> str | None:
        """The attribute that every search names a value of, or None."""
        for name, role in self.search_schema:
            if role == "HASH":
                return name
        return None


@dataclass(frozen=True)
class IndexSchema:
    """One secondary index. kind: "LSI", "GSI" or "VECTOR". Key attributes in key order.

    A vector index has no key attributes: nobody reads it by key.
    """

    name: str
    kind: str
    hash_key: tuple[str, ...]
    range_key: tuple[str, ...]
    projection: Projection = field(default_factory=Projection)
    throughput: Throughput | None = None
    ceiling: Ceiling | None = None
    warm: Warm | None = None
    # CREATING (entries of new writes are kept, old items are being added), ACTIVE or DELETING.
    status: str = ACTIVE
    vector: VectorSpec | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        """All key attributes, hash first."""
        return self.hash_key + self.range_key

    @property
    def typed_names(self) -> tuple[str, ...]:
        """The attributes that the index needs a definition of."""
        if self.vector is not None:
            return tuple(name for name, _ in self.vector.search_schema)
        return self.key_names

    @property
    def tree_suffix(self) -> str:
        """The end of the tree's name, after "t/<table id>"."""
        return f"/{_TREE_LETTERS[self.kind]}/{self.name}"


@dataclass(frozen=True)
class StreamSpec:
    """The stream of a table: its label, its view, and whether it still records."""

    label: str
    view: str
    enabled: bool = True


@dataclass(frozen=True)
class Policy:
    """A resource policy: its text and the id of this revision."""

    text: str
    revision: str


@dataclass(frozen=True)
class TableSchema:
    """Everything a table's catalog record says."""

    name: str
    id: str
    created_at: float
    # AttributeDefinitions: exactly the attributes that keys of the table or an index use.
    attributes: dict[str, str]
    hash_key: str
    range_key: str | None = None
    indexes: tuple[IndexSchema, ...] = ()
    billing: str = PROVISIONED
    # When billing last changed to PAY_PER_REQUEST; None for a table that never was.
    on_demand_since: float | None = None
    throughput: Throughput = field(default_factory=Throughput)
    ceiling: Ceiling | None = None
    warm: Warm | None = None
    stream: StreamSpec | None = None
    tags: dict[str, str] = field(default_factory=dict)
    ttl_attribute: str | None = None
    ttl_changed_at: float = 0.0
    table_class: str | None = None
    table_class_changed_at: float | None = None
    # Key ARN of SSE with KMS; None: the default encryption.
    sse_key: str | None = None
    deletion_protection: bool = False
    policy: Policy | None = None
    # The changelog that writes go to (a label): the stream's, or a hidden one while only
    # point-in-time recovery needs it; None: no records are kept.
    changelog: str | None = None
    # Reported as RestoreSummary.
    restored: dict[str, Any] | None = None
    # What other parts of the model keep with the table, by their name ("pitr", "insights",
    # "kinesis", ...). Values are msgpack-able.
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key attributes, hash first."""
        return (self.hash_key,) if self.range_key is None else (self.hash_key, self.range_key)

    def index(self, name: str) -> IndexSchema | None:
        """Return the index called `name`, or None."""
        for index in self.indexes:
            if index.name == name:
                return index
        return None

    def used_attributes(self) -> set[str]:
        """Return the attributes that the keys of the table and of its indexes use."""
        used = set(self.key_names)
        for index in self.indexes:
            used.update(index.typed_names)
        return used

    def with_extra(self, name: str, value: Any) -> TableSchema:
        """Return the schema with `extras[name]` set, or removed when `value` is None."""
        extras = {**self.extras, name: value}
        if value is None:
            del extras[name]
        return dataclasses.replace(self, extras=extras)


def pack(schema: TableSchema) -> bytes:
    """Return the catalog record of `schema`."""
    record: bytes = msgpack.packb(dataclasses.asdict(schema))
    return record


def unpack(record: bytes) -> TableSchema:
    """Return the schema of a catalog record. Raises: CorruptionError."""
    schema = records.build(TableSchema, records.unpack(record, _WHAT), _WHAT)
    what = f"the record of table {schema.name!r:.80}"
    for names in (schema.key_names, *(index.typed_names for index in schema.indexes)):
        for name in names:
            if schema.attributes.get(name) not in KEY_TYPES:
                raise records.damaged(what, f"the key attribute {name!r:.80} has no type")
    for index in schema.indexes:
        if (index.kind == "VECTOR") != (index.vector is not None):
            raise records.damaged(what, f"index {index.name!r:.80} has the wrong kind")
        if index.kind not in _TREE_LETTERS or (index.kind != "VECTOR" and not index.hash_key):
            raise records.damaged(what, f"index {index.name!r:.80} is none")
    return schema
