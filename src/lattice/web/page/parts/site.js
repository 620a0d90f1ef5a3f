// Servers, settings and the audit log.
import { at, get, now, put } from "../api.js";
import { count, readable, shell } from "../format.js";
import { setQuery } from "../router.js";
import { isAdmin } from "../session.js";
import { html, useAnswer, useInterval, useState } from "../ui.js";
import { CommandLine, Confirm, Empty, Facts, Field, Problem, Section, State, Time } from "./basics.js";
import { Sheet } from "./sheet.js";

export function Servers() {
  const raft = useAnswer(() => get("/raft/status"), []);
  const scheduler = useAnswer(() => get("/scheduler"), []);
  useInterval(() => (raft.reload(), scheduler.reload()), 3000);
  const found = scheduler.data;
  return html`
    <${Problem} error=${raft.error ?? scheduler.error} />
    <${Section} title="Servers">${raft.data ? html`<${Sheet} heads=${["Server", "Health", ["Applied", "right"], ["Clock skew", "right"], "Remarks"]}
      rows=${raft.data.members.map((member) => [member.name, html`${member.name}${member.name === raft.data.leader ? html` <span class="quiet">leads</span>` : null}`, html`<${State} state=${member.healthy ? "ok" : "Down"} />`,
        count(member.applied_index), member.clock_skew_ms === null ? "" : `${member.clock_skew_ms} ms`, member.problem || member.warning])} />` : null}<//>
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
    <${Section} title="Settings"><${Sheet} heads=${["Setting", "Value", ["Meaning", "quiet"], ...(isAdmin(who) ? [["Change", "order"]] : [])]}
      rows=${(data?.items ?? []).map((each) => [each.key, html`<code>${each.key}</code>`, html`${each.value}${each.value === each.default ? null : html`<span class="quiet"> (default ${each.default === "" ? "empty" : each.default})</span>`}`, each.help,
        ...(isAdmin(who) ? [html`<button type="button" class="plain" onClick=${() => setEdited(each)} aria-label=${`Change ${each.key}`}>Change</button>`] : [])])} /><//>
    <${CommandLine} line="lattice admin config list" />
    ${edited ? html`<${Confirm} title=${edited.key} label="Save" tone="primary" act=${save} line=${(form) => `lattice admin config set ${shell(`${edited.key}=${form.get("value")}`)}`} onClose=${() => setEdited(null)}><p class="quiet">${edited.help}</p><${Field} label="Value"><input name="value" value=${edited.value} /><//><//>` : null}`;
}

const PAGE = 100;

const FIRST_MS = 600_000;
const WEEK_MS = 7 * 86_400_000;

// The log is read oldest first, and people look at the newest: pieces of time, each longer than the one after it, until there are enough entries.
async function newest(filters, wanted) {
  const found = [];
  const present = now() + 60_000;
  let back = 0;
  for (let span = FIRST_MS; back < WEEK_MS && found.length <= wanted; span *= 6) {
    const next = Math.min(WEEK_MS, back + span);
    const [since, until] = [present - next, present - back].map((moment) => new Date(moment).toISOString());
    found.push(...(await entries({ ...filters, since, until })).reverse());
    back = next;
  }
  return found;
}

async function entries(filters) {
  const found = [];
  let cursor;
  do {
    const answer = await get("/audit", { ...filters, limit: 1000, cursor });
    found.push(...answer.items);
    cursor = answer.next_cursor;
  } while (cursor);
  return found;
}

export function Audit({ query }) {
  const [user, type] = [query.get("user") ?? "", query.get("type") ?? ""];
  const [shown, setShown] = useState(PAGE);
  const { data, error, isLoading } = useAnswer(() => newest({ user, type }, shown), [user, type, shown]);
  const search = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setQuery({ user: form.get("user").trim(), type: form.get("type").trim() });
  };
  return html`<${Problem} error=${error} />
    <${Section} title="Audit" more=${html`<form class="inline" onSubmit=${search}><input name="user" value=${user} placeholder="user" aria-label="User" /><input name="type" value=${type} placeholder="type, as in node" aria-label="Type" /><button type="submit">Search</button></form>`}>
      ${data?.length ? html`<${Sheet} heads=${["Time", "Who", "What", "Subject", "Outcome", ["Detail", "quiet"]]}
        rows=${data.slice(0, shown).map((each) => [each.seq, html`<${Time} at=${each.at} withSeconds />`, each.actor, each.type, each.subject, each.outcome, readable(each.detail)])} />
        ${data.length > shown ? html`<button type="button" onClick=${() => setShown(shown + PAGE)}>More</button>` : null}` : isLoading ? null : html`<${Empty}>Nothing in the last 7 days.<//>`}
    <//>
    <${CommandLine} line=${`lattice audit query --since=7d${user ? ` --user=${shell(user)}` : ""}${type ? ` --type=${shell(type)}` : ""}`} />`;
}
