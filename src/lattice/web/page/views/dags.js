// All DAGs.
import { get } from "../api.js";
import { useChanges } from "../events.js";
import { CommandLine, Empty, Heading, Problem, Rest, Section, State, Time } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { html, useAnswer } from "../ui.js";

export const countsText = (counts) => Object.entries(counts ?? {}).filter(([name, number]) => number && name !== "total" && name !== "size").map(([name, number]) => `${number} ${name.toLowerCase()}`).join(", ");

export default function Dags() {
  const { data, error, isLoading, reload } = useAnswer(() => get("/dags", { limit: 500 }), []);
  useChanges((change) => change.what === "dag", reload, 500);
  const dags = data?.items ?? [];
  return html`<main>
    <${Heading} title="DAGs" sub="Sets of allocations that depend on each other" />
    <${Problem} error=${error} />
    <${Section} title="Submitted">${dags.length ? html`<${Sheet} heads=${["ID", "Name", "State", "User", "Allocations", "Submitted"]}
      rows=${dags.map((dag) => [dag.id, html`<a href=${`/dags/${dag.id}`}>${dag.id}</a>`, dag.name, html`<${State} state=${dag.state} />`, dag.user, countsText(dag.counts), html`<${Time} at=${dag.submitted_at} />`])} />` : isLoading ? null : html`<${Empty}>No DAGs. Submit one with <code>lattice dag submit FILE</code>.<//>`}<//>
    <${Rest} answer=${data} what="DAGs" />
    <${CommandLine} line="lattice dag list" />
  </main>`;
}
