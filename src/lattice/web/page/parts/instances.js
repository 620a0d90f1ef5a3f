// The instances of a service, and the ports that it exposes by name.
import { html } from "../ui.js";
import { plural } from "../format.js";
import { Facts, Section, State, Time } from "./basics.js";
import { Sheet } from "./sheet.js";

const lastEnd = (each) => [each.last_cause, each.last_exit_code === null ? "" : `code ${each.last_exit_code}`, each.last_signal ? `signal ${each.last_signal}` : "", each.last_message].filter(Boolean).join(", ");

// The policy of a service that follows its load, and what was decided last.
const Scaling = ({ scaling }) => html`<${Facts} rows=${[
  ["Nodes", `${scaling.min_nodes} to ${scaling.max_nodes}`],
  ["Follows", `${scaling.metric}, target ${scaling.target}`],
  ["Value", scaling.value === null ? "not known yet" : scaling.value.toLocaleString("en", { maximumSignificantDigits: 4 })],
  ["Decision", scaling.decision ? html`${scaling.decision}${scaling.reason ? html` <span class="quiet">${scaling.reason}</span>` : null}` : "not evaluated yet"],
  ["Evaluated", scaling.evaluated_at ? html`<${Time} at=${scaling.evaluated_at} withSeconds />` : ""],
  ["Scaled", scaling.scaled_at ? html`<${Time} at=${scaling.scaled_at} withSeconds />` : "never"],
]} />`;

export const Instances = ({ service, expose, of = "" }) => html`<${Section} title=${of ? `Instances of ${of}` : "Instances"} more=${html`<span class="quiet small">${service.ready} of ${service.wanted} ready, ${plural(service.restarts, "restart")}</span>`}>
  ${service.reason ? html`<p>${service.reason}</p>` : null}
  ${service.scaling ? html`<div class="scaling"><h3>Scaling</h3><${Scaling} scaling=${service.scaling} /></div>` : null}
  <${Sheet} heads=${["Node", "Phase", "Ready", ["Restarts", "right"], "Since", ["Remarks", "quiet"]]}
    rows=${service.instances.map((each) => [each.node, html`<a href=${`/nodes/${each.node}`}>${each.node}</a>`, each.phase, html`<${State} state=${each.ready ? "Ready" : "Pending"} />`, each.restarts, html`<${Time} at=${each.running_since} />`, each.reason || lastEnd(each)])} />
  ${expose?.length ? html`<p class="quiet">Exposed: ${expose.map((each) => `${each.name} (${each.port || "a port chosen by each node"})`).join(", ")}</p>` : null}
<//>`;
