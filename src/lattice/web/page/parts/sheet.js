// A table. On a narrow screen each row is a list of its cells, each with its title before it.
import { html } from "../ui.js";

const isNothing = (cell) => cell === "" || cell === null || cell === undefined || cell === false;

function Head({ title, kind }) {
  return html`<th role="columnheader" class=${kind === "right" || kind === "order" ? kind : null}>${kind === "order" ? html`<span class="off-screen">${title}</span>` : title}</th>`;
}

function Cell({ title, kind, cell }) {
  const names = [kind ?? "", isNothing(cell) ? "nothing" : ""].filter(Boolean).join(" ");
  return html`<td role="cell" class=${names || null} data-label=${kind === "order" ? null : title}><span>${cell}</span></td>`;
}

// `heads` are titles, or [title, kind]: "right" for figures, "quiet" for remarks, "order" for buttons. `rows` are [key, ...cells].
export function Sheet({ heads, rows }) {
  const known = heads.map((head) => [head].flat());
  return html`<div class="scroll-x"><table class="plain stacked" role="table">
    <thead role="rowgroup"><tr role="row">${known.map(([title, kind]) => html`<${Head} key=${title} title=${title} kind=${kind} />`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(([key, ...cells]) => html`<tr role="row" key=${key}>
      ${cells.map((cell, at) => html`<${Cell} key=${known[at][0]} title=${known[at][0]} kind=${known[at][1]} cell=${cell} />`)}</tr>`)}</tbody>
  </table></div>`;
}
