// The frame of the page: who asks, which view is shown, and the way between views.

import { changesView } from "./changes.js";
import { announce, byId, choice, empty, field, h, problem, show } from "./dom.js";
import { engineView } from "./engine.js";
import { count } from "./format.js";
import { browseView } from "./browse.js";
import { greet, hasKeys, session, signIn, signOut } from "./net.js";
import { schemaView } from "./schemaview.js";
import { sqlView } from "./sql.js";
import { findTable, forgetTables, loadTables, onTables, tablesNow } from "./state.js";
import { tablesView } from "./tables.js";

const PLACES = [
  ["", "All tables"],
  ["sql", "PartiQL"],
  ["engine", "Engine"],
];
const TABS = [
  ["items", "Items", browseView],
  ["changes", "Changes", changesView],
  ["schema", "Schema", schemaView],
];
const FILTER_FROM = 8; // tables, before the list gets a filter

let leave = null; // ends what the shown view does in the background
let visit = 0;
let filter = "";

const tableHash = (name, tab) =>
  `#/t/${encodeURIComponent(name)}${tab && tab !== "items" ? `/${tab}` : ""}`;

/** The parts of the address after "#/". */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [""];
  }
}

// -------------------------------------------------------------------------------------- side

function drawPlaces() {
  const here = route()[0];
  show(
    byId("places"),
    PLACES.map(([place, name]) =>
      h(
        "li",
        {},
        h("a", { href: `#/${place}`, "aria-current": place === here ? "page" : null }, name),
      ),
    ),
  );
}

function drawTables() {
  const tables = tablesNow() || [];
  const [kind, here] = route();
  const text = tables.length >= FILTER_FROM ? filter.toLowerCase() : "";
  const wanted = tables.filter((one) => one.TableName.toLowerCase().includes(text));
  const list = h(
    "ul",
    { class: "table-list" },
    wanted.map((one) =>
      h(
        "li",
        {},
        h(
          "a",
          {
            href: tableHash(one.TableName),
            title: one.TableName,
            "aria-current": kind === "t" && here === one.TableName ? "page" : null,
          },
          h("span", { class: "name" }, one.TableName),
          h("span", { class: "size" }, count(one.ItemCount)),
        ),
      ),
    ),
  );
  const box = byId("table-nav");
  const old = box.querySelector(".table-list");
  if (old && box.querySelector("input") && tables.length >= FILTER_FROM) {
    old.replaceWith(list); // the filter keeps its focus
    return;
  }
  show(
    box,
    tables.length > 0 && h("h2", {}, "Tables"),
    tables.length >= FILTER_FROM &&
      h("input", {
        type: "search",
        placeholder: "Filter   /",
        "aria-label": "Filter tables",
        value: filter,
        id: "table-filter",
        oninput: (event) => {
          filter = event.target.value;
          drawTables();
        },
      }),
    list,
  );
}

function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  try {
    if (name === "auto") localStorage.removeItem("dynalsm.theme");
    else localStorage.setItem("dynalsm.theme", name);
  } catch {
    // Not remembered, but shown.
  }
}

function drawFoot() {
  const theme = document.documentElement.dataset.theme || "auto";
  show(
    byId("foot"),
    session.known &&
      session.path &&
      h("p", { class: "path", title: session.path }, `\u200e${session.path}`),
    h(
      "p",
      { class: "size" },
      `dynalsm ${session.version}`,
      session.known && session.read_only && h("span", { class: "tag warm" }, "read only"),
    ),
    session.key &&
      h(
        "p",
        { class: "row who" },
        h("span", { class: "size" }, `Key ${session.key.id}`),
        h(
          "button",
          {
            type: "button",
            class: "small",
            onclick: () => {
              signOut();
              forgetTables();
              drawTables();
              go();
            },
          },
          "Forget it",
        ),
      ),
    choice(
      "Theme",
      [
        ["auto", "Auto"],
        ["light", "Light"],
        ["dark", "Dark"],
      ],
      theme,
      setTheme,
    ),
  );
}

function wireMenu() {
  const menu = byId("menu");
  const set = (open) => {
    byId("side").classList.toggle("is-open", open);
    menu.setAttribute("aria-expanded", String(open));
  };
  menu.addEventListener("click", () => set(menu.getAttribute("aria-expanded") !== "true"));
  byId("drawer").addEventListener("click", (event) => event.target.closest("a") && set(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") set(false);
    const isTyping =
      /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) ||
      document.querySelector("dialog[open]");
    if (event.key === "/" && !isTyping && byId("table-filter")) {
      event.preventDefault();
      byId("table-filter").focus();
    }
  });
}

// -------------------------------------------------------------------------------------- views

/** A view's title, with what stands beside it. */
function heading(title, ...beside) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, title), ...beside);
}

function signInView(main, failure) {
  const id = h("input", { autocomplete: "off", spellcheck: "false", required: true });
  const secret = h("input", { type: "password", autocomplete: "off", required: true });
  const kept = h("input", { type: "checkbox", id: "keep-keys" });
  const failed = h("div", { role: "alert" }, failure && problem(failure));
  const form = h(
    "form",
    {
      class: "card sign-in",
      onsubmit: async (event) => {
        event.preventDefault();
        show(failed);
        try {
          await signIn(id.value.trim(), secret.value, kept.checked);
          await start();
        } catch (error) {
          show(failed, problem(error));
          secret.focus();
        }
      },
    },
    h("h1", { tabindex: "-1" }, "Who are you?"),
    h("p", {}, "This server checks keys. What you see and may do here are the rights of yours."),
    field("Access key", id),
    field("Secret key", secret, "It signs each request inside this page and is never sent."),
    h(
      "div",
      { class: "check" },
      kept,
      h("label", { for: "keep-keys" }, "Keep them until this tab closes"),
    ),
    failed,
    h("button", { class: "primary" }, "Go on"),
  );
  show(main, h("div", { class: "centred" }, form));
  id.focus();
}

async function tableView(main, name, tab) {
  const table = await findTable(name);
  if (!table) {
    show(
      main,
      heading(name),
      empty("There is no such table", h("p", {}, h("a", { href: "#/" }, "All tables"))),
    );
    return null;
  }
  const chosen = TABS.find(([one]) => one === tab) || TABS[0];
  const body = h("div", { class: "body" });
  show(
    main,
    heading(
      name,
      table.TableStatus !== "ACTIVE" &&
        h("span", { class: "tag warm" }, table.TableStatus.toLowerCase()),
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": `Table ${name}` },
      TABS.map(([one, text]) =>
        h(
          "a",
          { href: tableHash(name, one), "aria-current": one === chosen[0] ? "page" : null },
          text,
        ),
      ),
    ),
    body,
  );
  return chosen[2](body, table);
}

/** Show what the address says. */
async function go(isFirst = false) {
  const mine = ++visit;
  leave?.();
  leave = null;
  document.querySelectorAll("dialog[open]").forEach((one) => one.close());
  drawPlaces();
  drawTables();
  drawFoot();
  const main = byId("main");
  if (!session.known) {
    signInView(main);
    return;
  }
  const [kind, name, tab] = route();
  const fresh = h("div", { class: "view" });
  show(main, fresh);
  try {
    let ending = null;
    if (kind === "t" && name) ending = await tableView(fresh, name, tab);
    else if (kind === "sql") ending = sqlView(fresh, heading("PartiQL"));
    else if (kind === "engine") ending = await engineView(fresh, heading);
    else ending = await tablesView(fresh, heading);
    if (mine === visit) leave = ending;
    else ending?.();
  } catch (error) {
    if (mine === visit)
      show(
        fresh,
        heading(name || "Something failed"),
        problem(error, () => go()),
      );
  }
  const title = fresh.querySelector("h1");
  document.title = `${title?.textContent || "console"} · dynalsm`;
  if (mine === visit && !isFirst && title) {
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
    announce(title.textContent);
  }
}

async function start() {
  await loadTables();
  await go(true);
}

async function main() {
  wireMenu();
  onTables(drawTables);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address belongs to the views
    byId("main").focus();
  });
  addEventListener("hashchange", () => go());
  try {
    if (await greet()) await start();
    else await go(true);
  } catch (error) {
    if (hasKeys() && error.status) {
      // Kept keys that the server does not take any more.
      signOut();
      await greet().catch(() => {});
      drawFoot();
      signInView(byId("main"), error);
    } else {
      drawPlaces();
      show(
        byId("main"),
        h(
          "div",
          { class: "view" },
          problem(error, () => location.reload()),
        ),
      );
    }
  }
}

main();
