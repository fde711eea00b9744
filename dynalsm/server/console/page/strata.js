// Where the bytes lie: trees, their levels, and the levels of each partition of one tree.

import { ask } from "./net.js";
import { h, problem, s, show } from "./dom.js";
import { bytes, count, percent, plural } from "./format.js";
import { partsBar } from "./plots.js";

const HEIGHT = 200;
const WIDTH = 1000;
const TREES = 20; // the largest ones; all when that is asked for
const WIDE_ENOUGH = 24; // partitions with a number below their column

export const treeName = ({ table, part, tree }) =>
  table ? [table, part].filter(Boolean).join(" / ") : part || tree;

const levelName = (level) => `L${level}`;

/** Memory first, then level 0 to the last: from the newest to the oldest. */
const partsOf = (tree) => [
  { name: "memtables", value: tree.memtable_bytes, line: "lm" },
  ...tree.levels.map((level, index) => ({
    name: levelName(index),
    value: level.bytes,
    line: `l${index}`,
  })),
];

/** The list of trees with a picture of one. Returns { element, update(trees) }. */
export function strataView() {
  const rows = h("tbody");
  const picture = h("div", { class: "strata" });
  const levels = ["memtables", 0, 1, 2, 3, 4, 5, 6].map((one, index) =>
    h(
      "li",
      {},
      h("span", { class: `swatch ${index ? `l${one}` : "lm"}`, "aria-hidden": "true" }),
      index ? levelName(one) : one,
    ),
  );
  const table = h(
    "table",
    { class: "grid trees" },
    h("caption", { class: "unseen" }, "Trees of the engine"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        [
          "Tree",
          "Levels",
          "On disk",
          "In memory",
          "Entries",
          "Deletions",
          "Partitions",
          "Sorted runs",
        ].map((one, index) => h("th", { scope: "col", class: index > 1 ? "number" : null }, one)),
      ),
    ),
    rows,
  );
  const more = h("button", {
    type: "button",
    class: "small more",
    onclick: () => {
      showsAll = true;
      draw();
    },
  });
  const element = h(
    "section",
    { class: "card" },
    h("div", { class: "row" }, h("h2", {}, "Levels"), h("ul", { class: "legend push" }, levels)),
    h("div", { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Trees" }, table),
    more,
    picture,
  );
  let chosen = null;
  let showsAll = false;
  let asked = 0;
  let trees = [];

  async function choose(tree) {
    chosen = tree;
    draw();
    await look();
  }

  async function look() {
    const mine = ++asked;
    try {
      const { partitions } = await ask("partitions", { tree: chosen });
      const tree = trees.find((one) => one.tree === chosen);
      // What somebody points at, to read it, stays as it is.
      const isRead = picture.querySelector(".strata-plot:hover") && picture.dataset.tree === chosen;
      if (mine !== asked || !tree || isRead) return;
      picture.dataset.tree = chosen;
      drawPartitions(picture, tree, partitions);
    } catch (error) {
      if (mine === asked) show(picture, problem(error));
    }
  }

  function draw() {
    const focused = rows.contains(document.activeElement)
      ? document.activeElement.dataset.tree
      : null;
    const largest = Math.max(1, ...trees.map((one) => one.disk_bytes + one.memtable_bytes));
    const shown = showsAll ? trees : trees.slice(0, TREES);
    show(
      rows,
      shown.map((tree) => treeRow(tree, largest, tree.tree === chosen, () => choose(tree.tree))),
    );
    more.hidden = shown.length === trees.length;
    more.textContent = `Show all ${count(trees.length)}`;
    if (focused)
      [...rows.querySelectorAll("button")].find((one) => one.dataset.tree === focused)?.focus();
  }

  return {
    element,
    update(newest) {
      trees = newest.toSorted(
        (a, b) => b.disk_bytes + b.memtable_bytes - a.disk_bytes - a.memtable_bytes,
      );
      if (!trees.some((one) => one.tree === chosen)) chosen = trees[0]?.tree ?? null;
      draw();
      if (chosen) look();
      else show(picture);
    },
  };
}

function treeRow(tree, largest, isChosen, choose) {
  const held = tree.disk_bytes + tree.memtable_bytes;
  const bar = partsBar("Levels", partsOf(tree), held, bytes);
  const number = (value) => h("td", { class: "number" }, value);
  return h(
    "tr",
    { class: isChosen ? "chosen" : null },
    h(
      "th",
      { scope: "row" },
      h(
        "button",
        {
          type: "button",
          class: "link",
          "data-tree": tree.tree,
          "aria-pressed": String(isChosen),
          onclick: choose,
        },
        treeName(tree),
      ),
    ),
    h(
      "td",
      { class: "bar-cell" },
      h("div", { css: { width: `${Math.max(2, (held / largest) * 100)}%` } }, bar),
    ),
    number(bytes(tree.disk_bytes)),
    number(bytes(tree.memtable_bytes)),
    number(count(tree.entries)),
    number(count(tree.deletions)),
    number(count(tree.partitions)),
    number(count(tree.sorted_runs)),
  );
}

const heightOf = (partition) => partsOf(partition).reduce((sum, one) => sum + one.value, 0);

/** Columns over the space of hashes; in each, the newest data lies on top, as in the engine. */
function drawPartitions(box, tree, partitions) {
  const most = Math.max(1, ...partitions.map(heightOf));
  const columns = partitions.map((partition) => {
    const left = partition.from * WIDTH;
    const width = Math.max(
      0.5,
      (partition.to - partition.from) * WIDTH - (partitions.length > 1 ? 2 : 0),
    );
    let y = HEIGHT;
    const rects = partsOf(partition)
      .toReversed()
      .map((part) => {
        const height = (part.value / most) * HEIGHT;
        y -= height;
        return height > 0 && s("rect", { class: `fill ${part.line}`, x: left, width, y, height });
      });
    return s(
      "g",
      {},
      s("rect", { class: "ground", x: left, width, y: 0, height: HEIGHT }),
      rects,
      s("title", {}, story(partition)),
    );
  });
  const wasOpen = box.querySelector("details")?.open;
  const focused =
    box.contains(document.activeElement) && document.activeElement.tagName === "SUMMARY";
  const table = h(
    "details",
    { open: wasOpen },
    h("summary", {}, "As a table"),
    partitionTable(partitions),
  );
  show(
    box,
    h(
      "div",
      { class: "row" },
      h("h3", {}, treeName(tree)),
      h(
        "span",
        { class: "size" },
        `${plural(partitions.length, "partition")}; as wide as their share of the hashes, as high as their bytes (${bytes(most)} at most)`,
      ),
    ),
    s(
      "svg",
      {
        class: "strata-plot",
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Bytes by level of ${plural(partitions.length, "partition")} of ${treeName(tree)}; the table below has the numbers`,
      },
      columns,
    ),
    partitions.length <= WIDE_ENOUGH &&
      h(
        "div",
        { class: "strata-names", "aria-hidden": "true" },
        partitions.map((one) =>
          h("span", { css: { width: `${(one.to - one.from) * 100}%` } }, String(one.id)),
        ),
      ),
    table,
  );
  if (focused) table.querySelector("summary").focus();
}

const story = (partition) =>
  [
    `Partition ${partition.id}: ${percent(partition.to - partition.from)} of the hashes`,
    `${plural(partition.entries, "entry", "entries")}, ${bytes(heightOf(partition))}`,
    ...partsOf(partition)
      .filter((one) => one.value)
      .map((one) => `${one.name}: ${bytes(one.value)}`),
  ].join("\n");

function partitionTable(partitions) {
  const used = partitions[0].levels
    .map((_, level) => level)
    .filter((level) => partitions.some((one) => one.levels[level].files));
  const head = ["Partition", "Hashes", "Entries", "Deletions", "In memory", ...used.map(levelName)];
  return h(
    "div",
    { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Partitions" },
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((one, index) => h("th", { scope: "col", class: index ? "number" : null }, one)),
        ),
      ),
      h(
        "tbody",
        {},
        partitions.map((one) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, String(one.id)),
            [
              percent(one.to - one.from),
              count(one.entries),
              count(one.deletions),
              bytes(one.memtable_bytes),
              ...used.map((level) =>
                one.levels[level].files
                  ? `${bytes(one.levels[level].bytes)} in ${one.levels[level].files}`
                  : "–",
              ),
            ].map((text) => h("td", { class: "number" }, text)),
          ),
        ),
      ),
    ),
  );
}
