// Columns of the list of allocations: what they show, and which of them a person chose.
import { clock, duration, memory, percent, PLAIN } from "../format.js";
import { html, useState } from "../ui.js";
import { State, Time } from "./basics.js";
import { elapsed, nodesText, whatIs } from "../describe.js";

const KEY = "lattice-columns";
const tasksText = ({ completed, failed, cancelled, size }) => `${completed + failed + cancelled}/${size}`;

export const COLUMNS = {
  id: { title: "ID", width: "62px", show: (row) => html`<a href=${`/allocations/${row.id}`}>${row.id}</a>` },
  name: { title: "Name", width: "minmax(88px, 1.2fr)", show: (row) => row.name || html`<span class="quiet">${PLAIN}</span>` },
  state: { title: "State", width: "124px", show: (row) => html`<${State} state=${row.state} note=${row.tasks ? tasksText(row.tasks) : ""} />` },
  user: { title: "User", width: "minmax(50px, 0.4fr)", show: (row) => row.user },
  tenant: { title: "Tenant", width: "minmax(70px, 0.6fr)", show: (row) => row.tenant },
  project: { title: "Project", width: "minmax(70px, 0.6fr)", show: (row) => row.project || PLAIN },
  vcluster: { title: "vCluster", width: "minmax(70px, 0.6fr)", show: (row) => row.vcluster },
  nodes: { title: "Nodes", width: "minmax(60px, 0.5fr)", show: nodesText },
  elapsed: { title: "Elapsed", width: "92px", isRight: true, show: (row) => (row.started_at ? clock(elapsed(row)) : PLAIN) },
  walltime: { title: "Limit", width: "64px", isRight: true, show: (row) => duration(row.walltime_s) || PLAIN },
  submitted: { title: "Submitted", width: "116px", show: (row) => html`<${Time} at=${row.submitted_at} />` },
  ended: { title: "Ended", width: "122px", show: (row) => html`<${Time} at=${row.completed_at} />` },
  class: { title: "Class", width: "54px", isRight: true, show: (row) => row.preemption_class },
  cpu: { title: "CPU used", width: "84px", isRight: true, show: (row) => percent(row.cpu_efficiency) },
  memory: { title: "Peak memory", width: "112px", isRight: true, show: (row) => memory(row.peak_memory_mb) },
  tags: { title: "Tags", width: "minmax(90px, 1fr)", show: (row) => Object.entries(row.tags ?? {}).map(([key, value]) => `${key}=${value}`).join(" ") },
  what: { title: "Why", width: "minmax(80px, 2.4fr)", show: (row) => html`<span class="quiet" title=${whatIs(row)}>${whatIs(row)}</span>` },
};
const USUAL = ["id", "name", "state", "user", "nodes", "elapsed", "walltime", "submitted", "what"];

export function useColumns() {
  const [columns, setColumns] = useState(() => {
    const kept = (localStorage.getItem(KEY) ?? "").split(",").filter((name) => name in COLUMNS);
    return kept.length ? kept : USUAL;
  });
  const choose = (name) => {
    const next = Object.keys(COLUMNS).filter((each) => (each === name ? !columns.includes(name) : columns.includes(each)));
    if (!next.length) return;
    localStorage.setItem(KEY, next.join(","));
    setColumns(next);
  };
  return [columns, choose];
}

export const ColumnChoice = ({ columns, setColumns }) => html`<details class="choice"><summary class="button">Columns</summary>
  <div class="choice-list">${Object.entries(COLUMNS).map(([name, { title }]) => html`<label key=${name} class="check"><input type="checkbox" checked=${columns.includes(name)} onChange=${() => setColumns(name)} />${title}</label>`)}</div>
</details>`;
