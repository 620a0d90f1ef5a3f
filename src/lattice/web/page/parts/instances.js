// The instances of a service, and the ports that it exposes by name.
import { html } from "../ui.js";
import { plural } from "../format.js";
import { Section, State, Time } from "./basics.js";

const lastEnd = (each) => [each.last_cause, each.last_exit_code === null ? "" : `code ${each.last_exit_code}`, each.last_signal ? `signal ${each.last_signal}` : "", each.last_message].filter(Boolean).join(", ");

export const Instances = ({ service, expose }) => html`<${Section} title="Instances" more=${html`<span class="quiet small">${service.ready} of ${service.wanted} ready, ${plural(service.restarts, "restart")}</span>`}>
  ${service.reason ? html`<p>${service.reason}</p>` : null}
  <div class="scroll-x"><table class="plain"><thead><tr><th>Node</th><th>Phase</th><th>Ready</th><th class="right">Restarts</th><th>Since</th><th>Remarks</th></tr></thead>
    <tbody>${service.instances.map((each) => html`<tr key=${each.node}><td><a href=${`/nodes/${each.node}`}>${each.node}</a></td><td>${each.phase}</td><td><${State} state=${each.ready ? "ok" : "Pending"} /></td>
      <td class="right">${each.restarts}</td><td><${Time} at=${each.running_since} /></td><td class="quiet">${each.reason || lastEnd(each)}</td></tr>`)}</tbody></table></div>
  ${expose?.length ? html`<p class="quiet">Exposed: ${expose.map((each) => `${each.name} (${each.port || "a port chosen by each node"})`).join(", ")}</p>` : null}
<//>`;
