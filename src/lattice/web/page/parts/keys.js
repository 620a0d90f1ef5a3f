// The keys of the page, on the page.
import { html } from "../ui.js";
import { Dialog } from "./basics.js";

const HERE = [
  [["/"], "search"],
  [["j", "↓"], "down in a list"],
  [["k", "↑"], "up in a list"],
  [["→", "←"], "unfold and fold the tasks of a group"],
  [["Space"], "choose"],
  [["Enter"], "open"],
  [["x"], "cancel"],
  [["Esc"], "close a question"],
  [["?"], "these keys"],
];

const Row = ({ keys, text }) => html`<div><dt>${keys.map((key) => html`<kbd key=${key}>${key}</kbd>`)}</dt><dd>${text}</dd></div>`;

// `views` are [letter, title] of those that the person has.
export const Keys = ({ views, onClose }) => html`<${Dialog} title="Keys" onClose=${onClose}>
  <dl class="keys">
    ${HERE.map(([keys, text]) => html`<${Row} key=${text} keys=${keys} text=${text} />`)}
    ${views.map(([letter, title]) => html`<${Row} key=${title} keys=${["g", letter]} text=${title} />`)}
  </dl>
  <div class="buttons"><button type="button" onClick=${onClose}>Close</button></div>
<//>`;
