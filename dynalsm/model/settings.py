"""Settings: what a database is told when it is opened.

One object per open database. Fields are set before use and then only read, except `table_names`,
a cache whose entries any thread may add.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from dynalsm import limits

NO_LIMIT = 1 << 62
WORDINGS = ("classic", "2026")


@dataclass
class Settings:
    """Choices of the caller; nothing here is stored in the database."""

    region: str = "us-east-1"
    account_id: str = "123456789012"
    # Which wording member constraints use: "classic" or "2026" (reference 0.1).
    wording: str = "classic"
    # Seconds since 1970; tests put their own here.
    clock: Callable[[], float] = time.time
    # Whether provisioned tables throttle.
    enforce_throughput: bool = False
    # Tables are shown as CREATING and DELETING so long, so that waiters can be tested; 0: never.
    table_delay_seconds: float = 0.0
    # host:port that DescribeEndpoints answers.
    endpoint: str = ""

    # Limits that may be lifted (or lowered): `limits={"tables": 10_000}` sets limit_tables.
    # Quotas of an account (reference 14.5).
    limit_tables: int = limits.TABLES_MAX
    limit_gsi: int = limits.GLOBAL_INDEXES_MAX
    limit_lsi: int = limits.LOCAL_INDEXES_MAX
    limit_vector_indexes: int = limits.VECTOR_INDEXES_MAX
    limit_tags: int = limits.TAGS_MAX
    limit_projected: int = limits.PROJECTED_ATTRIBUTES_MAX
    # Sizes of an item, a request or a reply.
    limit_item_bytes: int = limits.ITEM_MAX_BYTES
    limit_substitution_bytes: int = limits.SUBSTITUTIONS_MAX_BYTES
    limit_page_bytes: int = limits.PAGE_MAX_BYTES
    limit_batch_get_keys: int = limits.BATCH_GET_MAX_KEYS
    limit_batch_get_bytes: int = limits.BATCH_GET_MAX_BYTES
    limit_batch_write_items: int = limits.BATCH_WRITE_MAX_ITEMS
    limit_batch_statements: int = limits.STATEMENT_BATCH_MAX
    limit_transaction_items: int = limits.TRANSACTION_MAX_ITEMS
    limit_transaction_bytes: int = limits.TRANSACTION_MAX_BYTES

    # Streams: new streams are cut into so many shards by partition-key hash, more when the table
    # has more partitions. Shards are closed and followed by others after so long or so many bytes.
    stream_shards: int = 4
    stream_roll_seconds: float = limits.STREAM_ROLL_SECONDS
    stream_roll_bytes: int = 1 << 30
    stream_retention_seconds: float = limits.STREAM_RETENTION_SECONDS
    iterator_lifetime_seconds: float = limits.SHARD_ITERATOR_SECONDS

    # Time to live: how often expired items are looked for, and how long a second UpdateTimeToLive
    # is refused (0: never; AWS: about an hour).
    ttl_sweep_seconds: float = 1.0
    ttl_change_interval_seconds: float = 0.0
    # Whether reads leave out items that have expired and are not deleted yet.
    hide_expired: bool = False

    # Point-in-time recovery: the least time from one base copy of a table to the next.
    pitr_base_seconds: float = 86_400.0
    # A call that starts a restore, an export, an import, ... waits so long for it to end.
    job_wait_seconds: float = 1.0

    # Memory for the vectors that searches have looked at, in bytes; what does not fit is read from
    # the index at each search.
    vector_memory_bytes: int = 1 << 30

    # Stand-ins for S3 and Kinesis: a directory of "buckets", and stream ARN -> file path.
    bucket_root: str | None = None
    kinesis_sinks: dict[str, str] = field(default_factory=dict)

    # Well-formed TableName members seen so far -> table name (an ARN maps to its name).
    # Bounded by validate.py.
    table_names: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.wording not in WORDINGS:
            raise ValueError(f"wording is one of {', '.join(WORDINGS)}, not {self.wording!r}")

    def set_limits(self, given: Mapping[str, int | None]) -> None:
        """Set limits by name; None lifts one altogether. Raises: ValueError for other names."""
        if not isinstance(given, Mapping):
            raise ValueError(f"limits is a dict of names and whole numbers, not {given!r}")
        names = {f.name.removeprefix("limit_") for f in fields(self) if f.name.startswith("limit_")}
        for name, value in given.items():
            if name not in names:
                raise ValueError(
                    f"there is no limit {name!r} to set; there are: {', '.join(sorted(names))}"
                )
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"the limit {name} must be a whole number from 1, not {value!r}")
            setattr(self, f"limit_{name}", NO_LIMIT if value is None else value)

    def table_arn(self, name: str) -> str:
        """Return the ARN of table `name`."""
        return f"arn:aws:dynamodb:{self.region}:{self.account_id}:table/{name}"
