"""UpdateTable: one kind of change per call (reference 7.4, 13.8).

First the request alone is judged, then the table is looked up, then the change is made under the
catalog's mutex. Every change is durable and in force when the reply is made, except the filling
of a new index, which goes on in the background (model/backfill.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NoReturn

from dynalsm import errors
from dynalsm.api import describe, messages, names, table_checks, vector_checks
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import backfill, streams
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import (
    ACTIVE,
    CREATING,
    DELETING,
    PAY_PER_REQUEST,
    PROVISIONED,
    IndexSchema,
    TableSchema,
    Throughput,
)
from dynalsm.model.settings import Settings

Request = Mapping[str, Any]

NOTHING_TO_DO = (
    "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, "
    "GlobalSecondaryIndexUpdates, SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, "
    "ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, "
    "OnDemandThroughput, WarmThroughput or TableClass is required"
)
ONE_ONLINE_INDEX = (
    "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously "
    "per table"
)
# Members that must come alone -> their name in the message.
_ALONE = {
    "SSESpecification": "Server-Side Encryption modification must be",
    "TableClass": "TableClass modification must be",
    "DeletionProtectionEnabled": "DeletionProtection modification must be",
    "ReplicaUpdates": "Replica modification must be",
    "WarmThroughput": "WarmThroughput must be",
}
_GUIDE = (
    "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher "
    "limits."
)


def update(database: Any, request: Request) -> dict[str, Any]:
    """Make the change; returns the TableDescription as it is afterwards, with status UPDATING."""
    _check_combination(request)
    _check_index_updates(request)
    name = names.control_table(database, request["TableName"]).name
    _cancel_backfills(database, name, request)
    with database.catalog.mutex:
        handle = names.control_table(database, name)
        change = _Change(database, handle, request)
        described = change.run()
    for index in change.created:
        backfill.start(database, name, index)
    return described


def _limit(text: str) -> NoReturn:
    raise errors.API_ERRORS["LimitExceededException"](text)


def _in_use(text: str) -> NoReturn:
    raise errors.API_ERRORS["ResourceInUseException"](messages.IN_USE + text)


# The request alone.


def _given(request: Request) -> set[str]:
    """Return the members that ask for something."""
    return {
        name
        for name, value in request.items()
        if value is not None and value != [] and name not in ("TableName", "AttributeDefinitions")
    }


def _index_actions(request: Request) -> list[tuple[str, Request]]:
    """Return (Create | Update | Delete, its members) of every GlobalSecondaryIndexUpdate."""
    actions = []
    for entry in request.get("GlobalSecondaryIndexUpdates") or ():
        given = [kind for kind in ("Update", "Create", "Delete") if entry.get(kind) is not None]
        if not given:
            invalid(
                "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
                "GlobalSecondaryIndexUpdate.Delete must not be null"
            )
        if len(given) > 1:
            invalid(
                "Only one global secondary index action is allowed per "
                "GlobalSecondaryIndexUpdate object"
            )
        actions.append((given[0], entry[given[0]]))
    return actions


def _check_combination(request: Request) -> None:
    given = _given(request)
    if not given:
        fail(NOTHING_TO_DO)
    kinds = {kind for kind, _ in _index_actions(request)}
    makes_index = bool(kinds & {"Create", "Delete"} or vector_checks.actions(request))
    if "WarmThroughput" in given and "Create" in kinds:
        invalid("Create global secondary index cannot be specified when updating WarmThroughput")
    for member, text in _ALONE.items():
        if member in given and len(given) > 1:
            invalid(f"{text} the only operation in the request")
    if "OnDemandThroughput" in given and given - {"OnDemandThroughput", "BillingMode"}:
        invalid(
            "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"
        )
    changes_units = bool(given & {"ProvisionedThroughput", "BillingMode"}) or "Update" in kinds
    if "StreamSpecification" in given and changes_units:
        invalid("You cannot modify stream status while updating table IOPS")
    if makes_index and changes_units:
        invalid("You cannot create or delete index while updating table IOPS")
    if makes_index and "StreamSpecification" in given:
        invalid("You cannot create or delete index while changing stream status")
    table_checks.refuse_replicas(request)
    _check_billing(request)
    if request.get("ProvisionedThroughput"):
        table_checks.throughput_of(request["ProvisionedThroughput"])


def _check_billing(request: Request) -> None:
    if request.get("BillingMode") == PAY_PER_REQUEST and request.get("ProvisionedThroughput"):
        invalid(
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode "
            "is PAY_PER_REQUEST"
        )


def _check_index_updates(request: Request) -> None:
    seen = set()
    moving = 0
    for kind, action in _index_actions(request):
        name = action["IndexName"]
        if name in seen:
            invalid(
                "Only one global secondary index update per index is allowed simultaneously. "
                f"Index: {name}"
            )
        seen.add(name)
        moving += kind in ("Create", "Delete")
    if moving + len(vector_checks.actions(request)) > 1:
        _limit(ONE_ONLINE_INDEX)


def _cancel_backfills(database: Any, name: str, request: Request) -> None:
    """Stop filling an index that is to be deleted; the filler needs the mutex to finish."""
    for kind, action in [*_index_actions(request), *vector_checks.actions(request)]:
        if kind == "Delete":
            backfill.cancel(database, name, action["IndexName"])


def _show_old_units(described: dict[str, Any], before: TableSchema) -> None:
    """Show the throughput of before the change, as AWS does meanwhile (observed: dynalite)."""
    shown = [(described["ProvisionedThroughput"], before.throughput)]
    for index in described.get("GlobalSecondaryIndexes", ()):
        old = before.index(index["IndexName"])
        if old is not None and old.throughput is not None:
            shown.append((index["ProvisionedThroughput"], old.throughput))
    for units, old_units in shown:
        units["ReadCapacityUnits"] = old_units.read_units
        units["WriteCapacityUnits"] = old_units.write_units


class _Change:
    """One UpdateTable on one table. REQUIRES: the catalog's mutex, throughout."""

    def __init__(self, database: Any, handle: TableHandle, request: Request) -> None:
        self.catalog = database.catalog
        self.settings: Settings = database.settings
        self.handle = handle
        self.schema: TableSchema = handle.schema
        self.request = request
        self.now = self.settings.clock()
        # Names of indexes to be filled after the change.
        self.created: list[str] = []
        # An index to show as DELETING in the reply, although it is gone already.
        self._deleted: dict[str, Any] | None = None

    def run(self) -> dict[str, Any]:
        """Check and make the change; returns the description."""
        request = self.request
        stream = request.get("StreamSpecification")
        before = self.schema
        if stream is not None:
            self._change_stream(stream)
        else:
            self._change_billing()
            self._change_indexes()
            self._change_vectors()
            self._change_rest()
            if self.schema is not self.handle.schema:
                self.handle = self.catalog.replace(self.schema)
        described = describe.table_description(self.handle, self.now, "UPDATING")
        _show_old_units(described, before)
        if self._deleted is not None:
            member = "VectorIndexes" if "Dimensions" in self._deleted else "GlobalSecondaryIndexes"
            described.setdefault(member, []).append(self._deleted)
        for index in described.get("VectorIndexes", ()):
            if index["IndexName"] in self.created:
                index["Backfilling"] = False  # observed: true only after the table is ACTIVE again
        return described

    def _set(self, **fields: Any) -> None:
        self.schema = dataclasses.replace(self.schema, **fields)

    def _moving(self) -> list[str]:
        return [index.name for index in self.schema.indexes if index.status != ACTIVE]

    # The stream.

    def _change_stream(self, wanted: Request) -> None:
        stream, view = self.schema.stream, wanted.get("StreamViewType")
        is_on = stream is not None and stream.enabled
        if wanted["StreamEnabled"]:
            if view is None:
                invalid("If stream is being enabled then UpdateViewType is required")
            if is_on:
                fail(f"Table already has an enabled stream: TableName: {self.schema.name}")
        else:
            if view is not None:
                invalid("If stream is being disabled, then UpdateViewType must not be specified")
            if not is_on:
                fail(f"Table has no stream to disable: TableName: {self.schema.name}")
        if self._moving():
            _in_use("Can't change stream status when an index is being created")
        if view is not None:
            self.handle = streams.start(self.catalog, self.handle, view)
        else:
            self.handle = streams.stop(self.catalog, self.handle)

    # Billing and throughput.

    def _change_billing(self) -> None:
        request, schema = self.request, self.schema
        billing = request.get("BillingMode") or schema.billing
        wanted = request.get("ProvisionedThroughput")
        touches_units = "BillingMode" in _given(request) or wanted
        if touches_units and (moving := self._moving()):
            _in_use(
                f"Can't change table IOPS when an index is being created. Table: {schema.name} "
                f"Indexes: [{', '.join(moving)}]"
            )
        if wanted and billing == PAY_PER_REQUEST:
            invalid("ProvisionedThroughput cannot be specified when BillingMode is PAY_PER_REQUEST")
        if billing == PROVISIONED and schema.billing != PROVISIONED:
            self._to_provisioned(wanted)
        elif billing == PAY_PER_REQUEST and schema.billing != PAY_PER_REQUEST:
            self._to_on_demand()
        elif wanted:
            units = table_checks.throughput_of(wanted)
            self._set(throughput=self._moved(schema.throughput, units, ""))
        ceiling = table_checks.ceiling_of(
            request.get("OnDemandThroughput"),
            billing,
            current=self.schema.ceiling,
            is_update=True,
        )
        if ceiling != self.schema.ceiling:
            self._set(ceiling=ceiling)

    def _to_provisioned(self, wanted: Request | None) -> None:
        if not wanted:
            invalid("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
        if any(index.kind == "VECTOR" for index in self.schema.indexes):
            invalid(vector_checks.ON_DEMAND_ONLY)
        given = {
            action["IndexName"]: action.get("ProvisionedThroughput")
            for kind, action in _index_actions(self.request)
            if kind == "Update"
        }
        indexes = []
        for index in self.schema.indexes:
            if index.kind == "GSI":
                units = given.get(index.name)
                if not units:
                    invalid(f"ProvisionedThroughput must be specified for index: {index.name}")
                index = dataclasses.replace(  # noqa: PLW2901
                    index,
                    throughput=table_checks.throughput_of(units, index.name),
                    ceiling=None,
                    warm=None,
                )
            indexes.append(index)
        self._set(
            billing=PROVISIONED,
            throughput=table_checks.throughput_of(wanted),
            ceiling=None,
            warm=None,
            indexes=tuple(indexes),
        )

    def _to_on_demand(self) -> None:
        self._set(
            billing=PAY_PER_REQUEST,
            on_demand_since=self.now,
            throughput=Throughput(),
            warm=None,
            indexes=tuple(
                dataclasses.replace(index, throughput=None, warm=None)
                for index in self.schema.indexes
            ),
        )

    def _moved(self, old: Throughput, new: Throughput, index: str) -> Throughput:
        """Return the new throughput with its dates, or refuse one that changes nothing."""
        if (old.read_units, old.write_units) == (new.read_units, new.write_units):
            _refuse_unchanged(old, new, index)
        day = int(self.now // describe.SECONDS_PER_DAY)
        decreases = old.decreases if old.decreases_day == day else 0
        fields: dict[str, Any] = {
            "increased_at": old.increased_at,
            "decreased_at": old.decreased_at,
        }
        if new.read_units > old.read_units or new.write_units > old.write_units:
            fields["increased_at"] = self.now
        if new.read_units < old.read_units or new.write_units < old.write_units:
            fields["decreased_at"] = self.now
            decreases += 1
        return dataclasses.replace(new, decreases=decreases, decreases_day=day, **fields)

    # Indexes.

    def _change_indexes(self) -> None:
        for kind, action in _index_actions(self.request):
            if kind == "Create":
                self._create_index(action)
            elif kind == "Delete":
                self._delete_index(self._existing(action["IndexName"], "delete"))
            else:
                self._update_index(self._existing(action["IndexName"], "update"), action)

    def _existing(self, name: str, verb: str, kind: str = "GSI") -> IndexSchema:
        index = self.schema.index(name)
        if index is None:
            raise errors.API_ERRORS["ResourceNotFoundException"](
                messages.index_not_found(name, self.schema.name)
            )
        if index.kind != kind:
            what = "GlobalSecondaryIndex" if kind == "GSI" else "VectorIndex"  # unverified
            fail(f"Cannot {verb} an index that is not a {what}: {name}")
        return index

    def _create_index(self, action: Request) -> None:
        name, schema = action["IndexName"], self.schema
        definitions = table_checks.definitions_of(self.request)
        if not definitions:
            invalid(f"AttributeDefinitions is not specified for index: {name}")
        if schema.index(name) is not None:
            fail("Attempting to create an index which already exists")
        self._check_index_units(action)
        index = table_checks.global_index(action, schema.billing, definitions)
        attributes = self._merged(definitions, index)
        if self._moving():
            _limit(ONE_ONLINE_INDEX)
        if sum(other.kind == "GSI" for other in schema.indexes) >= self.settings.limit_gsi:
            _limit(
                "Subscriber limit exceeded: Number of global secondary indexes exceeds per-table "
                f"limit of {self.settings.limit_gsi}"
            )
        self._add_index(index, attributes)

    def _add_index(self, index: IndexSchema, attributes: dict[str, str]) -> None:
        indexes = (*self.schema.indexes, dataclasses.replace(index, status=CREATING))
        table_checks.check_counts(indexes, self.settings)
        vector_checks.check_attributes(self.schema.key_names, indexes)
        self._set(indexes=indexes, attributes=attributes)
        self.created.append(index.name)

    def _check_index_units(self, action: Request) -> None:
        name, wanted = action["IndexName"], action.get("ProvisionedThroughput")
        if wanted and self.schema.billing == PAY_PER_REQUEST:
            invalid(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: "
                f"{name} when BillingMode is PAY_PER_REQUEST"
            )
        if not wanted and self.schema.billing == PROVISIONED:
            invalid(
                f"Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: {name}"
            )

    def _merged(self, definitions: Mapping[str, str], index: IndexSchema) -> dict[str, str]:
        """Return the table's attribute definitions with those that the new index needs."""
        attributes = dict(self.schema.attributes)
        roles = (("HASH", index.hash_key), ("RANGE", index.range_key))
        if index.vector is not None:
            roles = (("HASH", index.typed_names), ("RANGE", ()))
        for role, names_ in roles:
            for name in names_:
                before, now = attributes.get(name), definitions[name]
                if before is not None and before != now:
                    invalid(
                        "Attributes cannot be redefined. Please check that your attribute has "
                        "the same type as previously defined. Existing schema: Schema:"
                        f"[SchemaElement: key{{{name}:{before}:{role}}}] New schema: Schema:"
                        f"[SchemaElement: key{{{name}:{now}:{role}}}]"
                    )
                attributes[name] = now
        return attributes

    def _delete_index(self, index: IndexSchema) -> None:
        if any(name != index.name for name in self._moving()):
            _limit(ONE_ONLINE_INDEX)
        table = describe.table_description(self.handle, self.now)
        for member in ("GlobalSecondaryIndexes", "VectorIndexes"):
            for described in table.get(member, ()):
                if described["IndexName"] == index.name:
                    described["IndexStatus"] = DELETING
                    described.pop("Backfilling", None)
                    self._deleted = described
        backfill.forget(self.catalog, self.schema.id, index.name)
        self._set(indexes=tuple(other for other in self.schema.indexes if other is not index))
        used = self.schema.used_attributes()
        self._set(
            attributes={name: kind for name, kind in self.schema.attributes.items() if name in used}
        )

    def _change_vectors(self) -> None:
        for kind, action in vector_checks.actions(self.request):
            if kind == "Create":
                self._create_vectors(action)
            else:
                self._delete_index(self._existing(action["IndexName"], "delete", "VECTOR"))

    def _create_vectors(self, action: Request) -> None:
        schema = self.schema
        # observed: the search schema's attributes are looked for in this request only
        definitions = table_checks.definitions_of(self.request)
        if schema.index(action["IndexName"]) is not None:
            fail("Attempting to create an index which already exists")
        vector_checks.check_billing(schema.billing)
        index = vector_checks.vector_index(action, definitions)
        attributes = self._merged(definitions, index)
        if self._moving():
            _limit(ONE_ONLINE_INDEX)
        limit = self.settings.limit_vector_indexes
        if sum(other.kind == "VECTOR" for other in schema.indexes) >= limit:  # unverified
            _limit(
                "Subscriber limit exceeded: Number of vector indexes exceeds per-table limit of "
                f"{limit}"
            )
        self._add_index(index, attributes)

    def _update_index(self, index: IndexSchema, action: Request) -> None:
        wanted, name = action.get("ProvisionedThroughput"), index.name
        billing = self.schema.billing
        if index.status == CREATING:
            _in_use(f"Index is being created.  Table: {self.schema.name} Index: {name}")
        if wanted and billing == PAY_PER_REQUEST:
            invalid(
                f"The only Updates for index: {name} when TableThroughputMode is PAY_PER_REQUEST "
                "can be to OnDemandThroughput, WarmThroughput"
            )
        units = index.throughput
        if wanted and self.handle.schema.billing == PROVISIONED:
            units = self._moved(
                index.throughput or Throughput(), table_checks.throughput_of(wanted, name), name
            )
        ceiling = table_checks.ceiling_of(
            action.get("OnDemandThroughput"),
            billing,
            index=name,
            current=index.ceiling,
            is_update=True,
        )
        warm = table_checks.warm_of(
            action.get("WarmThroughput"), billing, units, index=name, current=index.warm
        )
        changed = dataclasses.replace(index, throughput=units, ceiling=ceiling, warm=warm)
        self._set(
            indexes=tuple(changed if other is index else other for other in self.schema.indexes)
        )

    # The rest.

    def _change_rest(self) -> None:
        request, schema = self.request, self.schema
        if request.get("WarmThroughput"):
            current = schema.warm or table_checks.default_warm(schema.billing, schema.throughput)
            warm = table_checks.warm_of(
                request["WarmThroughput"], schema.billing, schema.throughput, current=current
            )
            self._set(warm=warm)
        if request.get("TableClass") is not None:
            wanted = table_checks.table_class_of(request["TableClass"])
            if wanted != (schema.table_class or "STANDARD"):
                self._set(table_class=wanted, table_class_changed_at=self.now)
        if request.get("DeletionProtectionEnabled") is not None:
            self._set(deletion_protection=request["DeletionProtectionEnabled"])
        if request.get("SSESpecification"):
            self._change_encryption(request["SSESpecification"])

    def _change_encryption(self, wanted: Request) -> None:
        key = table_checks.sse_key(wanted, self.settings)
        if key == self.schema.sse_key:
            if key is None:
                invalid("Table is already encrypted by default")
            invalid(
                "Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId "
                "parameter if you want to change Master Key"
            )
        self._set(sse_key=key)


def _refuse_unchanged(old: Throughput, new: Throughput, index: str) -> NoReturn:
    target = f"index {index}" if index else "table"
    parts = []
    for kind, before, after in (
        ("ReadCapacityUnits", old.read_units, new.read_units),
        ("WriteCapacityUnits", old.write_units, new.write_units),
    ):
        parts.append(
            f"Current {kind} provisioned for the {target}: {before}. Requested {kind}: {after}."
        )
    fail(
        f"The provisioned throughput for the {target} will not change. The requested value "
        f"equals the current value. {' '.join(parts)} {_GUIDE}"
    )
