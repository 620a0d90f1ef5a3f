// What needs attention now, as the servers judge it.
import { get } from "../api.js";
import { useChanges } from "../events.js";
import { html, useAnswer, useInterval } from "../ui.js";
import { CommandLine, Empty, Problem, Section, State } from "./basics.js";
import { Sheet } from "./sheet.js";

export function Alerts() {
  const { data, error, reload } = useAnswer(() => get("/alerts"), []);
  const found = data?.items;
  useChanges((change) => ["node", "tenant"].includes(change.what), reload, 1000);
  useInterval(reload, 10_000);
  return html`<${Problem} error=${error} />
    <${Section} title="Alerts" more=${html`<span class="quiet small">what the servers know now; a monitoring system watches over time as well</span>`}>
      ${found?.length ? html`<${Sheet} heads=${["Severity", "Alert", "What", "More"]}
        rows=${found.map((each) => [each.name + each.text, html`<${State} state=${each.severity} />`, each.name, each.text, html`<code>${each.command}</code>`])} />`
        : found ? html`<${Empty}>Nothing is wrong that the servers know of.<//>` : null}
    <//>
    <${CommandLine} line="lattice admin alerts" />`;
}
