// The output of an allocation as it comes: text and nothing but text.
import { address, at } from "../api.js";
import { follow } from "../events.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { Empty, Problem } from "./basics.js";

const KEPT_LINES = 5000;
const KEPT_CHARS = 2_000_000;
const DRAW_MS = 100;
// Colours and movements of terminals mean nothing here.
const ESCAPES = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

function decoded({ data, data_b64: coded }) {
  if (data !== undefined) return data;
  return new TextDecoder().decode(Uint8Array.from(atob(coded), (char) => char.charCodeAt(0)));
}

// {text, isOver, error}: the last part of the output, growing.
function useOutput(id, { stream, node, run }) {
  const [output, setOutput] = useState({ text: "", isOver: false, error: null });
  useEffect(() => {
    let text = "";
    let timer = 0;
    setOutput({ text, isOver: false, error: null });
    const draw = () => {
      timer = 0;
      setOutput((before) => ({ ...before, text }));
    };
    const stop = follow(
      () => address(`${at("allocations", id)}/logs/stream`, { stream, node, run, tail: KEPT_LINES }),
      (name, data) => {
        if (name === "end") return setOutput((before) => ({ ...before, text, isOver: true })), "end";
        if (name === "restart") text = "";
        if (name === "message") text = (text + decoded(JSON.parse(data))).slice(-KEPT_CHARS);
        timer ||= setTimeout(draw, DRAW_MS);
        return "";
      },
      (error) => setOutput((before) => ({ ...before, error })),
    );
    return () => (stop(), clearTimeout(timer));
  }, [id, stream, node, run]);
  return output;
}

function marked(line, wanted) {
  const pieces = [];
  let from = 0;
  const small = line.toLowerCase();
  for (let place = small.indexOf(wanted); place >= 0; place = small.indexOf(wanted, from)) {
    pieces.push(line.slice(from, place), html`<mark>${line.slice(place, place + wanted.length)}</mark>`);
    from = place + wanted.length;
  }
  return [...pieces, line.slice(from), "\n"];
}

function Lines({ text, wanted }) {
  const box = useRef(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    isAtEnd.current = scrollTop + clientHeight > scrollHeight - 24;
  };
  const clean = text.replace(ESCAPES, "").replaceAll("\r\n", "\n");
  const small = wanted.toLowerCase();
  const shown = small
    ? clean.split("\n").filter((line) => line.toLowerCase().includes(small)).slice(-KEPT_LINES).map((line) => marked(line, small))
    : clean;
  return html`<pre class="text log" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label="Output">${shown}</pre>`;
}

export function Log({ allocation }) {
  const [stream, setStream] = useState("stdout");
  const [node, setNode] = useState("");
  const [wanted, setWanted] = useState("");
  const { text, isOver, error } = useOutput(allocation.id, { stream, node, run: undefined });
  const several = (allocation.nodes?.length ?? 0) > 1;
  return html`
    <div class="tabs log-tools">
      ${["stdout", "stderr"].map((name) => html`<button type="button" key=${name} aria-pressed=${String(stream === name)} onClick=${() => setStream(name)}>${name}</button>`)}
      ${several ? html`<select aria-label="Node" value=${node} onChange=${(event) => setNode(event.target.value)}><option value="">all nodes</option>${allocation.nodes.map((name) => html`<option key=${name}>${name}</option>`)}</select>` : null}
      <input type="search" placeholder="Find in the output" aria-label="Find in the output" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <span class="quiet small" role="status">${isOver ? "complete" : "live"}</span>
    </div>
    <${Problem} error=${error} />
    ${text || !isOver ? html`<${Lines} text=${text} wanted=${wanted} />` : html`<${Empty}>No output on ${stream}.<//>`}`;
}
