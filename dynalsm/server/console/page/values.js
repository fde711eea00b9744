// Attribute values: DynamoDB JSON ({"S": "x"}) and the plain form that people write ("x").
//
// The plain form has no words for binary values and sets; they are written as in DynamoDB JSON. A
// real map that looks like that is written {"M": {...}}. So every item has a plain form, and only
// one item is meant by it.

import { Exact, Mistake } from "./json.js";

export const TYPES = {
  S: "string",
  N: "number",
  B: "binary",
  BOOL: "boolean",
  NULL: "null",
  L: "list",
  M: "map",
  SS: "string set",
  NS: "number set",
  BS: "binary set",
};
const MARKED = new Set(["B", "SS", "NS", "BS", "M"]);
export const ITEM_LIMIT_BYTES = 400 * 1024;
const utf8 = new TextEncoder();

export const typeOf = (value) => Object.keys(value)[0];
export const contentOf = (value) => value[typeOf(value)];

/** Base64 text to bytes; throws a Mistake. */
export function fromBase64(text) {
  if (typeof text !== "string" || text.length % 4 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new Mistake("A binary value is base64 text (A–Z a–z 0–9 + / and = at the end)");
  }
  const raw = atob(text);
  return Uint8Array.from(raw, (sign) => sign.charCodeAt(0));
}

/** The bytes that base64 text stands for, without decoding it. */
export const base64Bytes = (text) => (text.length / 4) * 3 - text.match(/=*$/)[0].length;

// ------------------------------------------------------------------------------------ numbers

/** (sign, digits, exponent) of a number's text, or null: value = 0.digits × 10^exponent. */
function partsOf(text) {
  const found = /^\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?\s*$/.exec(text);
  if (!found || !(found[2] || found[3])) return null;
  const all = found[2] + (found[3] || "");
  const digits = all.replace(/^0+/, "");
  const exponent = Number(found[4] || 0) + found[2].length - (all.length - digits.length);
  const short = digits.replace(/0+$/, "");
  return short
    ? { sign: found[1] === "-" ? "-" : "", digits: short, exponent }
    : { sign: "", digits: "", exponent: 0 };
}

/** One text for equal numbers: "1.0" and "1" are the same. */
export function canonicalNumber(text) {
  const parts = partsOf(text);
  return parts ? `${parts.sign}${parts.digits}e${parts.exponent}` : text;
}

/** Throws a Mistake for what DynamoDB takes for no number. */
export function checkNumber(text) {
  const parts = partsOf(String(text));
  if (parts === null) throw new Mistake(`“${text}” is no number`);
  if (parts.digits.length > 38) throw new Mistake("A number has at most 38 digits");
  if (parts.digits && parts.exponent > 126)
    throw new Mistake("The number is too large (below 10^126)");
  if (parts.digits && parts.exponent < -129)
    throw new Mistake("The number is too small (from 10^-130)");
  return String(text).trim();
}

// ------------------------------------------------------------------- from parsed text to values

const inside = (path, run) => {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    error.path = error.path ? `${path}.${error.path}` : path;
    throw error;
  }
};

const asObject = (map, convert) =>
  Object.fromEntries([...map].map(([name, value]) => [name, inside(name, () => convert(value))]));

function setOf(members, type, convert) {
  if (!Array.isArray(members)) throw new Mistake(`${type} is a list of members`);
  if (!members.length) throw new Mistake("A set has at least one member");
  const made = members.map(convert);
  const seen = new Set(made.map((one) => (type === "NS" ? canonicalNumber(one) : one)));
  if (seen.size < made.length) throw new Mistake("A set has each member once");
  return made;
}

function textOf(value, what) {
  if (typeof value !== "string") throw new Mistake(`${what} is a text in "quotes"`);
  return value;
}

function base64Of(value) {
  fromBase64(value);
  return value;
}

const numberOf = (value) => checkNumber(value instanceof Exact ? value.text : textOf(value, "N"));
const READ = {
  S: (value) => textOf(value, "S"),
  N: numberOf,
  B: base64Of,
  BOOL: (value) => {
    if (typeof value !== "boolean") throw new Mistake("BOOL is true or false");
    return value;
  },
  NULL: (value) => {
    if (value !== true) throw new Mistake("NULL is true");
    return true;
  },
  SS: (value) => setOf(value, "SS", (one) => textOf(one, "A member")),
  NS: (value) => setOf(value, "NS", numberOf),
  BS: (value) => setOf(value, "BS", base64Of),
};

const listOf = (value, convert) => {
  if (!Array.isArray(value)) throw new Mistake("L is a list");
  return value.map((one, index) => inside(`[${index}]`, () => convert(one)));
};
const mapOf = (value, convert) => {
  if (!(value instanceof Map)) throw new Mistake("M is an object");
  return asObject(value, convert);
};

/** A parsed DynamoDB JSON value, checked. */
export function fromWire(parsed) {
  if (!(parsed instanceof Map) || parsed.size !== 1) {
    throw new Mistake('A value has one type, as in {"S": "text"}');
  }
  const [[type, content]] = parsed;
  if (type === "L") return { L: listOf(content, fromWire) };
  if (type === "M") return { M: mapOf(content, fromWire) };
  if (!(type in TYPES))
    throw new Mistake(`“${type}” is no type; there are ${Object.keys(TYPES).join(", ")}`);
  return { [type]: READ[type](content) };
}

/** A parsed plain value, checked. */
export function fromPlain(parsed) {
  if (typeof parsed === "string") return { S: parsed };
  if (typeof parsed === "boolean") return { BOOL: parsed };
  if (parsed === null) return { NULL: true };
  if (parsed instanceof Exact) return { N: checkNumber(parsed.text) };
  if (Array.isArray(parsed)) return { L: listOf(parsed, fromPlain) };
  const [[type, content]] = parsed.size === 1 ? parsed : [[]];
  if (!MARKED.has(type)) return { M: asObject(parsed, fromPlain) };
  return type === "M" ? { M: mapOf(content, fromPlain) } : { [type]: READ[type](content) };
}

/** A whole item from parsed text; `isPlain` says in which form. */
export function itemFrom(parsed, isPlain) {
  if (!(parsed instanceof Map)) throw new Mistake("An item is an object: { … }", 0);
  return asObject(parsed, isPlain ? fromPlain : fromWire);
}

// ------------------------------------------------------------------------ from values to text

const quote = (text) => JSON.stringify(text);

function block(open, close, lines, indent) {
  const pad = "  ".repeat(indent + 1);
  return lines.length
    ? `${open}\n${lines.map((line) => pad + line).join(",\n")}\n${"  ".repeat(indent)}${close}`
    : open + close;
}

const named = (map, indent, write) =>
  Object.entries(map).map(([name, value]) => `${quote(name)}: ${write(value, indent)}`);

const members = (type, content) =>
  `[${content.map((one) => (type === "NS" ? one : quote(one))).join(", ")}]`;

function wireValue(value, indent) {
  const type = typeOf(value);
  const content = value[type];
  if (type === "M")
    return `{"M": ${block("{", "}", named(content, indent + 1, wireValue), indent)}}`;
  if (type === "L") {
    return `{"L": ${block(
      "[",
      "]",
      content.map((one) => wireValue(one, indent + 1)),
      indent,
    )}}`;
  }
  if (Array.isArray(content)) return `{"${type}": [${content.map(quote).join(", ")}]}`;
  return `{"${type}": ${JSON.stringify(content)}}`;
}

function plainValue(value, indent) {
  const type = typeOf(value);
  const content = value[type];
  switch (type) {
    case "S":
      return quote(content);
    case "N":
      return content;
    case "BOOL":
      return String(content);
    case "NULL":
      return "null";
    case "L":
      return block(
        "[",
        "]",
        content.map((one) => plainValue(one, indent + 1)),
        indent,
      );
    case "M": {
      const names = Object.keys(content);
      const text = block("{", "}", named(content, indent + 1, plainValue), indent);
      return names.length === 1 && MARKED.has(names[0]) ? `{"M": ${text}}` : text;
    }
    case "B":
      return `{"B": ${quote(content)}}`;
    default:
      return `{"${type}": ${members(type, content)}}`;
  }
}

/** An item as text to edit; `first` are the names that come first. */
export function itemText(item, isPlain, first = []) {
  const rest = Object.keys(item)
    .filter((name) => !first.includes(name))
    .sort();
  const names = [...first.filter((name) => Object.hasOwn(item, name)), ...rest];
  const ordered = Object.fromEntries(names.map((name) => [name, item[name]]));
  return block("{", "}", named(ordered, 1, isPlain ? plainValue : wireValue), 0);
}

/** One value on one line, for a cell. */
export function brief(value, limit = 120) {
  const type = typeOf(value);
  const content = value[type];
  if (type === "B") return `${content.slice(0, limit)}`;
  if (type === "S") return content.slice(0, limit);
  if (type === "L" || type === "M")
    return plainValue(cut(value, limit), 0)
      .replace(/\s*\n\s*/g, " ")
      .slice(0, limit);
  if (Array.isArray(content)) return content.slice(0, limit).join(", ").slice(0, limit);
  return type === "NULL" ? "null" : String(content);
}

// A cell shows the first members only: a large value is not written out to be cut off.
function cut(value, limit) {
  const type = typeOf(value);
  const content = value[type];
  if (limit <= 0) return { S: "…" };
  if (type === "L") return { L: content.slice(0, 12).map((one) => cut(one, limit / 2 - 4)) };
  if (type === "M") {
    return {
      M: Object.fromEntries(
        Object.entries(content)
          .slice(0, 12)
          .map(([name, one]) => [name, cut(one, limit / 2 - 4)]),
      ),
    };
  }
  return type === "S" || type === "B" ? { [type]: content.slice(0, limit) } : value;
}

// --------------------------------------------------------------------------------- comparing

/** One text for equal values, for keys of maps and comparisons. */
export function canonical(value) {
  const type = typeOf(value);
  const content = value[type];
  switch (type) {
    case "N":
      return `N${canonicalNumber(content)}`;
    case "L":
      return `L[${content.map(canonical).join()}]`;
    case "M":
      return `M{${Object.keys(content)
        .sort()
        .map((name) => quote(name) + canonical(content[name]))
        .join()}}`;
    case "NS":
      return `NS${content.map(canonicalNumber).sort().join()}`;
    case "SS":
    case "BS":
      return `${type}${quote([...content].sort())}`;
    default:
      return `${type}${quote(content)}`;
  }
}

export const isEqual = (one, other) =>
  one !== undefined && other !== undefined && canonical(one) === canonical(other);

// ------------------------------------------------------------------------------------- sizes

const textBytes = (text) => utf8.encode(text).length;

function numberBytes(text) {
  const parts = partsOf(text);
  return parts?.digits ? Math.ceil(parts.digits.length / 2) + 1 + (parts.sign ? 1 : 0) : 1;
}

/** Roughly what DynamoDB counts; the server decides. */
export function valueBytes(value) {
  const type = typeOf(value);
  const content = value[type];
  switch (type) {
    case "S":
      return textBytes(content);
    case "N":
      return numberBytes(content);
    case "B":
      return base64Bytes(content);
    case "L":
      return 3 + content.reduce((sum, one) => sum + 1 + valueBytes(one), 0);
    case "M":
      return (
        3 +
        Object.entries(content).reduce(
          (sum, [name, one]) => sum + 1 + textBytes(name) + valueBytes(one),
          0,
        )
      );
    case "SS":
      return content.reduce((sum, one) => sum + textBytes(one), 0);
    case "NS":
      return content.reduce((sum, one) => sum + numberBytes(one), 0);
    case "BS":
      return content.reduce((sum, one) => sum + base64Bytes(one), 0);
    default:
      return 1;
  }
}

export const itemBytes = (item) =>
  Object.entries(item).reduce((sum, [name, value]) => sum + textBytes(name) + valueBytes(value), 0);

/** Throws a Mistake when the item cannot be one of a table with these keys: [[name, type], …]. */
export function checkItem(item, keys) {
  for (const [name, type] of keys) {
    const value = item[name];
    if (!Object.hasOwn(item, name)) throw new Mistake(`The key attribute “${name}” is missing`);
    if (typeOf(value) !== type)
      throw new Mistake(`The key attribute “${name}” is a ${TYPES[type]} (${type})`);
    if (type !== "N" && !value[type])
      throw new Mistake(`The key attribute “${name}” may not be empty`);
  }
  if (itemBytes(item) > ITEM_LIMIT_BYTES) throw new Mistake("The item is larger than 400 KiB");
}

export const keyOf = (item, keys) => Object.fromEntries(keys.map(([name]) => [name, item[name]]));

/** What a person types for a value of a type. */
export function valueFrom(text, type) {
  switch (type) {
    case "S":
      return { S: text };
    case "N":
      return { N: checkNumber(text) };
    case "B":
      fromBase64(text.trim());
      return { B: text.trim() };
    case "BOOL": {
      if (!/^(true|false)$/i.test(text.trim())) throw new Mistake("A boolean is true or false");
      return { BOOL: text.trim().toLowerCase() === "true" };
    }
    case "NULL":
      return { NULL: true };
    default:
      throw new Mistake(`No value of type ${type} can be typed here`);
  }
}
