// A terminal in a running allocation.
import { at } from "../api.js";
import { allowOwnStyles } from "../inline_styles.js";
import { CommandLine, Heading, Problem } from "../parts/basics.js";
import { TerminalLink } from "../terminal_link.js";
import { html, useEffect, useRef, useState } from "../ui.js";

const COLOURS = ["background", "foreground", "cursor"];

function themed() {
  const style = getComputedStyle(document.documentElement);
  const [background, foreground, cursor] = ["--panel", "--ink", "--accent"].map((name) => style.getPropertyValue(name).trim());
  return Object.fromEntries(COLOURS.map((name, place) => [name, [background, foreground, cursor][place]]));
}

async function loadTerminal() {
  allowOwnStyles();
  if (!document.querySelector('link[href$="xterm.css"]')) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/assets/vendor/xterm.css" }));
  }
  const [{ Terminal }, { FitAddon }] = await Promise.all([import("/assets/vendor/xterm.mjs"), import("/assets/vendor/addon-fit.mjs")]);
  return { Terminal, FitAddon };
}

export default function TerminalView({ id }) {
  const box = useRef(null);
  const [state, setState] = useState({ text: "Opening …", error: null, isOver: false });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let clean = () => {};
    let isGone = false;
    loadTerminal().then(({ Terminal, FitAddon }) => {
      if (isGone) return;
      const mono = getComputedStyle(document.documentElement).getPropertyValue("--mono");
      const terminal = new Terminal({ fontFamily: mono, fontSize: 13, theme: themed(), scrollback: 5000, screenReaderMode: true });
      const fit = new FitAddon();
      terminal.loadAddon(fit);
      terminal.open(box.current);
      fit.fit();
      const size = () => ({ rows: terminal.rows, columns: terminal.cols });
      const link = new TerminalLink(`${at("allocations", id)}/attach`, size(), (said) => hear(said, terminal, setState));
      terminal.onData((text) => link.type(new TextEncoder().encode(text)));
      terminal.onBinary((text) => link.type(Uint8Array.from(text, (char) => char.charCodeAt(0))));
      terminal.onResize(() => link.resize(size()));
      const watcher = new ResizeObserver(() => fit.fit());
      watcher.observe(box.current);
      terminal.focus();
      clean = () => (watcher.disconnect(), link.close(), terminal.dispose());
    }, (error) => setState({ text: "", error, isOver: true }));
    return () => ((isGone = true), clean());
  }, [id, round]);
  return html`<main class="full">
    <${Heading} title=${html`Terminal in <a href=${`/allocations/${id}`}>${id}</a>`} sub=${state.text || "\u00a0"}>
      ${state.isOver ? html`<button type="button" class="primary" onClick=${() => (setState({ text: "Opening …", error: null, isOver: false }), setRound(round + 1))}>Open another</button>` : null}
    <//>
    <${Problem} error=${state.error} />
    <div class="term-box" ref=${box}></div>
    <${CommandLine} line=${`lattice attach ${id}`} />
  </main>`;
}

function hear(said, terminal, setState) {
  if (said.kind === "bytes") terminal.write(said.data);
  else if (said.kind === "clear") terminal.reset();
  else if (said.kind === "opened") setState({ text: said.id, error: null, isOver: false });
  else if (said.kind === "notice") setState((before) => ({ ...before, text: said.text }));
  else if (said.kind === "lost") setState((before) => ({ ...before, text: "The connection was lost; trying again …" }));
  else if (said.kind === "end") setState({ text: said.hint ? "" : said.text, error: said.hint ? { message: said.text, hint: said.hint } : null, isOver: true });
}
