// Nodes over time: past, running to the limit, predicted starts, reservations.
import { get, now } from "../api.js";
import { useChanges } from "../events.js";
import { duration, moment, plural, shell } from "../format.js";
import { barAt, draw, layOut, reservationAt, rowHeight, totalHeight } from "../gantt.js";
import { expand } from "../node_sets.js";
import { CommandLine, Heading, Problem, State, Time } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { go, setQuery } from "../router.js";
import { html, useAnswer, useInterval, useLayoutEffect, useMemo, useRef, useState } from "../ui.js";

const SPANS = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 };
const HOUR = 3_600_000;
const ROOM = 560;
const FARTHEST = 10_000;

function useSpan(query) {
  const name = Object.hasOwn(SPANS, query.get("span")) ? query.get("span") : "6h";
  const shift = Math.max(-FARTHEST, Math.min(FARTHEST, Math.trunc(Number(query.get("shift"))) || 0)); // in halves of the span
  const half = (SPANS[name] * HOUR) / 2;
  const [middle, setMiddle] = useState(now());
  useInterval(() => setMiddle(now()), 10_000);
  const center = middle + shift * half;
  return { name, shift, window: { from: center - half, to: center + half } };
}

function Chart({ view, span }) {
  const canvas = useRef(null);
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [hovered, setHovered] = useState(null);
  const [size, setSize] = useState({ width: 0, tall: ROOM });
  const plan = useMemo(() => layOut(view, expand), [view]);
  const height = rowHeight(view.nodes.length, size.tall);
  const gutter = size.width < 600 ? 56 : 92;
  const place = { window: span, top, height, gutter, width: size.width };
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setSize({ width: box.current.clientWidth, tall: box.current.clientHeight }));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    draw(canvas.current, { ...place, plan, nodes: view.nodes, now: now(), hovered: hovered?.bar });
  }, [plan, span.from, span.to, top, hovered?.bar, size, document.documentElement.dataset.theme]);
  const find = (event) => {
    const { left, top: above } = canvas.current.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - above };
  };
  const move = (event) => {
    const spot = find(event);
    const bar = barAt(plan, spot, place);
    const reservation = bar ? null : reservationAt(plan, spot, place);
    setHovered(bar || reservation ? { bar, reservation, ...spot } : null);
  };
  const click = (event) => {
    const bar = barAt(plan, find(event), place);
    if (bar) go(`/allocations/${bar.id}`);
  };
  return html`<div class="gantt" ref=${box} style=${{ height: `${Math.min(620, Math.max(140, totalHeight(view.nodes.length, 26) + 2))}px` }} onScroll=${(event) => setTop(event.target.scrollTop)} tabindex="0" role="img"
      aria-label=${`Timeline of ${plural(view.nodes.length, "node")} with ${plural(view.bars.length, "bar")}; the table below says the same`}>
    <canvas ref=${canvas} onPointerMove=${move} onPointerLeave=${() => setHovered(null)} onClick=${click} class=${hovered?.bar ? "pointed" : null} style=${{ height: `${size.tall}px` }}></canvas>
    <div style=${{ height: `${Math.max(0, totalHeight(view.nodes.length, height) - size.tall)}px` }}></div>
    ${hovered ? html`<div class="tip" style=${{ left: `${Math.max(8, Math.min(hovered.x + 12, size.width - 250))}px`, top: `${hovered.y + top + 14}px` }}>
      ${hovered.bar ? html`<${BarTip} bar=${hovered.bar} />` : html`<${ReservationTip} each=${hovered.reservation} />`}</div>` : null}
  </div>`;
}

const tasksOf = (bar) => `${plural(bar.tasks, "task")}${bar.failed ? `, ${bar.failed} failed` : ""}`;

const BarTip = ({ bar }) => html`<strong>${bar.id}</strong> ${bar.name}<br /><${State} state=${bar.kind === "predicted" ? "Pending" : bar.state} /> ${bar.user}<br />${bar.tasks ? html`${tasksOf(bar)}<br />` : null}
  ${moment(bar.start)} – ${bar.end ? moment(bar.end) : "no limit"}<br />${bar.nodes}`;

const ReservationTip = ({ each }) => html`<strong>${each.name}</strong> ${kindOf(each)}<br />${moment(each.start)} – ${moment(each.end)}<br />${each.nodes || "all nodes"}`;

const kindOf = (reservation) => (reservation.maintenance ? "maintenance" : "reserved");

function Table({ view }) {
  const bars = view.bars.slice(-500).map((bar) => [bar.start, bar.id + bar.start + bar.nodes + bar.kind, bar.end, html`<a href=${`/allocations/${bar.id}`}>${bar.id}</a> ${bar.name}${bar.tasks ? html` <span class="quiet">${tasksOf(bar)}</span>` : null}`, bar.user, bar.kind, bar.nodes]);
  const reserved = view.reservations.map((each) => [each.start, each.name + each.start, each.end, each.name, "", kindOf(each), each.nodes || "all"]);
  const rows = [...bars, ...reserved].sort(([one], [other]) => other.localeCompare(one));
  return html`<details><summary>As a table</summary><${Sheet} heads=${["Start", "End", "What", "User", "Kind", "Nodes"]}
    rows=${rows.map(([start, key, end, ...rest]) => [key, html`<${Time} at=${start} />`, end ? html`<${Time} at=${end} />` : "no limit", ...rest])} /></details>`;
}

// The period of the view as the command takes it: by distance while it moves along with the time, by the clock otherwise.
function period(span, shift) {
  const half = duration((span.to - span.from) / 2000);
  if (!shift) return ` --since=${half} --until=+${half}`;
  const [since, until] = [span.from, span.to].map((at) => new Date(Math.round(at / 60_000) * 60_000).toISOString().replace(":00.000Z", ":00Z"));
  return ` --since=${since} --until=${until}`;
}

export default function Timeline({ query, who }) {
  const { name, shift, window: span } = useSpan(query);
  const nodes = query.get("nodes") ?? "";
  const isOwn = query.get("own") === "1";
  const isApart = query.get("tasks") === "1";
  const slot = Math.round(span.from / 60_000);
  const ask = () => get("/timeline", { since: new Date(span.from).toISOString(), until: new Date(span.to).toISOString(), nodes, user: isOwn ? who.user : "", tasks: isApart || "" });
  const { data, error, reload } = useAnswer(ask, [slot, name, nodes, isOwn, isApart]);
  useChanges((change) => change.what !== "setting", reload, 1500);
  return html`<main class="full">
    <${Heading} title="Timeline" sub=${data ? `${plural(data.nodes.length, "node")}, ${plural(new Set(data.bars.map((bar) => bar.id)).size, "allocation")}${data.left_out ? `; ${data.left_out} more are not drawn` : ""}` : "\u00a0"}>
      <form class="inline" onSubmit=${(event) => (event.preventDefault(), setQuery({ nodes: new FormData(event.target).get("nodes").trim() }))}>
        <input data-search name="nodes" type="search" value=${nodes} placeholder="nodes: n[1-40]" aria-label="Nodes to show" /></form>
    <//>
    <div class="tabs timeline-tabs">
      ${Object.keys(SPANS).map((each) => html`<button type="button" key=${each} aria-pressed=${String(each === name)} onClick=${() => setQuery({ span: each === "6h" ? "" : each, shift: "" })}>${each}</button>`)}
      <button type="button" onClick=${() => setQuery({ shift: String(shift - 1) })}>Earlier</button>
      <button type="button" disabled=${!shift} onClick=${() => setQuery({ shift: "" })}>Now</button>
      <button type="button" onClick=${() => setQuery({ shift: String(shift + 1) })}>Later</button>
      <label class="check"><input type="checkbox" checked=${isOwn} onChange=${() => setQuery({ own: isOwn ? "" : "1" })} />Only mine</label>
      <label class="check"><input type="checkbox" checked=${isApart} onChange=${() => setQuery({ tasks: isApart ? "" : "1" })} />Tasks apart</label>
    </div>
    <${Problem} error=${error} />
    ${data ? html`<${Chart} view=${data} span=${span} />` : html`<div class="gantt"></div>`}
    <div class="legend timeline-legend"><span><i class="past"></i>ended</span><span><i class="failed"></i>failed</span><span><i class="running"></i>running, to its limit</span><span><i class="next"></i>predicted</span><span><i class="own"></i>yours</span><span><i class="reserved"></i>reserved</span><span><i class="closed"></i>maintenance</span></div>
    ${data ? html`<${Table} view=${data} />` : null}
    <${CommandLine} line=${`lattice timeline${period(span, shift)}${nodes ? ` --nodes=${shell(nodes)}` : ""}${isOwn ? ` --user=${shell(who.user)}` : ""}${isApart ? " --tasks" : ""}`} />
  </main>`;
}
