// Small parts that every view uses.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { exact, moment } from "../format.js";

const TONES = {
  Running: "run", Completed: "done", Ready: "run", ok: "run", active: "run", Succeeded: "run",
  Pending: "wait", Staging: "wait", Starting: "wait", Stopping: "wait", Checkpointing: "wait", Booting: "wait", upcoming: "wait",
  Suspended: "warn", Draining: "warn", Drained: "warn", Degraded: "warn", Quarantine: "warn",
  Failed: "bad", Down: "bad", critical: "bad", warning: "warn",
  Cancelled: "off", Unknown: "off", over: "off",
};
export const toneOf = (state) => (Object.hasOwn(TONES, state) ? TONES[state] : "off");

// A state is a word; its mark repeats it for the eye and says nothing that the word does not.
export const State = ({ state, note }) => html`
  <span class=${`state ${toneOf(state)}`}><span class="mark" aria-hidden="true"></span>${state}${note ? html`<span class="quiet"> ${note}</span>` : null}</span>`;

export const Time = ({ at, withSeconds }) => html`<time datetime=${exact(at)} title=${exact(at)}>${moment(at, { withSeconds })}</time>`;

export const Problem = ({ error }) =>
  error
    ? html`<div class="problem" role="alert">
        <p>${error.message}</p>
        ${["current", "requested", "limit"].map((key) => error.figures?.[key] ? html`<p class="quiet">${key}: ${String(error.figures[key])}</p>` : null)}
        ${error.hint ? html`<p class="quiet">${error.hint}</p>` : null}
      </div>`
    : null;

// Below a list that the server ended: what is not shown must not look as if it did not exist.
export const Rest = ({ answer, what }) => (answer?.next_cursor ? html`<p class="quiet small">There are more ${what}; the command below shows all of them.</p>` : null);

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// The line of the command line that does the same as the view.
export function CommandLine({ line }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(line).catch(() => {});
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<div class="command">
    <span class="quiet" aria-hidden="true">$</span><code>${line}</code>
    <button type="button" class="plain" onClick=${copy} aria-label="Copy the command">${isCopied ? "Copied" : "Copy"}</button>
  </div>`;
}

export const Facts = ({ rows }) => html`<dl class="facts">
  ${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

export const Section = ({ title, more, children, id }) => html`<section class="section" aria-labelledby=${`${id ?? title}-title`}>
  <header><h2 id=${`${id ?? title}-title`}>${title}</h2>${more ?? null}</header>
  ${children}
</section>`;

export const Heading = ({ title, sub, children }) => html`<header class="heading">
  <div><h1>${title}</h1>${sub ? html`<p class="quiet">${sub}</p>` : null}</div>
  <div class="actions">${children}</div>
</header>`;

// A share of a whole, with its figure as text.
export const Meter = ({ label, value, of = 1, text, tone = "accent" }) => html`<div class="meter">
  <span class="meter-label">${label}</span>
  <span class="meter-track" aria-hidden="true"><span class=${`meter-fill ${tone}`} style=${{ width: `${Math.max(0, Math.min(100, (100 * value) / (of || 1)))}%` }}></span></span>
  <span class="meter-text">${text}</span>
</div>`;

export function Dialog({ title, onClose, children, isKept = false }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const cancel = (event) => (isKept ? event.preventDefault() : onClose());
  return html`<dialog ref=${box} onCancel=${cancel} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

// A question before something that cannot be undone. `act` is awaited; its refusal is shown here. `line` is the command that does the same,
// or makes it of what the form says.
export function Confirm({ title, label, tone = "danger", act, line = "", onClose, children }) {
  const box = useRef(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [said, setSaid] = useState(typeof line === "string" ? line : "");
  const tell = () => setSaid(typeof line === "string" ? line : line(new FormData(box.current)));
  useLayoutEffect(tell);
  const confirm = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act(new FormData(event.target));
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form ref=${box} onSubmit=${confirm} onInput=${tell}>
      ${children}
      <${Problem} error=${error} />
      <div class="buttons">
        <button type="submit" class=${tone} disabled=${isBusy}>${label}</button>
        <button type="button" onClick=${onClose}>Back</button>
      </div>
      ${said ? html`<${CommandLine} line=${said} />` : null}
    </form>
  <//>`;
}

export const Field = ({ label, hint, children, error, wide }) => html`<label class=${wide ? "field wide" : "field"}>
  <span class="label">${label}</span>${children}
  ${hint ? html`<span class="quiet hint">${hint}</span>` : null}${error ? html`<span class="wrong">${error}</span>` : null}
</label>`;
