// Drives a server with the JavaScript SDK v3, both its clients. Usage: node sdk.cjs URL
"use strict";

const assert = require("node:assert/strict");
const {
  DynamoDBClient,
  CreateTableCommand,
  DeleteTableCommand,
  ListTablesCommand,
  ConditionalCheckFailedException,
  ResourceNotFoundException,
  DescribeTableCommand,
  paginateScan,
  waitUntilTableExists,
  waitUntilTableNotExists,
} = require("@aws-sdk/client-dynamodb");
const {
  DynamoDBDocumentClient,
  BatchWriteCommand,
  ExecuteStatementCommand,
  GetCommand,
  PutCommand,
  QueryCommand,
  TransactWriteCommand,
  UpdateCommand,
  paginateQuery,
} = require("@aws-sdk/lib-dynamodb");

const TableName = "Music";
const waiting = { maxWaitTime: 30, minDelay: 0.05, maxDelay: 0.1 };

async function controlPlane(client) {
  await assert.rejects(client.send(new DescribeTableCommand({ TableName })), ResourceNotFoundException);
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: "PAY_PER_REQUEST",
      KeySchema: [
        { AttributeName: "Artist", KeyType: "HASH" },
        { AttributeName: "SongTitle", KeyType: "RANGE" },
      ],
      AttributeDefinitions: [
        { AttributeName: "Artist", AttributeType: "S" },
        { AttributeName: "SongTitle", AttributeType: "S" },
      ],
    }),
  );
  await waitUntilTableExists({ client, ...waiting }, { TableName });
  const described = await client.send(new DescribeTableCommand({ TableName }));
  assert.equal(described.Table.TableStatus, "ACTIVE");
  assert.ok(described.Table.CreationDateTime instanceof Date);
  assert.deepEqual((await client.send(new ListTablesCommand({}))).TableNames, [TableName]);
}

async function items(documents) {
  const Item = {
    Artist: "a",
    SongTitle: "ä¿",
    Year: 1999,
    Big: 12345678901234567890n,
    Raw: new Uint8Array([0, 255]),
    Tags: new Set(["x", "y"]),
    Label: { Codes: [1, { deep: null }], Live: true },
  };
  await documents.send(new PutCommand({ TableName, Item }));
  const Key = { Artist: Item.Artist, SongTitle: Item.SongTitle };
  const found = (await documents.send(new GetCommand({ TableName, Key, ConsistentRead: true }))).Item;
  assert.deepEqual(found.Raw, Item.Raw);
  assert.deepEqual(found.Tags, Item.Tags);
  assert.deepEqual(found.Label, Item.Label);
  assert.equal(BigInt(found.Big), Item.Big);
  const updated = await documents.send(
    new UpdateCommand({
      TableName,
      Key,
      UpdateExpression: "SET #y = #y + :one ADD Tags :tags",
      ExpressionAttributeNames: { "#y": "Year" },
      ExpressionAttributeValues: { ":one": 1, ":tags": new Set(["z"]) },
      ReturnValues: "UPDATED_NEW",
    }),
  );
  assert.equal(updated.Attributes.Year, 2000);
  assert.equal(updated.Attributes.Tags.size, 3);
  await assert.rejects(
    documents.send(
      new PutCommand({
        TableName,
        Item: Key,
        ConditionExpression: "attribute_not_exists(Artist)",
        ReturnValuesOnConditionCheckFailure: "ALL_OLD",
      }),
    ),
    (error) =>
      error instanceof ConditionalCheckFailedException &&
      error.$metadata.httpStatusCode === 400 &&
      error.$metadata.requestId.length === 52 &&
      error.Item.Year.N === "2000",
  );
}

async function pages(client, documents) {
  for (let start = 0; start < 60; start += 20) {
    const requests = Array.from({ length: 20 }, (_, index) => ({
      PutRequest: { Item: { Artist: "b", SongTitle: String(start + index).padStart(3, "0"), N: start + index } },
    }));
    await documents.send(new BatchWriteCommand({ RequestItems: { [TableName]: requests } }));
  }
  const query = {
    TableName,
    KeyConditionExpression: "Artist = :a AND SongTitle BETWEEN :from AND :to",
    ExpressionAttributeValues: { ":a": "b", ":from": "010", ":to": "049" },
  };
  const backwards = await documents.send(new QueryCommand({ ...query, ScanIndexForward: false, Limit: 3 }));
  assert.deepEqual(backwards.Items.map((item) => item.N), [49, 48, 47]);
  let count = 0;
  for await (const page of paginateQuery({ client: documents, pageSize: 7 }, query)) count += page.Count;
  assert.equal(count, 40);
  count = 0;
  for await (const page of paginateScan({ client, pageSize: 25 }, { TableName })) count += page.Items.length;
  assert.equal(count, 61);
}

async function transactionsAndStatements(documents) {
  const put = (SongTitle, ConditionExpression) => ({
    Put: { TableName, Item: { Artist: "t", SongTitle }, ConditionExpression },
  });
  await documents.send(new TransactWriteCommand({ TransactItems: [put("1"), put("2")] }));
  await assert.rejects(
    documents.send(new TransactWriteCommand({ TransactItems: [put("3"), put("1", "attribute_not_exists(Artist)")] })),
    (error) =>
      error.name === "TransactionCanceledException" &&
      error.CancellationReasons.map((reason) => reason.Code).join() === "None,ConditionalCheckFailed",
  );
  const found = await documents.send(
    new ExecuteStatementCommand({ Statement: `SELECT SongTitle FROM "${TableName}" WHERE Artist = ?`, Parameters: ["t"] }),
  );
  assert.deepEqual(found.Items, [{ SongTitle: "1" }, { SongTitle: "2" }]);
}

async function main() {
  const client = new DynamoDBClient({
    endpoint: process.argv[2],
    region: "us-east-1",
    credentials: { accessKeyId: "any", secretAccessKey: "any" },
  });
  const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
  await controlPlane(client);
  await items(documents);
  await pages(client, documents);
  await transactionsAndStatements(documents);
  await client.send(new DeleteTableCommand({ TableName }));
  await waitUntilTableNotExists({ client, ...waiting }, { TableName });
  client.destroy();
  console.log("done");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
