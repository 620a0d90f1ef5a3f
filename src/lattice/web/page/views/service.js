// One service: its instances and where each of them listens.
import { at, get, post } from "../api.js";
import { useChanges } from "../events.js";
import { shell } from "../format.js";
import { CommandLine, Empty, Facts, Heading, Problem, Section, State } from "../parts/basics.js";
import { Instances } from "../parts/instances.js";
import { Sheet } from "../parts/sheet.js";
import { html, useAnswer, useInterval, useState } from "../ui.js";
import { readiness } from "./services.js";

const SHOWN = 4; // allocations whose instances are shown

// Those that the person may see: work of others is answered with a refusal, and left out.
async function behind(ids) {
  const found = await Promise.all(ids.slice(0, SHOWN).map((id) => get(at("allocations", id)).catch(() => null)));
  return found.filter((each) => each?.service);
}

export default function Service({ rest }) {
  const [tenant, name] = rest.length > 1 ? rest : ["", rest[0]];
  const { data: service, error, reload } = useAnswer(() => get(at("services", name), { tenant }), [tenant, name]);
  const known = useAnswer(() => behind(service?.allocations ?? []), [service]);
  const [link, setLink] = useState("");
  const [refused, setRefused] = useState(null);
  useChanges((change) => ["service", "allocation"].includes(change.what), reload, 1000);
  useInterval(reload, 5000);
  const open = async () => {
    setRefused(null);
    await post(`${at("services", name)}/open`, { tenant: service.tenant }).then(({ url }) => setLink(url), setRefused);
  };
  if (!service) return html`<main>${error ? html`<${Heading} title=${name} /><${Problem} error=${error} />` : null}</main>`;
  return html`<main>
    <${Heading} title=${service.name} sub=${html`<${State} state=${readiness(service)} /> ${service.ready} of ${service.size} ready`}>
      ${service.shared ? html`<button type="button" onClick=${open}>Open</button>` : null}
    <//>
    <${Problem} error=${refused ?? error} />
    ${link ? html`<div class="note" role="status">Good once and for a minute: <a href=${link} target="_blank" rel="noopener noreferrer" onClick=${() => setLink("")}>the page of ${service.name}</a></div>` : null}
    <${Section} title="Facts"><${Facts} rows=${[["Tenant", service.tenant], ["User", service.user], ["Allocations", html`${service.allocations.map((id, place) => html`${place ? ", " : ""}<a href=${`/allocations/${id}`}>${id}</a>`)}`], ["Open to you", service.shared ? "yes" : "no"]]} /><//>
    <${Section} title="Endpoints">${service.endpoints.length ? html`<${Sheet} heads=${["Endpoint", "Ready", "Node", "Allocation", ["Run", "right"]]}
      rows=${service.endpoints.map((each) => [`${each.id}/${each.node}`, html`<code>${each.port ? `${each.node}:${each.port}` : "port not known yet"}</code>`, html`<${State} state=${each.ready ? "Ready" : "Pending"} />`,
        html`<a href=${`/nodes/${each.node}`}>${each.node}</a>`, html`<a href=${`/allocations/${each.id}`}>${each.id}</a>`, each.run])} />` : html`<${Empty}>No instance runs.<//>`}<//>
    ${(known.data ?? []).map((each) => html`<${Instances} key=${each.id} service=${each.service} of=${each.id} />`)}
    <${CommandLine} line=${link ? `lattice service open ${shell(service.name)}` : `lattice service show ${shell(service.name)}`} />
  </main>`;
}
