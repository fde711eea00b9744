// What the engine's threads have done lately: flushes, compactions and splits on a line of time.

import { h, s, show } from "./dom.js";
import { bytes, clock, duration, short } from "./format.js";
import { treeName } from "./strata.js";

const SPANS_SECONDS = [120, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600];
const SHOWN = 60; // jobs that decide how much time is shown
const ROWS = 12;
const LANES = [
  ["flush", "Flush"],
  ["compaction", "Compaction"],
  ["split", "Split"],
];
const LANE_HEIGHT = 30;
const LEFT = 92;
const LEAST_WIDTH = 3;

/** Returns { element, update(history, trees, now) }. */
export function workView() {
  const svg = s("svg", {
    class: "timeline",
    height: LANES.length * LANE_HEIGHT + 22,
    role: "img",
    "aria-label": "Background work over time; the table below has the newest",
  });
  const rows = h("tbody");
  const span = h("span", { class: "size push" });
  const nothing = h(
    "p",
    { class: "size" },
    "Nothing yet since the server was started: memtables are flushed when they are full.",
  );
  const head = ["Ended", "Work", "Tree", "Why", "Read", "Written", "Took", "Rate"];
  const table = h(
    "div",
    { class: "grid-box", tabindex: "0", role: "region", "aria-label": "The newest work" },
    h(
      "table",
      { class: "grid" },
      h("caption", { class: "unseen" }, "The newest flushes, compactions and splits"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((one, index) =>
            h("th", { scope: "col", class: index > 3 ? "number" : null }, one),
          ),
        ),
      ),
      rows,
    ),
  );
  const element = h(
    "section",
    { class: "card" },
    h("div", { class: "row" }, h("h2", {}, "Background work"), span),
    nothing,
    svg,
    table,
  );
  let latest = [[], [], 0];
  let drawn = "";

  function draw() {
    const [history, trees, now] = latest;
    nothing.hidden = history.length > 0;
    svg.classList.toggle("gone", !history.length);
    table.hidden = !history.length;
    const since = history.at(-Math.min(SHOWN, history.length))?.at ?? now;
    const seconds = SPANS_SECONDS.find((one) => now - since <= one) ?? SPANS_SECONDS.at(-1);
    span.textContent = history.length ? `the last ${duration(seconds)}` : "";
    if (!svg.matches(":hover")) drawLine(svg, history, trees, now, seconds);
    const text = JSON.stringify(history.slice(-ROWS));
    if (text !== drawn)
      show(
        rows,
        history
          .slice(-ROWS)
          .toReversed()
          .map((job) => jobRow(job, trees)),
      );
    drawn = text;
  }

  new ResizeObserver(draw).observe(svg);
  return {
    element,
    update(...newest) {
      latest = newest;
      draw();
    },
  };
}

const nameOf = (job, trees) => {
  if (!job.tree) return job.kind === "flush" ? "all" : "(dropped)";
  const tree = trees.find((one) => one.tree === job.tree);
  return tree ? treeName(tree) : "(dropped)";
};
const workOf = (job) => (job.kind === "compaction" ? `into L${job.output_level}` : job.kind);
const lineOf = (job) =>
  job.kind === "compaction" ? `l${job.output_level}` : job.kind === "flush" ? "lm" : "ls";

function drawLine(svg, history, trees, now, seconds) {
  const width = Math.max(300, svg.clientWidth || 600);
  const x = (at) => LEFT + (1 - (now - at) / seconds) * (width - LEFT);
  const most = Math.max(1, ...history.map((job) => job.written_bytes || 0));
  show(
    svg,
    LANES.map(([, name], lane) => [
      s("line", {
        class: "rule",
        x1: LEFT,
        x2: width,
        y1: (lane + 1) * LANE_HEIGHT,
        y2: (lane + 1) * LANE_HEIGHT,
      }),
      s("text", { class: "tick", x: 0, y: lane * LANE_HEIGHT + 21 }, name),
    ]),
    history
      .filter((job) => now - job.at <= seconds)
      .map((job) => {
        const lane = LANES.findIndex(([kind]) => kind === job.kind);
        const size = Math.max(LEAST_WIDTH, (job.seconds / seconds) * (width - LEFT));
        // The height says how much was written: by its root, so that small jobs stay visible.
        const height = 5 + Math.sqrt((job.written_bytes || 0) / most) * (LANE_HEIGHT - 9);
        const text = [
          `${workOf(job)}, ${nameOf(job, trees)}`,
          clock(job.at),
          duration(job.seconds),
          job.written_bytes !== undefined && `${bytes(job.written_bytes)} written`,
          job.reason,
        ]
          .filter(Boolean)
          .join("\n");
        return s(
          "rect",
          {
            class: `fill ${lineOf(job)}`,
            x: x(job.at) - size,
            width: size,
            y: (lane + 1) * LANE_HEIGHT - height,
            height,
            rx: 1.5,
          },
          s("title", {}, text),
        );
      }),
    [0, 0.5, 1].map((share) =>
      s(
        "text",
        {
          class: "tick",
          x: LEFT + share * (width - LEFT),
          y: LANES.length * LANE_HEIGHT + 17,
          "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
        },
        share === 1 ? "now" : `−${duration(seconds * (1 - share))}`,
      ),
    ),
  );
}

function jobRow(job, trees) {
  const number = (text) => h("td", { class: "number" }, text);
  const size = (value, files) =>
    value === undefined ? "–" : `${bytes(value)}${files ? ` in ${files}` : ""}`;
  return h(
    "tr",
    {},
    h("td", {}, clock(job.at)),
    h("td", {}, h("span", { class: `swatch ${lineOf(job)}`, "aria-hidden": "true" }), workOf(job)),
    h("td", {}, nameOf(job, trees)),
    h("td", { class: "wrap" }, job.reason || ""),
    number(size(job.read_bytes, job.inputs)),
    number(size(job.written_bytes, job.outputs)),
    number(duration(job.seconds)),
    number(
      job.written_bytes
        ? `${short(job.written_bytes / Math.max(job.seconds, 1e-6) / 2 ** 20)} MiB/s`
        : "–",
    ),
  );
}
