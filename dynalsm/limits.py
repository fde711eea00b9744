"""Every limit of DynamoDB, named, with its unit and its source.

Sources: "quotas" is the developer guide's page on service, account and table quotas, "naming" its
page on naming rules and data types, "API" the API reference or service model of the operation,
"observed" behaviour recorded against the service. Constants only.
"""

from typing import Final

# ---- items and values ----
ITEM_MAX_BYTES: Final = 400 * 1024  # quotas: item size; names count (observed: 409,600 is accepted)
NESTING_MAX_LEVELS: Final = 32  # quotas: nested attribute depth; the attribute itself is level 1
ATTRIBUTE_NAME_MAX_BYTES: Final = 65_535  # naming; observed: 64 KB - 1 is the last accepted
KEY_ATTRIBUTE_NAME_MAX_BYTES: Final = 255  # naming: keys, projected names, the TTL attribute
NUMBER_MAX_DIGITS: Final = 38  # quotas: precision of numbers
NUMBER_MAX_EXPONENT: Final = 125  # quotas: 9.99...E+125
NUMBER_MIN_EXPONENT: Final = -130  # quotas: 1E-130

# ---- keys ----
PARTITION_KEY_MAX_BYTES: Final = 2048  # quotas: partition key length
SORT_KEY_MAX_BYTES: Final = 1024  # quotas: sort key length

# ---- names ----
NAME_MIN_CHARACTERS: Final = 3  # naming: tables, indexes, backups
NAME_MAX_CHARACTERS: Final = 255  # naming
NAME_PATTERN: Final = "[a-zA-Z0-9_.-]+"  # naming

# ---- tables and indexes ----
TABLES_MAX: Final = 2500  # quotas: tables per account and region (initial)
LOCAL_INDEXES_MAX: Final = 5  # quotas: per table
GLOBAL_INDEXES_MAX: Final = 20  # quotas: per table (default)
VECTOR_INDEXES_MAX: Final = 5  # quotas: per table
PROJECTED_ATTRIBUTES_MAX: Final = 100  # quotas: INCLUDE attributes over all indexes of a table
NON_KEY_ATTRIBUTES_MAX: Final = 20  # API: NonKeyAttributes of one index
INDEX_HASH_ATTRIBUTES_MAX: Final = 4  # developer guide: multi-attribute keys
INDEX_RANGE_ATTRIBUTES_MAX: Final = 4  # developer guide: multi-attribute keys
ITEM_COLLECTION_MAX_BYTES: Final = 10 * 1024**3  # quotas: one partition key of a table with LSIs
INDEX_ENTRY_OVERHEAD_BYTES: Final = 100  # developer guide: storage accounting of an index entry
CONTROL_PLANE_MAX_OPERATIONS: Final = (
    500  # quotas: concurrent CreateTable, UpdateTable, DeleteTable
)
CONTROL_PLANE_MAX_INDEX_OPERATIONS: Final = 250  # quotas: the same for tables with indexes
LIST_TABLES_MAX: Final = 100  # API: Limit of ListTables
TAGS_MAX: Final = 50  # quotas: tags per resource
POLICY_MAX_BYTES: Final = 20 * 1024  # quotas: resource-based policy

# ---- expressions ----
EXPRESSION_MAX_BYTES: Final = 4096  # quotas: expression parameters
EXPRESSION_MAX_OPERATORS: Final = 300  # quotas: operators or functions in UpdateExpression
IN_MAX_OPERANDS: Final = 100  # quotas: operands of the IN comparator
PLACEHOLDER_MAX_BYTES: Final = 255  # quotas: attribute name or value placeholder, sign included
SUBSTITUTIONS_MAX_BYTES: Final = 2 * 1024**2  # quotas: all ExpressionAttributeNames and -Values

# ---- reads and batches ----
PAGE_MAX_BYTES: Final = 1024**2  # quotas: one page of Query or Scan
BATCH_GET_MAX_KEYS: Final = 100  # API: BatchGetItem
BATCH_GET_MAX_BYTES: Final = 16 * 1024**2  # API: BatchGetItem
BATCH_WRITE_MAX_ITEMS: Final = 25  # API: BatchWriteItem
BATCH_WRITE_MAX_BYTES: Final = 16 * 1024**2  # API: BatchWriteItem
SCAN_SEGMENTS_MAX: Final = 1_000_000  # API: TotalSegments of Scan

# ---- transactions ----
TRANSACTION_MAX_ITEMS: Final = 100  # API: TransactWriteItems, TransactGetItems
TRANSACTION_MAX_BYTES: Final = 4 * 1024**2  # API: all items of a transaction
CLIENT_TOKEN_MAX_CHARACTERS: Final = 36  # API: ClientRequestToken
CLIENT_TOKEN_SECONDS: Final = 600  # API: idempotency of TransactWriteItems

# ---- PartiQL ----
STATEMENT_MAX_CHARACTERS: Final = 8192  # API: Statement
STATEMENT_BATCH_MAX: Final = 25  # API: BatchExecuteStatement
STATEMENT_TRANSACTION_MAX: Final = 100  # API: ExecuteTransaction
STATEMENT_IN_MAX_KEYS: Final = 50  # developer guide: IN over the partition key
STATEMENT_IN_MAX_OTHERS: Final = 100  # developer guide: IN over other attributes

# ---- vectors ----
VECTOR_MAX_DIMENSIONS: Final = 4096  # API: Dimensions of a vector index
VECTOR_MAX_TOP_K: Final = 100  # API: TopK of SearchVectors
VECTOR_MAX_FILTERS: Final = 18  # API: INLINE_FILTER elements of a SearchSchema
VECTOR_MAX_HASHES: Final = 1  # API: HASH elements of a SearchSchema
VECTOR_REPLY_MAX_BYTES: Final = 16 * 1024**2  # API: SearchVectors

# ---- streams, PITR, transfers ----
STREAM_RETENTION_SECONDS: Final = 24 * 3600  # quotas: stream records
STREAM_ROLL_SECONDS: Final = 4 * 3600  # developer guide: shards of AWS last about as long
SHARD_ITERATOR_SECONDS: Final = 15 * 60  # API: GetShardIterator
GET_RECORDS_MAX: Final = 1000  # API: Limit of GetRecords
GET_RECORDS_MAX_BYTES: Final = 1024**2  # API: GetRecords
SHARD_READERS_MAX: Final = 2  # quotas: simultaneous readers of a shard
PITR_MIN_DAYS: Final = 1  # API: RecoveryPeriodInDays
PITR_MAX_DAYS: Final = 35  # API: RecoveryPeriodInDays
IMPORTS_MAX: Final = 50  # quotas: concurrent imports
IMPORT_MAX_OBJECTS: Final = 50_000  # quotas: objects of one import
EXPORTS_MAX: Final = 300  # quotas: concurrent exports
BULK_NAME_PREFIX_MAX_CHARACTERS: Final = 1024  # API: S3KeyPrefix

# ---- capacity ----
READ_UNIT_BYTES: Final = 4096  # developer guide: one read unit, rounded up per item or page
WRITE_UNIT_BYTES: Final = 1024  # developer guide: one write unit
TABLE_MAX_UNITS: Final = 40_000  # quotas: read or write units of a table (default)
ACCOUNT_MAX_UNITS: Final = 80_000  # quotas: read or write units of an account (default)
DECREASES_FIRST_HOUR: Final = 4  # quotas: throughput decreases at the start of a UTC day
DECREASES_PER_DAY: Final = 27  # quotas: throughput decreases in a UTC day

# ---- HTTP ----
REQUEST_MAX_BYTES: Final = 16 * 1024**2  # observed: a larger body is refused with 413
REQUEST_HEADER_MAX_BYTES: Final = 16 * 1024  # observed: a larger header block is refused with 400
COMPRESSION_MIN_BYTES: Final = 4096  # observed: smaller replies are not compressed
