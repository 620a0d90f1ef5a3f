// Quotas of tenants, and the scheduling weights of vClusters.
import { at, get, put } from "../api.js";
import { capital, shell } from "../format.js";
import { html, useAnswer, useState } from "../ui.js";
import { CommandLine, Confirm, Empty, Field, Problem, Section } from "./basics.js";
import { Sheet } from "./sheet.js";

const LIMITS = [
  ["max_nodes", "Nodes at once"], ["max_concurrent_allocations", "Allocations at once"], ["max_running_per_user", "Running, each user"],
  ["max_pending_per_user", "Waiting, each user"], ["node_hours_budget", "Node hours"], ["gpu_hours_budget", "GPU hours"], ["fair_share_target", "Fair share (0\u00a0to\u00a01)"],
];
const shown = (value) => (value === null || value === undefined ? "" : String(value));

// No limit is written as nothing: a word that is no number must not become it.
function figure(title, text) {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new Error(`${title}: "${text}" is no number; leave it empty for no limit`);
  return Number(text);
}

export function Tenants() {
  const { data, error, reload } = useAnswer(() => get("/tenants"), []);
  const [edited, setEdited] = useState(null);
  const changed = (form) => LIMITS.map(([key, title]) => ({ key, title, text: form.get(key).trim() })).filter(({ key, text }) => text !== shown(edited[key]));
  const line = (form) => ["lattice admin tenant set-quota", shell(edited.name), ...changed(form).map(({ key, text }) => `--${key.replaceAll("_", "-")}=${shell(text || "none")}`)].join(" ");
  const save = async (form) => {
    const changes = Object.fromEntries(changed(form).map(({ key, title, text }) => [key, text === "" ? null : figure(title, text)]));
    if (Object.keys(changes).length) await put(at("tenants", edited.name), changes);
    reload();
  };
  return html`<${Problem} error=${error} />
    <${Section} title="Quotas"><${Sheet} heads=${["Tenant", ["In use", "right"], ...LIMITS.map(([, title]) => [title, "right"]), ["Change", "order"]]}
      rows=${(data?.items ?? []).map((tenant) => [tenant.name, tenant.name, tenant.in_use.nodes, ...LIMITS.map(([key]) => shown(tenant[key]) || "–"),
        html`<button type="button" class="plain" onClick=${() => setEdited(tenant)} aria-label=${`Change ${tenant.name}`}>Change</button>`])} /><//>
    <${CommandLine} line="lattice admin tenant list" />
    ${edited ? html`<${Confirm} title=${`Quotas of ${edited.name}`} label="Save" tone="primary" act=${save} line=${line} onClose=${() => setEdited(null)}>
      <div class="fields">${LIMITS.map(([key, title]) => html`<${Field} key=${key} label=${title}><input name=${key} value=${shown(edited[key])} inputmode="decimal" placeholder="no limit" /><//>`)}</div><//>` : null}`;
}

// The queue in the order that other weights would give it: the factors of each allocation are known, so only the sum changes.
function Preview({ vcluster, weights, known, isChanged }) {
  const { data, error } = useAnswer(() => explained(vcluster.name), [vcluster.name]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data?.length) return html`<p class="quiet">Nothing waits in this vCluster, so there is no queue to compare.</p>`;
  const total = Object.values(weights).reduce((sum, each) => sum + each, 0) || 1;
  const sum = (each, by) => Object.entries(by).reduce((found, [name, weight]) => found + weight * (each.scores[name] ?? 0), 0);
  // What budgets take away multiplies the sum, and stays.
  const score = (each) => (sum(each, weights) / total) * (sum(each, known) ? each.scores.total / sum(each, known) : 1);
  // Scores grow while they are read, one after the other: what is alike as shown keeps its order, and unchanged weights change nothing.
  const shown = (each) => Math.round(each.next * 1000);
  const sorted = data.map((each) => ({ ...each, next: score(each) })).sort((one, other) => (isChanged ? shown(other) - shown(one) : 0) || one.place - other.place);
  return html`<table class="plain"><thead><tr><th class="right">Now</th><th class="right">Then</th><th>Allocation</th><th class="right">Score then</th></tr></thead>
    <tbody>${sorted.map((each, place) => html`<tr key=${each.id}><td class="right">${each.place + 1}</td><td class="right">${place + 1}${place === each.place ? "" : place < each.place ? " ↑" : " ↓"}</td><td><a href=${`/allocations/${each.id}`}>${each.id}</a> ${each.name}</td>
      <td class="right">${each.next.toFixed(3)}</td></tr>`)}</tbody></table>`;
}

async function explained(name) {
  const { items } = await get(`${at("vclusters", name)}/queue`, { limit: 20 });
  const found = await Promise.all(items.map((each) => get(`${at("allocations", each.id)}/explanation`).then((said) => ({ id: each.id, name: each.name, scores: said.scores }))));
  return found.filter((each) => each.scores.total !== undefined).map((each, place) => ({ ...each, place }));
}

export function Weights() {
  const { data, error, reload } = useAnswer(() => get("/vclusters"), []);
  const items = data?.items ?? [];
  return html`<${Problem} error=${error} />
    ${items.map((vcluster) => html`<${WeightForm} key=${vcluster.name} vcluster=${vcluster} reload=${reload} />`)}
    ${data && !items.length ? html`<${Empty}>No vClusters.<//>` : null}`;
}

function WeightForm({ vcluster, reload }) {
  const profile = useAnswer(() => get(`${at("vclusters", vcluster.name)}/weights`), [vcluster.name]);
  const [draft, setDraft] = useState({});
  const [refused, setRefused] = useState(null);
  const known = profile.data?.weights ?? {};
  const weights = { ...known, ...draft };
  const save = async () => {
    setRefused(null);
    await put(at("vclusters", vcluster.name), { weights }).then(() => (setDraft({}), profile.reload(), reload()), setRefused);
  };
  const isChanged = Object.keys(draft).length > 0;
  return html`<${Section} title=${vcluster.name} more=${html`<span class="quiet small">profile ${profile.data?.profile || vcluster.scheduler}</span>`}>
    <${Problem} error=${profile.error ?? refused} />
    <div class="pair">
      <div>${Object.entries(weights).map(([name, value]) => html`<label class="weight" key=${name}><span>${capital(name.replaceAll("_", " "))}</span>
        <input type="range" min="0" max="1" step="0.01" value=${value} onInput=${(event) => setDraft({ ...draft, [name]: Number(event.target.value) })} /><span class="meter-text">${Number(value).toFixed(2)}</span></label>`)}
        <div class="buttons"><button type="button" class="primary" disabled=${!isChanged} onClick=${save}>Save</button><button type="button" disabled=${!isChanged} onClick=${() => setDraft({})}>Undo</button></div>
      </div>
      <div><h3>The queue with these weights</h3><${Preview} vcluster=${vcluster} weights=${weights} known=${known} isChanged=${isChanged} /></div>
    </div>
    <${CommandLine} line=${`lattice admin vcluster set-weights ${shell(vcluster.name)} ${Object.entries(isChanged ? weights : {}).map(([name, value]) => `--${name.replaceAll("_", "-")}=${Number(value).toFixed(2)}`).join(" ")}`.trim()} />
  <//>`;
}
