// What the page knows of a table, from the server's description of it.

export const typesOf = (table) =>
  Object.fromEntries(
    table.AttributeDefinitions.map((one) => [one.AttributeName, one.AttributeType]),
  );

/** [[name, type], …] of a key schema's attributes of a kind (or of all). */
export function keysOf(table, schema, kind) {
  const types = typesOf(table);
  return schema
    .filter((one) => !kind || one.KeyType === kind)
    .map((one) => [one.AttributeName, types[one.AttributeName]]);
}

export const tableKeys = (table) => keysOf(table, table.KeySchema);

/** Every index with its kind. */
export const indexesOf = (table) => [
  ...(table.LocalSecondaryIndexes || []).map((one) => ({ ...one, kind: "local" })),
  ...(table.GlobalSecondaryIndexes || []).map((one) => ({ ...one, kind: "global" })),
];

export const vectorsOf = (table) => table.VectorIndexes || [];

export const schemaOf = (table, indexName) =>
  indexName
    ? indexesOf(table).find((one) => one.IndexName === indexName).KeySchema
    : table.KeySchema;

export const hasStream = (table) => Boolean(table.StreamSpecification?.StreamEnabled);

export function billingOf(table) {
  if (table.BillingModeSummary?.BillingMode === "PAY_PER_REQUEST") return "on demand";
  const { ReadCapacityUnits: reads = 0, WriteCapacityUnits: writes = 0 } =
    table.ProvisionedThroughput || {};
  return `${reads} RCU, ${writes} WCU`;
}
