// Administration, each part at an address of its own.
import { html } from "../ui.js";
import { setQuery } from "../router.js";
import { Heading } from "../parts/basics.js";
import { isAdmin } from "../session.js";
import { Alerts } from "../parts/alerts.js";
import { Audit, Servers, Settings } from "../parts/site.js";
import { Reservations } from "../parts/reservations.js";
import { Tenants, Weights } from "../parts/limits.js";

const PARTS = {
  servers: { title: "Servers", View: Servers },
  alerts: { title: "Alerts", View: Alerts },
  reservations: { title: "Reservations", View: Reservations },
  tenants: { title: "Quotas", View: Tenants, isForAdmins: true },
  weights: { title: "Weights", View: Weights, isForAdmins: true },
  settings: { title: "Settings", View: Settings },
  audit: { title: "Audit", View: Audit },
};

export default function Admin({ who, query }) {
  const known = Object.entries(PARTS).filter(([, part]) => !part.isForAdmins || isAdmin(who));
  const name = known.some(([each]) => each === query.get("part")) ? query.get("part") : "servers";
  const { View } = PARTS[name];
  return html`<main>
    <${Heading} title="Admin"><div class="tabs">${known.map(([each, { title }]) => html`<button type="button" key=${each} aria-pressed=${String(each === name)} onClick=${() => setQuery({ part: each }, { replace: false })}>${title}</button>`)}</div><//>
    <${View} who=${who} query=${query} />
  </main>`;
}
