// All tables at a glance.

import { empty, h, isPressed, show } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { hasStream, indexesOf, tableKeys, vectorsOf } from "./schema.js";
import { loadTables } from "./state.js";

const EVERY_MS = 5000;

export async function tablesView(box, heading) {
  const total = h("p", { class: "lead" });
  const body = h("div");
  let drawn = "";
  async function refresh() {
    const tables = await loadTables();
    const text = JSON.stringify(tables);
    // What is under the reader's hands is not replaced for nothing.
    if (text === drawn || isPressed()) return;
    drawn = text;
    const items = tables.reduce((sum, one) => sum + one.ItemCount, 0);
    total.textContent = tables.length
      ? `${plural(tables.length, "table")} with ${plural(items, "item")}`
      : "";
    const had = document.activeElement
      ?.closest?.(".tables")
      ?.querySelector(":focus")
      ?.getAttribute("href");
    show(body, tables.length ? list(tables) : nothing());
    if (had)
      [...body.querySelectorAll("a")].find((one) => one.getAttribute("href") === had)?.focus();
  }
  await refresh();
  show(box, heading("Tables"), total, body);
  const timer = setInterval(() => refresh().catch(() => {}), EVERY_MS);
  return () => clearInterval(timer);
}

function nothing() {
  return empty(
    "No tables yet",
    "Create one with any DynamoDB client, at this server's address:",
    h(
      "pre",
      { class: "sample", tabindex: "0" },
      `aws dynamodb create-table --endpoint-url ${location.origin} \\
    --table-name Music --billing-mode PAY_PER_REQUEST \\
    --attribute-definitions AttributeName=Artist,AttributeType=S \\
    --key-schema AttributeName=Artist,KeyType=HASH`,
    ),
  );
}

const keyNames = (table) =>
  tableKeys(table).map(([name, type], index) => [
    index > 0 && h("span", { class: "sep", "aria-hidden": "true" }, "›"),
    h("span", { class: "attribute" }, name, h("span", { class: `type type-${type}` }, type)),
  ]);

function list(tables) {
  const head = ["Table", "Keys", "Items", "On disk and in memory", "Indexes", "State"];
  return h(
    "div",
    { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Tables" },
    h(
      "table",
      { class: "grid tables" },
      h("caption", { class: "unseen" }, "All tables"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((one, index) =>
            h("th", { scope: "col", class: index === 2 || index === 3 ? "number" : null }, one),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        tables.map((table) => {
          const held = table.Trees.reduce((sum, one) => sum + one.bytes, 0);
          return h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h("a", { href: `#/t/${encodeURIComponent(table.TableName)}` }, table.TableName),
            ),
            h("td", {}, keyNames(table)),
            h("td", { class: "number" }, count(table.ItemCount)),
            h("td", { class: "number" }, bytes(held)),
            h(
              "td",
              {},
              [...indexesOf(table), ...vectorsOf(table)].map((one) =>
                h("span", { class: "tag" }, one.IndexName),
              ),
            ),
            h("td", {}, states(table)),
          );
        }),
      ),
    ),
  );
}

function states(table) {
  const expiry = table.TimeToLive;
  return [
    h(
      "span",
      { class: `tag ${table.TableStatus === "ACTIVE" ? "good" : "warm"}` },
      table.TableStatus.toLowerCase(),
    ),
    hasStream(table) && h("span", { class: "tag" }, "stream"),
    expiry?.TimeToLiveStatus === "ENABLED" &&
      h("span", { class: "tag" }, `expires by ${expiry.AttributeName}`),
    table.DeletionProtectionEnabled && h("span", { class: "tag" }, "protected"),
  ];
}
