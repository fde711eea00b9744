// Plots as SVG: lines and stacked areas over time, and bars of parts.

import { h, s, show } from "./dom.js";
import { clock, duration } from "./format.js";

const HEIGHT = 168;
const LEFT = 62;
const TOP = 10;
const BOTTOM = 22;
const RIGHT = 6;
const SPANS_SECONDS = [30, 60, 120, 180]; // the shortest that holds all that was seen

/** The smallest of 1, 2, 5 × 10^n (or of powers of 2 for bytes) that is at least `value`. */
function nice(value, isBytes) {
  if (isBytes) return 2 ** Math.max(10, Math.ceil(Math.log2(Math.max(value, 1))));
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value * 0.999);
}

/**
 * A plot over time. series: [{ name, of(point), line }] with `line` a class of colour.
 * Returns { element, update(points) }; `of` may return null where there is nothing to show.
 */
export function timePlot({
  title,
  series,
  format,
  isStacked = false,
  isLog = false,
  isBytes = false,
  top = 0,
  note,
}) {
  const values = series.map(() => h("b"));
  const legend = h(
    "ul",
    { class: "legend" },
    series.map((one, index) =>
      h(
        "li",
        {},
        h("span", { class: `swatch ${one.line}`, "aria-hidden": "true" }),
        one.name,
        " ",
        values[index],
      ),
    ),
  );
  const when = h("span", { class: "size when" });
  const svg = s("svg", { class: "plot", height: HEIGHT, role: "img", tabindex: "0" });
  const element = h(
    "figure",
    { class: "card plot-card" },
    h("figcaption", {}, h("h3", {}, title), when),
    svg,
    legend,
    note && h("p", { class: "size" }, note),
  );
  let points = [];
  let chosen = null; // the index under the pointer, or null for the newest

  /** The end of the time that is shown, and how long it is. */
  function window() {
    const end = points.at(-1)?.at ?? 0;
    const seen = end - (points[0]?.at ?? end);
    return [end, SPANS_SECONDS.find((one) => seen <= one) ?? SPANS_SECONDS.at(-1)];
  }

  function tell() {
    const point = points[chosen ?? points.length - 1];
    series.forEach((one, index) => {
      const value = point ? one.of(point) : null;
      values[index].textContent = value === null || value === undefined ? "–" : format(value);
    });
    when.textContent = chosen === null || !point ? "" : clock(point.at);
    svg.setAttribute(
      "aria-label",
      `${title}: ${series.map((one, index) => `${one.name} ${values[index].textContent}`).join(", ")}`,
    );
  }

  function draw() {
    const width = Math.max(200, svg.clientWidth || 400);
    const [end, span] = window();
    const x = (at) => width - RIGHT - ((end - at) / span) * (width - LEFT - RIGHT);
    const shown = points.filter((one) => end - one.at <= span);
    const scale = isLog
      ? logScale(shown, series)
      : flatScale(shown, series, { isStacked, isBytes, top });
    const y = (value) => HEIGHT - BOTTOM - scale.place(value) * (HEIGHT - TOP - BOTTOM);
    const cursor = chosen === null ? null : points[chosen];
    show(
      svg,
      scale.ticks.map((tick) => [
        s("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
        s(
          "text",
          { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" },
          format(tick),
        ),
      ]),
      [1, 0.5, 0].map((share) =>
        s(
          "text",
          {
            class: "tick",
            x: x(end - share * span),
            y: HEIGHT - 5,
            "text-anchor": share === 1 ? "start" : share === 0 ? "end" : "middle",
          },
          share ? `−${duration(share * span)}` : "now",
        ),
      ),
      (isStacked ? areas : lines)(shown, series, x, y),
      cursor &&
        end - cursor.at <= span &&
        s("line", {
          class: "cursor",
          x1: x(cursor.at),
          x2: x(cursor.at),
          y1: TOP,
          y2: HEIGHT - BOTTOM,
        }),
    );
    tell();
  }

  function choose(index) {
    chosen = index === null ? null : Math.max(0, Math.min(points.length - 1, index));
    draw();
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const [end, span] = window();
    const at = end - ((box.right - RIGHT - event.clientX) / (box.width - LEFT - RIGHT)) * span;
    const distances = points.map((one) => Math.abs(one.at - at));
    choose(points.length ? distances.indexOf(Math.min(...distances)) : null);
  });
  svg.addEventListener("pointerleave", () => choose(null));
  svg.addEventListener("blur", () => choose(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    choose((chosen ?? points.length - 1) + step);
  });
  new ResizeObserver(draw).observe(svg);
  return {
    element,
    update(newest) {
      if (chosen !== null && newest.length === points.length) chosen = Math.max(0, chosen - 1);
      points = [...newest];
      draw();
    },
  };
}

function flatScale(points, series, { isStacked, isBytes, top }) {
  const sums = points.map((point) => {
    const all = series.map((one) => one.of(point) || 0);
    return isStacked ? all.reduce((sum, one) => sum + one, 0) : Math.max(...all);
  });
  const most = top || nice(Math.max(0, ...sums), isBytes);
  return { place: (value) => value / most, ticks: [0, most / 2, most] };
}

function logScale(points, series) {
  const all = points
    .flatMap((point) => series.map((one) => one.of(point)))
    .filter((one) => one > 0);
  const low = Math.floor(Math.log10(Math.min(...all, 1e-3)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1e-3))));
  const ticks = [];
  for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
  return { place: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low), ticks };
}

/** Lines with gaps where there is no value. */
function lines(points, series, x, y) {
  return series.map((one) => {
    let path = "";
    let isOpen = false;
    const dots = [];
    points.forEach((point, index) => {
      const value = one.of(point);
      const has = value !== null && value !== undefined;
      if (has) {
        path += `${isOpen ? "L" : "M"}${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
        const next = points[index + 1];
        if (!isOpen && (!next || one.of(next) === null))
          dots.push(s("circle", { class: `dot ${one.line}`, cx: x(point.at), cy: y(value), r: 2 }));
      }
      isOpen = has;
    });
    return [s("path", { class: `line ${one.line}`, d: path }), dots];
  });
}

function areas(points, series, x, y) {
  if (points.length < 2) return [];
  let floor = points.map(() => 0);
  return series.map((one) => {
    const roof = points.map((point, index) => floor[index] + (one.of(point) || 0));
    const there = points.map(
      (point, index) => `${x(point.at).toFixed(1)} ${y(roof[index]).toFixed(1)}`,
    );
    const back = points
      .map((point, index) => `${x(point.at).toFixed(1)} ${y(floor[index]).toFixed(1)}`)
      .reverse();
    floor = roof;
    return s("path", { class: `area ${one.line}`, d: `M${there.join("L")}L${back.join("L")}Z` });
  });
}

/** One bar of parts: [{ name, value, line }] of a total. */
export function partsBar(label, parts, total, format) {
  let at = 0;
  const rects = parts.map((part) => {
    const width = total > 0 ? (part.value / total) * 100 : 0;
    const rect = s(
      "rect",
      { class: `fill ${part.line}`, x: `${at}%`, width: `${width}%`, y: 0, height: "100%" },
      s("title", {}, `${part.name}: ${format(part.value)}`),
    );
    at += width;
    return rect;
  });
  const text = parts.map((part) => `${part.name} ${format(part.value)}`).join(", ");
  return s("svg", { class: "parts-bar", role: "img", "aria-label": `${label}: ${text}` }, rects);
}
