// All DAGs.
import { get } from "../api.js";
import { onChange } from "../events.js";
import { CommandLine, Empty, Heading, Problem, Section, State, Time } from "../parts/basics.js";
import { html, useAnswer, useEffect } from "../ui.js";

export const countsText = (counts) => Object.entries(counts ?? {}).filter(([name, number]) => number && name !== "total" && name !== "size").map(([name, number]) => `${number} ${name.toLowerCase()}`).join(", ");

export default function Dags() {
  const { data, error, isLoading, reload } = useAnswer(() => get("/dags", { limit: 500 }), []);
  useEffect(() => onChange((change) => (change.what === "dag" || change.what === "gap") && reload()), []);
  const dags = data?.items ?? [];
  return html`<main>
    <${Heading} title="DAGs" sub="Sets of allocations that depend on each other" />
    <${Problem} error=${error} />
    <${Section} title="Submitted">${dags.length ? html`<div class="scroll-x"><table class="plain">
      <thead><tr><th>ID</th><th>Name</th><th>State</th><th>User</th><th>Allocations</th><th>Submitted</th></tr></thead>
      <tbody>${dags.map((dag) => html`<tr key=${dag.id}><td><a href=${`/dags/${dag.id}`}>${dag.id}</a></td><td>${dag.name}</td><td><${State} state=${dag.state} /></td><td>${dag.user}</td><td>${countsText(dag.counts)}</td><td><${Time} at=${dag.submitted_at} /></td></tr>`)}</tbody>
    </table></div>` : isLoading ? null : html`<${Empty}>No DAGs. Submit one with <code>lattice dag submit FILE</code>.<//>`}<//>
    <${CommandLine} line="lattice dag list" />
  </main>`;
}
