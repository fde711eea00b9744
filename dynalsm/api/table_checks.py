"""CreateTable's members as a TableSchema, or the error DynamoDB gives (reference 13.4, order kept).

Pure functions: nothing here reads or changes the catalog. UpdateTable shares the checks of its
parts.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from dynalsm import errors, limits
from dynalsm.api import messages
from dynalsm.api.messages import INVALID
from dynalsm.model.schema import (
    PAY_PER_REQUEST,
    PROVISIONED,
    Ceiling,
    IndexSchema,
    Projection,
    Throughput,
    Warm,
)
from dynalsm.model.settings import Settings

Request = Mapping[str, Any]

MAX_UNITS = 1_000_000_000_000
DEFAULT_WARM = Warm(12_000, 4_000)  # what AWS reports for a new on-demand table
TABLE_CLASSES = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")
_TAG_TEXT = re.compile(r"[\w\s+\-=.:/@]*")

# Members that only mean something with other regions (reference appendix C).
REPLICA_MEMBERS = (
    "GlobalTableSourceArn",
    "GlobalTableSettingsReplicationMode",
    "ReplicaUpdates",
    "MultiRegionConsistency",
    "GlobalTableWitnessUpdates",
    "DisassociationProtectionEnabled",
)


def fail(text: str) -> NoReturn:
    """Raise a ValidationException."""
    raise errors.ValidationException(text)


def invalid(text: str) -> NoReturn:
    """Raise a ValidationException that begins "One or more parameter values were invalid: "."""
    raise errors.ValidationException(INVALID + text)


def refuse_replicas(request: Request) -> None:
    """Refuse members that ask for other regions."""
    for member in REPLICA_MEMBERS:
        if request.get(member):
            fail(messages.unsupported(member))


# Billing and throughput.


def table_billing(request: Request) -> tuple[str, Throughput]:
    """Return (billing mode, throughput) of CreateTable."""
    billing = request.get("BillingMode") or PROVISIONED
    wanted = request.get("ProvisionedThroughput")
    if billing == PAY_PER_REQUEST:
        if wanted:
            invalid(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when "
                "BillingMode is PAY_PER_REQUEST"
            )
        return billing, Throughput()
    if not wanted:
        invalid(
            "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is "
            "PROVISIONED"
        )
    return billing, throughput_of(wanted)


def throughput_of(wanted: Request, index: str = "") -> Throughput:
    """Return checked ProvisionedThroughput of the table, or of an index."""
    for member in ("ReadCapacityUnits", "WriteCapacityUnits"):
        if wanted[member] > MAX_UNITS:
            where = f" for index {index}" if index else ""
            fail(f"Given value {wanted[member]} for {member} is out of bounds{where}")
    return Throughput(wanted["ReadCapacityUnits"], wanted["WriteCapacityUnits"])


def ceiling_of(
    wanted: Request | None,
    billing: str,
    *,
    index: str = "",
    current: Ceiling | None = None,
    is_update: bool = False,
) -> Ceiling | None:
    """Return checked OnDemandThroughput; an update merges with `current`, and -1 removes."""
    if not wanted:
        return current
    values = {}
    target = f"index : {index}" if index else "table"
    old = current or Ceiling()
    for member, before in (
        ("MaxReadRequestUnits", old.read_units),
        ("MaxWriteRequestUnits", old.write_units),
    ):
        value = wanted.get(member)
        if value is not None and billing == PROVISIONED:
            text = f"{member} for OnDemandThroughput cannot be specified when "
            invalid(text + f"{'the ' if is_update else ''}table BillingMode is PROVISIONED"
                    + ("" if is_update else "."))  # fmt: skip
        if value is not None and value < 1 and not (is_update and value == -1):
            invalid(
                f"Requested {member} for OnDemandThroughput for {target} is outside of valid range"
            )
        values[member] = before if value is None else None if value == -1 else value
    ceiling = Ceiling(values["MaxReadRequestUnits"], values["MaxWriteRequestUnits"])
    return None if ceiling == Ceiling() else ceiling


def warm_of(
    wanted: Request | None,
    billing: str,
    throughput: Throughput | None,
    *,
    index: str = "",
    current: Warm | None = None,
) -> Warm | None:
    """Return checked WarmThroughput; it only ever rises. None: nothing was asked for."""
    if not wanted:
        return current
    target = f"index : {index}" if index else "table"
    floor = default_warm(billing, throughput)
    reads = current.read_units if current else None
    writes = current.write_units if current else None
    values = []
    for member, provisioned, before, least in (
        ("ReadUnitsPerSecond", "ReadCapacityUnits", reads, floor.read_units),
        ("WriteUnitsPerSecond", "WriteCapacityUnits", writes, floor.write_units),
    ):
        value = wanted.get(member)
        if value is None:
            value = before or least
        if value < 1:
            invalid(f"Requested {member} for WarmThroughput for {target} is outside of valid range")
        if before is not None and value < before:
            invalid(
                f"Requested {member} for WarmThroughput for {target} is lower than current "
                "WarmThroughput, decreasing WarmThroughput is not supported"
            )
        if billing == PROVISIONED and value < least:
            invalid(
                f"Requested {member} for WarmThroughput for {target} is lower than {provisioned} "
                "of ProvisionedThroughput"
            )
        values.append(value)
    return Warm(*values)


def default_warm(billing: str, throughput: Throughput | None) -> Warm:
    """Return what DescribeTable shows when WarmThroughput was never set."""
    if billing == PAY_PER_REQUEST or throughput is None:
        return DEFAULT_WARM
    return Warm(throughput.read_units, throughput.write_units)


# Keys.


def definitions_of(request: Request) -> dict[str, str]:
    """Return AttributeDefinitions as name -> type."""
    definitions: dict[str, str] = {}
    for definition in request.get("AttributeDefinitions") or ():
        name = definition["AttributeName"]
        if name in definitions:
            fail(f"Attribute Name is duplicated: {name}")
        definitions[name] = definition["AttributeType"]
    return definitions


def table_key(request: Request, definitions: Mapping[str, str]) -> tuple[str, str | None]:
    """Return (partition key, sort key or None) of CreateTable."""
    key = request["KeySchema"]
    if len(key) > len(definitions):
        fail("Invalid KeySchema: Some index key attribute have no definition")
    check_defined(key, definitions)
    check_two_part_key(key)
    has_indexes = any(
        request.get(member) is not None
        for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes", "VectorIndexes")
    )
    if not has_indexes and len(definitions) != len(key):
        invalid(
            "Number of attributes in KeySchema does not exactly match number of attributes "
            "defined in AttributeDefinitions"
        )
    return key[0]["AttributeName"], key[1]["AttributeName"] if len(key) > 1 else None


def check_defined(key: Sequence[Request], definitions: Mapping[str, str]) -> None:
    """Refuse a key with attributes outside AttributeDefinitions."""
    names = [element["AttributeName"] for element in key]
    if not all(name in definitions for name in names):
        invalid(
            "Some index key attributes are not defined in AttributeDefinitions. Keys: "
            f"[{', '.join(names)}], AttributeDefinitions: [{', '.join(definitions)}]"
        )


def check_two_part_key(key: Sequence[Request]) -> None:
    """Check the key schema of a table or of a local index: HASH, then RANGE if any."""
    if len(key) > 1 and key[0]["AttributeName"] == key[1]["AttributeName"]:
        fail("Both the Hash Key and the Range Key element in the KeySchema have the same name")
    if key[0]["KeyType"] != "HASH":
        fail("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    if len(key) > 1 and key[1]["KeyType"] != "RANGE":
        fail("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")


def _check_gsi_key(key: Sequence[Request]) -> None:
    """Check a GSI's key: up to four HASH attributes, then up to four RANGE attributes."""
    if len(key) <= 2 and not (len(key) == 2 and key[1]["KeyType"] == "HASH"):
        check_two_part_key(key)
        return
    if key[0]["KeyType"] != "HASH":
        fail("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    names = [element["AttributeName"] for element in key]
    if len(set(names)) != len(names):
        fail("The KeySchema contains multiple key attributes with the same name")
    kinds = [element["KeyType"] for element in key]
    if kinds != sorted(kinds):
        invalid("All HASH key attributes must precede RANGE key attributes in the KeySchema")
    for kind, most in (
        ("HASH", limits.INDEX_HASH_ATTRIBUTES_MAX),
        ("RANGE", limits.INDEX_RANGE_ATTRIBUTES_MAX),
    ):
        if kinds.count(kind) > most:
            invalid(f"The KeySchema exceeds the maximum allowed number of {kind} key attributes")


# Indexes.


def projection_of(wanted: Request) -> Projection:
    """Return a checked Projection."""
    kind, attributes = wanted.get("ProjectionType"), wanted.get("NonKeyAttributes")
    if kind is None:
        invalid("Unknown ProjectionType: null")
    if kind != "INCLUDE" and attributes is not None:
        invalid(f"ProjectionType is {kind}, but NonKeyAttributes is specified")
    if kind == "INCLUDE" and not attributes:
        invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
    seen = set()
    for name in attributes or ():
        if name in seen:
            invalid(f"Duplicate element in NonKeyAttributes: {name}")
        seen.add(name)
    return Projection(kind, tuple(attributes or ()))


def local_indexes(
    request: Request, hash_key: str, range_key: str | None, definitions: Mapping[str, str]
) -> list[IndexSchema]:
    """Return the LSIs of CreateTable."""
    wanted = request.get("LocalSecondaryIndexes")
    if wanted is None:
        return []
    if not wanted:
        invalid("List of LocalSecondaryIndexes is empty")
    if range_key is None:
        invalid(
            "Table KeySchema does not have a range key, which is required when specifying a "
            "LocalSecondaryIndex"
        )
    indexes: list[IndexSchema] = []
    for index in wanted:
        name, key = index["IndexName"], index["KeySchema"]
        check_defined(key, definitions)
        check_two_part_key(key)
        if len(key) == 1:
            invalid(f"Index KeySchema does not have a range key for index: {name}")
        if key[0]["AttributeName"] != hash_key:
            invalid(
                "Index KeySchema does not have the same leading hash key as table KeySchema for "
                f"index: {name}. index hash key: {key[0]['AttributeName']}, table hash key: "
                f"{hash_key}"
            )
        projection = projection_of(index["Projection"])
        check_fresh(name, indexes)
        range_name = (key[1]["AttributeName"],)
        indexes.append(IndexSchema(name, "LSI", (hash_key,), range_name, projection))
    return indexes


def global_indexes(
    request: Request,
    billing: str,
    definitions: Mapping[str, str],
    taken: Iterable[IndexSchema],
    settings: Settings,
) -> list[IndexSchema]:
    """Return the GSIs of CreateTable; `taken` are its LSIs."""
    wanted = request.get("GlobalSecondaryIndexes")
    if wanted is None:
        return []
    if not wanted:
        invalid("List of GlobalSecondaryIndexes is empty")
    indexes: list[IndexSchema] = []
    taken = list(taken)
    for index in wanted:
        if index.get("ProvisionedThroughput") and billing == PAY_PER_REQUEST:
            invalid(
                f"ProvisionedThroughput should not be specified for index: {index['IndexName']} "
                "when BillingMode is PAY_PER_REQUEST"
            )
        if not index.get("ProvisionedThroughput") and billing == PROVISIONED:
            invalid(f"ProvisionedThroughput is not specified for index: {index['IndexName']}")
        schema = global_index(index, billing, definitions)
        check_fresh(schema.name, taken + indexes)
        indexes.append(schema)
    if len(indexes) > settings.limit_gsi:
        invalid(f"GlobalSecondaryIndex count exceeds the per-table limit of {settings.limit_gsi}")
    return indexes


def global_index(index: Request, billing: str, definitions: Mapping[str, str]) -> IndexSchema:
    """Return one GSI, checked on its own."""
    name, key = index["IndexName"], index["KeySchema"]
    check_defined(key, definitions)
    _check_gsi_key(key)
    throughput = index.get("ProvisionedThroughput")
    units = throughput_of(throughput, name) if throughput else None
    return IndexSchema(
        name,
        "GSI",
        tuple(part["AttributeName"] for part in key if part["KeyType"] == "HASH"),
        tuple(part["AttributeName"] for part in key if part["KeyType"] == "RANGE"),
        projection_of(index["Projection"]),
        units,
        ceiling_of(index.get("OnDemandThroughput"), billing, index=name),
        warm_of(index.get("WarmThroughput"), billing, units, index=name),
    )


def check_fresh(name: str, indexes: Iterable[IndexSchema]) -> None:
    """Refuse an index name that one of `indexes` has."""
    if any(index.name == name for index in indexes):
        invalid(f"Duplicate index name: {name}")


def check_counts(indexes: Sequence[IndexSchema], settings: Settings) -> None:
    """Check the limits over all indexes of a table."""
    if sum(index.kind == "LSI" for index in indexes) > settings.limit_lsi:
        invalid(f"Number of LocalSecondaryIndexes exceeds per-table limit of {settings.limit_lsi}")
    projected = sum(len(index.projection.attributes) for index in indexes if index.kind != "VECTOR")
    if projected > settings.limit_projected:
        # Unverified wording.
        invalid(
            f"Number of NonKeyAttributes over all indexes exceeds the limit of "
            f"{settings.limit_projected}: {projected}"
        )


def check_all_used(
    definitions: Mapping[str, str], key: Sequence[str | None], indexes: Iterable[IndexSchema]
) -> None:
    """Refuse attribute definitions that no key and no search schema uses."""
    used = [name for name in key if name is not None]
    for index in indexes:
        used += [name for name in index.typed_names if name not in used]
    if len(used) != len(definitions):
        invalid(
            f"Some AttributeDefinitions are not used. AttributeDefinitions: "
            f"[{', '.join(definitions)}], keys used: [{', '.join(used)}]"
        )


# The rest.


def stream_view(request: Request) -> str | None:
    """Return the view type of a stream to be created with the table, or None."""
    wanted = request.get("StreamSpecification")
    if not wanted:
        return None
    view: str | None = wanted.get("StreamViewType")
    if wanted["StreamEnabled"] and view is None:
        invalid("Table is being created with a stream enabled, UpdateViewType is required")
    if not wanted["StreamEnabled"] and view is not None:
        invalid(
            "Table is being created with a stream disabled, UpdateViewType should not be specified"
        )
    return view


def sse_key(wanted: Request | None, settings: Settings) -> str | None:
    """Return the ARN of the KMS key that SSESpecification asks for; None: default encryption."""
    if not wanted:
        return None
    kind, key = wanted.get("SSEType"), wanted.get("KMSMasterKeyId")
    if not wanted.get("Enabled"):
        if kind is not None:
            invalid("SSEType can not be specified if Enabled is false")
        if key is not None:
            invalid("KMSMasterKeyId can not be specified if Enabled is false")
        return None
    if kind == "AES256":
        invalid("SSEType AES256 is not supported")
    if key is not None and kind is None:
        invalid("SSEType KMS is required if KMSMasterKeyId is specified")
    if key is None:
        key = str(uuid.uuid5(uuid.NAMESPACE_DNS, "alias/aws/dynamodb"))
    if key.startswith("arn:"):
        return str(key)
    kind = "" if key.startswith("alias/") else "key/"
    return f"arn:aws:kms:{settings.region}:{settings.account_id}:{kind}{key}"


def table_class_of(wanted: str | None) -> str | None:
    """Return a checked TableClass."""
    if wanted is not None and wanted not in TABLE_CLASSES:
        fail(
            "Invalid table-class parameter provided. Please try again with a valid table-class "
            f"value: [{', '.join(TABLE_CLASSES)}]."
        )
    return wanted


def tags_of(wanted: Sequence[Request] | None) -> dict[str, str]:
    """Return checked Tags."""
    tags: dict[str, str] = {}
    for tag in wanted or ():
        key, value = tag["Key"], tag["Value"]
        if not _TAG_TEXT.fullmatch(key):
            fail(f"The Tag Key provided is invalid, Key: {key}")
        if not _TAG_TEXT.fullmatch(value):
            fail(f"The Tag Value provided is invalid, Value: {value}")
        if key.lower().startswith("aws:"):
            fail(f"Tag Key cannot be prefixed with aws:, Key: {key}")
        if key in tags:
            fail(f"Duplicate Tag Keys provided as input: Duplicate Tag Key found {key}")
        tags[key] = value
    return tags


def check_tag_count(tags: Mapping[str, str], settings: Settings) -> None:
    """Refuse more tags than a resource may have."""
    if len(tags) > settings.limit_tags:
        fail("Number of Tags exceed the current limit for the provided ResourceArn")


def policy_of(text: str) -> str:
    """Return a checked policy document (not enforced: there is only one principal here)."""
    if len(text.encode()) > limits.POLICY_MAX_BYTES:
        invalid(f"Maximum policy size of {limits.POLICY_MAX_BYTES} bytes exceeded")
    problem = "This policy contains invalid Json"
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        statements = document.get("Statement")
        statements = [statements] if isinstance(statements, dict) else statements
        if not isinstance(statements, list) or not statements:
            problem = "Missing required field Statement"
        else:
            problem = _policy_problem(statements)
    if problem:
        invalid(f"Invalid policy document: {problem}")
    return text


def _policy_problem(statements: list[Any]) -> str:
    for statement in statements:
        if not isinstance(statement, dict):
            return "This policy contains invalid Json"
        for member in ("Effect", "Principal", "Action", "Resource"):
            if member not in statement and "Not" + member not in statement:
                return f"Missing required field {member}"
        actions = statement.get("Action", [])
        actions = [actions] if isinstance(actions, str) else actions
        wrong = [name for name in actions if not str(name).lower().startswith("dynamodb:")]
        if wrong and "*" not in wrong:
            return f"The following action names are invalid: {', '.join(map(str, wrong))}"
    return ""
