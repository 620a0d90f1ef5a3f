// The instances of a service, and the ports that it exposes by name.
import { html } from "../ui.js";
import { plural } from "../format.js";
import { Section, State, Time } from "./basics.js";
import { Sheet } from "./sheet.js";

const lastEnd = (each) => [each.last_cause, each.last_exit_code === null ? "" : `code ${each.last_exit_code}`, each.last_signal ? `signal ${each.last_signal}` : "", each.last_message].filter(Boolean).join(", ");

export const Instances = ({ service, expose }) => html`<${Section} title="Instances" more=${html`<span class="quiet small">${service.ready} of ${service.wanted} ready, ${plural(service.restarts, "restart")}</span>`}>
  ${service.reason ? html`<p>${service.reason}</p>` : null}
  <${Sheet} heads=${["Node", "Phase", "Ready", ["Restarts", "right"], "Since", ["Remarks", "quiet"]]}
    rows=${service.instances.map((each) => [each.node, html`<a href=${`/nodes/${each.node}`}>${each.node}</a>`, each.phase, html`<${State} state=${each.ready ? "ok" : "Pending"} />`, each.restarts, html`<${Time} at=${each.running_since} />`, each.reason || lastEnd(each)])} />
  ${expose?.length ? html`<p class="quiet">Exposed: ${expose.map((each) => `${each.name} (${each.port || "a port chosen by each node"})`).join(", ")}</p>` : null}
<//>`;
