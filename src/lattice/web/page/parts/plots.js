// What an allocation or a node used over the last minutes: one small plot for each figure that is measured.
import { get } from "../api.js";
import { capital } from "../format.js";
import { theme } from "../theme.js";
import { html, useAnswer, useEffect, useInterval, useLayoutEffect, useRef, useState } from "../ui.js";
import { Section } from "./basics.js";

const EVERY_MS = 15_000;
const TALL = 110;
const SHORTEST_S = 600;
const PREFIXES = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function shownAs(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit.startsWith("bytes")) {
    const power = value < 1 ? 0 : Math.min(PREFIXES.length - 1, Math.floor(Math.log2(value) / 10));
    return `${rounded(value / 1024 ** power)} ${PREFIXES[power]}B${unit.slice(5)}`;
  }
  return `${rounded(value)} ${unit}`.trim();
}

// Steps of an axis of bytes: of their powers of two, as they are written.
const DOUBLED = Array.from({ length: 50 }, (_, power) => 2 ** power);
// The unit stands above the plot; only that of bytes is part of the figure.
const axisText = (value, unit) => (unit.startsWith("bytes") || unit === "%" ? shownAs(value, unit) : String(Number(value.toPrecision(3))));
const rounded = (value) => (Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(2))).toString();

const timeOf = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const titleOf = (metric) => capital(metric.replaceAll("_", " ")).replace(/^Cpu/, "CPU").replace(/^Gpu/, "GPU").replace(/^Io /, "I/O ");

let loading = null;
function loadPlots() {
  loading ??= import("/assets/vendor/uplot.mjs").then((module) => {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/assets/vendor/uplot.css" }));
    return module.default;
  });
  return loading;
}

// Times and values. The plot begins ten minutes back, even when there is a single window.
function columns(points) {
  const times = points.map((point) => Date.parse(point.at) / 1000);
  const start = times.at(-1) - SHORTEST_S;
  return times[0] > start ? [[start, ...times], [null, ...points.map((point) => point.mean)]] : [times, points.map((point) => point.mean)];
}

function Plot({ row, Plotter }) {
  const box = useRef(null);
  const chosen = theme.use();
  useLayoutEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: box.current.clientWidth,
      height: TALL,
      legend: { show: false },
      cursor: { y: false, points: { size: 5 } },
      scales: {
        y: { range: (_, low, high) => [0, Math.max(high, row.unit.startsWith("bytes") ? 1024 : 0.01) * 1.1] },
      },
      series: [{}, { stroke: colour("--accent"), width: 1.5, points: { show: row.points.length < 3 } }],
      axes: [{ ...axis, size: 24, space: 64, values: (_, ticks) => ticks.map(timeOf) }, { ...axis, size: 68, ...(row.unit.startsWith("bytes") ? { incrs: DOUBLED } : {}), values: (_, ticks) => ticks.map((tick) => axisText(tick, row.unit)) }],
    };
    const plot = new Plotter(options, columns(row.points), box.current);
    const watcher = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height: TALL }));
    watcher.observe(box.current);
    return () => (watcher.disconnect(), plot.destroy());
  }, [row, chosen]);
  const name = titleOf(row.metric);
  const figures = [`now ${shownAs(row.now, row.unit)}`, `mean ${shownAs(row.mean, row.unit)}`, row.max === null ? "" : `peak ${shownAs(row.max, row.unit)}`].filter(Boolean).join(", ");
  return html`<figure class="plot"><figcaption><span>${name}${row.device ? ` ${row.device}` : ""}</span><span class="quiet small">${figures}</span></figcaption>
    <div ref=${box} role="img" aria-label=${`${name} over the last minutes: ${figures}`}></div></figure>`;
}

// Nothing at all where nothing is measured.
export function Plots({ path, isLive, duration = "1h" }) {
  const { data, reload } = useAnswer(() => get(path, { points: true, duration }).catch(() => null), [path, duration]);
  const [Plotter, setPlotter] = useState(null);
  useInterval(() => isLive && reload(), EVERY_MS);
  const rows = (data?.items ?? []).filter((row) => row.points.length);
  useEffect(() => {
    if (rows.length) loadPlots().then((found) => setPlotter(() => found));
  }, [rows.length > 0]);
  if (!rows.length || !Plotter) return null;
  return html`<${Section} title="Measured" more=${html`<span class="quiet small">windows of ${data.resolution_s} s${data.unreachable.length ? `; no answer from ${data.unreachable.join(", ")}` : ""}</span>`}>
    <div class="plots">${rows.map((row) => html`<${Plot} key=${`${row.metric}/${row.node}/${row.device}`} row=${row} Plotter=${Plotter} />`)}</div>
  <//>`;
}
