// Attribute values on the page: short in the cells of a grid, whole in the view of an item.

import { h, show } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { TYPES, base64Bytes, brief, fromBase64, typeOf } from "./values.js";

const CELL_SIGNS = 90;
const TEXT_SIGNS = 2000; // of a long text, before it is asked for
const MEMBERS = 100; // of a list, map or set, before more are asked for
const DUMP_BYTES = 256;
const SMALL_BYTES = 16; // one line, without buttons
const COLUMNS = 24;

const badge = (type) => h("span", { class: `type type-${type}`, title: TYPES[type] }, type);

/** A value in a cell: what it begins with, and its type where the text does not tell. */
export function cell(value) {
  if (value === undefined) return h("span", { class: "nothing", "aria-label": "none" }, "");
  const type = typeOf(value);
  const content = value[type];
  const text = brief(value, CELL_SIGNS);
  const isCut = (type === "S" || type === "B") && content.length > CELL_SIGNS;
  const shown = h(
    "span",
    { class: `value value-${type}` },
    text || (type === "S" ? "“”" : ""),
    isCut && "…",
  );
  if (type === "S")
    return isCut ? [shown, h("span", { class: "size" }, `${count(content.length)} signs`)] : shown;
  if (type === "N" || type === "BOOL" || type === "NULL") return shown;
  return [
    badge(type),
    shown,
    type === "B" ? h("span", { class: "size" }, bytes(base64Bytes(content))) : sized(value),
  ];
}

function sized(value) {
  const type = typeOf(value);
  const content = value[type];
  const number = type === "M" ? Object.keys(content).length : content.length;
  return number > 3 ? h("span", { class: "size" }, count(number)) : null;
}

/**
 * A grid of items. keys: names that come first; open(item) is called when a row is chosen.
 */
export function grid(items, { keys, caption, open, label }) {
  const names = columns(items, keys);
  const shown = names.slice(0, COLUMNS);
  const rest = names.length - shown.length;
  const head = h(
    "tr",
    {},
    open && h("th", { scope: "col", class: "open-head" }, h("span", { class: "unseen" }, "Open")),
    shown.map((name) => h("th", { scope: "col", class: keys.includes(name) ? "key" : null }, name)),
    rest > 0 && h("th", { scope: "col" }, `and ${count(rest)} more`),
  );
  const rows = items.map((item, index) => row(item, index, shown, rest, keys, open, label));
  return h(
    "div",
    { class: "grid-box", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: "grid" },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, head),
      h("tbody", {}, rows),
    ),
  );
}

function row(item, index, names, rest, keys, open, label) {
  const extra = rest > 0 ? Object.keys(item).filter((name) => !names.includes(name)).length : 0;
  const made = h(
    "tr",
    {},
    open &&
      h(
        "td",
        { class: "open-cell" },
        h(
          "button",
          {
            type: "button",
            class: "open",
            "aria-label": `Open ${label ? label(item) : `item ${index + 1}`}`,
            onclick: () => open(item),
          },
          "↗",
        ),
      ),
    names.map((name) =>
      h(
        "td",
        { class: keys.includes(name) ? "key" : null },
        h("div", { class: "clip" }, cell(Object.hasOwn(item, name) ? item[name] : undefined)),
      ),
    ),
    rest > 0 && h("td", {}, extra ? h("span", { class: "size" }, `+${extra}`) : null),
  );
  if (open) {
    made.classList.add("opens");
    made.addEventListener("click", (event) => {
      const isSelecting = String(globalThis.getSelection?.() || "") !== "";
      if (!event.target.closest("button") && !isSelecting) open(item);
    });
  }
  return made;
}

/** Names of attributes: keys first, then the commonest; equally common ones as they come. */
function columns(items, keys) {
  const seen = new Map();
  for (const item of items) {
    for (const name of Object.keys(item)) seen.set(name, (seen.get(name) || 0) + 1);
  }
  const others = [...seen.keys()].filter((name) => !keys.includes(name));
  others.sort((a, b) => seen.get(b) - seen.get(a));
  return [...keys.filter((name) => seen.has(name)), ...others];
}

/** An item with every attribute and its type. keys: names to mark. */
export function details(item, keys = []) {
  const names = [
    ...keys.filter((name) => Object.hasOwn(item, name)),
    ...Object.keys(item)
      .filter((name) => !keys.includes(name))
      .sort(),
  ];
  return h(
    "dl",
    { class: "details" },
    names.map((name) => [
      h(
        "dt",
        { class: keys.includes(name) ? "key" : null },
        h("span", {}, name),
        badge(typeOf(item[name])),
      ),
      h("dd", {}, whole(item[name])),
    ]),
  );
}

function whole(value) {
  const type = typeOf(value);
  const content = value[type];
  switch (type) {
    case "S":
      return longText(content);
    case "B":
      return binary(content);
    case "L":
      return members(
        content.map((one, index) => [String(index), one]),
        plural(content.length, "member"),
      );
    case "M":
      return members(Object.entries(content), plural(Object.keys(content).length, "attribute"));
    case "SS":
    case "NS":
      return chips(content);
    case "BS":
      return h(
        "ul",
        { class: "plain-list" },
        content.map((one) => h("li", {}, binary(one))),
      );
    default:
      return h("span", { class: `value value-${type}` }, brief(value));
  }
}

function longText(text) {
  const box = h("div", { class: "long" });
  const shown = h("span", { class: "value value-S" }, text.slice(0, TEXT_SIGNS) || "“”");
  show(box, shown);
  if (text.length > TEXT_SIGNS) {
    box.append(
      "… ",
      h(
        "button",
        {
          type: "button",
          class: "small",
          onclick: (event) => {
            shown.textContent = text;
            event.target.previousSibling.remove();
            event.target.remove();
          },
        },
        `Show all ${count(text.length)} signs`,
      ),
    );
  }
  return box;
}

function members(entries, summary) {
  if (!entries.length) return h("span", { class: "nothing" }, "empty");
  const list = h("dl", { class: "details nested" });
  const more = (from) => {
    list.append(
      ...entries
        .slice(from, from + MEMBERS)
        .flatMap(([name, value]) => [
          h("dt", {}, h("span", {}, name), badge(typeOf(value))),
          h("dd", {}, whole(value)),
        ]),
    );
    if (from + MEMBERS < entries.length) {
      const next = h(
        "button",
        {
          type: "button",
          class: "small",
          onclick: () => {
            next.remove();
            more(from + MEMBERS);
          },
        },
        `Show more of ${count(entries.length)}`,
      );
      list.append(next);
    }
  };
  const box = h("details", { open: entries.length <= 20 }, h("summary", {}, summary), list);
  if (box.open) more(0);
  else box.addEventListener("toggle", () => more(0), { once: true });
  return box;
}

function chips(content) {
  const box = h("div", { class: "chips" });
  const more = (from) => {
    box.append(
      ...content.slice(from, from + MEMBERS).map((one) => h("span", { class: "chip" }, one)),
    );
    if (from + MEMBERS < content.length) {
      const next = h(
        "button",
        {
          type: "button",
          class: "small",
          onclick: () => {
            next.remove();
            more(from + MEMBERS);
          },
        },
        `Show more of ${count(content.length)}`,
      );
      box.append(next);
    }
  };
  more(0);
  return box;
}

function binary(text) {
  const size = base64Bytes(text);
  if (size <= SMALL_BYTES) {
    const line = size
      ? dumpText(fromBase64(text), 0)
          .trimEnd()
          .replace(/^\w+ +/, "")
          .replace(/ {3,}/, "  ")
      : "";
    return h(
      "span",
      {},
      h("code", { class: "value value-B" }, line),
      h("span", { class: "size" }, ` ${bytes(size)}`),
    );
  }
  const box = h("div", { class: "binary" });
  const dump = h("pre", {
    class: "dump",
    tabindex: "0",
    "aria-label": `${count(size)} bytes, in hexadecimal`,
  });
  let data = null;
  let shown = 0;
  const more = h("button", { type: "button", class: "small", onclick: () => grow() });
  function grow() {
    // Only what is shown is decoded: four signs of base64 are three bytes.
    const upTo = Math.min(size, shown ? shown * 8 : DUMP_BYTES);
    data = fromBase64(upTo === size ? text : text.slice(0, Math.ceil(upTo / 3) * 4));
    dump.append(dumpText(data.subarray(shown, upTo), shown));
    shown = upTo;
    more.hidden = shown >= size;
    more.textContent = `Show more of ${count(size)} bytes`;
  }
  grow();
  const save = h(
    "button",
    { type: "button", class: "small", onclick: () => download(fromBase64(text)) },
    "Save as a file",
  );
  return show(
    box,
    h("span", { class: "size" }, bytes(size)),
    size ? dump : null,
    h("div", { class: "row" }, more, save),
  );
}

function dumpText(data, start) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = Array.from(data.subarray(at, at + 16));
    const codes = part.map((one) => one.toString(16).padStart(2, "0"));
    const left = codes.slice(0, 8).join(" ").padEnd(23);
    const right = codes.slice(8).join(" ").padEnd(23);
    const signs = part
      .map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : "·"))
      .join("");
    lines.push(`${(start + at).toString(16).padStart(6, "0")}  ${left}  ${right}  ${signs}\n`);
  }
  return lines.join("");
}

/** Hand bytes or text to the browser as a file. */
export function download(content, name = "value.bin") {
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** What to call an item in a label: its keys. */
export const nameOf = (item, keys) =>
  keys
    .filter((name) => Object.hasOwn(item, name))
    .map((name) => brief(item[name], 60))
    .join(" / ");
