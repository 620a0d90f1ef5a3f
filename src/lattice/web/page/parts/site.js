// Servers, settings and the audit log.
import { at, get, put } from "../api.js";
import { count } from "../format.js";
import { setQuery } from "../router.js";
import { isAdmin } from "../session.js";
import { html, useAnswer, useInterval, useState } from "../ui.js";
import { CommandLine, Confirm, Empty, Facts, Field, Problem, Section, State, Time } from "./basics.js";

export function Servers() {
  const raft = useAnswer(() => get("/raft/status"), []);
  const scheduler = useAnswer(() => get("/scheduler"), []);
  useInterval(() => (raft.reload(), scheduler.reload()), 3000);
  const found = scheduler.data;
  return html`
    <${Problem} error=${raft.error ?? scheduler.error} />
    <${Section} title="Servers">${raft.data ? html`<div class="scroll-x"><table class="plain"><thead><tr><th>Server</th><th>Health</th><th class="right">Applied</th><th class="right">Clock skew</th><th>Remarks</th></tr></thead>
      <tbody>${raft.data.members.map((member) => html`<tr key=${member.name}><td>${member.name}${member.name === raft.data.leader ? html` <span class="quiet">leads</span>` : null}</td>
        <td><${State} state=${member.healthy ? "ok" : "Down"} /></td><td class="right">${count(member.applied_index)}</td><td class="right">${member.clock_skew_ms === null ? "" : `${member.clock_skew_ms} ms`}</td><td>${member.problem || member.warning}</td></tr>`)}</tbody></table></div>` : null}<//>
    <${Section} title="Scheduler">${found ? html`<${Facts} rows=${[["Last cycle", html`<${Time} at=${found.last_cycle_at} withSeconds />`], ["It took", `${found.last_cycle_ms.toFixed(1)} ms`], ["Cycles", count(found.cycles)], ["Placements", count(found.placements)],
      ["Waiting", count(found.pending)], ["Running", count(found.running)], ["Failed cycles", count(found.failed_cycles)], ["Last error", found.last_error]]} />` : null}<//>
    <${CommandLine} line="lattice admin raft status" />`;
}

export function Settings({ who }) {
  const { data, error, reload } = useAnswer(() => get("/settings"), []);
  const [edited, setEdited] = useState(null);
  const save = async (form) => {
    await put(at("settings", edited.key), { value: form.get("value") });
    reload();
  };
  return html`<${Problem} error=${error} />
    <${Section} title="Settings"><div class="scroll-x"><table class="plain stacked"><thead><tr><th>Setting</th><th>Value</th><th>Meaning</th>${isAdmin(who) ? html`<th><span class="off-screen">Change</span></th>` : null}</tr></thead>
      <tbody>${(data?.items ?? []).map((each) => html`<tr key=${each.key}><td><code>${each.key}</code></td><td>${each.value}${each.value === each.default ? null : html`<span class="quiet"> (default ${each.default === "" ? "empty" : each.default})</span>`}</td><td class="quiet">${each.help}</td>
        ${isAdmin(who) ? html`<td><button type="button" class="plain" onClick=${() => setEdited(each)} aria-label=${`Change ${each.key}`}>Change</button></td>` : null}</tr>`)}</tbody></table></div><//>
    <${CommandLine} line=${edited ? `lattice admin config set ${edited.key} VALUE` : "lattice admin config list"} />
    ${edited ? html`<${Confirm} title=${edited.key} label="Save" tone="primary" act=${save} onClose=${() => setEdited(null)}><p class="quiet">${edited.help}</p><${Field} label="Value"><input name="value" value=${edited.value} /><//><//>` : null}`;
}

const PAGE = 100;

// Entries are numbered from 1, oldest first; people look at the newest.
async function newest(filters) {
  const found = [];
  let cursor;
  for (let page = 0; page < 50; page += 1) {
    const answer = await get("/audit", { ...filters, limit: 1000, cursor });
    found.push(...answer.items);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return found.reverse();
}

export function Audit({ query }) {
  const [user, type] = [query.get("user") ?? "", query.get("type") ?? ""];
  const since = new Date(Date.now() - 7 * 86_400_000).toISOString();
  const { data, error, isLoading } = useAnswer(() => newest({ user, type, since }), [user, type]);
  const [shown, setShown] = useState(PAGE);
  const search = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setQuery({ user: form.get("user").trim(), type: form.get("type").trim() });
  };
  return html`<${Problem} error=${error} />
    <${Section} title="Audit" more=${html`<form class="inline" onSubmit=${search}><input name="user" value=${user} placeholder="user" aria-label="User" /><input name="type" value=${type} placeholder="type, as in node" aria-label="Type" /><button type="submit">Search</button></form>`}>
      ${data?.length ? html`<div class="scroll-x"><table class="plain stacked"><thead><tr><th>Time</th><th>Who</th><th>What</th><th>Subject</th><th>Outcome</th><th>Detail</th></tr></thead>
        <tbody>${data.slice(0, shown).map((each) => html`<tr key=${each.seq}><td><${Time} at=${each.at} withSeconds /></td><td>${each.actor}</td><td>${each.type}</td><td>${each.subject}</td><td>${each.outcome}</td><td class="quiet">${each.detail}</td></tr>`)}</tbody></table></div>
        ${data.length > shown ? html`<button type="button" onClick=${() => setShown(shown + PAGE)}>More</button>` : null}` : isLoading ? null : html`<${Empty}>Nothing in the last 7 days.<//>`}
    <//>
    <${CommandLine} line=${`lattice audit query --since=7d${user ? ` --user=${user}` : ""}${type ? ` --type=${type}` : ""}`} />`;
}
