// The engine as a storage engineer wants to see it, live.

import { ask, session } from "./net.js";
import { choice, h, isPressed, problem, show } from "./dom.js";
import { bytes, count, duration, percent, plural, short } from "./format.js";
import { partsBar, timePlot } from "./plots.js";
import { Samples, quantile } from "./samples.js";
import { strataView } from "./strata.js";
import { workView } from "./work.js";

const TILES = [
  [
    "commits",
    "Commits a second",
    ({ rates }) => short(rates?.commits ?? 0),
    ({ engine }) => `${count(engine.writes.commits)} in all`,
  ],
  [
    "gets",
    "Point reads a second",
    ({ rates }) => short(rates?.gets ?? 0),
    ({ engine }) =>
      `${percent(share(engine.reads.gets_with_file_reads, engine.reads.gets))} read a file`,
  ],
  [
    "amplification",
    "Write amplification",
    ({ engine }) => fixed(engine.write_amplification),
    () => "since the start: log and tables",
  ],
  [
    "reads",
    "Read amplification",
    ({ engine }) => count(engine.read_amplification),
    () => "sorted runs in the worst partition",
  ],
  [
    "space",
    "Space amplification",
    ({ engine }) => fixed(engine.space_amplification),
    ({ engine }) => `${bytes(engine.disk_bytes)} on disk`,
  ],
  [
    "cache",
    "Cache hits",
    ({ engine }) => percent(share(engine.cache.hits, engine.cache.hits + engine.cache.misses)),
    ({ engine }) =>
      `${short(engine.cache.misses)} misses, ${short(engine.cache.evictions)} evicted`,
  ],
  [
    "pending",
    "Compaction due",
    ({ engine }) => bytes(engine.compaction.pending_bytes),
    ({ engine }) => `${plural(engine.compaction.runs, "run")} so far`,
  ],
  [
    "stalls",
    "Stalls",
    ({ engine }) => count(engine.stalls.count),
    ({ engine }) => stallText(engine.stalls),
  ],
];

const share = (part, whole) => (whole ? part / whole : NaN);
const fixed = (number) => (number ? number.toFixed(2) : "–");

function stallText(stalls) {
  if (stalls.reason) return `now: ${stalls.reason}`;
  const waited = duration(stalls.seconds + stalls.slowdown_seconds);
  return `${waited} of waiting, ${stalls.sealed_generations} to flush`;
}

function plots() {
  return [
    timePlot({
      title: "Operations a second",
      format: short,
      series: [
        { name: "commits", line: "c0", of: (one) => one.commits },
        { name: "point reads", line: "c1", of: (one) => one.gets },
        { name: "fsyncs", line: "c2", of: (one) => one.syncs },
      ],
    }),
    timePlot({
      title: "Commit latency",
      format: duration,
      isLog: true,
      note:
        session.durability === "commit"
          ? null
          : `Durability is “${session.durability}”: replies do not wait for the disk.`,
      series: [
        { name: "median", line: "c0", of: (one) => one.waitMedian },
        { name: "99 %", line: "c3", of: (one) => one.waitTail },
      ],
    }),
    timePlot({
      title: "Bytes written a second",
      format: bytes,
      isStacked: true,
      isBytes: true,
      series: [
        { name: "log", line: "c0", of: (one) => one.userBytes },
        { name: "flush", line: "c2", of: (one) => one.flushBytes },
        { name: "compaction", line: "c3", of: (one) => one.compactedBytes },
      ],
    }),
    timePlot({
      title: "Cache hits and stalls",
      format: percent,
      top: 1,
      series: [
        { name: "block cache hits", line: "c1", of: (one) => one.hitShare },
        {
          name: "time that writers were held up",
          line: "c3",
          of: (one) => Math.min(1, one.stallSeconds),
        },
      ],
    }),
    timePlot({
      title: "Amplification",
      format: short,
      series: [
        { name: "write", line: "c3", of: (one) => one.writeAmplification },
        { name: "read", line: "c1", of: (one) => one.readAmplification },
        { name: "space", line: "c0", of: (one) => one.spaceAmplification },
      ],
    }),
    timePlot({
      title: "Compaction due",
      format: bytes,
      isStacked: true,
      isBytes: true,
      series: [{ name: "to merge", line: "c2", of: (one) => one.pendingBytes }],
    }),
  ];
}

function memoryView() {
  const bar = h("div");
  const legend = h("ul", { class: "legend" });
  const element = h("section", { class: "card" }, h("h2", {}, "Memory"), bar, legend);
  return {
    element,
    update({ memory }) {
      const used = memory.memtables + memory.block_cache + memory.indexes_and_filters;
      const parts = [
        { name: "memtables", value: memory.memtables, line: "lm" },
        { name: "block cache", value: memory.block_cache, line: "c1" },
        { name: "indexes and filters", value: memory.indexes_and_filters, line: "c3" },
        { name: "free", value: Math.max(0, memory.budget - used), line: "free" },
      ];
      show(
        bar,
        partsBar(`Memory of ${bytes(memory.budget)}`, parts, Math.max(used, memory.budget), bytes),
      );
      show(
        legend,
        parts.map((part) =>
          h(
            "li",
            {},
            h("span", { class: `swatch ${part.line}`, "aria-hidden": "true" }),
            part.name,
            " ",
            h("b", {}, bytes(part.value)),
          ),
        ),
        h("li", {}, "budget ", h("b", {}, bytes(memory.budget))),
      );
    },
  };
}

function requestsView() {
  const rows = h("tbody");
  const head = ["Operation", "Answered", "Refused", "Mean", "Median", "99 %"];
  const nothing = h("p", { class: "size" }, "Nothing was asked of this server yet.");
  const table = h(
    "div",
    { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Requests" },
    h(
      "table",
      { class: "grid" },
      h("caption", { class: "unseen" }, "Requests by operation"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((one, index) => h("th", { scope: "col", class: index ? "number" : null }, one)),
        ),
      ),
      rows,
    ),
  );
  return {
    element: h(
      "section",
      { class: "card" },
      h(
        "div",
        { class: "row" },
        h("h2", {}, "Requests"),
        h("span", { class: "size" }, "time to run them, without the wait for the disk"),
      ),
      nothing,
      table,
    ),
    update({ requests = {}, bounds }) {
      const sorted = Object.entries(requests).toSorted(([, a], [, b]) => b.count - a.count);
      nothing.hidden = sorted.length > 0;
      table.hidden = !sorted.length;
      show(
        rows,
        sorted.map(([name, one]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, name),
            [
              count(one.count),
              count(one.failed),
              duration(one.seconds / one.count),
              duration(quantile(one.buckets, bounds, 0.5)),
              duration(quantile(one.buckets, bounds, 0.99)),
            ].map((text) => h("td", { class: "number" }, text)),
          ),
        ),
      );
    },
  };
}

function tilesView() {
  const tiles = TILES.map(([name, label, value, more]) => {
    const shown = h("dd", { class: "tile-value" });
    const note = h("dd", { class: "size" });
    return {
      element: h("div", { class: "tile", "data-tile": name }, h("dt", {}, label), shown, note),
      shown,
      note,
      value,
      more,
    };
  });
  return {
    element: h(
      "dl",
      { class: "tiles" },
      tiles.map((one) => one.element),
    ),
    update(figures) {
      for (const one of tiles) {
        one.shown.textContent = one.value(figures);
        one.note.textContent = one.more(figures);
      }
    },
  };
}

function failuresOf(failures) {
  const names = Object.keys(failures);
  return (
    names.length > 0 &&
    h(
      "div",
      { class: "problem", role: "alert" },
      h(
        "strong",
        {},
        `${names.join(" and ")} ${names.length > 1 ? "fail" : "fails"} at the moment`,
      ),
      names.map((name) => failures[name] && h("p", {}, String(failures[name]))),
    )
  );
}

/** Samples outlive the view, so that the plots go on when one comes back. */
const samples = new Samples();

export async function engineView(box, heading) {
  const light = h("span", { class: "light", role: "img", "aria-label": "live" });
  const failed = h("div");
  const tiles = tilesView();
  const charts = plots();
  const memory = memoryView();
  const strata = strataView();
  const work = workView();
  const requests = requestsView();
  let every = 1000;
  let timer = null;
  let ended = false;
  let shownFailures = "";

  async function turn() {
    clearTimeout(timer);
    try {
      const stats = await ask("stats");
      while (isPressed()) await new Promise((go) => setTimeout(go, 50));
      if (ended) return;
      samples.add(stats);
      const { engine } = stats;
      const text = JSON.stringify(engine.failures);
      if (text !== shownFailures || light.classList.contains("bad"))
        show(failed, failuresOf(engine.failures));
      shownFailures = text;
      light.classList.remove("bad");
      tiles.update({ engine, rates: samples.newest });
      charts.forEach((one) => one.update(samples.points));
      memory.update(engine);
      strata.update(engine.trees);
      work.update(engine.history, engine.trees, stats.now);
      requests.update(stats);
    } catch (error) {
      if (ended) return;
      if (!light.classList.contains("bad")) show(failed, problem(error));
      light.classList.add("bad");
    }
    clearTimeout(timer);
    if (every) timer = setTimeout(turn, every);
  }

  const pace = choice(
    "Look again",
    [
      ["1000", "Every second"],
      ["5000", "5 s"],
      ["0", "Stop"],
    ],
    "1000",
    (value) => {
      every = Number(value);
      light.classList.toggle("off", !every);
      turn();
    },
  );
  show(
    box,
    heading("Engine", light, h("div", { class: "push" }, pace)),
    failed,
    tiles.element,
    h(
      "div",
      { class: "plots" },
      charts.map((one) => one.element),
    ),
    memory.element,
    strata.element,
    work.element,
    requests.element,
  );
  await turn();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
