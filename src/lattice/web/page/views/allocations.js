// The list of allocations: searched, sorted by age, as live as the cluster.
import { clock, count, plural } from "../format.js";
import { elapsed, nodesText, whatIs } from "../describe.js";
import { useAllocations } from "../list.js";
import { CommandLine, Empty, Heading, Problem, State } from "../parts/basics.js";
import { OrderDialog, ordersFor, TITLES } from "../parts/orders.js";
import { Row, Rows, useNarrow } from "../parts/rows.js";
import { Grid, unfolded, useTasks } from "../parts/tasks.js";
import { go, setQuery } from "../router.js";
import { asCommand, understand, WORDS } from "../search.js";
import { html, useCallback, useInterval, useMemo, useState } from "../ui.js";
import { ColumnChoice, COLUMNS, useColumns } from "../parts/columns.js";

const UNFOLDED = 20; // groups at a time: each is read by itself
const SHORTCUTS = [["Mine", (who) => `user:${who.user}`], ["Running", () => "state:running"], ["Pending", () => "state:pending"], ["Failed, 24 h", () => "state:failed since:24h"], ["History", () => "all"], ["All", () => ""]];

function Search({ text, problems, who }) {
  const [draft, setDraft] = useState(text);
  const [last, setLast] = useState(text);
  if (text !== last) (setLast(text), setDraft(text));
  const submit = (event) => {
    event.preventDefault();
    const { id } = understand(draft);
    if (id && draft.trim() === id) go(`/allocations/${id}`);
    else setQuery({ q: draft.trim() }, { replace: false });
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    <label class="off-screen" for="search">Search allocations</label>
    <input id="search" data-search value=${draft} onInput=${(event) => setDraft(event.target.value)} autocomplete="off" spellcheck=${false}
      placeholder="state:failed user:ada node:n[1-4] since:2h tag:x=y, a name or an id" aria-describedby="search-help" />
    <button type="submit">Search</button>
    <details class="search-help"><summary>Words</summary>
      <dl id="search-help">${Object.entries(WORDS).map(([word, help]) => html`<div key=${word}><dt><code>${word}:</code></dt><dd>${help}</dd></div>`)}
        <div><dt><code>all</code></dt><dd>finished ones, too</dd></div><div><dt><code>tasks</code></dt><dd>each task of task groups</dd></div></dl>
    </details>
    ${problems.map((problem) => html`<p class="wrong" role="alert" key=${problem}>${problem}</p>`)}
    <div class="shortcuts">${SHORTCUTS.map(([title, make]) => {
      const words = make(who);
      return html`<a key=${title} href=${words ? `/allocations?q=${encodeURIComponent(words)}` : "/allocations"} aria-current=${words === text ? "true" : null}>${title}</a>`;
    })}</div>
  </form>`;
}

function drawRow({ row, place, at, columns, isNarrow, isChosen, isCursor, isOpen, choose, toggle }) {
  if (row.piece) return drawPiece({ row, place, at });
  const box = html`<span role="cell" class="pick"><input type="checkbox" checked=${isChosen} onChange=${() => choose(row.id)} aria-label=${`Choose ${row.id}`} /></span>`;
  const kind = `row${isChosen ? " chosen" : ""}${isCursor ? " cursor" : ""}`;
  const turn = row.tasks ? html`<button type="button" class="plain fold" aria-expanded=${String(isOpen)} aria-label=${`Tasks of ${row.id}`} onClick=${() => toggle(row.id)}>${isOpen ? "▾" : "▸"}</button>` : null;
  if (isNarrow) {
    return html`<div class=${`${kind} card`} role="row" aria-rowindex=${at + 2} style=${place}>
      ${box}
      <span role="cell">${turn}<a href=${`/allocations/${row.id}`}>${row.id}</a> ${row.name || html`<span class="quiet">no name</span>`}<br /><span class="quiet small">${row.user} · ${nodesText(row)}${whatIs(row) ? ` · ${whatIs(row)}` : ""}</span></span>
      <span role="cell" class="right"><${State} state=${row.state} /><br /><span class="quiet small">${clock(elapsed(row))}</span></span>
    </div>`;
  }
  return html`<div class=${kind} role="row" aria-rowindex=${at + 2} style=${{ ...place, gridTemplateColumns: template(columns) }}>
    ${box}${columns.map((name, nth) => html`<span role="cell" key=${name} class=${COLUMNS[name].isRight ? "right" : null}>${nth ? null : turn}${COLUMNS[name].show(row)}</span>`)}
  </div>`;
}

const drawPiece = ({ row, place, at }) => html`<div class="row piece" role="row" aria-rowindex=${at + 2} style=${place}>
  <span role="cell">${row.more ? html`<a href=${`/allocations?q=group:${row.under}+all`}>${plural(row.more, "more task")}</a>` : html`<${Grid} tasks=${row.piece} />`}</span></div>`;

const template = (columns) => `18px ${columns.map((name) => COLUMNS[name].width).join(" ")}`;

export default function Allocations({ who, query }) {
  const text = query.get("q") ?? "";
  const { parameters, problems } = useMemo(() => understand(text), [text]);
  const list = useAllocations(parameters, text);
  const [columns, setColumns] = useColumns();
  const [chosen, setChosen] = useState(() => new Set());
  const [cursor, setCursor] = useState(-1);
  const [asked, setAsked] = useState("");
  const [second, tick] = useState(0);
  const isNarrow = useNarrow();
  useInterval(() => tick((count_) => count_ + 1), 1000);
  const choose = useCallback((id) => setChosen((before) => {
    const next = new Set(before);
    next.has(id) ? next.delete(id) : next.add(id);
    return next;
  }), []);
  const open = useMemo(() => (query.get("open") ?? "").split(",").filter(Boolean).slice(0, UNFOLDED), [query.get("open")]);
  const toggle = useCallback((id) => setQuery({ open: (open.includes(id) ? open.filter((each) => each !== id) : [...open, id]).join() }), [open]);
  const known = useTasks(open);
  const rows = useMemo(() => unfolded(list.rows, open, known, isNarrow ? 16 : 40), [list.rows, open, known, isNarrow]);
  const selected = rows.filter((row) => chosen.has(row.id));
  const orders = [...new Set(selected.flatMap(ordersFor))];
  const onKey = (event) => {
    const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (event.target.tagName === "INPUT") return;
    if (move) (event.preventDefault(), setCursor((before) => Math.max(0, Math.min(rows.length - 1, before + move))));
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      if (rows[cursor]?.tasks && open.includes(rows[cursor].id) === (event.key === "ArrowLeft")) (event.preventDefault(), toggle(rows[cursor].id));
    } else if (rows[cursor]?.piece) return;
    else if (event.key === "Enter" && rows[cursor]) go(`/allocations/${rows[cursor].id}`);
    else if (event.key === " " && rows[cursor]) (event.preventDefault(), choose(rows[cursor].id));
    else if (event.key === "x" && rows[cursor]) (setChosen(new Set([rows[cursor].id])), setAsked("cancel"));
  };
  const summary = Object.entries(list.states).map(([state, number]) => `${count(number)} ${state.toLowerCase()}`).join(", ");
  const head = isNarrow
    ? html`<span role="columnheader" class="off-screen">Allocation</span>`
    : html`<span role="columnheader"><span class="off-screen">Chosen</span></span>${columns.map((name) => html`<span role="columnheader" key=${name} class=${COLUMNS[name].isRight ? "right" : null}>${COLUMNS[name].title}</span>`)}`;
  return html`<main class="full allocations">
    <${Heading} title="Allocations" sub=${list.total === null ? "\u00a0" : summary || "none"}>
      ${isNarrow ? null : html`<${ColumnChoice} columns=${columns} setColumns=${setColumns} />`}
      <a class="button" href="/submit">Submit</a>
    <//>
    <${Search} text=${text} problems=${problems} who=${who} />
    <${Problem} error=${list.error} />
    ${selected.length ? html`<div class="selection" role="status"><span>${plural(selected.length, "allocation")} chosen</span>
      ${orders.map((name) => html`<button type="button" key=${name} class=${name === "cancel" ? "danger" : null} onClick=${() => setAsked(name)}>${TITLES[name]}</button>`)}
      <button type="button" class="plain" onClick=${() => setChosen(new Set())}>Choose none</button></div>` : null}
    ${rows.length || list.isLoading
      ? html`<div class=${isNarrow ? "list" : "list wide"} style=${isNarrow ? null : { "--columns": template(columns) }}>
          <${Rows} rows=${rows} height=${isNarrow ? 56 : 36} label="Allocations" total=${list.total} onEnd=${list.more} onKey=${onKey} cursor=${cursor} head=${head}
            row=${(row, at, place) => html`<${Row} key=${row.id} draw=${drawRow} ...${{ row, at, place, columns, isNarrow, choose, toggle }} isOpen=${open.includes(row.id)} second=${row.started_at && !row.completed_at ? second : 0} isChosen=${chosen.has(row.id)} isCursor=${at === cursor} />`} />
        </div>`
      : list.error ? null : html`<${Empty}>${text ? "Nothing matches." : "No allocations."} ${text ? html`<a href="/allocations">Show all</a>` : html`<a href="/submit">Submit something</a>`}<//>`}
    <${CommandLine} line=${asCommand(text, who.user)} />
    ${asked ? html`<${OrderDialog} name=${asked} ids=${selected.filter((row) => ordersFor(row).includes(asked)).map((row) => row.id)} onClose=${() => setAsked("")} onDone=${() => (setChosen(new Set()), list.reload())} />` : null}
  </main>`;
}
