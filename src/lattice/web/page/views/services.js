// Services: how many instances of each are ready, where they listen, and a way into them.
import { get } from "../api.js";
import { onChange } from "../events.js";
import { plural } from "../format.js";
import { CommandLine, Empty, Heading, Problem, Section, State } from "../parts/basics.js";
import { html, useAnswer, useEffect, useInterval, useRef } from "../ui.js";

export const readiness = ({ ready, size }) => (size && ready === size ? "Ready" : ready ? "Degraded" : "Pending");
export const addressOf = (service) => `/services/${encodeURIComponent(service.tenant)}/${encodeURIComponent(service.name)}`;

export default function Services() {
  const { data, error, isLoading, reload } = useAnswer(() => get("/services", { limit: 1000 }), []);
  const soon = useRef(0);
  useEffect(() => {
    const stop = onChange((change) => {
      if (["service", "allocation", "gap"].includes(change.what)) soon.current ||= setTimeout(() => ((soon.current = 0), reload()), 1000);
    });
    return () => (stop(), clearTimeout(soon.current), (soon.current = 0));
  }, []);
  useInterval(reload, 10_000); // readiness is observed, and no change of the log
  const items = data?.items ?? [];
  const ready = items.filter((each) => readiness(each) === "Ready").length;
  return html`<main>
    <${Heading} title="Services" sub=${data ? `${plural(items.length, "service")}, ${ready} ready` : "\u00a0"} />
    <${Problem} error=${error} />
    <${Section} title="Running">${items.length ? html`<div class="scroll-x"><table class="plain">
      <thead><tr><th>Service</th><th>State</th><th class="right">Ready</th><th>Tenant</th><th>User</th><th>Allocations</th></tr></thead>
      <tbody>${items.map((each) => html`<tr key=${`${each.tenant}/${each.name}`}><td><a href=${addressOf(each)}>${each.name}</a></td><td><${State} state=${readiness(each)} /></td><td class="right">${each.ready} of ${each.size}</td>
        <td>${each.tenant}</td><td>${each.user}</td><td>${each.allocations.slice(0, 8).map((id, place) => html`${place ? ", " : ""}<a href=${`/allocations/${id}`}>${id}</a>`)}${each.allocations.length > 8 ? ` and ${each.allocations.length - 8} more` : ""}</td></tr>`)}</tbody>
    </table></div>` : isLoading ? null : html`<${Empty}>No service runs. Start one with <code>lattice submit --service --expose=web:8000 SCRIPT</code>.<//>`}<//>
    <${CommandLine} line="lattice service list" />
  </main>`;
}
