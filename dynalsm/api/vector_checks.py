"""Vector indexes in CreateTable and UpdateTable as IndexSchemas, or the error DynamoDB gives.

Reference 1.2 and 7.1; texts marked "unverified" are worded like their siblings. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dynalsm import limits
from dynalsm.api.table_checks import check_fresh, invalid, projection_of
from dynalsm.model.schema import PAY_PER_REQUEST, IndexSchema, VectorSpec
from dynalsm.model.settings import Settings

Request = Mapping[str, Any]

ON_DEMAND_ONLY = "Vector indexes are only supported for PAY_PER_REQUEST tables"


def vector_indexes(
    request: Request,
    billing: str,
    definitions: Mapping[str, str],
    key: Sequence[str | None],
    taken: Sequence[IndexSchema],
    settings: Settings,
) -> list[IndexSchema]:
    """Return the vector indexes of CreateTable; `key` is the table's, `taken` its other indexes."""
    wanted = request.get("VectorIndexes")
    if wanted is None:
        return []
    if not wanted:
        invalid("List of VectorIndexes is empty")
    if len(wanted) > settings.limit_vector_indexes:
        invalid(too_many(settings))
    indexes: list[IndexSchema] = []
    for each in wanted:
        check_billing(billing)
        index = vector_index(each, definitions)
        check_fresh(index.name, [*taken, *indexes])
        indexes.append(index)
    check_attributes(key, [*taken, *indexes])
    return indexes


def too_many(settings: Settings) -> str:
    """Return what is said about one index too many."""
    return f"VectorIndex count exceeds the per-table limit of {settings.limit_vector_indexes}"


def check_billing(billing: str) -> None:
    """Refuse vector indexes of provisioned tables."""
    if billing != PAY_PER_REQUEST:
        invalid(ON_DEMAND_ONLY)


def vector_index(wanted: Request, definitions: Mapping[str, str]) -> IndexSchema:
    """Return one vector index, checked on its own."""
    if wanted["Dimensions"] > limits.VECTOR_MAX_DIMENSIONS:
        invalid(
            f"Number of dimensions must be between 1 and {limits.VECTOR_MAX_DIMENSIONS} inclusive."
        )
    spec = VectorSpec(
        wanted["VectorAttribute"]["AttributeName"],
        wanted["Dimensions"],
        wanted["DistanceFunction"],
        _search_schema(wanted, definitions),
    )
    projection = projection_of(wanted["Projection"])
    return IndexSchema(wanted["IndexName"], "VECTOR", (), (), projection, vector=spec)


def _search_schema(wanted: Request, definitions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    elements = wanted.get("SearchSchema") or ()
    schema = [(part["AttributeName"], part["SearchSchemaElementType"]) for part in elements]
    names = [name for name, _ in schema]
    if len(set(names)) != len(names):  # unverified
        invalid("The SearchSchema contains multiple elements with the same name")
    for role, most in (
        ("HASH", limits.VECTOR_MAX_HASHES),
        ("INLINE_FILTER", limits.VECTOR_MAX_FILTERS),
    ):
        if [each for _, each in schema].count(role) > most:  # unverified
            invalid(f"The SearchSchema exceeds the maximum allowed number of {role} elements")
    if any(name not in definitions for name in names):
        invalid("One element in SearchSchema is not defined in attribute definitions")
    return tuple(schema)


def check_attributes(key: Iterable[str | None], indexes: Sequence[IndexSchema]) -> None:
    """Refuse attributes that would have to be two things at once."""
    scalars = {name for name in key if name is not None}
    dimensions: dict[str, int] = {}
    for index in indexes:
        scalars.update(index.typed_names)
    for index in indexes:
        spec = index.vector
        if spec is None:
            continue
        if spec.attribute in scalars:  # unverified
            invalid(
                f"AttributeName '{spec.attribute}' of VectorAttribute is a key attribute or an "
                f"element of a SearchSchema. IndexName: {index.name}"
            )
        if dimensions.setdefault(spec.attribute, spec.dimensions) != spec.dimensions:
            invalid(
                f"Conflicting attribute definition for '{spec.attribute}'. All VectorIndexes on "
                "the same vector attribute must use the same dimensions."
            )


def actions(request: Request) -> list[tuple[str, Request]]:
    """Return (Create | Delete, its members) of every VectorIndexUpdate."""
    found = []
    for entry in request.get("VectorIndexUpdates") or ():
        given = [kind for kind in ("Create", "Delete") if entry.get(kind) is not None]
        if not given:  # unverified
            invalid("One of VectorIndexUpdate.Create, VectorIndexUpdate.Delete must not be null")
        if len(given) > 1:  # unverified
            invalid("Only one vector index action is allowed per VectorIndexUpdate object")
        found.append((given[0], entry[given[0]]))
    return found
