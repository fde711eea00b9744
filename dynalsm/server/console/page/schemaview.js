// One table: its keys, indexes and settings, with sizes.

import { h, show } from "./dom.js";
import { bytes, clock, count, plural } from "./format.js";
import { billingOf, hasStream, indexesOf, keysOf, tableKeys, vectorsOf } from "./schema.js";

const keyList = (pairs, schema) =>
  h(
    "ul",
    { class: "plain-list" },
    pairs.map(([name, type], index) =>
      h(
        "li",
        { class: "attribute" },
        name,
        h("span", { class: `type type-${type}` }, type),
        h(
          "span",
          { class: "size" },
          schema[index].KeyType === "HASH" ? "partition key" : "sort key",
        ),
      ),
    ),
  );

function projection(index) {
  const { ProjectionType: type, NonKeyAttributes: names = [] } = index.Projection;
  if (type === "ALL") return "all attributes";
  return type === "KEYS_ONLY" ? "keys only" : `keys and ${names.join(", ")}`;
}

function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(Boolean)
      .map(([name, value]) =>
        h(
          "div",
          { class: name.endsWith("ARN") ? "wide" : null },
          h("dt", {}, name),
          h("dd", {}, value),
        ),
      ),
  );
}

function indexCard(table, index, held) {
  const vector = index.VectorAttribute;
  const isMade = !index.IndexStatus || index.IndexStatus === "ACTIVE";
  return h(
    "article",
    {},
    h(
      "h3",
      {},
      index.IndexName,
      h("span", { class: "tag" }, vector ? "vectors" : index.kind),
      !isMade && h("span", { class: "tag warm" }, index.IndexStatus.toLowerCase()),
    ),
    !vector && keyList(keysOf(table, index.KeySchema), index.KeySchema),
    facts([
      vector && ["Vector", `${vector.AttributeName}, ${plural(index.Dimensions, "dimension")}`],
      vector && ["Distance", index.DistanceFunction.toLowerCase().replaceAll("_", " ")],
      ["Projects", projection(index)],
      ["Items", count(index.ItemCount ?? 0)],
      ["On disk and in memory", bytes(held)],
    ]),
  );
}

export function schemaView(box, table) {
  const sizes = Object.fromEntries(table.Trees.map((one) => [one.part, one.bytes]));
  const expiry = table.TimeToLive;
  const indexes = [...indexesOf(table), ...vectorsOf(table)];
  show(
    box,
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Keys"),
      keyList(tableKeys(table), table.KeySchema),
    ),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Settings and sizes"),
      facts([
        ["Items", count(table.ItemCount)],
        ["Size of the items", bytes(table.TableSizeBytes)],
        ["On disk and in memory", bytes(sizes[""])],
        ["State", table.TableStatus.toLowerCase()],
        ["Billing", billingOf(table)],
        ["Created", clock(table.CreationDateTime)],
        [
          "Time to live",
          expiry?.AttributeName
            ? `${expiry.AttributeName} (${expiry.TimeToLiveStatus.toLowerCase()})`
            : "off",
        ],
        [
          "Stream",
          hasStream(table)
            ? table.StreamSpecification.StreamViewType.toLowerCase().replaceAll("_", " ")
            : "off",
        ],
        hasStream(table) && ["Stored changes", bytes(sizes.changes)],
        ["Deletion protection", table.DeletionProtectionEnabled ? "on" : "off"],
        ["ARN", h("code", {}, table.TableArn)],
        table.LatestStreamArn && ["Stream ARN", h("code", {}, table.LatestStreamArn)],
      ]),
    ),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Indexes"),
      indexes.length
        ? h(
            "div",
            { class: "index-list" },
            indexes.map((index) => indexCard(table, index, sizes[index.IndexName])),
          )
        : h("p", { class: "size" }, "This table has no indexes."),
    ),
  );
  return null;
}
