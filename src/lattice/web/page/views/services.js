// Services: how many instances of each are ready, where they listen, and a way into them.
import { get } from "../api.js";
import { useChanges } from "../events.js";
import { plural } from "../format.js";
import { CommandLine, Empty, Heading, Problem, Rest, Section, State } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { html, useAnswer, useInterval } from "../ui.js";

export const readiness = ({ ready, size }) => (size && ready === size ? "Ready" : ready ? "Degraded" : "Pending");
export const addressOf = (service) => `/services/${encodeURIComponent(service.tenant)}/${encodeURIComponent(service.name)}`;

export default function Services() {
  const { data, error, isLoading, reload } = useAnswer(() => get("/services", { limit: 1000 }), []);
  useChanges((change) => ["service", "allocation"].includes(change.what), reload, 1000);
  useInterval(reload, 10_000); // readiness is observed, and no change of the log
  const items = data?.items ?? [];
  const ready = items.filter((each) => readiness(each) === "Ready").length;
  return html`<main>
    <${Heading} title="Services" sub=${data ? `${plural(items.length, "service")}, ${ready} ready` : "\u00a0"} />
    <${Problem} error=${error} />
    <${Section} title="Running">${items.length ? html`<${Sheet} heads=${["Service", "State", ["Ready", "right"], "Tenant", "User", "Allocations"]}
      rows=${items.map((each) => [`${each.tenant}/${each.name}`, html`<a href=${addressOf(each)}>${each.name}</a>`, html`<${State} state=${readiness(each)} />`, `${each.ready} of ${each.size}`, each.tenant, each.user,
        html`${each.allocations.slice(0, 8).map((id, place) => html`${place ? ", " : ""}<a href=${`/allocations/${id}`}>${id}</a>`)}${each.allocations.length > 8 ? ` and ${each.allocations.length - 8} more` : ""}`])} />` : isLoading ? null : html`<${Empty}>No service runs. Start one with <code>lattice submit --service --expose=web:8000 SCRIPT</code>.<//>`}<//>
    <${Rest} answer=${data} what="services" />
    <${CommandLine} line="lattice service list" />
  </main>`;
}
