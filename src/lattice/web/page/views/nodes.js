// All nodes: a map coloured by what is asked, and a list.
import { get, post } from "../api.js";
import { useChanges } from "../events.js";
import { memory, plural, PLAIN, shell } from "../format.js";
import { fold } from "../node_sets.js";
import { CommandLine, Confirm, Empty, Field, Heading, Problem, Rest, Section, State, toneOf } from "../parts/basics.js";
import { Row, Rows, useNarrow } from "../parts/rows.js";
import { setQuery } from "../router.js";
import { isOperator } from "../session.js";
import { html, useAnswer, useCallback, useInterval, useMemo, useState } from "../ui.js";

// state:down vcluster:hpc group:g1 n[1-4]: words, all of which have to match; the same in `lattice tui`.
const WORDS = ["state", "vcluster", "group"];
function understand(text) {
  const parameters = {};
  const names = [];
  const problems = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^(\w+):(.*)$/.exec(word) ?? [];
    if (!key) names.push(word);
    else if (!WORDS.includes(key) || !value) problems.push(`"${word}" is no filter of nodes; use ${WORDS.map((each) => `${each}:`).join(", ")} or names as in n[1-4]`);
    else parameters[key] = value;
  }
  return { parameters: { ...parameters, nodes: names.join(",") }, problems };
}

const commandOf = ({ nodes, ...rest }) => ["lattice nodes", ...Object.entries(rest).map(([key, value]) => `--${key}=${shell(value)}`), nodes ? shell(nodes) : ""].filter(Boolean).join(" ");

const HOTTEST_C = 90;
const MAPPED = 6000;
const MODES = {
  state: { title: "State", tone: (node) => (node.state === "Ready" ? (node.holding === "free" ? "free" : "held") : toneOf(node.state)), says: (node) => (node.state === "Ready" ? (node.holding === "free" ? "Ready, free" : `Ready, ${node.holding}`) : node.state) },
  load: { title: "Load", share: (node) => (node.load1 === null ? null : node.load1 / Math.max(1, node.cpus)), says: (node) => (node.load1 === null ? "not known" : `load ${node.load1.toFixed(1)} of ${node.cpus}`) },
  held: { title: "Held", share: (node) => (node.cpus ? 1 - node.free.cpus / node.cpus : null), says: (node) => `${node.cpus - node.free.cpus} of ${node.cpus} CPUs held` },
  heat: { title: "Heat", share: (node) => (node.vitals?.temperature_c == null ? null : node.vitals.temperature_c / HOTTEST_C), says: (node) => (node.vitals?.temperature_c == null ? "not measured" : `${node.vitals.temperature_c} °C`) },
  conformance: { title: "Conformance", tone: (node) => ({ baseline: "run", conforming: "run", drifted: "bad", drift: "bad" })[node.conformance] ?? "off", says: (node) => node.conformance || "not known" },
  topology: { title: "Topology", tone: (node) => (node.group ? `hue${hueOf(node.group)}` : "off"), says: (node) => (node.group ? `group ${node.group}` : "in no group") },
};

// Neighbouring groups differ; the name of each stands above its nodes.
const hues = new Map();
function hueOf(group) {
  if (!hues.has(group)) hues.set(group, hues.size % 4);
  return hues.get(group);
}

const LEGEND = {
  state: [["free", "free"], ["held", "in use"], ["warn", "draining, drained, degraded"], ["bad", "down, failed"], ["wait", "booting"], ["off", "unknown"]],
  topology: [["off", "in no group"]],
  conformance: [["run", "as its baseline"], ["bad", "drifted"], ["off", "not known"]],
};

function Square({ node, mode }) {
  const { tone, share, says } = MODES[mode];
  const value = share ? share(node) : null;
  const style = share && value !== null ? { background: `color-mix(in srgb, var(--accent) ${Math.round(100 * Math.max(0.04, Math.min(1, value)))}%, var(--sunk))` } : null;
  const kind = tone ? tone(node) : value === null ? "none" : "share";
  return html`<a class=${`square ${kind}`} style=${style} href=${`/nodes/${node.id}`} title=${`${node.id}: ${says(node)}`} aria-label=${`${node.id}: ${says(node)}`}></a>`;
}

function Map_({ nodes, mode }) {
  const groups = useMemo(() => {
    const found = new Map();
    for (const node of nodes.slice(0, MAPPED)) found.get(node.group || "")?.push(node) ?? found.set(node.group || "", [node]);
    return [...found];
  }, [nodes]);
  return html`<div class="map">
    ${groups.map(([group, members]) => html`<div key=${group} class="map-group">
      ${groups.length > 1 || group ? html`<h3>${group || "no group"} <span class="quiet">${members.length}</span></h3>` : null}
      <div class="squares">${members.map((node) => html`<${Square} key=${node.id} node=${node} mode=${mode} />`)}</div>
    </div>`)}
    ${nodes.length > MAPPED ? html`<p class="quiet">${plural(nodes.length - MAPPED, "more node")}: search for some of them.</p>` : null}
    <div class="legend">${LEGEND[mode]
      ? LEGEND[mode].filter(([tone]) => mode !== "topology" || nodes.some((node) => MODES.topology.tone(node) === tone)).map(([tone, text]) => html`<span key=${tone}><i class=${`square ${tone}`}></i>${text}</span>`)
      : html`<span>less</span><span class="scale" aria-hidden="true"></span><span>more</span>`}</div>
  </div>`;
}

const WIDE = "18px 110px 130px minmax(90px, 0.8fr) 72px 92px 78px minmax(80px, 1fr) minmax(120px, 2fr)";

function drawRow({ node, at, place, isNarrow, isChosen, choose, canOrder }) {
  const box = html`<span role="cell" class="pick">${canOrder ? html`<input type="checkbox" checked=${isChosen} onChange=${() => choose(node.id)} aria-label=${`Choose ${node.id}`} />` : null}</span>`;
  if (isNarrow) {
    return html`<div class=${`row card${isChosen ? " chosen" : ""}`} role="row" aria-rowindex=${at + 2} style=${place}>${box}
      <span role="cell"><a href=${`/nodes/${node.id}`}>${node.id}</a><br /><span class="quiet small">${node.cpus} CPUs, ${memory(node.memory_mb)}${node.gpus ? `, ${node.gpus} GPUs` : ""} ${node.reason}</span></span>
      <span role="cell" class="right"><${State} state=${node.state} /><br /><span class="quiet small">${node.holding}</span></span></div>`;
  }
  return html`<div class=${`row${isChosen ? " chosen" : ""}`} role="row" aria-rowindex=${at + 2} style=${{ ...place, gridTemplateColumns: WIDE }}>
    ${box}<span role="cell"><a href=${`/nodes/${node.id}`}>${node.id}</a></span><span role="cell"><${State} state=${node.state} /></span>
    <span role="cell">${node.vcluster || PLAIN}</span><span role="cell" class="right">${node.cpus - node.free.cpus}/${node.cpus}</span><span role="cell" class="right">${memory(node.memory_mb)}</span>
    <span role="cell" class="right">${node.gpus ? `${node.gpus - node.free.gpus}/${node.gpus}` : PLAIN}</span><span role="cell">${node.allocations.join(", ")}</span><span role="cell" class="quiet">${node.reason}</span></div>`;
}

export function DrainDialog({ names, onClose, onDone }) {
  const act = async (form) => {
    await post("/nodes/drain", { nodes: fold(names), reason: form.get("reason"), urgent: form.has("urgent") });
    onDone();
  };
  const line = (form) => `lattice node drain ${shell(fold(names))} --reason=${shell(form.get("reason") || "TEXT")}${form.has("urgent") ? " --urgent" : ""}`;
  return html`<${Confirm} title=${`Drain ${names.length === 1 ? names[0] : plural(names.length, "node")}`} label="Drain" act=${act} line=${line} onClose=${onClose}>
    <${Field} label="Reason"><input name="reason" required maxlength="200" placeholder="what is wrong, what is planned" /><//>
    <label class="check"><input type="checkbox" name="urgent" />Stop running work and queue it again</label>
  <//>`;
}

export default function Nodes({ who, query }) {
  const mode = Object.hasOwn(MODES, query.get("by")) ? query.get("by") : "state";
  const text = query.get("q") ?? "";
  const { parameters, problems } = useMemo(() => understand(text), [text]);
  const answer = useAnswer(() => get("/nodes", { ...parameters, limit: 10_000 }), [text]);
  const [chosen, setChosen] = useState(() => new Set());
  const [isDraining, setDraining] = useState(false);
  const [refused, setRefused] = useState(null);
  const isNarrow = useNarrow();
  useChanges((change) => ["node", "allocation"].includes(change.what), answer.reload, 1000);
  useInterval(answer.reload, 15_000);
  const nodes = answer.data?.items ?? [];
  const canOrder = isOperator(who);
  const choose = useCallback((id) => setChosen((before) => {
    const next = new Set(before);
    next.has(id) ? next.delete(id) : next.add(id);
    return next;
  }), []);
  const counts = useMemo(() => Object.entries(nodes.reduce((found, node) => ((found[node.state] = (found[node.state] ?? 0) + 1), found), {})), [nodes]);
  const picked = nodes.filter((node) => chosen.has(node.id));
  const undrain = async () => {
    setRefused(null);
    await post("/nodes/undrain", { nodes: fold(picked.map((node) => node.id)) }).then(() => setChosen(new Set()), setRefused);
    answer.reload();
  };
  const heads = ["", "Node", "State", "vCluster", "CPUs", "Memory", "GPUs", "Allocations", "Reason"];
  return html`<main class="full">
    <${Heading} title="Nodes" sub=${counts.map(([state, number]) => `${number} ${state}`).join(", ") || "\u00a0"}>
      <form class="inline" onSubmit=${(event) => (event.preventDefault(), setQuery({ q: new FormData(event.target).get("q").trim() }))}>
        <input data-search name="q" type="search" value=${text} placeholder="state:down group:g1 n[1-40]" aria-label="Nodes to show" />
      </form>
    <//>
    ${problems.map((problem) => html`<p class="wrong" role="alert" key=${problem}>${problem}</p>`)}
    <${Problem} error=${refused ?? answer.error} />
    <${Section} title="Map" more=${html`<div class="tabs">${Object.entries(MODES).map(([name, { title }]) => html`<button type="button" key=${name} aria-pressed=${String(name === mode)} onClick=${() => setQuery({ by: name === "state" ? "" : name })}>${title}</button>`)}</div>`}>
      ${nodes.length ? html`<${Map_} nodes=${nodes} mode=${mode} />` : answer.isLoading ? null : html`<${Empty}>${text ? "No nodes match." : "No nodes."}<//>`}
    <//>
    ${picked.length ? html`<div class="selection" role="status"><span>${plural(picked.length, "node")} chosen</span>
      <button type="button" class="danger" onClick=${() => setDraining(true)}>Drain</button>
      ${picked.some((node) => node.state === "Drained") ? html`<button type="button" onClick=${undrain}>Undrain</button>` : null}
      <button type="button" class="plain" onClick=${() => setChosen(new Set())}>Choose none</button></div>` : null}
    ${nodes.length ? html`<div class=${isNarrow ? "list below" : "list wide below"} style=${isNarrow ? null : { "--columns": WIDE }}>
      <${Rows} rows=${nodes} height=${isNarrow ? 56 : 34} label="Nodes"
        head=${isNarrow ? html`<span role="columnheader" class="off-screen">Node</span>` : heads.map((title, place) => html`<span role="columnheader" key=${title} class=${place > 3 && place < 7 ? "right" : null}>${title || html`<span class="off-screen">Chosen</span>`}</span>`)}
        row=${(node, at, place) => html`<${Row} key=${node.id} draw=${drawRow} ...${{ node, at, place, isNarrow, choose, canOrder }} isChosen=${chosen.has(node.id)} />`} />
    </div>` : null}
    <${Rest} answer=${answer.data} what="nodes" />
    <${CommandLine} line=${commandOf(parameters)} />
    ${isDraining ? html`<${DrainDialog} names=${picked.map((node) => node.id)} onClose=${() => setDraining(false)} onDone=${() => (setChosen(new Set()), answer.reload())} />` : null}
  </main>`;
}

