// One item: look at it, change it, delete it. What others have written meanwhile is never lost:
// a change names what it found, and is refused when that is not there any more.

import { details, nameOf } from "./cells.js";
import { changeOf, unchanged } from "./changeset.js";
import { announce, choice, h, problem, show, store, keep, toast } from "./dom.js";
import { bytes } from "./format.js";
import { Mistake, parse, placeOf } from "./json.js";
import { CallError, call, session } from "./net.js";
import { tableKeys } from "./schema.js";
import {
  ITEM_LIMIT_BYTES,
  canonical,
  checkItem,
  itemBytes,
  itemFrom,
  itemText,
  keyOf,
} from "./values.js";

// ------------------------------------------------------------------------------------- dialog

function dialog(title, ...content) {
  const back = document.activeElement;
  const made = h(
    "dialog",
    { class: "sheet", "aria-label": title },
    h(
      "div",
      { class: "sheet-head" },
      h("h2", {}, title),
      h(
        "button",
        { type: "button", class: "small", "aria-label": "Close", onclick: () => made.close() },
        "✕",
      ),
    ),
    ...content,
  );
  made.addEventListener("close", () => {
    made.remove();
    if (back?.isConnected) back.focus();
  });
  document.body.append(made);
  made.showModal();
  return made;
}

/** Show an item as it is now; the row of an index may hold only a part of it. */
export async function openItem(table, row, changed) {
  const keys = tableKeys(table);
  const names = keys.map(([name]) => name);
  const body = h("div", { class: "sheet-body" });
  const box = dialog(nameOf(row, names) || "Item", body);
  const context = { table, keys, names, box, body, changed };
  await load(context, keyOf(row, keys));
}

async function load(context, key) {
  const { table, body } = context;
  try {
    const reply = await call("GetItem", {
      TableName: table.TableName,
      Key: key,
      ConsistentRead: true,
    });
    if (!reply.Item) {
      show(
        body,
        h(
          "div",
          { class: "problem" },
          h("strong", {}, "The item is gone"),
          h("p", {}, "It was deleted after the page was read."),
        ),
      );
      return;
    }
    look(context, reply.Item);
  } catch (error) {
    show(
      body,
      problem(error, () => load(context, key)),
    );
  }
}

function look(context, item) {
  const { names, body } = context;
  const actions = h(
    "div",
    { class: "row sheet-foot" },
    !session.read_only && [
      h(
        "button",
        { type: "button", class: "primary", onclick: () => edit(context, item, false) },
        "Edit",
      ),
      h("button", { type: "button", onclick: () => edit(context, item, true) }, "Duplicate"),
      h(
        "button",
        {
          type: "button",
          class: "danger push",
          onclick: () => askToDelete(context, item, actions),
        },
        "Delete",
      ),
    ],
  );
  show(
    body,
    h("p", { class: "size" }, `${bytes(itemBytes(item))}, as DynamoDB counts`),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attributes" },
      details(item, names),
    ),
    actions,
  );
  body.querySelector(".primary")?.focus();
}

function askToDelete(context, item, actions) {
  const failed = h("div");
  const sure = h(
    "button",
    { type: "button", class: "danger", onclick: () => remove(context, item, failed) },
    "Yes, delete it",
  );
  show(
    actions,
    h("p", {}, "Delete this item?"),
    sure,
    h("button", { type: "button", onclick: () => look(context, item) }, "No"),
    failed,
  );
  sure.focus();
}

async function remove({ table, keys, names, box, body, changed, ...more }, item, failed) {
  const context = { table, keys, names, box, body, changed, ...more };
  try {
    await call("DeleteItem", {
      TableName: table.TableName,
      Key: keyOf(item, keys),
      ...unchanged(item, names),
    });
    box.close();
    toast("The item is deleted");
    changed();
  } catch (error) {
    if (error.code !== "ConditionalCheckFailedException") return void show(failed, problem(error));
    show(
      failed,
      conflict(
        "Somebody has changed or deleted the item meanwhile, so it was not deleted.",
        h(
          "button",
          { type: "button", onclick: () => load(context, keyOf(item, keys)) },
          "Show it as it is now",
        ),
      ),
    );
    failed.querySelector("button").focus();
  }
  return undefined;
}

const conflict = (text, ...actions) =>
  h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, "Not as it was"),
    h("p", {}, text),
    h("div", { class: "row" }, actions),
  );

// -------------------------------------------------------------------------------------- editor

/** Ask for a new item. */
export function newItem(table, changed) {
  const keys = tableKeys(table);
  const body = h("div", { class: "sheet-body" });
  const box = dialog(`New item of ${table.TableName}`, body);
  const item = Object.fromEntries(
    keys.map(([name, type]) => [name, { [type]: type === "N" ? "0" : "" }]),
  );
  edit({ table, keys, names: keys.map(([name]) => name), box, body, changed }, item, true);
}

function edit(context, item, isNew) {
  const { keys, body, box } = context;
  let isPlain = store("plain", true);
  const text = h("textarea", {
    class: "code",
    spellcheck: "false",
    "aria-label": "The item",
    rows: "18",
    autocapitalize: "off",
    "aria-describedby": "editor-state",
  });
  text.value = itemText(item, isPlain, context.names);
  const state = h("p", { class: "editor-state", id: "editor-state" });
  const failed = h("div", { class: "failed" });
  const save = h("button", { class: "primary" }, isNew ? "Create" : "Save");
  const check = () => checked(text.value, isPlain, keys, isNew ? null : item, state, save);
  const modes = choice(
    "How the item is written",
    [
      ["plain", "Plain"],
      ["wire", "DynamoDB JSON"],
    ],
    isPlain ? "plain" : "wire",
    (mode) => {
      const now = check();
      if (now) text.value = itemText(now, mode === "plain", context.names);
      else if (mode !== (isPlain ? "plain" : "wire"))
        toast("Only a text without mistakes can be written the other way", "bad");
      if (now) {
        isPlain = mode === "plain";
        keep("plain", isPlain);
        check();
      } else {
        for (const one of modes.children)
          one.setAttribute("aria-pressed", String((one.dataset.value === "plain") === isPlain));
      }
    },
  );
  text.addEventListener("input", check);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const form = h(
    "form",
    {
      class: "sheet-form",
      onsubmit: async (event) => {
        event.preventDefault();
        const now = check();
        if (!now) return text.focus();
        save.disabled = true;
        await (isNew ? create(context, now, failed) : update(context, item, now, failed));
        save.disabled = !check();
        return undefined;
      },
    },
    h("div", { class: "row" }, modes, h("span", { class: "size push" }, "Ctrl+Enter saves")),
    text,
    state,
    failed,
    h(
      "div",
      { class: "row sheet-foot" },
      save,
      h(
        "button",
        { type: "button", onclick: () => (isNew ? box.close() : load(context, keyOf(item, keys))) },
        "Cancel",
      ),
    ),
  );
  show(body, form);
  check();
  text.focus();
  text.setSelectionRange(0, 0);
  text.scrollTop = 0;
}

/** Return the item that a text stands for and say what is wrong with it; null when it is none. */
function checked(text, isPlain, keys, old, state, save) {
  try {
    const item = itemFrom(parse(text), isPlain);
    checkItem(item, keys);
    if (old && canonical({ M: keyOf(item, keys) }) !== canonical({ M: keyOf(old, keys) })) {
      throw new Mistake(
        "The key of an item cannot change; duplicate it to have one with another key",
      );
    }
    state.textContent = `${bytes(itemBytes(item))} of ${bytes(ITEM_LIMIT_BYTES)}`;
    state.classList.remove("bad");
    save.disabled = false;
    return item;
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    const place = error.at === null ? null : placeOf(text, error.at);
    const where = place
      ? `Line ${place.line}, column ${place.column}: `
      : error.path
        ? `${error.path}: `
        : "";
    state.textContent = where + error.message;
    state.classList.add("bad");
    save.disabled = true;
    return null;
  }
}

async function create({ table, names, box, changed }, item, failed) {
  try {
    await call("PutItem", {
      TableName: table.TableName,
      Item: item,
      ConditionExpression: "attribute_not_exists(#k)",
      ExpressionAttributeNames: { "#k": names[0] },
    });
    box.close();
    toast("The item is stored");
    changed();
  } catch (error) {
    const isThere = error.code === "ConditionalCheckFailedException";
    show(
      failed,
      problem(
        isThere
          ? new CallError("It exists", "There is an item with this key; open it to change it.")
          : error,
      ),
    );
  }
}

async function update(context, old, item, failed) {
  const { table, keys, names } = context;
  const { changed, request } = changeOf(old, item, names);
  if (!changed.length)
    return void show(failed, h("p", { class: "size", role: "status" }, "Nothing is changed."));
  const whole = {
    ...request,
    TableName: table.TableName,
    Key: keyOf(old, keys),
    ReturnValuesOnConditionCheckFailure: "ALL_OLD",
  };
  try {
    await call("UpdateItem", whole);
    saved(context, old);
  } catch (error) {
    if (error.code === "ConditionalCheckFailedException")
      collided(context, old, item, error.reply.Item, failed);
    else show(failed, problem(error));
  }
  return undefined;
}

function saved(context, item) {
  toast("The change is stored");
  context.changed();
  load(context, keyOf(item, context.keys));
}

/** Somebody was faster: say in what, and let the reader decide. */
function collided(context, old, item, now, failed) {
  const { table, keys, names } = context;
  if (!now) {
    show(
      failed,
      conflict(
        "Somebody has deleted the item meanwhile.",
        h(
          "button",
          { type: "button", onclick: () => create(context, item, failed) },
          "Create it again",
        ),
      ),
    );
    return;
  }
  const theirs = changeOf(old, now, names).changed;
  const overwrite = h(
    "button",
    {
      type: "button",
      class: "danger",
      onclick: async () => {
        // Only what was edited here, on top of what is there now; a third writer is noticed again.
        const mine = changeOf(old, item, names).changed;
        const merged = { ...now };
        for (const name of mine) {
          if (Object.hasOwn(item, name)) merged[name] = item[name];
          else delete merged[name];
        }
        await update(context, now, merged, failed);
      },
    },
    "Store mine all the same",
  );
  show(
    failed,
    conflict(
      `Somebody has changed ${theirs.map((name) => `“${name}”`).join(", ")} meanwhile.`,
      h(
        "button",
        { type: "button", onclick: () => load(context, keyOf(old, keys)) },
        "Show it as it is now",
      ),
      overwrite,
    ),
  );
  announce(`Not stored: somebody has changed ${table.TableName} meanwhile`);
}
