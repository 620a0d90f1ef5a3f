// One node: what it is, what runs on it down to its cores, what happened to it.
import { at, get, post } from "../api.js";
import { useChanges } from "../events.js";
import { ago, memory, PLAIN, plural } from "../format.js";
import { CommandLine, Empty, Facts, Heading, Meter, Problem, Section, State, Time } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { Plots } from "../parts/plots.js";
import { isOperator } from "../session.js";
import { html, useAnswer, useInterval, useState } from "../ui.js";
import { DrainDialog } from "./nodes.js";

// Which run holds which core or GPU; a node that is held whole has no numbers.
function Devices({ label, count, owned, usage }) {
  const held = new Map();
  const runs = usage?.runs ?? [];
  runs.forEach((run, place) => owned(run).forEach((number) => held.set(number, { run, place })));
  const whole = runs.find((run) => !run.cpus.length && !run.gpus.length);
  return html`<div class="cores" role="list" aria-label=${`${label}s`}>
    ${Array.from({ length: Math.min(count, 1024) }, (_, number) => {
      const owner = held.get(number) ?? (whole ? { run: whole, place: 0 } : null);
      const text = `${label} ${number}: ${owner ? owner.run.id : "free"}`;
      return html`<span role="listitem" key=${number} class=${`core${label === "GPU" ? " gpu" : ""}${owner ? ` held hue${owner.place % 4}` : ""}`} title=${text}><span class="off-screen">${text}</span></span>`;
    })}
  </div>`;
}

const Work = ({ node, usage }) => html`<${Section} title="Work">
  <${Devices} label="CPU" count=${node.cpus} owned=${(run) => run.cpus} usage=${usage} />
  ${node.gpus ? html`<${Devices} label="GPU" count=${node.gpus} owned=${(run) => run.gpus} usage=${usage} />` : null}
  ${node.allocations.length ? html`<table class="plain"><thead><tr><th>Allocation</th><th>CPUs</th><th>GPUs</th></tr></thead><tbody>
    ${node.allocations.map((id) => {
      const run = usage?.runs.find((each) => each.id === id);
      return html`<tr key=${id}><td><a href=${`/allocations/${id}`}>${id}</a></td><td>${run?.cpus.length ? run.cpus.join(", ") : "all"}</td><td>${run?.gpus.length ? run.gpus.join(", ") : node.gpus ? "all" : PLAIN}</td></tr>`;
    })}</tbody></table>` : html`<${Empty}>Nothing that you may see runs here.<//>`}
  ${(usage?.missing ?? []).length ? html`<p class="quiet">Missing: ${usage.missing.map((each) => `${each.feature ?? each.name}: ${each.reason ?? each.why ?? ""}`).join("; ")}</p>` : null}
<//>`;

const Checks = ({ checks }) => (checks?.length ? html`<${Section} title="Checks"><${Sheet} heads=${["Check", "Result", ["Message", "quiet"]]}
  rows=${checks.map((check) => [check.name, check.name, check.verdict, check.text])} /><//>` : null);

const Story = ({ events }) => html`<${Section} title="Story">${events.length ? html`<ol class="story">
  ${events.slice(-40).reverse().map((event) => html`<li key=${event.at + event.trigger}><${Time} at=${event.at} withSeconds /><span><${State} state=${event.state} /> <span class="quiet">${event.trigger}${event.by ? ` by ${event.by}` : ""}${event.reason ? `: ${event.reason}` : ""}${event.allocations.length ? `; lost by ${event.allocations.join(", ")}` : ""}</span></span></li>`)}
</ol>` : html`<${Empty}>Nothing yet.<//>`}<//>`;

export default function Node({ id, who }) {
  const { data: node, error, reload } = useAnswer(() => get(at("nodes", id)), [id]);
  const usage = useAnswer(() => get(`${at("nodes", id)}/usage`).catch(() => null), [id, node?.allocations.join()]);
  const events = useAnswer(() => get(`${at("nodes", id)}/events`), [id, node?.changed_at]);
  const [asked, setAsked] = useState("");
  const [refused, setRefused] = useState(null);
  useChanges((change) => change.id === id || change.nodes?.includes(id), reload, 300);
  useInterval(reload, 10_000);
  if (!node) return html`<main>${error ? html`<${Heading} title=${id} /><${Problem} error=${error} />` : null}</main>`;
  const order = (name) => post(`${at("nodes", id)}/${name}`).then(reload, setRefused);
  const load = node.load1 ?? 0;
  return html`<main>
    <${Heading} title=${node.id} sub=${html`<${State} state=${node.state} /> ${node.reason}${node.reason_by ? ` (${node.reason_by})` : ""}`}>
      ${isOperator(who) && ["Ready", "Degraded"].includes(node.state) ? html`<button type="button" class="danger" onClick=${() => setAsked("drain")}>Drain</button>` : null}
      ${isOperator(who) && node.state === "Drained" ? html`<button type="button" onClick=${() => order("undrain")}>Undrain</button>` : null}
      ${isOperator(who) && node.state === "Down" ? html`<button type="button" onClick=${() => order("enable")}>Enable</button>` : null}
    <//>
    <${Problem} error=${refused ?? error} />
    <${Section} title="Facts">
      <${Facts} rows=${[["vCluster", node.vcluster], ["CPUs", plural(node.cpus, "CPU")], ["Memory", memory(node.memory_mb)], ["GPUs", node.gpus ? `${node.gpus} ${node.gpu_type}` : ""],
        ["Group", node.group], ["Holding", node.holding], ["Features", node.features.join(", ")], ["Heartbeat", node.last_heartbeat_s === null ? "none" : ago(node.last_heartbeat_s)],
        ["Temperature", node.vitals?.temperature_c == null ? "" : `${node.vitals.temperature_c} °C`], ["Memory errors", node.vitals?.memory_errors || ""], ["Conformance", node.conformance], ["System", node.os],
        ["Since", html`<${Time} at=${node.changed_at} />`]]} />
      <div class="meters">
        <${Meter} label="CPUs held" value=${node.cpus - node.free.cpus} of=${node.cpus} text=${`${node.cpus - node.free.cpus} of ${node.cpus}`} />
        <${Meter} label="Memory held" value=${node.memory_mb - node.free.memory_mb} of=${node.memory_mb} text=${`${memory(node.memory_mb - node.free.memory_mb)} of ${memory(node.memory_mb)}`} />
        ${node.load1 === null ? null : html`<${Meter} label="Load" value=${load} of=${node.cpus} text=${load.toFixed(1)} tone=${load > 1.5 * node.cpus ? "warn" : "accent"} />`}
        ${node.gpus ? html`<${Meter} label="GPUs held" value=${node.gpus - node.free.gpus} of=${node.gpus} text=${`${node.gpus - node.free.gpus} of ${node.gpus}`} />` : null}
      </div>
    <//>
    <${Work} node=${node} usage=${usage.data} />
    <${Plots} path=${`${at("nodes", id)}/metrics`} isLive />
    <${Checks} checks=${node.checks} />
    <${Story} events=${events.data?.items ?? []} />
    <${CommandLine} line=${`lattice node status ${node.id}`} />
    ${asked ? html`<${DrainDialog} names=${[node.id]} onClose=${() => setAsked("")} onDone=${reload} />` : null}
  </main>`;
}
