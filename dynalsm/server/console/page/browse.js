// Items of a table or an index, page by page.

import { grid, nameOf } from "./cells.js";
import { criteriaForm, fresh, requestOf } from "./criteria.js";
import { announce, empty, h, problem, show } from "./dom.js";
import { openItem, newItem } from "./editor.js";
import { count, duration, plural } from "./format.js";
import { call, session } from "./net.js";
import { keysOf, schemaOf, tableKeys } from "./schema.js";

// A filter may leave nothing of many pages: so many are read for one that is shown.
const READS = 20;
const remembered = new Map(); // table name → what was looked for, as long as the page lives

export function browseView(box, table) {
  const wanted = remembered.get(table.TableId) || fresh();
  remembered.set(table.TableId, wanted);
  const result = h("section", { class: "result", "aria-label": "Items" });
  const bar = h("div", { class: "row result-bar" });
  const state = { stack: [], next: null, page: null, running: null };
  const context = { table, wanted, result, bar, state };
  context.run = () => look(context, []);
  context.again = () => look(context, state.stack);
  const form = criteriaForm(table, wanted, context.run);
  show(box, form, bar, result);
  context.run();
  return () => state.running?.abort();
}

/** Read the page that begins behind the last key of `stack`, and show it. */
async function look(context, stack) {
  const { table, wanted, result, state } = context;
  state.running?.abort();
  const running = (state.running = new AbortController());
  result.setAttribute("aria-busy", "true");
  try {
    const [operation, request] = requestOf(table, wanted);
    const page = await readPage(operation, request, stack.at(-1), running.signal);
    if (running !== state.running) return;
    Object.assign(state, { stack, page });
    draw(context);
  } catch (error) {
    if (error.name === "AbortError" || running !== state.running) return;
    show(context.bar);
    show(result, problem(error, error.status === 0 ? context.again : null));
  } finally {
    if (running === state.running) result.removeAttribute("aria-busy");
  }
}

async function readPage(operation, request, start, signal) {
  const page = { items: [], scanned: 0, units: 0, last: start, reads: 0 };
  const began = performance.now();
  do {
    const reply = await call(operation, { ...request, ExclusiveStartKey: page.last }, signal);
    page.items.push(...reply.Items);
    page.scanned += reply.ScannedCount;
    page.units += reply.ConsumedCapacity?.CapacityUnits || 0;
    page.last = reply.LastEvaluatedKey;
    page.reads += 1;
  } while (
    page.last &&
    page.items.length < request.Limit &&
    page.reads < READS &&
    request.FilterExpression
  );
  page.seconds = (performance.now() - began) / 1000;
  return page;
}

function draw(context) {
  const { table, wanted, result, bar, state } = context;
  const { page, stack } = state;
  const text = plural(page.items.length, "item");
  const read = page.scanned > page.items.length ? `, ${count(page.scanned)} read` : "";
  const go = (label, way, isOff) =>
    h("button", { type: "button", disabled: isOff, onclick: () => look(context, way) }, label);
  show(
    bar,
    h(
      "p",
      { class: "size" },
      `${text}${read} · page ${stack.length + 1} · ${duration(page.seconds)} · ${page.units} units`,
    ),
    h(
      "div",
      { class: "push row" },
      !session.read_only &&
        h("button", { type: "button", onclick: () => newItem(table, context.again) }, "New item"),
      go("← Previous", stack.slice(0, -1), !stack.length),
      go("Next →", [...stack, page.last], !page.last),
    ),
  );
  announce(`${text}${read}, page ${stack.length + 1}`);
  const keys = tableKeys(table).map(([name]) => name);
  const indexKeys = wanted.index
    ? keysOf(table, schemaOf(table, wanted.index)).map(([name]) => name)
    : [];
  if (page.items.length) {
    show(
      result,
      grid(page.items, {
        keys: [...new Set([...indexKeys, ...keys])],
        caption: `Items of ${table.TableName}${wanted.index ? `, index ${wanted.index}` : ""}`,
        open: (item) => openItem(table, item, context.again),
        label: (item) => nameOf(item, keys),
      }),
    );
  } else show(result, nothing(context));
}

function nothing({ wanted, state }) {
  if (state.page.last) {
    return empty(
      "Nothing found so far",
      `${count(state.page.scanned)} items were read; there are more behind them.`,
    );
  }
  if (wanted.mode === "query" || wanted.filters.length || wanted.index)
    return empty("Nothing found");
  return empty(state.stack.length ? "No more items" : "The table is empty");
}
