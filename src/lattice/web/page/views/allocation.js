// One allocation: what it is, why it waits, what happened to it, its output.
import { at, get } from "../api.js";
import { onChange, useChanges } from "../events.js";
import { capital, clock, duration, memory, percent, plural, shell, withLocalTimes } from "../format.js";
import { fold } from "../node_sets.js";
import { CommandLine, Facts, Heading, Meter, Problem, Section, State, Time } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { Instances } from "../parts/instances.js";
import { Log } from "../parts/log.js";
import { Plots } from "../parts/plots.js";
import { hasEnded, OrderDialog, ordersFor, TITLES } from "../parts/orders.js";
import { Grid, tasksOf } from "../parts/tasks.js";
import { useStory } from "../story.js";
import { html, useAnswer, useEffect, useInterval, useState } from "../ui.js";
import { elapsed } from "../describe.js";


function Why({ explanation, submitted }) {
  const { total, ...scores } = explanation.scores;
  return html`<${Section} title="Why it waits">
    <div class="why">
      <div>
        <p>${capital(withLocalTimes(explanation.reason || "it waits for the next cycle"))}.</p>
        <${Facts} rows=${[
          ["Place in the queue", explanation.rank === null ? "not in the queue" : explanation.rank],
          ["Predicted start", explanation.predicted_start ? html`<${Time} at=${explanation.predicted_start} />` : "not known"],
          ["On", explanation.predicted_nodes.length ? fold(explanation.predicted_nodes) : ""],
          ["How it moved", html`<${Moved} points=${explanation.predictions ?? []} submitted=${submitted} />`],
        ]} />
        <${Moves} points=${explanation.predictions ?? []} />
      </div>
      <div>${total === undefined ? null : html`
        ${Object.entries(scores).map(([name, value]) => html`<${Meter} key=${name} label=${capital(name.replaceAll("_", " "))} value=${value} text=${value.toFixed(3)} />`)}
        <${Meter} label="Score" value=${total} text=${total.toFixed(3)} tone="off" />`}</div>
    </div>
  <//>`;
}

// The leader keeps what its cycles predicted; it knows nothing of what came before it led.
const Moved = ({ points, submitted }) => (points.length
  ? html`${shifted(points[0].start, points.at(-1).start)} <span class="quiet">since <${Time} at=${points[0].at} withSeconds />${isLate(points[0].at, submitted) ? "; what was predicted before is not known" : ""}</span>`
  : html`<span class="quiet">not known: nothing was predicted since this server leads</span>`);

const isLate = (at, submitted) => Date.parse(at) - Date.parse(submitted) > 60_000;

const Moves = ({ points }) => (points.length > 1 ? html`<details><summary class="quiet small">${plural(points.length, "prediction")}</summary><table class="plain">
  <thead><tr><th>Said at</th><th>Start</th><th>Moved</th></tr></thead>
  <tbody>${points.toReversed().map((each, place, all) => html`<tr key=${each.at}><td><${Time} at=${each.at} withSeconds /></td><td><${Time} at=${each.start} withSeconds /></td>
    <td>${all[place + 1] ? shifted(all[place + 1].start, each.start) : "first"}</td></tr>`)}</tbody></table></details>` : null);

function shifted(from, to) {
  const by = (Date.parse(to) - Date.parse(from)) / 1000;
  return by === 0 ? "not" : `${clock(Math.abs(by))} ${by > 0 ? "later" : "earlier"}`;
}

const Story = ({ story }) => html`<${Section} title="Story"><ol class="story">
  ${story.map((each) => html`<li key=${each.at + each.text}><${Time} at=${each.at} withSeconds /><span>${each.text}</span></li>`)}
</ol><//>`;

function Tasks({ group }) {
  const { data, error, reload } = useAnswer(() => tasksOf(group.id), [group.id]);
  useChanges((change) => change.group_id === group.id, reload, 500);
  const tasks = data ?? [];
  const { size, pending, running, completed, failed, cancelled } = group.tasks;
  return html`<${Section} title="Tasks" more=${html`<span class="quiet small">${size} tasks: ${completed} completed, ${failed} failed, ${cancelled} cancelled, ${running} running, ${pending} waiting</span>`}>
    <${Problem} error=${error} />
    <${Grid} tasks=${tasks} />
    ${size > tasks.length && tasks.length ? html`<p class="quiet small">${plural(size - tasks.length, "more task")}: search for group:${group.id}</p>` : null}
  <//>`;
}

function Steps({ allocation }) {
  const { data, reload } = useAnswer(() => get(`${at("allocations", allocation.id)}/steps`), [allocation.id, allocation.step_count]);
  useInterval(() => !hasEnded(allocation) && reload(), 5000);
  const steps = data?.items ?? [];
  if (!steps.length) return null;
  return html`<${Section} title="Steps"><${Sheet} heads=${["Step", "Command", ["Tasks", "right"], "Nodes", "State", ["Exit", "right"]]}
    rows=${steps.map((step) => [step.id, step.id, html`<code>${(step.argv ?? []).join(" ").slice(0, 160) || step.name || ""}</code>`, step.tasks ?? "", fold(step.nodes ?? []), step.state ?? "", step.exit_code ?? ""])} /><//>`;
}

function Script({ details, id }) {
  if (!details) return null;
  const text = details.script || details.entrypoint.map(shell).join(" ");
  const variables = Object.entries(details.environment ?? {});
  return html`<${Section} title=${details.script ? "Script" : "Command"} more=${html`<a href=${`/submit?from=${id}`}>Submit again</a>`}>
    <pre class="text" tabindex="0" aria-label="What it runs">${text}</pre>
    ${details.script_args.length ? html`<p class="quiet small">Arguments: <code>${details.script_args.map(shell).join(" ")}</code></p>` : null}
    ${variables.length ? html`<details><summary class="quiet small">${plural(variables.length, "variable")}</summary><pre class="text" tabindex="0" aria-label="Environment">${variables.map(([key, value]) => `${key}=${value}`).join("\n")}</pre></details>` : null}
  <//>`;
}

function facts(allocation) {
  const { resources } = allocation;
  return [
    ["User", allocation.user],
    ["Tenant", allocation.project ? `${allocation.tenant} / ${allocation.project}` : allocation.tenant],
    ["vCluster", allocation.vcluster],
    ["Nodes", allocation.nodes.length ? html`${allocation.nodes.length <= 8 ? allocation.nodes.map((name, place) => html`${place ? ", " : ""}<a href=${`/nodes/${name}`}>${name}</a>`) : fold(allocation.nodes)}` : plural(allocation.node_count, "node")],
    ["Per node", [resources.cpus ? plural(resources.cpus, "CPU") : "", resources.memory_mb ? memory(resources.memory_mb) : "", resources.gpus ? plural(resources.gpus, "GPU") : ""].filter(Boolean).join(", ") || "whole nodes"],
    ["Elapsed", allocation.started_at ? clock(elapsed(allocation)) : ""],
    ["Time limit", duration(allocation.walltime_s)],
    ["Class", allocation.preemption_class],
    ["Run", allocation.run > 1 ? `${allocation.run} (${plural(allocation.requeue_count, "requeue")})` : ""],
    ["Exit", allocation.exit_code !== null ? `code ${allocation.exit_code}` : allocation.signal ? `signal ${allocation.signal}` : ""],
    ["CPU used", allocation.cpu_efficiency === null ? "" : percent(allocation.cpu_efficiency)],
    ["Memory used", allocation.memory_efficiency === null ? "" : `${percent(allocation.memory_efficiency)}, peak ${memory(allocation.peak_memory_mb)}`],
    ["Task group", allocation.group_id ? html`<a href=${`/allocations/${allocation.group_id}`}>${allocation.group_id}</a>, task ${allocation.task_index}` : ""],
    ["DAG", allocation.dag_id ? html`<a href=${`/dags/${allocation.dag_id}`}>${allocation.dag_id}</a>` : ""],
    ["Depends on", allocation.depends_on ?? ""],
    ["Tags", Object.entries(allocation.tags).map(([key, value]) => `${key}=${value}`).join(" ")],
  ];
}

export default function Allocation({ id, rest, who }) {
  if (rest[1] === "terminal") return html`<${TerminalPage} id=${id} />`;
  const { data: allocation, error, reload } = useAnswer(() => get(at("allocations", id), { details: true }), [id]);
  const waits = allocation && (["Pending", "Suspended"].includes(allocation.state) || allocation.tasks?.pending > 0);
  const explained = useAnswer(() => (waits ? get(`${at("allocations", id)}/explanation`) : Promise.resolve(null)), [id, allocation?.state]);
  const [asked, setAsked] = useState("");
  const [, tick] = useState(0);
  const story = useStory(id, allocation);
  useInterval(() => tick((count) => count + 1), 1000);
  useInterval(() => waits && explained.reload(), 4000);
  useEffect(() => onChange((change) => (change.id === id || change.id === allocation?.id || change.what === "gap") && reload()), [id, allocation?.id]);
  if (!allocation) return html`<main>${error ? html`<${Heading} title=${id} /><${Problem} error=${error} />` : null}</main>`;
  const isOwn = allocation.user === who.user;
  return html`<main>
    <${Heading} title=${html`${allocation.id} ${allocation.name ? html`<span class="title-name">${allocation.name}</span>` : null}`}
        sub=${html`<${State} state=${allocation.suspended ? "Suspended" : allocation.state} /> ${withLocalTimes(allocation.ending || (waits ? "" : allocation.reason) || "")}`}>
      ${isOwn && allocation.state === "Running" && !allocation.tasks ? html`<a class="button" href=${`/allocations/${allocation.id}/terminal`}>Terminal</a>` : null}
      ${ordersFor(allocation).map((name) => html`<button type="button" key=${name} class=${name === "cancel" ? "danger" : null} onClick=${() => setAsked(name)}>${TITLES[name]}</button>`)}
    <//>
    <${Problem} error=${error} />
    <${Section} title="Facts"><${Facts} rows=${facts(allocation)} /><//>
    ${waits && explained.data ? html`<${Why} explanation=${explained.data} submitted=${allocation.submitted_at} />` : null}
    ${allocation.service ? html`<${Instances} service=${allocation.service} expose=${allocation.expose} />` : null}
    ${allocation.tasks ? html`<${Tasks} group=${allocation} />` : null}
    ${allocation.started_at && !allocation.tasks ? html`<${Section} title="Output"><${Log} key=${`${allocation.id}/${allocation.run}`} allocation=${allocation} /><//>` : null}
    ${allocation.started_at && !allocation.tasks ? html`<${Plots} path=${`${at("allocations", allocation.id)}/metrics`} isLive=${!hasEnded(allocation)} />` : null}
    <div class="pair"><${Story} story=${story} /><${Script} details=${allocation.details} id=${allocation.id} /></div>
    <${Steps} allocation=${allocation} />
    <${CommandLine} line=${waits ? `lattice explain ${allocation.id}` : `lattice status ${allocation.id}`} />
    ${asked ? html`<${OrderDialog} name=${asked} ids=${[allocation.id]} onClose=${() => setAsked("")} onDone=${reload} />` : null}
  </main>`;
}

// Loaded with the first terminal: it is larger than all the rest.
function TerminalPage({ id }) {
  const [View, setView] = useState(null);
  useEffect(() => void import("./terminal.js").then((module) => setView(() => module.default)), []);
  return View ? html`<${View} id=${id} />` : html`<main aria-busy="true"></main>`;
}
