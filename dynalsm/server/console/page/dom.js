// Elements without markup: data becomes text nodes and attributes, never HTML.
// The page's policy (trusted types) refuses everything else.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "css") {
      // Through the CSSOM: style attributes are refused by the page's policy.
      for (const [rule, setting] of Object.entries(value)) element.style.setProperty(rule, setting);
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false),
  );
  return element;
}

/** Make an HTML element; `on…` props are listeners, strings become text. */
export const h = (name, props, ...children) => fill(document.createElement(name), props, children);

/** Make an SVG element. */
export const s = (name, props, ...children) =>
  fill(document.createElementNS(SVG, name), props, children);

/** Replace what an element holds. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return element;
}

let pressed = 0;
addEventListener("pointerdown", () => {
  pressed = performance.now();
});
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => {
    pressed = 0;
  });
}

/** Whether a button of the pointer is down: what is under it must not be replaced just now. */
export const isPressed = () => pressed > 0 && performance.now() - pressed < 2000;

export const byId = (id) => document.getElementById(id);

/** Tell screen readers, politely. */
export function announce(text) {
  byId("live").textContent = text;
}

/** Show a short message in the corner; it goes by itself. */
export function toast(text, kind = "good") {
  const note = h(
    "div",
    { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" },
    text,
  );
  byId("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
}

/** An error in place of what it prevented. */
export function problem(error, retry) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, error.code || "Error"),
    h("p", {}, error.message || String(error)),
    retry && h("button", { type: "button", onclick: retry }, "Try again"),
  );
}

/** A text, said to be empty. */
export const empty = (title, ...more) =>
  h(
    "div",
    { class: "empty" },
    h("strong", {}, title),
    more.map((one) => (typeof one === "string" ? h("p", {}, one) : one)),
  );

let fields = 0;

/** A label above its input; `input` gets an id. */
export function field(label, input, hint) {
  input.id ||= `field-${++fields}`;
  const note = hint && h("small", { id: `${input.id}-hint` }, hint);
  if (note) input.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, note);
}

export function select(options, chosen, onchange, props) {
  const made = h(
    "select",
    { ...props, onchange: (event) => onchange?.(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return made;
}

/** A row of buttons of which one is pressed. */
export function choice(label, options, chosen, onchange) {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        "data-value": value,
        "aria-pressed": String(value === chosen),
        onclick: () => {
          for (const one of buttons)
            one.setAttribute("aria-pressed", String(one.dataset.value === value));
          onchange(value);
        },
      },
      text,
    ),
  );
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

export function store(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`dynalsm.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`dynalsm.${name}`, JSON.stringify(value));
  } catch {
    // Storage is full or switched off: nothing is remembered.
  }
}
