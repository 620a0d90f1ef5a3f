// What needs attention now, as the servers judge it.
import { get } from "../api.js";
import { onChange } from "../events.js";
import { html, useAnswer, useEffect, useInterval, useRef } from "../ui.js";
import { CommandLine, Empty, Problem, Section, State } from "./basics.js";

export function Alerts() {
  const { data, error, reload } = useAnswer(() => get("/alerts"), []);
  const found = data?.items;
  const soon = useRef(0);
  useEffect(() => {
    const stop = onChange((change) => {
      if (["node", "tenant", "gap"].includes(change.what)) soon.current ||= setTimeout(() => ((soon.current = 0), reload()), 1000);
    });
    return () => (stop(), clearTimeout(soon.current), (soon.current = 0));
  }, []);
  useInterval(reload, 10_000);
  return html`<${Problem} error=${error} />
    <${Section} title="Alerts" more=${html`<span class="quiet small">what the servers know now; a monitoring system watches over time as well</span>`}>
      ${found?.length ? html`<div class="scroll-x"><table class="plain"><thead><tr><th>Severity</th><th>Alert</th><th>What</th><th>More</th></tr></thead>
        <tbody>${found.map((each) => html`<tr key=${each.name + each.text}><td><${State} state=${each.severity} /></td><td>${each.name}</td><td>${each.text}</td><td><code>${each.command}</code></td></tr>`)}</tbody></table></div>`
        : found ? html`<${Empty}>Nothing is wrong that the servers know of.<//>` : null}
    <//>
    <${CommandLine} line="lattice admin alerts" />`;
}
