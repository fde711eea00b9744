"""The types of requests and replies. Made by dynalsm.api._generate_types; do not edit.

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

ApproximateCreationDateTimePrecisionType: TypeAlias = Literal["MILLISECOND", "MICROSECOND"]
AttributeActionType: TypeAlias = Literal["ADD", "PUT", "DELETE"]
BackupStatusType: TypeAlias = Literal["CREATING", "DELETED", "AVAILABLE"]
BackupTypeFilterType: TypeAlias = Literal["USER", "SYSTEM", "AWS_BACKUP", "ALL"]
BackupTypeType: TypeAlias = Literal["USER", "SYSTEM", "AWS_BACKUP"]
BatchStatementErrorCodeEnumType: TypeAlias = Literal["ConditionalCheckFailed", "ItemCollectionSizeLimitExceeded", "RequestLimitExceeded", "ValidationError", "ProvisionedThroughputExceeded", "TransactionConflict", "ThrottlingError", "InternalServerError", "ResourceNotFound", "AccessDenied", "DuplicateItem"]
BillingModeType: TypeAlias = Literal["PROVISIONED", "PAY_PER_REQUEST"]
BulkOperationInputFormatType: TypeAlias = Literal["DYNAMODB_JSON", "ION"]
BulkOperationPerformanceTierType: TypeAlias = Literal["STANDARD", "ACCELERATED"]
BulkOperationStatusType: TypeAlias = Literal["IN_PROGRESS", "COMPLETED", "COMPLETED_WITH_ERRORS", "CANCELLING", "CANCELLED", "FAILED"]
ComparisonOperatorType: TypeAlias = Literal["EQ", "NE", "IN", "LE", "LT", "GE", "GT", "BETWEEN", "NOT_NULL", "NULL", "CONTAINS", "NOT_CONTAINS", "BEGINS_WITH"]
ConditionalOperatorType: TypeAlias = Literal["AND", "OR"]
ContinuousBackupsStatusType: TypeAlias = Literal["ENABLED", "DISABLED"]
ContributorInsightsActionType: TypeAlias = Literal["ENABLE", "DISABLE"]
ContributorInsightsModeType: TypeAlias = Literal["ACCESSED_AND_THROTTLED_KEYS", "THROTTLED_KEYS"]
ContributorInsightsStatusType: TypeAlias = Literal["ENABLING", "ENABLED", "DISABLING", "DISABLED", "FAILED"]
DestinationStatusType: TypeAlias = Literal["ENABLING", "ACTIVE", "DISABLING", "DISABLED", "ENABLE_FAILED", "UPDATING"]
DisassociationModeType: TypeAlias = Literal["WAIT_FOR_REPLICATION"]
ExportFormatType: TypeAlias = Literal["DYNAMODB_JSON", "ION"]
ExportStatusType: TypeAlias = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
ExportTypeType: TypeAlias = Literal["FULL_EXPORT", "INCREMENTAL_EXPORT"]
ExportViewTypeType: TypeAlias = Literal["NEW_IMAGE", "NEW_AND_OLD_IMAGES"]
GlobalTableSettingsReplicationModeType: TypeAlias = Literal["ENABLED", "DISABLED", "ENABLED_WITH_OVERRIDES"]
GlobalTableStatusType: TypeAlias = Literal["CREATING", "ACTIVE", "DELETING", "UPDATING"]
ImportStatusType: TypeAlias = Literal["IN_PROGRESS", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"]
IndexStatusType: TypeAlias = Literal["CREATING", "UPDATING", "DELETING", "ACTIVE"]
InputCompressionTypeType: TypeAlias = Literal["GZIP", "ZSTD", "NONE"]
InputFormatType: TypeAlias = Literal["DYNAMODB_JSON", "ION", "CSV"]
KeyTypeType: TypeAlias = Literal["HASH", "RANGE"]
MultiRegionConsistencyType: TypeAlias = Literal["EVENTUAL", "STRONG"]
OperationTypeType: TypeAlias = Literal["INSERT", "MODIFY", "REMOVE"]
OutputTypeEnumType: TypeAlias = Literal["ERROR", "CONDITION_CHECK_FAILURE"]
PointInTimeRecoveryStatusType: TypeAlias = Literal["ENABLED", "DISABLED"]
ProjectionTypeType: TypeAlias = Literal["ALL", "KEYS_ONLY", "INCLUDE"]
ReplicaStatusType: TypeAlias = Literal["CREATING", "CREATION_FAILED", "UPDATING", "DELETING", "ACTIVE", "REGION_DISABLED", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVING", "ARCHIVED", "REPLICATION_NOT_AUTHORIZED"]
ReturnConsumedCapacityType: TypeAlias = Literal["INDEXES", "TOTAL", "NONE"]
ReturnItemCollectionMetricsType: TypeAlias = Literal["SIZE", "NONE"]
ReturnValueType: TypeAlias = Literal["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"]
ReturnValuesOnConditionCheckFailureType: TypeAlias = Literal["ALL_OLD", "NONE"]
S3SseAlgorithmType: TypeAlias = Literal["AES256", "KMS"]
SSEStatusType: TypeAlias = Literal["ENABLING", "ENABLED", "DISABLING", "DISABLED", "UPDATING"]
SSETypeType: TypeAlias = Literal["AES256", "KMS"]
ScalarAttributeTypeType: TypeAlias = Literal["S", "N", "B"]
SearchSchemaElementTypeType: TypeAlias = Literal["HASH", "INLINE_FILTER"]
SelectType: TypeAlias = Literal["ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"]
ShardFilterTypeType: TypeAlias = Literal["CHILD_SHARDS"]
ShardIteratorTypeType: TypeAlias = Literal["TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"]
StreamStatusType: TypeAlias = Literal["ENABLING", "ENABLED", "DISABLING", "DISABLED"]
StreamViewTypeType: TypeAlias = Literal["NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"]
TableClassType: TypeAlias = Literal["STANDARD", "STANDARD_INFREQUENT_ACCESS"]
TableStatusType: TypeAlias = Literal["CREATING", "UPDATING", "DELETING", "ACTIVE", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVING", "ARCHIVED", "REPLICATION_NOT_AUTHORIZED"]
TimeToLiveStatusType: TypeAlias = Literal["ENABLING", "DISABLING", "ENABLED", "DISABLED"]
VectorDistanceFunctionType: TypeAlias = Literal["COSINE", "DOT_PRODUCT", "EUCLIDEAN"]
WitnessStatusType: TypeAlias = Literal["CREATING", "DELETING", "ACTIVE"]
TimestampTypeDef: TypeAlias = datetime | float


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


class ArchivalSummaryTypeDef(TypedDict):
    ArchivalDateTime: NotRequired[datetime]
    ArchivalReason: NotRequired[str]
    ArchivalBackupArn: NotRequired[str]


class AttributeDefinitionTypeDef(TypedDict):
    AttributeName: str
    AttributeType: ScalarAttributeTypeType


class AttributeValueUpdateTypeDef(TypedDict):
    Value: NotRequired[AttributeValueTypeDef]
    Action: NotRequired[AttributeActionType]


class AutoScalingPolicyDescriptionTypeDef(TypedDict):
    PolicyName: NotRequired[str]
    TargetTrackingScalingPolicyConfiguration: NotRequired[AutoScalingTargetTrackingScalingPolicyConfigurationDescriptionTypeDef]


class AutoScalingPolicyUpdateTypeDef(TypedDict):
    PolicyName: NotRequired[str]
    TargetTrackingScalingPolicyConfiguration: AutoScalingTargetTrackingScalingPolicyConfigurationUpdateTypeDef


class AutoScalingSettingsDescriptionTypeDef(TypedDict):
    MinimumUnits: NotRequired[int]
    MaximumUnits: NotRequired[int]
    AutoScalingDisabled: NotRequired[bool]
    AutoScalingRoleArn: NotRequired[str]
    ScalingPolicies: NotRequired[list[AutoScalingPolicyDescriptionTypeDef]]


class AutoScalingSettingsUpdateTypeDef(TypedDict):
    MinimumUnits: NotRequired[int]
    MaximumUnits: NotRequired[int]
    AutoScalingDisabled: NotRequired[bool]
    AutoScalingRoleArn: NotRequired[str]
    ScalingPolicyUpdate: NotRequired[AutoScalingPolicyUpdateTypeDef]


class AutoScalingTargetTrackingScalingPolicyConfigurationDescriptionTypeDef(TypedDict):
    DisableScaleIn: NotRequired[bool]
    ScaleInCooldown: NotRequired[int]
    ScaleOutCooldown: NotRequired[int]
    TargetValue: float


class AutoScalingTargetTrackingScalingPolicyConfigurationUpdateTypeDef(TypedDict):
    DisableScaleIn: NotRequired[bool]
    ScaleInCooldown: NotRequired[int]
    ScaleOutCooldown: NotRequired[int]
    TargetValue: float


class BackupDescriptionTypeDef(TypedDict):
    BackupDetails: NotRequired[BackupDetailsTypeDef]
    SourceTableDetails: NotRequired[SourceTableDetailsTypeDef]
    SourceTableFeatureDetails: NotRequired[SourceTableFeatureDetailsTypeDef]


class BackupDetailsTypeDef(TypedDict):
    BackupArn: str
    BackupName: str
    BackupSizeBytes: NotRequired[int]
    BackupStatus: BackupStatusType
    BackupType: BackupTypeType
    BackupCreationDateTime: datetime
    BackupExpiryDateTime: NotRequired[datetime]


class BackupSummaryTypeDef(TypedDict):
    TableName: NotRequired[str]
    TableId: NotRequired[str]
    TableArn: NotRequired[str]
    BackupArn: NotRequired[str]
    BackupName: NotRequired[str]
    BackupCreationDateTime: NotRequired[datetime]
    BackupExpiryDateTime: NotRequired[datetime]
    BackupStatus: NotRequired[BackupStatusType]
    BackupType: NotRequired[BackupTypeType]
    BackupSizeBytes: NotRequired[int]


class BatchExecuteStatementInputTypeDef(TypedDict):
    Statements: Sequence[BatchStatementRequestTypeDef]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]


class BatchExecuteStatementOutputTypeDef(TypedDict):
    Responses: list[BatchStatementResponseTypeDef]
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class BatchGetItemInputTypeDef(TypedDict):
    RequestItems: Mapping[str, KeysAndAttributesUnionTypeDef]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]


class BatchGetItemOutputTypeDef(TypedDict):
    Responses: dict[str, list[dict[str, AttributeValueTypeDef]]]
    UnprocessedKeys: dict[str, KeysAndAttributesOutputTypeDef]
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class BatchStatementErrorTypeDef(TypedDict):
    Code: NotRequired[BatchStatementErrorCodeEnumType]
    Message: NotRequired[str]
    Item: NotRequired[dict[str, AttributeValueTypeDef]]


class BatchStatementRequestTypeDef(TypedDict):
    Statement: str
    Parameters: NotRequired[Sequence[AttributeValueTypeDef]]
    ConsistentRead: NotRequired[bool]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class BatchStatementResponseTypeDef(TypedDict):
    Error: NotRequired[BatchStatementErrorTypeDef]
    TableName: NotRequired[str]
    Item: NotRequired[dict[str, AttributeValueTypeDef]]


class BatchWriteItemInputTypeDef(TypedDict):
    RequestItems: Mapping[str, Sequence[WriteRequestUnionTypeDef]]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ReturnItemCollectionMetrics: NotRequired[ReturnItemCollectionMetricsType]


class BatchWriteItemOutputTypeDef(TypedDict):
    UnprocessedItems: dict[str, list[WriteRequestOutputTypeDef]]
    ItemCollectionMetrics: dict[str, list[ItemCollectionMetricsTypeDef]]
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class BillingModeSummaryTypeDef(TypedDict):
    BillingMode: NotRequired[BillingModeType]
    LastUpdateToPayPerRequestDateTime: NotRequired[datetime]


class BulkOperationBytesTypeDef(TypedDict):
    BulkPutBytes: NotRequired[int]


class BulkOperationDescriptionTypeDef(TypedDict):
    BulkOperationArn: NotRequired[str]
    BulkOperationStatus: NotRequired[BulkOperationStatusType]
    TableDetails: NotRequired[list[BulkOperationTableDetailTypeDef]]
    ClientToken: NotRequired[str]
    InputS3Configuration: NotRequired[InputS3ConfigurationTypeDef]
    OutputS3Configuration: NotRequired[OutputS3ConfigurationOutputTypeDef]
    StartTime: NotRequired[datetime]
    EndTime: NotRequired[datetime]
    ProcessedItemCount: NotRequired[int]
    ProcessedInputBytes: NotRequired[int]
    TotalInputBytes: NotRequired[int]
    BulkOperationUsage: NotRequired[list[BulkOperationUsageTypeDef]]
    FailedItemCount: NotRequired[int]
    FailureCode: NotRequired[str]
    FailureMessage: NotRequired[str]
    MaxWriteRequestUnits: NotRequired[int]
    PerformanceTier: NotRequired[BulkOperationPerformanceTierType]


class BulkOperationSummaryTypeDef(TypedDict):
    BulkOperationArn: str
    BulkOperationStatus: BulkOperationStatusType
    StartTime: datetime
    EndTime: NotRequired[datetime]


class BulkOperationTableDetailTypeDef(TypedDict):
    TableName: NotRequired[str]
    TableId: NotRequired[str]


class BulkOperationUsageTypeDef(TypedDict):
    TableName: NotRequired[str]
    BulkPutBytes: NotRequired[int]
    Table: NotRequired[BulkOperationBytesTypeDef]
    LocalSecondaryIndexes: NotRequired[dict[str, BulkOperationBytesTypeDef]]
    GlobalSecondaryIndexes: NotRequired[dict[str, BulkOperationBytesTypeDef]]
    VectorIndexes: NotRequired[dict[str, BulkOperationVectorBytesTypeDef]]


class BulkOperationVectorBytesTypeDef(TypedDict):
    BulkPutVectorBytes: NotRequired[int]


class CancelBulkOperationInputTypeDef(TypedDict):
    BulkOperationArn: str


class CancelBulkOperationOutputTypeDef(TypedDict):
    BulkOperationArn: str
    BulkOperationStatus: BulkOperationStatusType
    ResponseMetadata: ResponseMetadataTypeDef


class CapacityTypeDef(TypedDict):
    ReadCapacityUnits: NotRequired[float]
    WriteCapacityUnits: NotRequired[float]
    CapacityUnits: NotRequired[float]


class ConditionCheckTypeDef(TypedDict):
    Key: Mapping[str, AttributeValueTypeDef]
    TableName: str
    ConditionExpression: str
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class ConditionTypeDef(TypedDict):
    AttributeValueList: NotRequired[Sequence[AttributeValueTypeDef]]
    ComparisonOperator: ComparisonOperatorType


class ConsumedCapacityTypeDef(TypedDict):
    TableName: NotRequired[str]
    CapacityUnits: NotRequired[float]
    ReadCapacityUnits: NotRequired[float]
    WriteCapacityUnits: NotRequired[float]
    Table: NotRequired[CapacityTypeDef]
    LocalSecondaryIndexes: NotRequired[dict[str, CapacityTypeDef]]
    GlobalSecondaryIndexes: NotRequired[dict[str, CapacityTypeDef]]
    VectorIndexes: NotRequired[dict[str, VectorCapacityTypeDef]]


class ContinuousBackupsDescriptionTypeDef(TypedDict):
    ContinuousBackupsStatus: ContinuousBackupsStatusType
    PointInTimeRecoveryDescription: NotRequired[PointInTimeRecoveryDescriptionTypeDef]


class ContributorInsightsSummaryTypeDef(TypedDict):
    TableName: NotRequired[str]
    IndexName: NotRequired[str]
    ContributorInsightsStatus: NotRequired[ContributorInsightsStatusType]
    ContributorInsightsMode: NotRequired[ContributorInsightsModeType]


class CreateBackupInputTypeDef(TypedDict):
    TableName: str
    BackupName: str


class CreateBackupOutputTypeDef(TypedDict):
    BackupDetails: BackupDetailsTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class CreateGlobalSecondaryIndexActionTypeDef(TypedDict):
    IndexName: str
    KeySchema: Sequence[KeySchemaElementTypeDef]
    Projection: ProjectionUnionTypeDef
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]


class CreateGlobalTableInputTypeDef(TypedDict):
    GlobalTableName: str
    ReplicationGroup: Sequence[ReplicaTypeDef]


class CreateGlobalTableOutputTypeDef(TypedDict):
    GlobalTableDescription: GlobalTableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class CreateGlobalTableWitnessGroupMemberActionTypeDef(TypedDict):
    RegionName: str


class CreateReplicaActionTypeDef(TypedDict):
    RegionName: str


class CreateReplicationGroupMemberActionTypeDef(TypedDict):
    RegionName: str
    KMSMasterKeyId: NotRequired[str]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputOverrideTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputOverrideTypeDef]
    GlobalSecondaryIndexes: NotRequired[Sequence[ReplicaGlobalSecondaryIndexTypeDef]]
    TableClassOverride: NotRequired[TableClassType]


class CreateTableInputTypeDef(TypedDict):
    AttributeDefinitions: NotRequired[Sequence[AttributeDefinitionTypeDef]]
    TableName: str
    KeySchema: NotRequired[Sequence[KeySchemaElementTypeDef]]
    LocalSecondaryIndexes: NotRequired[Sequence[LocalSecondaryIndexTypeDef]]
    GlobalSecondaryIndexes: NotRequired[Sequence[GlobalSecondaryIndexUnionTypeDef]]
    BillingMode: NotRequired[BillingModeType]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    StreamSpecification: NotRequired[StreamSpecificationTypeDef]
    SSESpecification: NotRequired[SSESpecificationTypeDef]
    Tags: NotRequired[Sequence[TagTypeDef]]
    TableClass: NotRequired[TableClassType]
    DeletionProtectionEnabled: NotRequired[bool]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]
    ResourcePolicy: NotRequired[str]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    GlobalTableSourceArn: NotRequired[str]
    GlobalTableSettingsReplicationMode: NotRequired[GlobalTableSettingsReplicationModeType]
    VectorIndexes: NotRequired[Sequence[VectorIndexUnionTypeDef]]


class CreateTableOutputTypeDef(TypedDict):
    TableDescription: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class CreateVectorIndexActionTypeDef(TypedDict):
    IndexName: str
    VectorAttribute: VectorAttributeDefinitionTypeDef
    SearchSchema: NotRequired[Sequence[SearchSchemaElementTypeDef]]
    Projection: ProjectionUnionTypeDef
    Dimensions: int
    DistanceFunction: VectorDistanceFunctionType


class CsvOptionsOutputTypeDef(TypedDict):
    Delimiter: NotRequired[str]
    HeaderList: NotRequired[list[str]]


class CsvOptionsTypeDef(TypedDict):
    Delimiter: NotRequired[str]
    HeaderList: NotRequired[Sequence[str]]


class DeleteBackupInputTypeDef(TypedDict):
    BackupArn: str


class DeleteBackupOutputTypeDef(TypedDict):
    BackupDescription: BackupDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DeleteGlobalSecondaryIndexActionTypeDef(TypedDict):
    IndexName: str


class DeleteGlobalTableWitnessGroupMemberActionTypeDef(TypedDict):
    RegionName: str


class DeleteItemInputTypeDef(TypedDict):
    TableName: str
    Key: Mapping[str, AttributeValueTypeDef]
    Expected: NotRequired[Mapping[str, ExpectedAttributeValueTypeDef]]
    ConditionalOperator: NotRequired[ConditionalOperatorType]
    ReturnValues: NotRequired[ReturnValueType]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ReturnItemCollectionMetrics: NotRequired[ReturnItemCollectionMetricsType]
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class DeleteItemOutputTypeDef(TypedDict):
    Attributes: dict[str, AttributeValueTypeDef]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ItemCollectionMetrics: ItemCollectionMetricsTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DeleteReplicaActionTypeDef(TypedDict):
    RegionName: str


class DeleteReplicationGroupMemberActionTypeDef(TypedDict):
    RegionName: str


class DeleteRequestOutputTypeDef(TypedDict):
    Key: dict[str, AttributeValueTypeDef]


class DeleteRequestTypeDef(TypedDict):
    Key: Mapping[str, AttributeValueTypeDef]


class DeleteResourcePolicyInputTypeDef(TypedDict):
    ResourceArn: str
    ExpectedRevisionId: NotRequired[str]


class DeleteResourcePolicyOutputTypeDef(TypedDict):
    RevisionId: str
    ResponseMetadata: ResponseMetadataTypeDef


class DeleteTableInputTypeDef(TypedDict):
    TableName: str


class DeleteTableOutputTypeDef(TypedDict):
    TableDescription: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DeleteTypeDef(TypedDict):
    Key: Mapping[str, AttributeValueTypeDef]
    TableName: str
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class DeleteVectorIndexActionTypeDef(TypedDict):
    IndexName: str


class DescribeBackupInputTypeDef(TypedDict):
    BackupArn: str


class DescribeBackupOutputTypeDef(TypedDict):
    BackupDescription: BackupDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeBulkOperationInputTypeDef(TypedDict):
    BulkOperationArn: str


class DescribeBulkOperationOutputTypeDef(TypedDict):
    BulkOperationDescription: BulkOperationDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeContinuousBackupsInputTypeDef(TypedDict):
    TableName: str


class DescribeContinuousBackupsOutputTypeDef(TypedDict):
    ContinuousBackupsDescription: ContinuousBackupsDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeContributorInsightsInputTypeDef(TypedDict):
    TableName: str
    IndexName: NotRequired[str]


class DescribeContributorInsightsOutputTypeDef(TypedDict):
    TableName: str
    IndexName: str
    ContributorInsightsRuleList: list[str]
    ContributorInsightsStatus: ContributorInsightsStatusType
    LastUpdateDateTime: datetime
    FailureException: FailureExceptionTypeDef
    ContributorInsightsMode: ContributorInsightsModeType
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeEndpointsRequestTypeDef(TypedDict):
    pass


class DescribeEndpointsResponseResponseTypeDef(TypedDict):
    Endpoints: list[EndpointTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeExportInputTypeDef(TypedDict):
    ExportArn: str


class DescribeExportOutputTypeDef(TypedDict):
    ExportDescription: ExportDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeGlobalTableInputTypeDef(TypedDict):
    GlobalTableName: str


class DescribeGlobalTableOutputTypeDef(TypedDict):
    GlobalTableDescription: GlobalTableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeGlobalTableSettingsInputTypeDef(TypedDict):
    GlobalTableName: str


class DescribeGlobalTableSettingsOutputTypeDef(TypedDict):
    GlobalTableName: str
    ReplicaSettings: list[ReplicaSettingsDescriptionTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeImportInputTypeDef(TypedDict):
    ImportArn: str


class DescribeImportOutputTypeDef(TypedDict):
    ImportTableDescription: ImportTableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeKinesisStreamingDestinationInputTypeDef(TypedDict):
    TableName: str


class DescribeKinesisStreamingDestinationOutputTypeDef(TypedDict):
    TableName: str
    KinesisDataStreamDestinations: list[KinesisDataStreamDestinationTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeLimitsInputTypeDef(TypedDict):
    pass


class DescribeLimitsOutputTypeDef(TypedDict):
    AccountMaxReadCapacityUnits: int
    AccountMaxWriteCapacityUnits: int
    TableMaxReadCapacityUnits: int
    TableMaxWriteCapacityUnits: int
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeStreamInputTypeDef(TypedDict):
    StreamArn: str
    Limit: NotRequired[int]
    ExclusiveStartShardId: NotRequired[str]
    ShardFilter: NotRequired[ShardFilterTypeDef]


class DescribeStreamOutputTypeDef(TypedDict):
    StreamDescription: StreamDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeTableInputTypeDef(TypedDict):
    TableName: str


class DescribeTableOutputTypeDef(TypedDict):
    Table: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeTableReplicaAutoScalingInputTypeDef(TypedDict):
    TableName: str


class DescribeTableReplicaAutoScalingOutputTypeDef(TypedDict):
    TableAutoScalingDescription: TableAutoScalingDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DescribeTimeToLiveInputTypeDef(TypedDict):
    TableName: str


class DescribeTimeToLiveOutputTypeDef(TypedDict):
    TimeToLiveDescription: TimeToLiveDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class DisassociateReplicationGroupMemberActionTypeDef(TypedDict):
    RegionName: str
    DisassociationMode: DisassociationModeType


class EmptyResponseTypeDef(TypedDict):
    ResponseMetadata: ResponseMetadataTypeDef


class EnableKinesisStreamingConfigurationTypeDef(TypedDict):
    ApproximateCreationDateTimePrecision: NotRequired[ApproximateCreationDateTimePrecisionType]


class EndpointTypeDef(TypedDict):
    Address: str
    CachePeriodInMinutes: int


class ExecuteStatementInputTypeDef(TypedDict):
    Statement: str
    Parameters: NotRequired[Sequence[AttributeValueTypeDef]]
    ConsistentRead: NotRequired[bool]
    NextToken: NotRequired[str]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    Limit: NotRequired[int]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class ExecuteStatementOutputTypeDef(TypedDict):
    Items: list[dict[str, AttributeValueTypeDef]]
    NextToken: NotRequired[str]
    ConsumedCapacity: ConsumedCapacityTypeDef
    LastEvaluatedKey: NotRequired[dict[str, AttributeValueTypeDef]]
    ResponseMetadata: ResponseMetadataTypeDef


class ExecuteTransactionInputTypeDef(TypedDict):
    TransactStatements: Sequence[ParameterizedStatementTypeDef]
    ClientRequestToken: NotRequired[str]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]


class ExecuteTransactionOutputTypeDef(TypedDict):
    Responses: list[ItemResponseTypeDef]
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class ExpectedAttributeValueTypeDef(TypedDict):
    Value: NotRequired[AttributeValueTypeDef]
    Exists: NotRequired[bool]
    ComparisonOperator: NotRequired[ComparisonOperatorType]
    AttributeValueList: NotRequired[Sequence[AttributeValueTypeDef]]


class ExportDescriptionTypeDef(TypedDict):
    ExportArn: NotRequired[str]
    ExportStatus: NotRequired[ExportStatusType]
    StartTime: NotRequired[datetime]
    EndTime: NotRequired[datetime]
    ExportManifest: NotRequired[str]
    TableArn: NotRequired[str]
    TableId: NotRequired[str]
    ExportTime: NotRequired[datetime]
    ClientToken: NotRequired[str]
    S3Bucket: NotRequired[str]
    S3BucketOwner: NotRequired[str]
    S3Prefix: NotRequired[str]
    S3SseAlgorithm: NotRequired[S3SseAlgorithmType]
    S3SseKmsKeyId: NotRequired[str]
    FailureCode: NotRequired[str]
    FailureMessage: NotRequired[str]
    ExportFormat: NotRequired[ExportFormatType]
    BilledSizeBytes: NotRequired[int]
    ItemCount: NotRequired[int]
    ExportType: NotRequired[ExportTypeType]
    IncrementalExportSpecification: NotRequired[IncrementalExportSpecificationOutputTypeDef]
    FilterSpecification: NotRequired[FilterSpecificationOutputTypeDef]


class ExportSummaryTypeDef(TypedDict):
    ExportArn: NotRequired[str]
    ExportStatus: NotRequired[ExportStatusType]
    ExportType: NotRequired[ExportTypeType]


class ExportTableToPointInTimeInputTypeDef(TypedDict):
    TableArn: str
    ExportTime: NotRequired[TimestampTypeDef]
    ClientToken: NotRequired[str]
    S3Bucket: str
    S3BucketOwner: NotRequired[str]
    S3Prefix: NotRequired[str]
    S3SseAlgorithm: NotRequired[S3SseAlgorithmType]
    S3SseKmsKeyId: NotRequired[str]
    ExportFormat: NotRequired[ExportFormatType]
    ExportType: NotRequired[ExportTypeType]
    IncrementalExportSpecification: NotRequired[IncrementalExportSpecificationUnionTypeDef]
    FilterSpecification: NotRequired[FilterSpecificationUnionTypeDef]


class ExportTableToPointInTimeOutputTypeDef(TypedDict):
    ExportDescription: ExportDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class FailureExceptionTypeDef(TypedDict):
    ExceptionName: NotRequired[str]
    ExceptionDescription: NotRequired[str]


class FilterSpecificationOutputTypeDef(TypedDict):
    FilterExpression: NotRequired[str]
    ProjectionExpression: NotRequired[str]
    KeyConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[dict[str, str]]
    ExpressionAttributeValues: NotRequired[dict[str, AttributeValueTypeDef]]


class FilterSpecificationTypeDef(TypedDict):
    FilterExpression: NotRequired[str]
    ProjectionExpression: NotRequired[str]
    KeyConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]


class GetItemInputTypeDef(TypedDict):
    TableName: str
    Key: Mapping[str, AttributeValueTypeDef]
    AttributesToGet: NotRequired[Sequence[str]]
    ConsistentRead: NotRequired[bool]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ProjectionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]


class GetItemOutputTypeDef(TypedDict):
    Item: NotRequired[dict[str, AttributeValueTypeDef]]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class GetRecordsInputTypeDef(TypedDict):
    ShardIterator: str
    Limit: NotRequired[int]


class GetRecordsOutputTypeDef(TypedDict):
    Records: list[RecordTypeDef]
    NextShardIterator: str
    ResponseMetadata: ResponseMetadataTypeDef


class GetResourcePolicyInputTypeDef(TypedDict):
    ResourceArn: str


class GetResourcePolicyOutputTypeDef(TypedDict):
    Policy: str
    RevisionId: str
    ResponseMetadata: ResponseMetadataTypeDef


class GetShardIteratorInputTypeDef(TypedDict):
    StreamArn: str
    ShardId: str
    ShardIteratorType: ShardIteratorTypeType
    SequenceNumber: NotRequired[str]
    Timestamp: NotRequired[TimestampTypeDef]


class GetShardIteratorOutputTypeDef(TypedDict):
    ShardIterator: str
    ResponseMetadata: ResponseMetadataTypeDef


class GetTypeDef(TypedDict):
    Key: Mapping[str, AttributeValueTypeDef]
    TableName: str
    ProjectionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]


class GlobalSecondaryIndexAutoScalingUpdateTypeDef(TypedDict):
    IndexName: NotRequired[str]
    ProvisionedWriteCapacityAutoScalingUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]


class GlobalSecondaryIndexDescriptionTypeDef(TypedDict):
    IndexName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]
    IndexStatus: NotRequired[IndexStatusType]
    Backfilling: NotRequired[bool]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputDescriptionTypeDef]
    IndexSizeBytes: NotRequired[int]
    ItemCount: NotRequired[int]
    IndexArn: NotRequired[str]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[GlobalSecondaryIndexWarmThroughputDescriptionTypeDef]


class GlobalSecondaryIndexInfoTypeDef(TypedDict):
    IndexName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]


class GlobalSecondaryIndexOutputTypeDef(TypedDict):
    IndexName: str
    KeySchema: list[KeySchemaElementTypeDef]
    Projection: ProjectionOutputTypeDef
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]


class GlobalSecondaryIndexTypeDef(TypedDict):
    IndexName: str
    KeySchema: Sequence[KeySchemaElementTypeDef]
    Projection: ProjectionUnionTypeDef
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]


class GlobalSecondaryIndexUpdateTypeDef(TypedDict):
    Update: NotRequired[UpdateGlobalSecondaryIndexActionTypeDef]
    Create: NotRequired[CreateGlobalSecondaryIndexActionTypeDef]
    Delete: NotRequired[DeleteGlobalSecondaryIndexActionTypeDef]


class GlobalSecondaryIndexWarmThroughputDescriptionTypeDef(TypedDict):
    ReadUnitsPerSecond: NotRequired[int]
    WriteUnitsPerSecond: NotRequired[int]
    Status: NotRequired[IndexStatusType]


class GlobalTableDescriptionTypeDef(TypedDict):
    ReplicationGroup: NotRequired[list[ReplicaDescriptionTypeDef]]
    GlobalTableArn: NotRequired[str]
    CreationDateTime: NotRequired[datetime]
    GlobalTableStatus: NotRequired[GlobalTableStatusType]
    GlobalTableName: NotRequired[str]


class GlobalTableGlobalSecondaryIndexSettingsUpdateTypeDef(TypedDict):
    IndexName: str
    ProvisionedWriteCapacityUnits: NotRequired[int]
    ProvisionedWriteCapacityAutoScalingSettingsUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]


class GlobalTableTypeDef(TypedDict):
    GlobalTableName: NotRequired[str]
    ReplicationGroup: NotRequired[list[ReplicaTypeDef]]


class GlobalTableWitnessDescriptionTypeDef(TypedDict):
    RegionName: NotRequired[str]
    WitnessStatus: NotRequired[WitnessStatusType]


class GlobalTableWitnessGroupUpdateTypeDef(TypedDict):
    Create: NotRequired[CreateGlobalTableWitnessGroupMemberActionTypeDef]
    Delete: NotRequired[DeleteGlobalTableWitnessGroupMemberActionTypeDef]


class IdentityTypeDef(TypedDict):
    PrincipalId: NotRequired[str]
    Type: NotRequired[str]


class ImportSummaryTypeDef(TypedDict):
    ImportArn: NotRequired[str]
    ImportStatus: NotRequired[ImportStatusType]
    TableArn: NotRequired[str]
    S3BucketSource: NotRequired[S3BucketSourceTypeDef]
    CloudWatchLogGroupArn: NotRequired[str]
    InputFormat: NotRequired[InputFormatType]
    StartTime: NotRequired[datetime]
    EndTime: NotRequired[datetime]


class ImportTableDescriptionTypeDef(TypedDict):
    ImportArn: NotRequired[str]
    ImportStatus: NotRequired[ImportStatusType]
    TableArn: NotRequired[str]
    TableId: NotRequired[str]
    ClientToken: NotRequired[str]
    S3BucketSource: NotRequired[S3BucketSourceTypeDef]
    ErrorCount: NotRequired[int]
    CloudWatchLogGroupArn: NotRequired[str]
    InputFormat: NotRequired[InputFormatType]
    InputFormatOptions: NotRequired[InputFormatOptionsOutputTypeDef]
    InputCompressionType: NotRequired[InputCompressionTypeType]
    TableCreationParameters: NotRequired[TableCreationParametersOutputTypeDef]
    StartTime: NotRequired[datetime]
    EndTime: NotRequired[datetime]
    ProcessedSizeBytes: NotRequired[int]
    ProcessedItemCount: NotRequired[int]
    ImportedItemCount: NotRequired[int]
    FailureCode: NotRequired[str]
    FailureMessage: NotRequired[str]


class ImportTableInputTypeDef(TypedDict):
    ClientToken: NotRequired[str]
    S3BucketSource: S3BucketSourceTypeDef
    InputFormat: InputFormatType
    InputFormatOptions: NotRequired[InputFormatOptionsUnionTypeDef]
    InputCompressionType: NotRequired[InputCompressionTypeType]
    TableCreationParameters: TableCreationParametersUnionTypeDef


class ImportTableOutputTypeDef(TypedDict):
    ImportTableDescription: ImportTableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class IncrementalExportSpecificationOutputTypeDef(TypedDict):
    ExportFromTime: NotRequired[datetime]
    ExportToTime: NotRequired[datetime]
    ExportViewType: NotRequired[ExportViewTypeType]


class IncrementalExportSpecificationTypeDef(TypedDict):
    ExportFromTime: NotRequired[TimestampTypeDef]
    ExportToTime: NotRequired[TimestampTypeDef]
    ExportViewType: NotRequired[ExportViewTypeType]


class InputFormatOptionsOutputTypeDef(TypedDict):
    Csv: NotRequired[CsvOptionsOutputTypeDef]


class InputFormatOptionsTypeDef(TypedDict):
    Csv: NotRequired[CsvOptionsUnionTypeDef]


class InputS3ConfigurationTypeDef(TypedDict):
    S3BucketOwner: NotRequired[str]
    S3Bucket: str
    S3KeyPrefix: NotRequired[str]
    InputFormat: BulkOperationInputFormatType
    InputCompressionType: NotRequired[InputCompressionTypeType]


class ItemCollectionMetricsTypeDef(TypedDict):
    ItemCollectionKey: NotRequired[dict[str, AttributeValueTypeDef]]
    SizeEstimateRangeGB: NotRequired[list[float]]


class ItemResponseTypeDef(TypedDict):
    Item: NotRequired[dict[str, AttributeValueTypeDef]]


class KeySchemaElementTypeDef(TypedDict):
    AttributeName: str
    KeyType: KeyTypeType


class KeysAndAttributesOutputTypeDef(TypedDict):
    Keys: list[dict[str, AttributeValueTypeDef]]
    AttributesToGet: NotRequired[list[str]]
    ConsistentRead: NotRequired[bool]
    ProjectionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[dict[str, str]]


class KeysAndAttributesTypeDef(TypedDict):
    Keys: Sequence[Mapping[str, AttributeValueTypeDef]]
    AttributesToGet: NotRequired[Sequence[str]]
    ConsistentRead: NotRequired[bool]
    ProjectionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]


class KinesisDataStreamDestinationTypeDef(TypedDict):
    StreamArn: NotRequired[str]
    DestinationStatus: NotRequired[DestinationStatusType]
    DestinationStatusDescription: NotRequired[str]
    ApproximateCreationDateTimePrecision: NotRequired[ApproximateCreationDateTimePrecisionType]


class KinesisStreamingDestinationInputTypeDef(TypedDict):
    TableName: str
    StreamArn: str
    EnableKinesisStreamingConfiguration: NotRequired[EnableKinesisStreamingConfigurationTypeDef]


class KinesisStreamingDestinationOutputTypeDef(TypedDict):
    TableName: str
    StreamArn: str
    DestinationStatus: DestinationStatusType
    EnableKinesisStreamingConfiguration: EnableKinesisStreamingConfigurationTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class ListBackupsInputTypeDef(TypedDict):
    TableName: NotRequired[str]
    Limit: NotRequired[int]
    TimeRangeLowerBound: NotRequired[TimestampTypeDef]
    TimeRangeUpperBound: NotRequired[TimestampTypeDef]
    ExclusiveStartBackupArn: NotRequired[str]
    BackupType: NotRequired[BackupTypeFilterType]


class ListBackupsOutputTypeDef(TypedDict):
    BackupSummaries: list[BackupSummaryTypeDef]
    LastEvaluatedBackupArn: str
    ResponseMetadata: ResponseMetadataTypeDef


class ListBulkOperationsInputTypeDef(TypedDict):
    MaxResults: NotRequired[int]
    NextToken: NotRequired[str]


class ListBulkOperationsOutputTypeDef(TypedDict):
    BulkOperationsSummaryList: list[BulkOperationSummaryTypeDef]
    NextToken: NotRequired[str]
    ResponseMetadata: ResponseMetadataTypeDef


class ListContributorInsightsInputTypeDef(TypedDict):
    TableName: NotRequired[str]
    NextToken: NotRequired[str]
    MaxResults: NotRequired[int]


class ListContributorInsightsOutputTypeDef(TypedDict):
    ContributorInsightsSummaries: list[ContributorInsightsSummaryTypeDef]
    NextToken: NotRequired[str]
    ResponseMetadata: ResponseMetadataTypeDef


class ListExportsInputTypeDef(TypedDict):
    TableArn: NotRequired[str]
    MaxResults: NotRequired[int]
    NextToken: NotRequired[str]


class ListExportsOutputTypeDef(TypedDict):
    ExportSummaries: list[ExportSummaryTypeDef]
    NextToken: NotRequired[str]
    ResponseMetadata: ResponseMetadataTypeDef


class ListGlobalTablesInputTypeDef(TypedDict):
    ExclusiveStartGlobalTableName: NotRequired[str]
    Limit: NotRequired[int]
    RegionName: NotRequired[str]


class ListGlobalTablesOutputTypeDef(TypedDict):
    GlobalTables: list[GlobalTableTypeDef]
    LastEvaluatedGlobalTableName: str
    ResponseMetadata: ResponseMetadataTypeDef


class ListImportsInputTypeDef(TypedDict):
    TableArn: NotRequired[str]
    PageSize: NotRequired[int]
    NextToken: NotRequired[str]


class ListImportsOutputTypeDef(TypedDict):
    ImportSummaryList: list[ImportSummaryTypeDef]
    NextToken: NotRequired[str]
    ResponseMetadata: ResponseMetadataTypeDef


class ListStreamsInputTypeDef(TypedDict):
    TableName: NotRequired[str]
    Limit: NotRequired[int]
    ExclusiveStartStreamArn: NotRequired[str]


class ListStreamsOutputTypeDef(TypedDict):
    Streams: list[StreamTypeDef]
    LastEvaluatedStreamArn: str
    ResponseMetadata: ResponseMetadataTypeDef


class ListTablesInputTypeDef(TypedDict):
    ExclusiveStartTableName: NotRequired[str]
    Limit: NotRequired[int]


class ListTablesOutputTypeDef(TypedDict):
    TableNames: list[str]
    LastEvaluatedTableName: str
    ResponseMetadata: ResponseMetadataTypeDef


class ListTagsOfResourceInputTypeDef(TypedDict):
    ResourceArn: str
    NextToken: NotRequired[str]


class ListTagsOfResourceOutputTypeDef(TypedDict):
    Tags: list[TagTypeDef]
    NextToken: NotRequired[str]
    ResponseMetadata: ResponseMetadataTypeDef


class LocalSecondaryIndexDescriptionTypeDef(TypedDict):
    IndexName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]
    IndexSizeBytes: NotRequired[int]
    ItemCount: NotRequired[int]
    IndexArn: NotRequired[str]


class LocalSecondaryIndexInfoTypeDef(TypedDict):
    IndexName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]


class LocalSecondaryIndexTypeDef(TypedDict):
    IndexName: str
    KeySchema: Sequence[KeySchemaElementTypeDef]
    Projection: ProjectionUnionTypeDef


class OnDemandThroughputOverrideTypeDef(TypedDict):
    MaxReadRequestUnits: NotRequired[int]


class OnDemandThroughputTypeDef(TypedDict):
    MaxReadRequestUnits: NotRequired[int]
    MaxWriteRequestUnits: NotRequired[int]


class OutputS3ConfigurationOutputTypeDef(TypedDict):
    S3BucketOwner: NotRequired[str]
    S3Bucket: NotRequired[str]
    S3KeyPrefix: NotRequired[str]
    S3SseAlgorithm: NotRequired[S3SseAlgorithmType]
    S3SseKmsKeyId: NotRequired[str]
    OutputType: list[OutputTypeEnumType]


class OutputS3ConfigurationTypeDef(TypedDict):
    S3BucketOwner: NotRequired[str]
    S3Bucket: NotRequired[str]
    S3KeyPrefix: NotRequired[str]
    S3SseAlgorithm: NotRequired[S3SseAlgorithmType]
    S3SseKmsKeyId: NotRequired[str]
    OutputType: Sequence[OutputTypeEnumType]


class ParameterizedStatementTypeDef(TypedDict):
    Statement: str
    Parameters: NotRequired[Sequence[AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class PointInTimeRecoveryDescriptionTypeDef(TypedDict):
    PointInTimeRecoveryStatus: NotRequired[PointInTimeRecoveryStatusType]
    RecoveryPeriodInDays: NotRequired[int]
    EarliestRestorableDateTime: NotRequired[datetime]
    LatestRestorableDateTime: NotRequired[datetime]


class PointInTimeRecoverySpecificationTypeDef(TypedDict):
    PointInTimeRecoveryEnabled: bool
    RecoveryPeriodInDays: NotRequired[int]


class ProjectionOutputTypeDef(TypedDict):
    ProjectionType: NotRequired[ProjectionTypeType]
    NonKeyAttributes: NotRequired[list[str]]


class ProjectionTypeDef(TypedDict):
    ProjectionType: NotRequired[ProjectionTypeType]
    NonKeyAttributes: NotRequired[Sequence[str]]


class ProvisionedThroughputDescriptionTypeDef(TypedDict):
    LastIncreaseDateTime: NotRequired[datetime]
    LastDecreaseDateTime: NotRequired[datetime]
    NumberOfDecreasesToday: NotRequired[int]
    ReadCapacityUnits: NotRequired[int]
    WriteCapacityUnits: NotRequired[int]


class ProvisionedThroughputOverrideTypeDef(TypedDict):
    ReadCapacityUnits: NotRequired[int]


class ProvisionedThroughputTypeDef(TypedDict):
    ReadCapacityUnits: int
    WriteCapacityUnits: int


class PutItemInputTypeDef(TypedDict):
    TableName: str
    Item: Mapping[str, AttributeValueTypeDef]
    Expected: NotRequired[Mapping[str, ExpectedAttributeValueTypeDef]]
    ReturnValues: NotRequired[ReturnValueType]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ReturnItemCollectionMetrics: NotRequired[ReturnItemCollectionMetricsType]
    ConditionalOperator: NotRequired[ConditionalOperatorType]
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class PutItemOutputTypeDef(TypedDict):
    Attributes: dict[str, AttributeValueTypeDef]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ItemCollectionMetrics: ItemCollectionMetricsTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class PutRequestOutputTypeDef(TypedDict):
    Item: dict[str, AttributeValueTypeDef]


class PutRequestTypeDef(TypedDict):
    Item: Mapping[str, AttributeValueTypeDef]


class PutResourcePolicyInputTypeDef(TypedDict):
    ResourceArn: str
    Policy: str
    ExpectedRevisionId: NotRequired[str]
    ConfirmRemoveSelfResourceAccess: NotRequired[bool]


class PutResourcePolicyOutputTypeDef(TypedDict):
    RevisionId: str
    ResponseMetadata: ResponseMetadataTypeDef


class PutTypeDef(TypedDict):
    Item: Mapping[str, AttributeValueTypeDef]
    TableName: str
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class QueryInputTypeDef(TypedDict):
    TableName: str
    IndexName: NotRequired[str]
    Select: NotRequired[SelectType]
    AttributesToGet: NotRequired[Sequence[str]]
    Limit: NotRequired[int]
    ConsistentRead: NotRequired[bool]
    KeyConditions: NotRequired[Mapping[str, ConditionTypeDef]]
    QueryFilter: NotRequired[Mapping[str, ConditionTypeDef]]
    ConditionalOperator: NotRequired[ConditionalOperatorType]
    ScanIndexForward: NotRequired[bool]
    ExclusiveStartKey: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ProjectionExpression: NotRequired[str]
    FilterExpression: NotRequired[str]
    KeyConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]


class QueryOutputTypeDef(TypedDict):
    Items: list[dict[str, AttributeValueTypeDef]]
    Count: int
    ScannedCount: int
    LastEvaluatedKey: NotRequired[dict[str, AttributeValueTypeDef]]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class RecordTypeDef(TypedDict):
    eventID: NotRequired[str]
    eventName: NotRequired[OperationTypeType]
    eventVersion: NotRequired[str]
    eventSource: NotRequired[str]
    awsRegion: NotRequired[str]
    dynamodb: NotRequired[StreamRecordTypeDef]
    userIdentity: NotRequired[IdentityTypeDef]


class ReplicaAutoScalingDescriptionTypeDef(TypedDict):
    RegionName: NotRequired[str]
    GlobalSecondaryIndexes: NotRequired[list[ReplicaGlobalSecondaryIndexAutoScalingDescriptionTypeDef]]
    ReplicaProvisionedReadCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ReplicaProvisionedWriteCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ReplicaStatus: NotRequired[ReplicaStatusType]


class ReplicaAutoScalingUpdateTypeDef(TypedDict):
    RegionName: str
    ReplicaGlobalSecondaryIndexUpdates: NotRequired[Sequence[ReplicaGlobalSecondaryIndexAutoScalingUpdateTypeDef]]
    ReplicaProvisionedReadCapacityAutoScalingUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]


class ReplicaDescriptionTypeDef(TypedDict):
    RegionName: NotRequired[str]
    ReplicaStatus: NotRequired[ReplicaStatusType]
    ReplicaArn: NotRequired[str]
    ReplicaStatusDescription: NotRequired[str]
    ReplicaStatusPercentProgress: NotRequired[str]
    KMSMasterKeyId: NotRequired[str]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputOverrideTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputOverrideTypeDef]
    WarmThroughput: NotRequired[TableWarmThroughputDescriptionTypeDef]
    GlobalSecondaryIndexes: NotRequired[list[ReplicaGlobalSecondaryIndexDescriptionTypeDef]]
    ReplicaInaccessibleDateTime: NotRequired[datetime]
    ReplicaTableClassSummary: NotRequired[TableClassSummaryTypeDef]
    GlobalTableSettingsReplicationMode: NotRequired[GlobalTableSettingsReplicationModeType]


class ReplicaGlobalSecondaryIndexAutoScalingDescriptionTypeDef(TypedDict):
    IndexName: NotRequired[str]
    IndexStatus: NotRequired[IndexStatusType]
    ProvisionedReadCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ProvisionedWriteCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]


class ReplicaGlobalSecondaryIndexAutoScalingUpdateTypeDef(TypedDict):
    IndexName: NotRequired[str]
    ProvisionedReadCapacityAutoScalingUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]


class ReplicaGlobalSecondaryIndexDescriptionTypeDef(TypedDict):
    IndexName: NotRequired[str]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputOverrideTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputOverrideTypeDef]
    WarmThroughput: NotRequired[GlobalSecondaryIndexWarmThroughputDescriptionTypeDef]


class ReplicaGlobalSecondaryIndexSettingsDescriptionTypeDef(TypedDict):
    IndexName: str
    IndexStatus: NotRequired[IndexStatusType]
    ProvisionedReadCapacityUnits: NotRequired[int]
    ProvisionedReadCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ProvisionedWriteCapacityUnits: NotRequired[int]
    ProvisionedWriteCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]


class ReplicaGlobalSecondaryIndexSettingsUpdateTypeDef(TypedDict):
    IndexName: str
    ProvisionedReadCapacityUnits: NotRequired[int]
    ProvisionedReadCapacityAutoScalingSettingsUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]


class ReplicaGlobalSecondaryIndexTypeDef(TypedDict):
    IndexName: str
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputOverrideTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputOverrideTypeDef]


class ReplicaSettingsDescriptionTypeDef(TypedDict):
    RegionName: str
    ReplicaStatus: NotRequired[ReplicaStatusType]
    ReplicaBillingModeSummary: NotRequired[BillingModeSummaryTypeDef]
    ReplicaProvisionedReadCapacityUnits: NotRequired[int]
    ReplicaProvisionedReadCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ReplicaProvisionedWriteCapacityUnits: NotRequired[int]
    ReplicaProvisionedWriteCapacityAutoScalingSettings: NotRequired[AutoScalingSettingsDescriptionTypeDef]
    ReplicaGlobalSecondaryIndexSettings: NotRequired[list[ReplicaGlobalSecondaryIndexSettingsDescriptionTypeDef]]
    ReplicaTableClassSummary: NotRequired[TableClassSummaryTypeDef]


class ReplicaSettingsUpdateTypeDef(TypedDict):
    RegionName: str
    ReplicaProvisionedReadCapacityUnits: NotRequired[int]
    ReplicaProvisionedReadCapacityAutoScalingSettingsUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]
    ReplicaGlobalSecondaryIndexSettingsUpdate: NotRequired[Sequence[ReplicaGlobalSecondaryIndexSettingsUpdateTypeDef]]
    ReplicaTableClass: NotRequired[TableClassType]


class ReplicaTypeDef(TypedDict):
    RegionName: NotRequired[str]


class ReplicaUpdateTypeDef(TypedDict):
    Create: NotRequired[CreateReplicaActionTypeDef]
    Delete: NotRequired[DeleteReplicaActionTypeDef]


class ReplicationGroupUpdateTypeDef(TypedDict):
    Create: NotRequired[CreateReplicationGroupMemberActionTypeDef]
    Update: NotRequired[UpdateReplicationGroupMemberActionTypeDef]
    Delete: NotRequired[DeleteReplicationGroupMemberActionTypeDef]
    Disassociate: NotRequired[DisassociateReplicationGroupMemberActionTypeDef]


class RestoreSummaryTypeDef(TypedDict):
    SourceBackupArn: NotRequired[str]
    SourceTableArn: NotRequired[str]
    RestoreDateTime: datetime
    RestoreInProgress: bool


class RestoreTableFromBackupInputTypeDef(TypedDict):
    TargetTableName: str
    BackupArn: str
    BillingModeOverride: NotRequired[BillingModeType]
    GlobalSecondaryIndexOverride: NotRequired[Sequence[GlobalSecondaryIndexUnionTypeDef]]
    LocalSecondaryIndexOverride: NotRequired[Sequence[LocalSecondaryIndexTypeDef]]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputTypeDef]
    SSESpecificationOverride: NotRequired[SSESpecificationTypeDef]
    VectorIndexOverride: NotRequired[Sequence[VectorIndexUnionTypeDef]]


class RestoreTableFromBackupOutputTypeDef(TypedDict):
    TableDescription: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class RestoreTableToPointInTimeInputTypeDef(TypedDict):
    SourceTableArn: NotRequired[str]
    SourceTableName: NotRequired[str]
    TargetTableName: str
    UseLatestRestorableTime: NotRequired[bool]
    RestoreDateTime: NotRequired[TimestampTypeDef]
    BillingModeOverride: NotRequired[BillingModeType]
    GlobalSecondaryIndexOverride: NotRequired[Sequence[GlobalSecondaryIndexUnionTypeDef]]
    LocalSecondaryIndexOverride: NotRequired[Sequence[LocalSecondaryIndexTypeDef]]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputTypeDef]
    SSESpecificationOverride: NotRequired[SSESpecificationTypeDef]
    VectorIndexOverride: NotRequired[Sequence[VectorIndexUnionTypeDef]]


class RestoreTableToPointInTimeOutputTypeDef(TypedDict):
    TableDescription: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class S3BucketSourceTypeDef(TypedDict):
    S3BucketOwner: NotRequired[str]
    S3Bucket: str
    S3KeyPrefix: NotRequired[str]


class SSEDescriptionTypeDef(TypedDict):
    Status: NotRequired[SSEStatusType]
    SSEType: NotRequired[SSETypeType]
    KMSMasterKeyArn: NotRequired[str]
    InaccessibleEncryptionDateTime: NotRequired[datetime]


class SSESpecificationTypeDef(TypedDict):
    Enabled: NotRequired[bool]
    SSEType: NotRequired[SSETypeType]
    KMSMasterKeyId: NotRequired[str]


class ScanInputTypeDef(TypedDict):
    TableName: str
    IndexName: NotRequired[str]
    AttributesToGet: NotRequired[Sequence[str]]
    Limit: NotRequired[int]
    Select: NotRequired[SelectType]
    ScanFilter: NotRequired[Mapping[str, ConditionTypeDef]]
    ConditionalOperator: NotRequired[ConditionalOperatorType]
    ExclusiveStartKey: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    TotalSegments: NotRequired[int]
    Segment: NotRequired[int]
    ProjectionExpression: NotRequired[str]
    FilterExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ConsistentRead: NotRequired[bool]


class ScanOutputTypeDef(TypedDict):
    Items: list[dict[str, AttributeValueTypeDef]]
    Count: int
    ScannedCount: int
    LastEvaluatedKey: NotRequired[dict[str, AttributeValueTypeDef]]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class SearchResultItemTypeDef(TypedDict):
    Item: NotRequired[dict[str, AttributeValueTypeDef]]
    Score: NotRequired[float]


class SearchSchemaElementTypeDef(TypedDict):
    AttributeName: str
    SearchSchemaElementType: SearchSchemaElementTypeType


class SearchVectorsInputTypeDef(TypedDict):
    TableName: str
    IndexName: str
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ProjectionExpression: NotRequired[str]
    SearchVector: Sequence[AttributeValueTypeDef]
    SearchConditionExpression: NotRequired[str]
    TopK: int


class SearchVectorsOutputTypeDef(TypedDict):
    ConsumedCapacity: VectorCapacityTypeDef
    SearchResults: list[SearchResultItemTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class SequenceNumberRangeTypeDef(TypedDict):
    StartingSequenceNumber: NotRequired[str]
    EndingSequenceNumber: NotRequired[str]


class ShardFilterTypeDef(TypedDict):
    Type: NotRequired[ShardFilterTypeType]
    ShardId: NotRequired[str]


class ShardTypeDef(TypedDict):
    ShardId: NotRequired[str]
    SequenceNumberRange: NotRequired[SequenceNumberRangeTypeDef]
    ParentShardId: NotRequired[str]


class SourceTableDetailsTypeDef(TypedDict):
    TableName: str
    TableId: str
    TableArn: NotRequired[str]
    TableSizeBytes: NotRequired[int]
    KeySchema: list[KeySchemaElementTypeDef]
    TableCreationDateTime: datetime
    ProvisionedThroughput: ProvisionedThroughputTypeDef
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    ItemCount: NotRequired[int]
    BillingMode: NotRequired[BillingModeType]


class SourceTableFeatureDetailsTypeDef(TypedDict):
    LocalSecondaryIndexes: NotRequired[list[LocalSecondaryIndexInfoTypeDef]]
    GlobalSecondaryIndexes: NotRequired[list[GlobalSecondaryIndexInfoTypeDef]]
    StreamDescription: NotRequired[StreamSpecificationTypeDef]
    TimeToLiveDescription: NotRequired[TimeToLiveDescriptionTypeDef]
    SSEDescription: NotRequired[SSEDescriptionTypeDef]
    VectorIndexes: NotRequired[list[VectorIndexInfoTypeDef]]


class StartBulkPutItemsInputTypeDef(TypedDict):
    ClientToken: NotRequired[str]
    InputS3Configuration: InputS3ConfigurationTypeDef
    OutputS3Configuration: OutputS3ConfigurationUnionTypeDef
    TableName: str
    MaxWriteRequestUnits: NotRequired[int]
    PerformanceTier: NotRequired[BulkOperationPerformanceTierType]


class StartBulkPutItemsOutputTypeDef(TypedDict):
    BulkOperationDescription: BulkOperationDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class StreamDescriptionTypeDef(TypedDict):
    StreamArn: NotRequired[str]
    StreamLabel: NotRequired[str]
    StreamStatus: NotRequired[StreamStatusType]
    StreamViewType: NotRequired[StreamViewTypeType]
    CreationRequestDateTime: NotRequired[datetime]
    TableName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    Shards: NotRequired[list[ShardTypeDef]]
    LastEvaluatedShardId: NotRequired[str]


class StreamRecordTypeDef(TypedDict):
    ApproximateCreationDateTime: NotRequired[datetime]
    Keys: NotRequired[dict[str, AttributeValueTypeDef]]
    NewImage: NotRequired[dict[str, AttributeValueTypeDef]]
    OldImage: NotRequired[dict[str, AttributeValueTypeDef]]
    SequenceNumber: NotRequired[str]
    SizeBytes: NotRequired[int]
    StreamViewType: NotRequired[StreamViewTypeType]


class StreamSpecificationTypeDef(TypedDict):
    StreamEnabled: bool
    StreamViewType: NotRequired[StreamViewTypeType]


class StreamTypeDef(TypedDict):
    StreamArn: NotRequired[str]
    TableName: NotRequired[str]
    StreamLabel: NotRequired[str]


class TableAutoScalingDescriptionTypeDef(TypedDict):
    TableName: NotRequired[str]
    TableStatus: NotRequired[TableStatusType]
    Replicas: NotRequired[list[ReplicaAutoScalingDescriptionTypeDef]]


class TableClassSummaryTypeDef(TypedDict):
    TableClass: NotRequired[TableClassType]
    LastUpdateDateTime: NotRequired[datetime]


class TableCreationParametersOutputTypeDef(TypedDict):
    TableName: str
    AttributeDefinitions: list[AttributeDefinitionTypeDef]
    KeySchema: list[KeySchemaElementTypeDef]
    BillingMode: NotRequired[BillingModeType]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    SSESpecification: NotRequired[SSESpecificationTypeDef]
    GlobalSecondaryIndexes: NotRequired[list[GlobalSecondaryIndexOutputTypeDef]]
    VectorIndexes: NotRequired[list[VectorIndexOutputTypeDef]]


class TableCreationParametersTypeDef(TypedDict):
    TableName: str
    AttributeDefinitions: Sequence[AttributeDefinitionTypeDef]
    KeySchema: Sequence[KeySchemaElementTypeDef]
    BillingMode: NotRequired[BillingModeType]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    SSESpecification: NotRequired[SSESpecificationTypeDef]
    GlobalSecondaryIndexes: NotRequired[Sequence[GlobalSecondaryIndexUnionTypeDef]]
    VectorIndexes: NotRequired[Sequence[VectorIndexUnionTypeDef]]


class TableDescriptionTypeDef(TypedDict):
    AttributeDefinitions: NotRequired[list[AttributeDefinitionTypeDef]]
    TableName: NotRequired[str]
    KeySchema: NotRequired[list[KeySchemaElementTypeDef]]
    TableStatus: NotRequired[TableStatusType]
    CreationDateTime: NotRequired[datetime]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputDescriptionTypeDef]
    TableSizeBytes: NotRequired[int]
    ItemCount: NotRequired[int]
    TableArn: NotRequired[str]
    TableId: NotRequired[str]
    BillingModeSummary: NotRequired[BillingModeSummaryTypeDef]
    LocalSecondaryIndexes: NotRequired[list[LocalSecondaryIndexDescriptionTypeDef]]
    GlobalSecondaryIndexes: NotRequired[list[GlobalSecondaryIndexDescriptionTypeDef]]
    StreamSpecification: NotRequired[StreamSpecificationTypeDef]
    LatestStreamLabel: NotRequired[str]
    LatestStreamArn: NotRequired[str]
    GlobalTableVersion: NotRequired[str]
    Replicas: NotRequired[list[ReplicaDescriptionTypeDef]]
    GlobalTableWitnesses: NotRequired[list[GlobalTableWitnessDescriptionTypeDef]]
    GlobalTableSettingsReplicationMode: NotRequired[GlobalTableSettingsReplicationModeType]
    RestoreSummary: NotRequired[RestoreSummaryTypeDef]
    SSEDescription: NotRequired[SSEDescriptionTypeDef]
    ArchivalSummary: NotRequired[ArchivalSummaryTypeDef]
    TableClassSummary: NotRequired[TableClassSummaryTypeDef]
    DeletionProtectionEnabled: NotRequired[bool]
    DisassociationProtectionEnabled: NotRequired[bool]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[TableWarmThroughputDescriptionTypeDef]
    MultiRegionConsistency: NotRequired[MultiRegionConsistencyType]
    VectorIndexes: NotRequired[list[VectorIndexDescriptionTypeDef]]


class TableWarmThroughputDescriptionTypeDef(TypedDict):
    ReadUnitsPerSecond: NotRequired[int]
    WriteUnitsPerSecond: NotRequired[int]
    Status: NotRequired[TableStatusType]


class TagResourceInputTypeDef(TypedDict):
    ResourceArn: str
    Tags: Sequence[TagTypeDef]


class TagTypeDef(TypedDict):
    Key: str
    Value: str


class TimeToLiveDescriptionTypeDef(TypedDict):
    TimeToLiveStatus: NotRequired[TimeToLiveStatusType]
    AttributeName: NotRequired[str]


class TimeToLiveSpecificationTypeDef(TypedDict):
    Enabled: bool
    AttributeName: str


class TransactGetItemTypeDef(TypedDict):
    Get: GetTypeDef


class TransactGetItemsInputTypeDef(TypedDict):
    TransactItems: Sequence[TransactGetItemTypeDef]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]


class TransactGetItemsOutputTypeDef(TypedDict):
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    Responses: list[ItemResponseTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class TransactWriteItemTypeDef(TypedDict):
    ConditionCheck: NotRequired[ConditionCheckTypeDef]
    Put: NotRequired[PutTypeDef]
    Delete: NotRequired[DeleteTypeDef]
    Update: NotRequired[UpdateTypeDef]


class TransactWriteItemsInputTypeDef(TypedDict):
    TransactItems: Sequence[TransactWriteItemTypeDef]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ReturnItemCollectionMetrics: NotRequired[ReturnItemCollectionMetricsType]
    ClientRequestToken: NotRequired[str]


class TransactWriteItemsOutputTypeDef(TypedDict):
    ConsumedCapacity: list[ConsumedCapacityTypeDef]
    ItemCollectionMetrics: dict[str, list[ItemCollectionMetricsTypeDef]]
    ResponseMetadata: ResponseMetadataTypeDef


class UntagResourceInputTypeDef(TypedDict):
    ResourceArn: str
    TagKeys: Sequence[str]


class UpdateContinuousBackupsInputTypeDef(TypedDict):
    TableName: str
    PointInTimeRecoverySpecification: PointInTimeRecoverySpecificationTypeDef


class UpdateContinuousBackupsOutputTypeDef(TypedDict):
    ContinuousBackupsDescription: ContinuousBackupsDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateContributorInsightsInputTypeDef(TypedDict):
    TableName: str
    IndexName: NotRequired[str]
    ContributorInsightsAction: ContributorInsightsActionType
    ContributorInsightsMode: NotRequired[ContributorInsightsModeType]


class UpdateContributorInsightsOutputTypeDef(TypedDict):
    TableName: str
    IndexName: str
    ContributorInsightsStatus: ContributorInsightsStatusType
    ContributorInsightsMode: ContributorInsightsModeType
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateGlobalSecondaryIndexActionTypeDef(TypedDict):
    IndexName: str
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]


class UpdateGlobalTableInputTypeDef(TypedDict):
    GlobalTableName: str
    ReplicaUpdates: Sequence[ReplicaUpdateTypeDef]


class UpdateGlobalTableOutputTypeDef(TypedDict):
    GlobalTableDescription: GlobalTableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateGlobalTableSettingsInputTypeDef(TypedDict):
    GlobalTableName: str
    GlobalTableBillingMode: NotRequired[BillingModeType]
    GlobalTableProvisionedWriteCapacityUnits: NotRequired[int]
    GlobalTableProvisionedWriteCapacityAutoScalingSettingsUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]
    GlobalTableGlobalSecondaryIndexSettingsUpdate: NotRequired[Sequence[GlobalTableGlobalSecondaryIndexSettingsUpdateTypeDef]]
    ReplicaSettingsUpdate: NotRequired[Sequence[ReplicaSettingsUpdateTypeDef]]


class UpdateGlobalTableSettingsOutputTypeDef(TypedDict):
    GlobalTableName: str
    ReplicaSettings: list[ReplicaSettingsDescriptionTypeDef]
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateItemInputTypeDef(TypedDict):
    TableName: str
    Key: Mapping[str, AttributeValueTypeDef]
    AttributeUpdates: NotRequired[Mapping[str, AttributeValueUpdateTypeDef]]
    Expected: NotRequired[Mapping[str, ExpectedAttributeValueTypeDef]]
    ConditionalOperator: NotRequired[ConditionalOperatorType]
    ReturnValues: NotRequired[ReturnValueType]
    ReturnConsumedCapacity: NotRequired[ReturnConsumedCapacityType]
    ReturnItemCollectionMetrics: NotRequired[ReturnItemCollectionMetricsType]
    UpdateExpression: NotRequired[str]
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class UpdateItemOutputTypeDef(TypedDict):
    Attributes: dict[str, AttributeValueTypeDef]
    ConsumedCapacity: ConsumedCapacityTypeDef
    ItemCollectionMetrics: ItemCollectionMetricsTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateKinesisStreamingConfigurationTypeDef(TypedDict):
    ApproximateCreationDateTimePrecision: NotRequired[ApproximateCreationDateTimePrecisionType]


class UpdateKinesisStreamingDestinationInputTypeDef(TypedDict):
    TableName: str
    StreamArn: str
    UpdateKinesisStreamingConfiguration: NotRequired[UpdateKinesisStreamingConfigurationTypeDef]


class UpdateKinesisStreamingDestinationOutputTypeDef(TypedDict):
    TableName: str
    StreamArn: str
    DestinationStatus: DestinationStatusType
    UpdateKinesisStreamingConfiguration: UpdateKinesisStreamingConfigurationTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateReplicationGroupMemberActionTypeDef(TypedDict):
    RegionName: str
    KMSMasterKeyId: NotRequired[str]
    ProvisionedThroughputOverride: NotRequired[ProvisionedThroughputOverrideTypeDef]
    OnDemandThroughputOverride: NotRequired[OnDemandThroughputOverrideTypeDef]
    GlobalSecondaryIndexes: NotRequired[Sequence[ReplicaGlobalSecondaryIndexTypeDef]]
    TableClassOverride: NotRequired[TableClassType]


class UpdateTableInputTypeDef(TypedDict):
    AttributeDefinitions: NotRequired[Sequence[AttributeDefinitionTypeDef]]
    TableName: str
    BillingMode: NotRequired[BillingModeType]
    ProvisionedThroughput: NotRequired[ProvisionedThroughputTypeDef]
    GlobalSecondaryIndexUpdates: NotRequired[Sequence[GlobalSecondaryIndexUpdateTypeDef]]
    StreamSpecification: NotRequired[StreamSpecificationTypeDef]
    SSESpecification: NotRequired[SSESpecificationTypeDef]
    ReplicaUpdates: NotRequired[Sequence[ReplicationGroupUpdateTypeDef]]
    TableClass: NotRequired[TableClassType]
    DeletionProtectionEnabled: NotRequired[bool]
    MultiRegionConsistency: NotRequired[MultiRegionConsistencyType]
    GlobalTableWitnessUpdates: NotRequired[Sequence[GlobalTableWitnessGroupUpdateTypeDef]]
    OnDemandThroughput: NotRequired[OnDemandThroughputTypeDef]
    WarmThroughput: NotRequired[WarmThroughputTypeDef]
    GlobalTableSettingsReplicationMode: NotRequired[GlobalTableSettingsReplicationModeType]
    DisassociationProtectionEnabled: NotRequired[bool]
    VectorIndexUpdates: NotRequired[Sequence[VectorIndexUpdateTypeDef]]


class UpdateTableOutputTypeDef(TypedDict):
    TableDescription: TableDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateTableReplicaAutoScalingInputTypeDef(TypedDict):
    GlobalSecondaryIndexUpdates: NotRequired[Sequence[GlobalSecondaryIndexAutoScalingUpdateTypeDef]]
    TableName: str
    ProvisionedWriteCapacityAutoScalingUpdate: NotRequired[AutoScalingSettingsUpdateTypeDef]
    ReplicaUpdates: NotRequired[Sequence[ReplicaAutoScalingUpdateTypeDef]]


class UpdateTableReplicaAutoScalingOutputTypeDef(TypedDict):
    TableAutoScalingDescription: TableAutoScalingDescriptionTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateTimeToLiveInputTypeDef(TypedDict):
    TableName: str
    TimeToLiveSpecification: TimeToLiveSpecificationTypeDef


class UpdateTimeToLiveOutputTypeDef(TypedDict):
    TimeToLiveSpecification: TimeToLiveSpecificationTypeDef
    ResponseMetadata: ResponseMetadataTypeDef


class UpdateTypeDef(TypedDict):
    Key: Mapping[str, AttributeValueTypeDef]
    UpdateExpression: str
    TableName: str
    ConditionExpression: NotRequired[str]
    ExpressionAttributeNames: NotRequired[Mapping[str, str]]
    ExpressionAttributeValues: NotRequired[Mapping[str, AttributeValueTypeDef]]
    ReturnValuesOnConditionCheckFailure: NotRequired[ReturnValuesOnConditionCheckFailureType]


class VectorAttributeDefinitionTypeDef(TypedDict):
    AttributeName: str


class VectorCapacityTypeDef(TypedDict):
    VectorSearchRequestBytes: NotRequired[float]
    VectorWriteRequestBytes: NotRequired[float]


class VectorIndexDescriptionTypeDef(TypedDict):
    IndexName: NotRequired[str]
    SearchSchema: NotRequired[list[SearchSchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]
    VectorAttribute: NotRequired[VectorAttributeDefinitionTypeDef]
    Dimensions: NotRequired[int]
    DistanceFunction: NotRequired[VectorDistanceFunctionType]
    IndexStatus: NotRequired[IndexStatusType]
    Backfilling: NotRequired[bool]
    IndexSizeBytes: NotRequired[int]
    ItemCount: NotRequired[int]
    IndexArn: NotRequired[str]


class VectorIndexInfoTypeDef(TypedDict):
    IndexName: NotRequired[str]
    VectorAttribute: NotRequired[VectorAttributeDefinitionTypeDef]
    SearchSchema: NotRequired[list[SearchSchemaElementTypeDef]]
    Projection: NotRequired[ProjectionOutputTypeDef]
    Dimensions: NotRequired[int]
    DistanceFunction: NotRequired[VectorDistanceFunctionType]


class VectorIndexOutputTypeDef(TypedDict):
    IndexName: str
    VectorAttribute: VectorAttributeDefinitionTypeDef
    SearchSchema: NotRequired[list[SearchSchemaElementTypeDef]]
    Projection: ProjectionOutputTypeDef
    Dimensions: int
    DistanceFunction: VectorDistanceFunctionType


class VectorIndexTypeDef(TypedDict):
    IndexName: str
    VectorAttribute: VectorAttributeDefinitionTypeDef
    SearchSchema: NotRequired[Sequence[SearchSchemaElementTypeDef]]
    Projection: ProjectionUnionTypeDef
    Dimensions: int
    DistanceFunction: VectorDistanceFunctionType


class VectorIndexUpdateTypeDef(TypedDict):
    Create: NotRequired[CreateVectorIndexActionTypeDef]
    Delete: NotRequired[DeleteVectorIndexActionTypeDef]


class WarmThroughputTypeDef(TypedDict):
    ReadUnitsPerSecond: NotRequired[int]
    WriteUnitsPerSecond: NotRequired[int]


class WriteRequestOutputTypeDef(TypedDict):
    PutRequest: NotRequired[PutRequestOutputTypeDef]
    DeleteRequest: NotRequired[DeleteRequestOutputTypeDef]


class WriteRequestTypeDef(TypedDict):
    PutRequest: NotRequired[PutRequestUnionTypeDef]
    DeleteRequest: NotRequired[DeleteRequestUnionTypeDef]


CsvOptionsUnionTypeDef: TypeAlias = CsvOptionsTypeDef | CsvOptionsOutputTypeDef
DeleteRequestUnionTypeDef: TypeAlias = DeleteRequestTypeDef | DeleteRequestOutputTypeDef
FilterSpecificationUnionTypeDef: TypeAlias = FilterSpecificationTypeDef | FilterSpecificationOutputTypeDef
GlobalSecondaryIndexUnionTypeDef: TypeAlias = GlobalSecondaryIndexTypeDef | GlobalSecondaryIndexOutputTypeDef
IncrementalExportSpecificationUnionTypeDef: TypeAlias = IncrementalExportSpecificationTypeDef | IncrementalExportSpecificationOutputTypeDef
InputFormatOptionsUnionTypeDef: TypeAlias = InputFormatOptionsTypeDef | InputFormatOptionsOutputTypeDef
KeysAndAttributesUnionTypeDef: TypeAlias = KeysAndAttributesTypeDef | KeysAndAttributesOutputTypeDef
OutputS3ConfigurationUnionTypeDef: TypeAlias = OutputS3ConfigurationTypeDef | OutputS3ConfigurationOutputTypeDef
ProjectionUnionTypeDef: TypeAlias = ProjectionTypeDef | ProjectionOutputTypeDef
PutRequestUnionTypeDef: TypeAlias = PutRequestTypeDef | PutRequestOutputTypeDef
TableCreationParametersUnionTypeDef: TypeAlias = TableCreationParametersTypeDef | TableCreationParametersOutputTypeDef
VectorIndexUnionTypeDef: TypeAlias = VectorIndexTypeDef | VectorIndexOutputTypeDef
WriteRequestUnionTypeDef: TypeAlias = WriteRequestTypeDef | WriteRequestOutputTypeDef

if TYPE_CHECKING:

    class DynamoDBMethods:
        def batch_execute_statement(self, **kwargs: Unpack[BatchExecuteStatementInputTypeDef]) -> BatchExecuteStatementOutputTypeDef: ...
        def batch_get_item(self, **kwargs: Unpack[BatchGetItemInputTypeDef]) -> BatchGetItemOutputTypeDef: ...
        def batch_write_item(self, **kwargs: Unpack[BatchWriteItemInputTypeDef]) -> BatchWriteItemOutputTypeDef: ...
        def cancel_bulk_operation(self, **kwargs: Unpack[CancelBulkOperationInputTypeDef]) -> CancelBulkOperationOutputTypeDef: ...
        def create_backup(self, **kwargs: Unpack[CreateBackupInputTypeDef]) -> CreateBackupOutputTypeDef: ...
        def create_global_table(self, **kwargs: Unpack[CreateGlobalTableInputTypeDef]) -> CreateGlobalTableOutputTypeDef: ...
        def create_table(self, **kwargs: Unpack[CreateTableInputTypeDef]) -> CreateTableOutputTypeDef: ...
        def delete_backup(self, **kwargs: Unpack[DeleteBackupInputTypeDef]) -> DeleteBackupOutputTypeDef: ...
        def delete_item(self, **kwargs: Unpack[DeleteItemInputTypeDef]) -> DeleteItemOutputTypeDef: ...
        def delete_resource_policy(self, **kwargs: Unpack[DeleteResourcePolicyInputTypeDef]) -> DeleteResourcePolicyOutputTypeDef: ...
        def delete_table(self, **kwargs: Unpack[DeleteTableInputTypeDef]) -> DeleteTableOutputTypeDef: ...
        def describe_backup(self, **kwargs: Unpack[DescribeBackupInputTypeDef]) -> DescribeBackupOutputTypeDef: ...
        def describe_bulk_operation(self, **kwargs: Unpack[DescribeBulkOperationInputTypeDef]) -> DescribeBulkOperationOutputTypeDef: ...
        def describe_continuous_backups(self, **kwargs: Unpack[DescribeContinuousBackupsInputTypeDef]) -> DescribeContinuousBackupsOutputTypeDef: ...
        def describe_contributor_insights(self, **kwargs: Unpack[DescribeContributorInsightsInputTypeDef]) -> DescribeContributorInsightsOutputTypeDef: ...
        def describe_endpoints(self, **kwargs: Unpack[DescribeEndpointsRequestTypeDef]) -> DescribeEndpointsResponseResponseTypeDef: ...
        def describe_export(self, **kwargs: Unpack[DescribeExportInputTypeDef]) -> DescribeExportOutputTypeDef: ...
        def describe_global_table(self, **kwargs: Unpack[DescribeGlobalTableInputTypeDef]) -> DescribeGlobalTableOutputTypeDef: ...
        def describe_global_table_settings(self, **kwargs: Unpack[DescribeGlobalTableSettingsInputTypeDef]) -> DescribeGlobalTableSettingsOutputTypeDef: ...
        def describe_import(self, **kwargs: Unpack[DescribeImportInputTypeDef]) -> DescribeImportOutputTypeDef: ...
        def describe_kinesis_streaming_destination(self, **kwargs: Unpack[DescribeKinesisStreamingDestinationInputTypeDef]) -> DescribeKinesisStreamingDestinationOutputTypeDef: ...
        def describe_limits(self, **kwargs: Unpack[DescribeLimitsInputTypeDef]) -> DescribeLimitsOutputTypeDef: ...
        def describe_table(self, **kwargs: Unpack[DescribeTableInputTypeDef]) -> DescribeTableOutputTypeDef: ...
        def describe_table_replica_auto_scaling(self, **kwargs: Unpack[DescribeTableReplicaAutoScalingInputTypeDef]) -> DescribeTableReplicaAutoScalingOutputTypeDef: ...
        def describe_time_to_live(self, **kwargs: Unpack[DescribeTimeToLiveInputTypeDef]) -> DescribeTimeToLiveOutputTypeDef: ...
        def disable_kinesis_streaming_destination(self, **kwargs: Unpack[KinesisStreamingDestinationInputTypeDef]) -> KinesisStreamingDestinationOutputTypeDef: ...
        def enable_kinesis_streaming_destination(self, **kwargs: Unpack[KinesisStreamingDestinationInputTypeDef]) -> KinesisStreamingDestinationOutputTypeDef: ...
        def execute_statement(self, **kwargs: Unpack[ExecuteStatementInputTypeDef]) -> ExecuteStatementOutputTypeDef: ...
        def execute_transaction(self, **kwargs: Unpack[ExecuteTransactionInputTypeDef]) -> ExecuteTransactionOutputTypeDef: ...
        def export_table_to_point_in_time(self, **kwargs: Unpack[ExportTableToPointInTimeInputTypeDef]) -> ExportTableToPointInTimeOutputTypeDef: ...
        def get_item(self, **kwargs: Unpack[GetItemInputTypeDef]) -> GetItemOutputTypeDef: ...
        def get_resource_policy(self, **kwargs: Unpack[GetResourcePolicyInputTypeDef]) -> GetResourcePolicyOutputTypeDef: ...
        def import_table(self, **kwargs: Unpack[ImportTableInputTypeDef]) -> ImportTableOutputTypeDef: ...
        def list_backups(self, **kwargs: Unpack[ListBackupsInputTypeDef]) -> ListBackupsOutputTypeDef: ...
        def list_bulk_operations(self, **kwargs: Unpack[ListBulkOperationsInputTypeDef]) -> ListBulkOperationsOutputTypeDef: ...
        def list_contributor_insights(self, **kwargs: Unpack[ListContributorInsightsInputTypeDef]) -> ListContributorInsightsOutputTypeDef: ...
        def list_exports(self, **kwargs: Unpack[ListExportsInputTypeDef]) -> ListExportsOutputTypeDef: ...
        def list_global_tables(self, **kwargs: Unpack[ListGlobalTablesInputTypeDef]) -> ListGlobalTablesOutputTypeDef: ...
        def list_imports(self, **kwargs: Unpack[ListImportsInputTypeDef]) -> ListImportsOutputTypeDef: ...
        def list_tables(self, **kwargs: Unpack[ListTablesInputTypeDef]) -> ListTablesOutputTypeDef: ...
        def list_tags_of_resource(self, **kwargs: Unpack[ListTagsOfResourceInputTypeDef]) -> ListTagsOfResourceOutputTypeDef: ...
        def put_item(self, **kwargs: Unpack[PutItemInputTypeDef]) -> PutItemOutputTypeDef: ...
        def put_resource_policy(self, **kwargs: Unpack[PutResourcePolicyInputTypeDef]) -> PutResourcePolicyOutputTypeDef: ...
        def query(self, **kwargs: Unpack[QueryInputTypeDef]) -> QueryOutputTypeDef: ...
        def restore_table_from_backup(self, **kwargs: Unpack[RestoreTableFromBackupInputTypeDef]) -> RestoreTableFromBackupOutputTypeDef: ...
        def restore_table_to_point_in_time(self, **kwargs: Unpack[RestoreTableToPointInTimeInputTypeDef]) -> RestoreTableToPointInTimeOutputTypeDef: ...
        def scan(self, **kwargs: Unpack[ScanInputTypeDef]) -> ScanOutputTypeDef: ...
        def search_vectors(self, **kwargs: Unpack[SearchVectorsInputTypeDef]) -> SearchVectorsOutputTypeDef: ...
        def start_bulk_put_items(self, **kwargs: Unpack[StartBulkPutItemsInputTypeDef]) -> StartBulkPutItemsOutputTypeDef: ...
        def tag_resource(self, **kwargs: Unpack[TagResourceInputTypeDef]) -> EmptyResponseTypeDef: ...
        def transact_get_items(self, **kwargs: Unpack[TransactGetItemsInputTypeDef]) -> TransactGetItemsOutputTypeDef: ...
        def transact_write_items(self, **kwargs: Unpack[TransactWriteItemsInputTypeDef]) -> TransactWriteItemsOutputTypeDef: ...
        def untag_resource(self, **kwargs: Unpack[UntagResourceInputTypeDef]) -> EmptyResponseTypeDef: ...
        def update_continuous_backups(self, **kwargs: Unpack[UpdateContinuousBackupsInputTypeDef]) -> UpdateContinuousBackupsOutputTypeDef: ...
        def update_contributor_insights(self, **kwargs: Unpack[UpdateContributorInsightsInputTypeDef]) -> UpdateContributorInsightsOutputTypeDef: ...
        def update_global_table(self, **kwargs: Unpack[UpdateGlobalTableInputTypeDef]) -> UpdateGlobalTableOutputTypeDef: ...
        def update_global_table_settings(self, **kwargs: Unpack[UpdateGlobalTableSettingsInputTypeDef]) -> UpdateGlobalTableSettingsOutputTypeDef: ...
        def update_item(self, **kwargs: Unpack[UpdateItemInputTypeDef]) -> UpdateItemOutputTypeDef: ...
        def update_kinesis_streaming_destination(self, **kwargs: Unpack[UpdateKinesisStreamingDestinationInputTypeDef]) -> UpdateKinesisStreamingDestinationOutputTypeDef: ...
        def update_table(self, **kwargs: Unpack[UpdateTableInputTypeDef]) -> UpdateTableOutputTypeDef: ...
        def update_table_replica_auto_scaling(self, **kwargs: Unpack[UpdateTableReplicaAutoScalingInputTypeDef]) -> UpdateTableReplicaAutoScalingOutputTypeDef: ...
        def update_time_to_live(self, **kwargs: Unpack[UpdateTimeToLiveInputTypeDef]) -> UpdateTimeToLiveOutputTypeDef: ...

    class StreamsMethods:
        def describe_stream(self, **kwargs: Unpack[DescribeStreamInputTypeDef]) -> DescribeStreamOutputTypeDef: ...
        def get_records(self, **kwargs: Unpack[GetRecordsInputTypeDef]) -> GetRecordsOutputTypeDef: ...
        def get_shard_iterator(self, **kwargs: Unpack[GetShardIteratorInputTypeDef]) -> GetShardIteratorOutputTypeDef: ...
        def list_streams(self, **kwargs: Unpack[ListStreamsInputTypeDef]) -> ListStreamsOutputTypeDef: ...

    class AsyncDynamoDBMethods:
        async def batch_execute_statement(self, **kwargs: Unpack[BatchExecuteStatementInputTypeDef]) -> BatchExecuteStatementOutputTypeDef: ...
        async def batch_get_item(self, **kwargs: Unpack[BatchGetItemInputTypeDef]) -> BatchGetItemOutputTypeDef: ...
        async def batch_write_item(self, **kwargs: Unpack[BatchWriteItemInputTypeDef]) -> BatchWriteItemOutputTypeDef: ...
        async def cancel_bulk_operation(self, **kwargs: Unpack[CancelBulkOperationInputTypeDef]) -> CancelBulkOperationOutputTypeDef: ...
        async def create_backup(self, **kwargs: Unpack[CreateBackupInputTypeDef]) -> CreateBackupOutputTypeDef: ...
        async def create_global_table(self, **kwargs: Unpack[CreateGlobalTableInputTypeDef]) -> CreateGlobalTableOutputTypeDef: ...
        async def create_table(self, **kwargs: Unpack[CreateTableInputTypeDef]) -> CreateTableOutputTypeDef: ...
        async def delete_backup(self, **kwargs: Unpack[DeleteBackupInputTypeDef]) -> DeleteBackupOutputTypeDef: ...
        async def delete_item(self, **kwargs: Unpack[DeleteItemInputTypeDef]) -> DeleteItemOutputTypeDef: ...
        async def delete_resource_policy(self, **kwargs: Unpack[DeleteResourcePolicyInputTypeDef]) -> DeleteResourcePolicyOutputTypeDef: ...
        async def delete_table(self, **kwargs: Unpack[DeleteTableInputTypeDef]) -> DeleteTableOutputTypeDef: ...
        async def describe_backup(self, **kwargs: Unpack[DescribeBackupInputTypeDef]) -> DescribeBackupOutputTypeDef: ...
        async def describe_bulk_operation(self, **kwargs: Unpack[DescribeBulkOperationInputTypeDef]) -> DescribeBulkOperationOutputTypeDef: ...
        async def describe_continuous_backups(self, **kwargs: Unpack[DescribeContinuousBackupsInputTypeDef]) -> DescribeContinuousBackupsOutputTypeDef: ...
        async def describe_contributor_insights(self, **kwargs: Unpack[DescribeContributorInsightsInputTypeDef]) -> DescribeContributorInsightsOutputTypeDef: ...
        async def describe_endpoints(self, **kwargs: Unpack[DescribeEndpointsRequestTypeDef]) -> DescribeEndpointsResponseResponseTypeDef: ...
        async def describe_export(self, **kwargs: Unpack[DescribeExportInputTypeDef]) -> DescribeExportOutputTypeDef: ...
        async def describe_global_table(self, **kwargs: Unpack[DescribeGlobalTableInputTypeDef]) -> DescribeGlobalTableOutputTypeDef: ...
        async def describe_global_table_settings(self, **kwargs: Unpack[DescribeGlobalTableSettingsInputTypeDef]) -> DescribeGlobalTableSettingsOutputTypeDef: ...
        async def describe_import(self, **kwargs: Unpack[DescribeImportInputTypeDef]) -> DescribeImportOutputTypeDef: ...
        async def describe_kinesis_streaming_destination(self, **kwargs: Unpack[DescribeKinesisStreamingDestinationInputTypeDef]) -> DescribeKinesisStreamingDestinationOutputTypeDef: ...
        async def describe_limits(self, **kwargs: Unpack[DescribeLimitsInputTypeDef]) -> DescribeLimitsOutputTypeDef: ...
        async def describe_table(self, **kwargs: Unpack[DescribeTableInputTypeDef]) -> DescribeTableOutputTypeDef: ...
        async def describe_table_replica_auto_scaling(self, **kwargs: Unpack[DescribeTableReplicaAutoScalingInputTypeDef]) -> DescribeTableReplicaAutoScalingOutputTypeDef: ...
        async def describe_time_to_live(self, **kwargs: Unpack[DescribeTimeToLiveInputTypeDef]) -> DescribeTimeToLiveOutputTypeDef: ...
        async def disable_kinesis_streaming_destination(self, **kwargs: Unpack[KinesisStreamingDestinationInputTypeDef]) -> KinesisStreamingDestinationOutputTypeDef: ...
        async def enable_kinesis_streaming_destination(self, **kwargs: Unpack[KinesisStreamingDestinationInputTypeDef]) -> KinesisStreamingDestinationOutputTypeDef: ...
        async def execute_statement(self, **kwargs: Unpack[ExecuteStatementInputTypeDef]) -> ExecuteStatementOutputTypeDef: ...
        async def execute_transaction(self, **kwargs: Unpack[ExecuteTransactionInputTypeDef]) -> ExecuteTransactionOutputTypeDef: ...
        async def export_table_to_point_in_time(self, **kwargs: Unpack[ExportTableToPointInTimeInputTypeDef]) -> ExportTableToPointInTimeOutputTypeDef: ...
        async def get_item(self, **kwargs: Unpack[GetItemInputTypeDef]) -> GetItemOutputTypeDef: ...
        async def get_resource_policy(self, **kwargs: Unpack[GetResourcePolicyInputTypeDef]) -> GetResourcePolicyOutputTypeDef: ...
        async def import_table(self, **kwargs: Unpack[ImportTableInputTypeDef]) -> ImportTableOutputTypeDef: ...
        async def list_backups(self, **kwargs: Unpack[ListBackupsInputTypeDef]) -> ListBackupsOutputTypeDef: ...
        async def list_bulk_operations(self, **kwargs: Unpack[ListBulkOperationsInputTypeDef]) -> ListBulkOperationsOutputTypeDef: ...
        async def list_contributor_insights(self, **kwargs: Unpack[ListContributorInsightsInputTypeDef]) -> ListContributorInsightsOutputTypeDef: ...
        async def list_exports(self, **kwargs: Unpack[ListExportsInputTypeDef]) -> ListExportsOutputTypeDef: ...
        async def list_global_tables(self, **kwargs: Unpack[ListGlobalTablesInputTypeDef]) -> ListGlobalTablesOutputTypeDef: ...
        async def list_imports(self, **kwargs: Unpack[ListImportsInputTypeDef]) -> ListImportsOutputTypeDef: ...
        async def list_tables(self, **kwargs: Unpack[ListTablesInputTypeDef]) -> ListTablesOutputTypeDef: ...
        async def list_tags_of_resource(self, **kwargs: Unpack[ListTagsOfResourceInputTypeDef]) -> ListTagsOfResourceOutputTypeDef: ...
        async def put_item(self, **kwargs: Unpack[PutItemInputTypeDef]) -> PutItemOutputTypeDef: ...
        async def put_resource_policy(self, **kwargs: Unpack[PutResourcePolicyInputTypeDef]) -> PutResourcePolicyOutputTypeDef: ...
        async def query(self, **kwargs: Unpack[QueryInputTypeDef]) -> QueryOutputTypeDef: ...
        async def restore_table_from_backup(self, **kwargs: Unpack[RestoreTableFromBackupInputTypeDef]) -> RestoreTableFromBackupOutputTypeDef: ...
        async def restore_table_to_point_in_time(self, **kwargs: Unpack[RestoreTableToPointInTimeInputTypeDef]) -> RestoreTableToPointInTimeOutputTypeDef: ...
        async def scan(self, **kwargs: Unpack[ScanInputTypeDef]) -> ScanOutputTypeDef: ...
        async def search_vectors(self, **kwargs: Unpack[SearchVectorsInputTypeDef]) -> SearchVectorsOutputTypeDef: ...
        async def start_bulk_put_items(self, **kwargs: Unpack[StartBulkPutItemsInputTypeDef]) -> StartBulkPutItemsOutputTypeDef: ...
        async def tag_resource(self, **kwargs: Unpack[TagResourceInputTypeDef]) -> EmptyResponseTypeDef: ...
        async def transact_get_items(self, **kwargs: Unpack[TransactGetItemsInputTypeDef]) -> TransactGetItemsOutputTypeDef: ...
        async def transact_write_items(self, **kwargs: Unpack[TransactWriteItemsInputTypeDef]) -> TransactWriteItemsOutputTypeDef: ...
        async def untag_resource(self, **kwargs: Unpack[UntagResourceInputTypeDef]) -> EmptyResponseTypeDef: ...
        async def update_continuous_backups(self, **kwargs: Unpack[UpdateContinuousBackupsInputTypeDef]) -> UpdateContinuousBackupsOutputTypeDef: ...
        async def update_contributor_insights(self, **kwargs: Unpack[UpdateContributorInsightsInputTypeDef]) -> UpdateContributorInsightsOutputTypeDef: ...
        async def update_global_table(self, **kwargs: Unpack[UpdateGlobalTableInputTypeDef]) -> UpdateGlobalTableOutputTypeDef: ...
        async def update_global_table_settings(self, **kwargs: Unpack[UpdateGlobalTableSettingsInputTypeDef]) -> UpdateGlobalTableSettingsOutputTypeDef: ...
        async def update_item(self, **kwargs: Unpack[UpdateItemInputTypeDef]) -> UpdateItemOutputTypeDef: ...
        async def update_kinesis_streaming_destination(self, **kwargs: Unpack[UpdateKinesisStreamingDestinationInputTypeDef]) -> UpdateKinesisStreamingDestinationOutputTypeDef: ...
        async def update_table(self, **kwargs: Unpack[UpdateTableInputTypeDef]) -> UpdateTableOutputTypeDef: ...
        async def update_table_replica_auto_scaling(self, **kwargs: Unpack[UpdateTableReplicaAutoScalingInputTypeDef]) -> UpdateTableReplicaAutoScalingOutputTypeDef: ...
        async def update_time_to_live(self, **kwargs: Unpack[UpdateTimeToLiveInputTypeDef]) -> UpdateTimeToLiveOutputTypeDef: ...

    class AsyncStreamsMethods:
        async def describe_stream(self, **kwargs: Unpack[DescribeStreamInputTypeDef]) -> DescribeStreamOutputTypeDef: ...
        async def get_records(self, **kwargs: Unpack[GetRecordsInputTypeDef]) -> GetRecordsOutputTypeDef: ...
        async def get_shard_iterator(self, **kwargs: Unpack[GetShardIteratorInputTypeDef]) -> GetShardIteratorOutputTypeDef: ...
        async def list_streams(self, **kwargs: Unpack[ListStreamsInputTypeDef]) -> ListStreamsOutputTypeDef: ...
