// A form for a submission: checked by the server before it is sent, and shown as the script that does the same.
import { at, get, post } from "../api.js";
import { plural, shell, withLocalTimes } from "../format.js";
import { fold } from "../node_sets.js";
import { CommandLine, Facts, Field, Heading, Problem, Section, Time } from "../parts/basics.js";
import { go } from "../router.js";
import { asForm, asRequest, asScript, BLANK, TEMPLATES, unsaid } from "../submission.js";
import { html, useAnswer, useEffect, useState } from "../ui.js";

const DRAFT = "lattice-draft"; // kept through a login

// The allocation, and the indices of its tasks.
async function again(id) {
  const found = await get(at("allocations", id), { details: true });
  if (found.task_index !== null && found.task_index !== undefined) return [found, [found.task_index]];
  if (!found.tasks) return [found, []];
  const { items } = await get("/allocations", { group: found.id, all: true, limit: 10_000 });
  return [found, items.map((task) => task.task_index).sort((one, other) => one - other)];
}

function useForm(from) {
  const [form, setForm] = useState(() => ({ ...BLANK, ...JSON.parse(sessionStorage.getItem(DRAFT) ?? "{}") }));
  const [error, setError] = useState(null);
  const [lost, setLost] = useState([]);
  const set = (changes) => setForm((before) => {
    const next = { ...before, ...changes };
    sessionStorage.setItem(DRAFT, JSON.stringify(next));
    return next;
  });
  useEffect(() => {
    if (from) again(from).then(([found, indices]) => (set(asForm(found, indices)), setLost(unsaid(found))), setError);
  }, [from]);
  return { form, set, error, lost };
}

const Outlook = ({ found }) => html`<div class="note" role="status">
  <p>${found.predicted_start ? html`It would start ${found.rank === null ? "now" : html`at <${Time} at=${found.predicted_start} />`}.` : withLocalTimes(found.reason) || "It would wait; nobody can say for how long."}</p>
  <${Facts} rows=${[
    ["Place in the queue", found.rank ?? ""], ["On", found.predicted_nodes.length ? fold(found.predicted_nodes) : ""],
    ["vCluster", found.vcluster ?? ""], ["Chosen by rule", found.chosen_by ?? ""], ["Why", found.rank === null ? "" : withLocalTimes(found.reason)],
  ]} />
  ${(found.warnings ?? []).map((warning) => html`<p class="wrong" key=${warning}>${warning}</p>`)}
</div>`;

export default function Submit({ query }) {
  const { form, set, error: missing, lost } = useForm(query.get("from"));
  const [checked, setChecked] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const vclusters = useAnswer(() => get("/vclusters"), []);
  const send = async (isTrial) => {
    setBusy(true);
    setError(null);
    try {
      if (isTrial) setChecked(await post("/allocations", asRequest(form), { dry_run: true }));
      else {
        const made = await post("/allocations", asRequest(form));
        sessionStorage.removeItem(DRAFT);
        go(`/allocations/${made.id}`);
      }
    } catch (problem) {
      setChecked(null);
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const text = (name, label, more = {}) => html`<${Field} label=${label} hint=${more.hint} wide=${more.wide}>
    <input name=${name} value=${form[name]} placeholder=${more.example ?? ""} onInput=${(event) => (set({ [name]: event.target.value }), setChecked(null))} autocomplete="off" spellcheck=${false} />
  <//>`;
  const box = (name, label) => html`<label class="check"><input type="checkbox" checked=${form[name]} onChange=${(event) => set({ [name]: event.target.checked })} />${label}</label>`;
  const area = (name, label, rows, hint) => html`<${Field} label=${label} hint=${hint} wide>
    <textarea name=${name} rows=${rows} value=${form[name]} spellcheck=${false} onInput=${(event) => (set({ [name]: event.target.value }), setChecked(null))}></textarea>
  <//>`;
  const script = asScript(form);
  return html`<main>
    <${Heading} title="Submit" sub=${query.get("from") ? `Again, as ${query.get("from")}` : null}>
      <select aria-label="Template" value="" onChange=${(event) => Object.hasOwn(TEMPLATES, event.target.value) && set({ ...BLANK, ...TEMPLATES[event.target.value] })}>
        <option value="">Begin with a template …</option>${Object.keys(TEMPLATES).map((name) => html`<option key=${name}>${name}</option>`)}
      </select>
    <//>
    <${Problem} error=${missing} />
    ${lost.length ? html`<div class="note" role="status"><p>This form does not repeat: ${lost.join(", ")}.</p><p class="quiet">The command does: <code>lattice resubmit ${query.get("from")}</code></p></div>` : null}
    <form onSubmit=${(event) => (event.preventDefault(), send(false))}>
      <div class="pair"><div>
        <${Section} title="Work"><div class="fields">
          ${text("name", "Name", { example: "train" })}
          ${text("cwd", "Directory", { example: "/home/ada/run" })}
          ${area("script", "Script", 9)}
        </div><//>
        <${Section} title="Resources"><div class="fields">
          ${text("nodes", "Nodes", { hint: "4, or 2-8" })}
          ${text("walltime", "Time limit", { example: "30m, 24h" })}
          ${text("cpus", "CPUs per node")}
          ${text("memory", "Memory per node", { example: "4G" })}
          ${text("gpus", "GPUs per node")}
          ${text("features", "Features", { example: "nvme,avx512" })}
          <div class="wide">${box("exclusive", "Whole nodes, even where nodes are shared")}</div>
        </div><//>
        <${Section} title="More"><div class="fields">
          <${Field} label="vCluster"><select value=${form.vcluster} onChange=${(event) => set({ vcluster: event.target.value })}>
            <option value="">as the site chooses</option>${(vclusters.data?.items ?? []).map((each) => html`<option key=${each.name}>${each.name}</option>`)}</select><//>
          <${Field} label="Priority"><select value=${form.priority} onChange=${(event) => set({ priority: event.target.value })}>${["low", "normal", "high"].map((each) => html`<option key=${each}>${each}</option>`)}</select><//>
          ${text("project", "Project")}
          ${text("tasks", "Task group", { example: "0-99%20" })}
          ${text("dependsOn", "Start after", { example: "a17:success" })}
          ${text("uenv", "Software image (uenv)")}
          ${text("image", "Container image")}
          ${area("tags", "Tags", 2, "key=value, one in a line")}
          ${area("environment", "Variables", 2, "NAME=value, one in a line")}
          <div class="wide">${box("hold", "Hold it until it is released")}</div>
        </div><//>
      </div>
      <div>
        <${Section} title="The script it makes"><pre class="text" tabindex="0" aria-label="Script">${script}</pre>
          <${CommandLine} line=${`lattice submit ${form.name.trim() ? `${form.name.trim().replace(/\W+/g, "-")}.sh` : "script.sh"}${form.scriptArgs.map((each) => ` ${shell(each)}`).join("")}`} />
        <//>
        <${Section} title="Check and submit">
          <p class="quiet">A check asks the scheduler what would become of it, and changes nothing.</p>
          ${checked ? html`<${Outlook} found=${checked} />` : null}
          <${Problem} error=${error} />
          <div class="buttons">
            <button type="button" disabled=${isBusy} onClick=${() => send(true)}>Check</button>
            <button type="submit" class="primary" disabled=${isBusy}>Submit</button>
            <button type="button" class="plain" onClick=${() => (set(BLANK), setChecked(null), setError(null))}>Clear</button>
          </div>
          ${form.tasks ? html`<p class="quiet small">A task group: ${plural(1, "script")}, one run for each index.</p>` : null}
        <//>
      </div></div>
    </form>
  </main>`;
}
