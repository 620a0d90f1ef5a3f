// Server-sent events, read by fetch: an EventSource cannot send this page's key.
import { address, now, send } from "./api.js";
import { reachable, useEffect, useRef, watched } from "./ui.js";

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
const HIDDEN_MS = 60_000;
const SILENT_MS = 25_000; // a stream says something every 15 s

// Reads events until the stream ends; `take(name, data, id)` gets each. Throws what `send` throws.
export async function readEvents(url, { lastId, signal, take }) {
  const headers = lastId ? { "Last-Event-ID": lastId } : {};
  const answer = await send("GET", url, { headers, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await withinTime(reader.read());
      if (done) return;
      held += value;
      const whole = held.split("\n\n");
      held = whole.pop();
      for (const text of whole) giveEvent(text, take);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A server that hangs closes nothing.
function withinTime(reading) {
  let timer = 0;
  const silence = new Promise((_, fail) => {
    timer = setTimeout(() => (reachable.set(false), fail(new Error("the stream is silent"))), SILENT_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}

function giveEvent(text, take) {
  let name = "message";
  let id = "";
  const data = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("id:")) id = line.slice(3).trim();
  }
  if (data.length) take(name, data.join("\n"), id);
}

const pause = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

// A stream that comes back by itself, where it was, until `stop` is called or `take` returns "end".
export function follow(makeUrl, take, failed = () => {}) {
  const control = new AbortController();
  let lastId = "";
  (async () => {
    let wait = FIRST_PAUSE_MS;
    let isOver = false;
    while (!control.signal.aborted && !isOver) {
      try {
        await readEvents(makeUrl(), {
          lastId,
          signal: control.signal,
          take(name, data, id) {
            wait = FIRST_PAUSE_MS;
            if (id) lastId = id;
            if (take(name, data) === "end") isOver = true;
          },
        });
      } catch (error) {
        if (control.signal.aborted) return;
        // What is refused now is refused in a second, too; a server that is away comes back.
        if (error.status && error.status !== 503 && error.status !== 401) {
          failed(error);
          return;
        }
      }
      if (!isOver) await pause(wait, control.signal);
      wait = Math.min(2 * wait, LONGEST_PAUSE_MS);
    }
  })();
  return () => control.abort();
}

// One stream of state changes for the whole page. A browser has six connections to a server: pages that nobody sees let go of theirs.
const listeners = new Set();
export const live = watched(false);
let stop = null;
let position = "";

function begin() {
  if (stop || !listeners.size) return;
  stop = follow(
    () => address("/events", { since: position }),
    (name, data) => {
      live.set(true);
      const change = JSON.parse(data);
      if (change.index !== undefined) position = String(change.index);
      if (name !== "message" && name !== "gap") return;
      const said = name === "gap" ? { what: "gap" } : change;
      for (const listener of [...listeners]) listener(said);
    },
  );
}

function end() {
  stop?.();
  stop = null;
  live.set(false);
}

// Hears of every change that the person may see; {what: "gap"} = some were missed, look again.
export function onChange(listener) {
  listeners.add(listener);
  begin();
  return () => {
    listeners.delete(listener);
    if (!listeners.size) end();
  };
}

// Calls `act` a moment after a change that `takes` says yes to, once for however many come meanwhile.
export function useChanges(takes, act, pauseMs) {
  const latest = useRef(null);
  latest.current = { takes, act };
  useEffect(() => {
    let timer = 0;
    const stop = onChange((change) => {
      if (change.what === "gap" || latest.current.takes(change)) timer ||= setTimeout(() => ((timer = 0), latest.current.act()), pauseMs);
    });
    return () => (stop(), clearTimeout(timer));
  }, []);
}

let hiding = 0;
addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.visibilityState === "visible") begin();
  else hiding = setTimeout(end, HIDDEN_MS);
});
reachable.listen((isReachable) => live.set(live.get() && isReachable));

export const ageOf = (moment) => (now() - Date.parse(moment)) / 1000;
