// PartiQL: statements, their results, and what was run before.

import { grid } from "./cells.js";
import { announce, empty, h, keep, problem, show, store, toast } from "./dom.js";
import { duration, plural } from "./format.js";
import { call, session } from "./net.js";
import { tablesNow } from "./state.js";

const HISTORY = 100;
const PAGE = 100;
let draft = null; // what stands in the box, when the view is left and entered again

export function sqlView(box, heading) {
  const name = `history.${session.path}`;
  const state = { running: null, items: [], token: null };
  const example = tablesNow()?.[0]?.TableName || "Music";
  const text = h("textarea", {
    class: "code sql",
    rows: "5",
    spellcheck: "false",
    "aria-label": "Statement",
    autocapitalize: "off",
    placeholder: `SELECT * FROM "${example}"`,
    oninput: () => {
      draft = text.value;
    },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      }
    },
  });
  text.value = draft ?? "";
  const bar = h("div", { class: "row result-bar" });
  const result = h("section", { class: "result", "aria-label": "Result" });
  const past = h("ol", { class: "history" });

  function drawPast() {
    const entries = store(name, []);
    show(
      past,
      entries.length
        ? entries.map((entry) =>
            h(
              "li",
              {},
              h(
                "button",
                {
                  type: "button",
                  class: "past",
                  title: entry.text,
                  onclick: () => {
                    text.value = draft = entry.text;
                    text.focus();
                  },
                },
                h("code", {}, entry.text),
                h("span", { class: entry.failed ? "size bad" : "size" }, entry.note),
              ),
            ),
          )
        : h("li", { class: "size" }, "What you run is remembered in this browser."),
    );
  }

  function remember(statement, note, failed) {
    const others = store(name, []).filter((one) => one.text !== statement);
    keep(name, [{ text: statement, note, failed }, ...others].slice(0, HISTORY));
    drawPast();
  }

  async function run(isMore = false) {
    const statement = isMore ? state.statement : text.value.trim().replace(/;\s*$/, "");
    if (!statement) return text.focus();
    state.running?.abort();
    const running = (state.running = new AbortController());
    result.setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const request = { Statement: statement };
      if (/^\s*select\b/i.test(statement)) request.Limit = PAGE;
      if (isMore) request.NextToken = state.token;
      const reply = await call("ExecuteStatement", request, running.signal);
      if (running !== state.running) return undefined;
      const seconds = (performance.now() - began) / 1000;
      state.items = isMore ? [...state.items, ...(reply.Items || [])] : reply.Items || [];
      Object.assign(state, { statement, token: reply.NextToken });
      draw(statement, seconds);
      if (!isMore)
        remember(
          statement,
          `${plural(state.items.length, "item")}${state.token ? " and more" : ""}, ${duration(seconds)}`,
          false,
        );
    } catch (error) {
      if (error.name === "AbortError" || running !== state.running) return undefined;
      show(bar);
      show(result, problem(error));
      if (!isMore) remember(statement, error.code, true);
    } finally {
      if (running === state.running) result.removeAttribute("aria-busy");
    }
    return undefined;
  }

  function draw(statement, seconds) {
    const words = `${plural(state.items.length, "item")}${state.token ? ", and more" : ""}`;
    show(
      bar,
      h("p", { class: "size" }, `${words} · ${duration(seconds)}`),
      h(
        "div",
        { class: "push row" },
        state.items.length > 0 && h("button", { type: "button", onclick: copy }, "Copy as JSON"),
        state.token && h("button", { type: "button", onclick: () => run(true) }, "More"),
      ),
    );
    announce(words);
    show(
      result,
      state.items.length
        ? grid(state.items, { keys: [], caption: "Result" })
        : empty(/^\s*select\b/i.test(statement) ? "Nothing found" : "Done"),
    );
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(JSON.stringify(state.items, null, 2));
      toast("Copied");
    } catch {
      toast("The browser does not let the page copy", "bad");
    }
  }

  drawPast();
  show(
    box,
    heading,
    h(
      "div",
      { class: "sql-layout" },
      h(
        "div",
        {},
        h(
          "form",
          {
            class: "card",
            onsubmit: (event) => {
              event.preventDefault();
              run();
            },
          },
          text,
          h(
            "div",
            { class: "row" },
            h("button", { class: "primary" }, "Run"),
            h("span", { class: "size" }, "Ctrl+Enter"),
          ),
        ),
        bar,
        result,
      ),
      h(
        "aside",
        { class: "card", "aria-label": "History" },
        h(
          "div",
          { class: "row" },
          h("h2", {}, "History"),
          h(
            "button",
            {
              type: "button",
              class: "small push",
              onclick: () => {
                keep(name, []);
                drawPast();
              },
            },
            "Clear",
          ),
        ),
        past,
      ),
    ),
  );
  return () => state.running?.abort();
}
