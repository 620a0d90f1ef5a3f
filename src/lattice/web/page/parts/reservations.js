// Reservations: listed, made, deleted.
import { at, get, post, remove } from "../api.js";
import { shell } from "../format.js";
import { fold } from "../node_sets.js";
import { html, useAnswer, useState } from "../ui.js";
import { CommandLine, Confirm, Empty, Field, Problem, Section, State, Time } from "./basics.js";
import { Sheet } from "./sheet.js";

const words = (text) => (text ?? "").split(",").map((word) => word.trim()).filter(Boolean);
const whom = (each) => [...each.tenants.map((name) => `tenant ${name}`), ...each.users.map((name) => `user ${name}`)].join(", ") || "maintenance";

// As an input of the browser writes it: local time to the minute.
function soon() {
  const when = new Date(Date.now() + 3_600_000);
  when.setMinutes(0, 0, 0);
  return new Date(when - when.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// What the form says, and the command that says the same.
function given(form) {
  const text = (name) => (form.get(name) ?? "").trim();
  const start = text("start") && new Date(text("start")).toISOString();
  const all = { name: text("name"), start, duration: text("duration"), nodes: text("nodes"), tenants: words(text("tenants")), users: words(text("users")), repeat: text("repeat"), reason: text("reason") };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value.length));
}

function creation(form) {
  const { name = "NAME", start = "TIME", duration = "TIME", tenants = [], users = [], ...rest } = given(form);
  const flags = { start: start.replace(".000Z", "Z"), duration, tenant: tenants, user: users, ...rest };
  const said = Object.entries(flags).flatMap(([flag, values]) => [values].flat().map((value) => `--${flag}=${shell(value)}`));
  return ["lattice admin reservation create", shell(name), ...said].join(" ");
}

export function Reservations() {
  const { data, error, isLoading, reload } = useAnswer(() => get("/reservations"), []);
  const [asked, setAsked] = useState("");
  const create = async (form) => {
    await post("/reservations", given(form));
    reload();
  };
  const items = data?.items ?? [];
  return html`<${Problem} error=${error} />
    <${Section} title="Reservations" more=${html`<button type="button" onClick=${() => setAsked("+")}>Reserve</button>`}>
      ${items.length ? html`<${Sheet} heads=${["Name", "State", "Start", "End", "Nodes", "For", ["Reason", "quiet"], ["Delete", "order"]]}
        rows=${items.map((each) => [each.name, each.name, html`<${State} state=${each.state} />`, html`<${Time} at=${each.next_start ?? each.start} />`, html`<${Time} at=${each.next_end ?? each.end} />`, each.nodes.length ? fold(each.nodes) : "all", whom(each), each.reason,
          html`<button type="button" class="plain" onClick=${() => setAsked(each.name)} aria-label=${`Delete ${each.name}`}>Delete</button>`])} />`
        : isLoading ? null : html`<${Empty}>No reservations.<//>`}
    <//>
    <${CommandLine} line="lattice admin reservation list" />
    ${asked === "+" ? html`<${Confirm} title="Reserve nodes" label="Reserve" tone="primary" act=${create} line=${creation} onClose=${() => setAsked("")}>
      <div class="fields">
        <${Field} label="Name"><input name="name" required /><//><${Field} label="Start"><input name="start" type="datetime-local" required value=${soon()} /><//>
        <${Field} label="Length"><input name="duration" required placeholder="4h" /><//><${Field} label="Nodes" hint="empty: all"><input name="nodes" placeholder="n[1-4]" /><//>
        <${Field} label="Tenants"><input name="tenants" /><//><${Field} label="Users" hint="neither: maintenance"><input name="users" /><//>
        <${Field} label="Repeat"><input name="repeat" placeholder="7d" /><//><${Field} label="Reason" wide><input name="reason" /><//>
      </div><//>` : null}
    ${asked && asked !== "+" ? html`<${Confirm} title=${`Delete reservation ${asked}`} label="Delete" act=${() => remove(at("reservations", asked)).then(reload)} line=${`lattice admin reservation delete ${shell(asked)}`} onClose=${() => setAsked("")}><p class="quiet">Running work continues.</p><//>` : null}`;
}
