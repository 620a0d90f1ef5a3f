// What was used, against budgets; how well; who waited how long.
import { at, get } from "../api.js";
import { clock, percent, plural } from "../format.js";
import { CommandLine, Empty, Heading, Meter, Problem, Section } from "../parts/basics.js";
import { Sheet } from "../parts/sheet.js";
import { setQuery } from "../router.js";
import { isAdmin } from "../session.js";
import { html, useAnswer } from "../ui.js";

const DAYS = [7, 30, 90];
const hours = (value) => (value ?? 0).toLocaleString("en", { maximumFractionDigits: 1 });
const tone = (share) => (share >= 1 ? "bad" : share >= 0.8 ? "warn" : "accent");

const Budget = ({ label, used, budget, fraction, isOwn }) => (budget
  ? html`<${Meter} label=${label} value=${fraction} text=${`${hours(used)} of ${hours(budget)} h`} tone=${tone(fraction)} />`
  : html`<p class="meter"><span class="meter-label">${label}</span><span class="quiet">${hours(used)} h${isOwn ? "" : ", no budget"}</span></p>`);

// All of a tenant is for those who administer it; everybody sees their own.
async function usageOf(tenant, who, days) {
  const sees = isAdmin(who) || who.roles.includes("TenantAdmin") || tenant.admins.includes(who.user);
  const ask = (user) => get(`${at("tenants", tenant.name)}/usage`, { days, user });
  if (!sees) return { ...(await ask(who.user)), isOwn: true };
  return ask().catch((error) => {
    if (error.status !== 403) throw error;
    return ask(who.user).then((own) => ({ ...own, isOwn: true }));
  });
}

function Tenant({ tenant, days, who }) {
  const { data, error } = useAnswer(() => usageOf(tenant, who, days), [tenant.name, days]);
  const most = Math.max(1e-9, ...(data?.users ?? []).map((user) => user.node_hours));
  const { nodes, allocations } = tenant.in_use;
  return html`<${Section} title=${tenant.name} more=${html`<span class="quiet small">${plural(nodes, "node")} and ${plural(allocations, "allocation")} in use${tenant.max_nodes ? `, at most ${plural(tenant.max_nodes, "node")}` : ""}</span>`}>
    <${Problem} error=${error} />
    ${data ? html`
      <${Budget} label=${data.isOwn ? "Your node hours" : "Node hours"} used=${data.node_hours} budget=${data.node_hours_budget} fraction=${data.node_hours_fraction} isOwn=${data.isOwn} />
      <${Budget} label=${data.isOwn ? "Your GPU hours" : "GPU hours"} used=${data.gpu_hours} budget=${data.gpu_hours_budget} fraction=${data.gpu_hours_fraction} isOwn=${data.isOwn} />
      ${tenant.fair_share_target ? html`<${Meter} label="Fair share, target" value=${tenant.fair_share_target} text=${percent(100 * tenant.fair_share_target)} tone="off" />` : null}
      ${data.users.length ? html`<h3 class="above">By user</h3>${data.users.slice(0, 30).map((user) => html`<${Meter} key=${user.user} label=${user.user} value=${user.node_hours} of=${most} text=${`${hours(user.node_hours)} h`} />`)}` : null}` : null}
  <//>`;
}

function Report({ days }) {
  const since = new Date(Date.now() - days * 86_400_000).toISOString();
  const { data, error } = useAnswer(() => get("/reports/usage", { by: "user", since }), [days]);
  const rows = data ? [...data.rows, ...(data.rows.length > 1 ? [data.total] : [])] : [];
  return html`<${Section} title="Finished work" more=${html`<span class="quiet small">what was held and not used is waste</span>`}>
    <${Problem} error=${error} />
    ${rows.length ? html`<${Sheet} heads=${["User", ["Allocations", "right"], ["Failed", "right"], ["Node hours", "right"], ["GPU hours", "right"], ["Wait, median", "right"], ["Wait, 95 %", "right"], ["CPU used", "right"], ["Memory used", "right"]]}
      rows=${rows.map((row) => [row.name + row.tenant, row.name, row.allocations, row.failed, hours(row.node_hours), hours(row.gpu_hours), clock(row.wait_p50_s), clock(row.wait_p95_s), percent(row.cpu_efficiency), percent(row.memory_efficiency)])} />`
      : data ? html`<${Empty}>Nothing has ended in this time.<//>` : null}
    <${CommandLine} line=${`lattice report --by=user --since=${days}d`} />
  <//>`;
}

export default function Usage({ query, who }) {
  const days = DAYS.includes(Number(query.get("days"))) ? Number(query.get("days")) : 30;
  const tenants = useAnswer(() => get("/tenants"), []);
  const own = useAnswer(() => get("/usage", { days }), [days]);
  return html`<main>
    <${Heading} title="Usage" sub=${own.data ? `You: ${hours(own.data.node_hours)} node hours, ${hours(own.data.gpu_hours)} GPU hours` : "\u00a0"}>
      <div class="tabs">${DAYS.map((each) => html`<button type="button" key=${each} aria-pressed=${String(each === days)} onClick=${() => setQuery({ days: each === 30 ? "" : String(each) })}>${each} days</button>`)}</div>
    <//>
    <${Problem} error=${tenants.error ?? own.error} />
    ${(tenants.data?.items ?? []).map((tenant) => html`<${Tenant} key=${tenant.name} tenant=${tenant} days=${days} who=${who} />`)}
    <${Report} days=${days} />
    <${CommandLine} line=${`lattice usage --days=${days}`} />
  </main>`;
}
