// What to look for in a table: the form of a query or scan, and the request it stands for.

import { choice, field, h, select, show } from "./dom.js";
import { Mistake } from "./json.js";
import { indexesOf, keysOf, schemaOf } from "./schema.js";
import { TYPES, valueFrom } from "./values.js";

const SORT_CONDITIONS = [
  ["", "any"],
  ["=", "="],
  ["<", "<"],
  ["<=", "≤"],
  [">", ">"],
  [">=", "≥"],
  ["BETWEEN", "between"],
  ["begins_with", "begins with"],
];
const FILTER_CONDITIONS = [
  ["=", "="],
  ["<>", "≠"],
  ["<", "<"],
  ["<=", "≤"],
  [">", ">"],
  [">=", "≥"],
  ["BETWEEN", "between"],
  ["begins_with", "begins with"],
  ["contains", "contains"],
  ["attribute_exists", "exists"],
  ["attribute_not_exists", "does not exist"],
  ["attribute_type", "has type"],
];
const WITHOUT_VALUE = new Set(["attribute_exists", "attribute_not_exists"]);
const FUNCTIONS = new Set(["begins_with", "contains", "attribute_type"]);
const SIZES = ["25", "50", "100", "250"];
const VALUE_TYPES = ["S", "N", "B", "BOOL", "NULL"];

/** What is asked when a table is opened. */
export const fresh = () => ({
  mode: "scan",
  index: "",
  hash: {},
  sort: {},
  isForward: true,
  filters: [],
  limit: "25",
});

/** Names and values of one request's expressions. */
class Placeholders {
  names = {};
  values = {};

  name(name) {
    const found = Object.entries(this.names).find(([, one]) => one === name);
    if (found) return found[0];
    const made = `#n${Object.keys(this.names).length}`;
    this.names[made] = name;
    return made;
  }

  value(value) {
    const made = `:v${Object.keys(this.values).length}`;
    this.values[made] = value;
    return made;
  }

  /** "#n0 = :v0", "begins_with(#n0, :v0)", … */
  condition(name, operator, values) {
    const attribute = this.name(name);
    if (WITHOUT_VALUE.has(operator)) return `${operator}(${attribute})`;
    const [first, second] = values.map((one) => this.value(one));
    if (FUNCTIONS.has(operator)) return `${operator}(${attribute}, ${first})`;
    if (operator === "BETWEEN") return `${attribute} BETWEEN ${first} AND ${second}`;
    return `${attribute} ${operator} ${first}`;
  }
}

const typed = (text, type, name) => {
  try {
    return valueFrom(text ?? "", type);
  } catch (error) {
    throw new Mistake(`${name}: ${error.message}`);
  }
};

/** Return [operation, request] for what the form says; throws a Mistake. */
export function requestOf(table, wanted) {
  const request = {
    TableName: table.TableName,
    Limit: Number(wanted.limit),
    ReturnConsumedCapacity: "TOTAL",
  };
  if (wanted.index) request.IndexName = wanted.index;
  const terms = new Placeholders();
  if (wanted.mode === "query") {
    request.KeyConditionExpression = keyCondition(table, wanted, terms);
    request.ScanIndexForward = wanted.isForward;
  }
  const filters = wanted.filters.filter((one) => one.name.trim());
  if (filters.length) {
    request.FilterExpression = filters.map((one) => filterCondition(one, terms)).join(" AND ");
  }
  if (Object.keys(terms.names).length) request.ExpressionAttributeNames = terms.names;
  if (Object.keys(terms.values).length) request.ExpressionAttributeValues = terms.values;
  return [wanted.mode === "query" ? "Query" : "Scan", request];
}

function keyCondition(table, wanted, terms) {
  const schema = schemaOf(table, wanted.index);
  const parts = keysOf(table, schema, "HASH").map(([name, type]) => {
    if (!wanted.hash[name])
      throw new Mistake(`A query needs a value of the partition key “${name}”`);
    return terms.condition(name, "=", [typed(wanted.hash[name], type, name)]);
  });
  let isOpen = true;
  for (const [name, type] of keysOf(table, schema, "RANGE")) {
    const { operator = "", first = "", second = "" } = wanted.sort[name] || {};
    if (!operator) {
      isOpen = false;
      continue;
    }
    if (!isOpen)
      throw new Mistake(`A condition on “${name}” needs equal values of the sort keys before it`);
    isOpen = operator === "=";
    const values = operator === "BETWEEN" ? [first, second] : [first];
    parts.push(
      terms.condition(
        name,
        operator,
        values.map((one) => typed(one, type, name)),
      ),
    );
  }
  return parts.join(" AND ");
}

function filterCondition({ name, operator, type, first, second }, terms) {
  if (operator === "attribute_type")
    return terms.condition(name, operator, [{ S: first.trim().toUpperCase() }]);
  const texts = WITHOUT_VALUE.has(operator)
    ? []
    : operator === "BETWEEN"
      ? [first, second]
      : [first];
  return terms.condition(
    name,
    operator,
    texts.map((one) => typed(one, type, name)),
  );
}

// --------------------------------------------------------------------------------------- form

/** The form; `wanted` is changed as it is filled in, run() is called to look. */
export function criteriaForm(table, wanted, run) {
  const keysBox = h("div", { class: "row keys-row" });
  const filtersBox = h("div", { class: "filters" });
  const sources = [
    ["", "The table"],
    ...indexesOf(table).map((one) => [one.IndexName, `Index ${one.IndexName}`]),
  ];

  function drawKeys() {
    show(keysBox, wanted.mode === "query" && queryFields(table, wanted));
  }

  function drawFilters() {
    show(
      filtersBox,
      wanted.filters.map((one) =>
        filterRow(one, () => {
          wanted.filters.splice(wanted.filters.indexOf(one), 1);
          drawFilters();
          filtersBox.parentElement.querySelector(".add-filter").focus();
        }),
      ),
    );
  }

  drawKeys();
  drawFilters();
  return h(
    "form",
    {
      class: "criteria card",
      onsubmit: (event) => {
        event.preventDefault();
        run();
      },
    },
    h(
      "div",
      { class: "row" },
      choice(
        "How to look",
        [
          ["scan", "Scan"],
          ["query", "Query"],
        ],
        wanted.mode,
        (mode) => {
          wanted.mode = mode;
          drawKeys();
        },
      ),
      sources.length > 1 &&
        field(
          "In",
          select(sources, wanted.index, (index) => {
            wanted.index = index;
            wanted.hash = {};
            wanted.sort = {};
            drawKeys();
          }),
        ),
      field(
        "Items a page",
        select(
          SIZES.map((one) => [one, one]),
          wanted.limit,
          (limit) => {
            wanted.limit = limit;
          },
        ),
      ),
      h(
        "div",
        { class: "push" },
        h(
          "button",
          {
            type: "button",
            class: "add-filter",
            onclick: () => {
              wanted.filters.push({ name: "", operator: "=", type: "S", first: "", second: "" });
              drawFilters();
              filtersBox.lastElementChild.querySelector("input").focus();
            },
          },
          "Add a filter",
        ),
        h("button", { class: "primary" }, "Run"),
      ),
    ),
    keysBox,
    filtersBox,
  );
}

function queryFields(table, wanted) {
  const schema = schemaOf(table, wanted.index);
  const hashes = keysOf(table, schema, "HASH").map(([name, type]) =>
    field(
      `${name} (${TYPES[type]})`,
      h("input", {
        value: wanted.hash[name] || "",
        spellcheck: "false",
        "data-key": name,
        class: type === "N" ? "narrow" : null,
        oninput: (event) => {
          wanted.hash[name] = event.target.value;
        },
      }),
    ),
  );
  const ranges = keysOf(table, schema, "RANGE").map(([name, type]) =>
    sortFields(wanted, name, type),
  );
  const direction =
    ranges.length > 0 &&
    field(
      "Direction",
      select(
        [
          ["up", "Ascending"],
          ["down", "Descending"],
        ],
        wanted.isForward ? "up" : "down",
        (way) => {
          wanted.isForward = way === "up";
        },
      ),
    );
  return [...hashes, ...ranges, direction];
}

function sortFields(wanted, name, type) {
  const now = (wanted.sort[name] ||= { operator: "", first: "", second: "" });
  const input = (which, label) =>
    h("input", {
      value: now[which],
      "aria-label": label,
      spellcheck: "false",
      class: type === "N" ? "narrow" : null,
      oninput: (event) => {
        now[which] = event.target.value;
      },
    });
  const values = h("span", { class: "row values" });
  const draw = () =>
    show(
      values,
      now.operator && input("first", `${name}, value`),
      now.operator === "BETWEEN" && ["and", input("second", `${name}, upper value`)],
    );
  draw();
  const conditions =
    type === "N" ? SORT_CONDITIONS.filter(([one]) => one !== "begins_with") : SORT_CONDITIONS;
  const operator = select(conditions, now.operator, (one) => {
    now.operator = one;
    draw();
    values.querySelector("input")?.focus();
  });
  const made = field(`${name} (${TYPES[type]})`, operator);
  operator.after(values);
  made.classList.add("wide");
  return made;
}

function filterRow(filter, remove) {
  const values = h("span", { class: "row values" });
  const input = (which, label) =>
    h("input", {
      value: filter[which],
      "aria-label": label,
      spellcheck: "false",
      oninput: (event) => {
        filter[which] = event.target.value;
      },
    });
  const draw = () => {
    const needsType = !WITHOUT_VALUE.has(filter.operator) && filter.operator !== "attribute_type";
    const needsText = !WITHOUT_VALUE.has(filter.operator) && !(needsType && filter.type === "NULL");
    show(
      values,
      needsType &&
        select(
          VALUE_TYPES.map((one) => [one, TYPES[one]]),
          filter.type,
          (type) => {
            filter.type = type;
            draw();
          },
          { "aria-label": "Type" },
        ),
      needsText && input("first", "Value"),
      filter.operator === "BETWEEN" && ["and", input("second", "Upper value")],
    );
  };
  draw();
  return h(
    "div",
    { class: "row filter", role: "group", "aria-label": "Filter" },
    h("span", { class: "size" }, "where"),
    h("input", {
      value: filter.name,
      placeholder: "attribute",
      "aria-label": "Attribute",
      spellcheck: "false",
      oninput: (event) => {
        filter.name = event.target.value;
      },
    }),
    select(
      FILTER_CONDITIONS,
      filter.operator,
      (one) => {
        filter.operator = one;
        draw();
      },
      { "aria-label": "Condition" },
    ),
    values,
    h(
      "button",
      { type: "button", class: "small", "aria-label": "Remove this filter", onclick: remove },
      "✕",
    ),
  );
}
