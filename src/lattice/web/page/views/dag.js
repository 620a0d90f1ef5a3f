// One DAG, drawn as it goes.
import { at, get, remove } from "../api.js";
import { useChanges } from "../events.js";
import { withLocalTimes } from "../format.js";
import { CommandLine, Confirm, Heading, Problem, Section, State, Time, toneOf } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { html, useAnswer, useMemo, useState } from "../ui.js";
import { countsText } from "./dags.js";

const WIDTH = 168;
const HEIGHT = 44;
const GAP = { x: 56, y: 16 };
const CONDITION = { success: "", any: "any end", failure: "failure", after: "start", corresponding: "each" };

// Columns by depth, rows in the order of the API.
function layOut(graph) {
  const rows = new Map();
  const places = new Map();
  for (const member of graph.allocations) {
    const row = rows.get(member.depth) ?? 0;
    rows.set(member.depth, row + 1);
    places.set(member.ref, { x: member.depth * (WIDTH + GAP.x), y: row * (HEIGHT + GAP.y) });
  }
  const depth = Math.max(0, ...graph.allocations.map((member) => member.depth));
  return { places, width: (depth + 1) * (WIDTH + GAP.x) - GAP.x, height: Math.max(1, ...rows.values()) * (HEIGHT + GAP.y) - GAP.y };
}

function Edge({ edge, places }) {
  const from = places.get(edge.source);
  const to = places.get(edge.target);
  if (!from || !to) return null;
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const words = [CONDITION[edge.condition] ?? edge.condition, edge.delay_s ? `+${edge.delay_s} s` : ""].filter(Boolean).join(" ");
  return html`<g><path class="edge" d=${`M${x1},${y1} C${x1 + GAP.x / 2},${y1} ${x2 - GAP.x / 2},${y2} ${x2 - 5},${y2}`} marker-end="url(#arrow)" />
    ${words ? html`<text class="edge-text" x=${(x1 + x2) / 2} y=${(y1 + y2) / 2 - 4} text-anchor="middle">${words}</text>` : null}</g>`;
}

const Member = ({ member, place }) => html`<a href=${`/allocations/${member.id}`}><title>${member.ref}: ${member.state}</title>
  <rect class=${`member ${toneOf(member.state)}`} x=${place.x} y=${place.y} width=${WIDTH} height=${HEIGHT} rx="6" />
  <text x=${place.x + 12} y=${place.y + 19}>${member.ref.length > 20 ? `${member.ref.slice(0, 19)}…` : member.ref}</text>
  <text class=${`member-state ${toneOf(member.state)}`} x=${place.x + 12} y=${place.y + 34}>${member.id} ${member.state}</text>
</a>`;

export default function Dag({ id }) {
  const dag = useAnswer(() => get(at("dags", id)), [id]);
  const graph = useAnswer(() => get(`${at("dags", id)}/graph`), [id]);
  const [isAsked, setAsked] = useState(false);
  useChanges((change) => change.dag_id === id || change.id === id, () => (dag.reload(), graph.reload()), 300);
  const plan = useMemo(() => graph.data && layOut(graph.data), [graph.data]);
  if (!dag.data) return html`<main>${dag.error ? html`<${Heading} title=${id} /><${Problem} error=${dag.error} />` : null}</main>`;
  const isLive = !dag.data.completed_at;
  return html`<main>
    <${Heading} title=${html`${dag.data.id} <span class="title-name">${dag.data.name}</span>`} sub=${html`<${State} state=${dag.data.state} /> ${countsText(dag.data.counts)}`}>
      ${isLive ? html`<button type="button" class="danger" onClick=${() => setAsked(true)}>Cancel</button>` : null}
    <//>
    <${Problem} error=${dag.error ?? graph.error} />
    <${Section} title="Graph">${plan ? html`<div class="scroll-x graph"><svg width=${plan.width + 4} height=${plan.height + 4} viewBox=${`-2 -2 ${plan.width + 4} ${plan.height + 4}`} role="group" aria-label="Graph of the DAG">
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" class="arrow" /></marker></defs>
      ${graph.data.edges.map((edge) => html`<${Edge} key=${`${edge.source}>${edge.target}`} edge=${edge} places=${plan.places} />`)}
      ${graph.data.allocations.map((member) => html`<${Member} key=${member.ref} member=${member} place=${plan.places.get(member.ref)} />`)}
    </svg></div>` : null}<//>
    <${Section} title="Allocations"><${Sheet} heads=${["Name", "ID", "State", "Depends on", ["Why", "quiet"]]}
      rows=${(dag.data.allocations ?? []).map((member) => [member.id, member.ref ?? member.name, html`<a href=${`/allocations/${member.id}`}>${member.id}</a>`, html`<${State} state=${member.state} />`, member.depends_on ?? "", withLocalTimes(member.reason ?? member.waits_for)])} />
      <p class="quiet small below">Submitted <${Time} at=${dag.data.submitted_at} /> by ${dag.data.user}</p><//>
    <${CommandLine} line=${`lattice dag status ${dag.data.id}`} />
    ${isAsked ? html`<${Confirm} title=${`Cancel all of ${dag.data.id}`} label="Cancel" act=${() => remove(at("dags", id)).then(dag.reload)} line=${`lattice dag cancel ${dag.data.id}`} onClose=${() => setAsked(false)}><p>Every allocation of it that has not ended is cancelled.</p><//>` : null}
  </main>`;
}
