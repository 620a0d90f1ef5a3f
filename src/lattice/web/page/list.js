// The list of allocations: pages of it as they are needed, kept fresh by the stream of changes.
import { get } from "./api.js";
import { onChange } from "./events.js";
import { useCallback, useEffect, useRef, useReturn, useState } from "./ui.js";

const FIRST = 200;
const MORE = 500;
// After a change the newest rows are read again, at most this often, and all of the first page some time later: changes say
// what happened to a row, and not why another one still waits.
const AGAIN = 30;
const AGAIN_MS = 1000;
const WHOLE_MS = 15_000;
const EMPTY = { rows: [], total: null, states: {}, cursor: null, error: null, isLoading: true };

// What a change says about a row of the list.
function changed(row, change) {
  const next = { ...row, state: change.state };
  if (change.nodes) Object.assign(next, { nodes: change.nodes, node_count: change.nodes.length });
  if (change.kind === "started") next.started_at = change.at;
  if (change.kind === "ended") next.completed_at = change.at;
  if (change.exit_code !== undefined) next.exit_code = change.exit_code;
  if (change.reason !== undefined) next.reason = change.reason;
  return next;
}

// {rows, total, states, error, isLoading, more, reload}; `key` names the parameters, which are an object of their own each time.
export function useAllocations(parameters, key) {
  const [list, setList] = useState(EMPTY);
  const asking = useRef({ key: "", isBusy: false, timer: 0, whole: 0 });

  const load = useCallback(async (isFresh, isWhole = true) => {
    const turn = asking.current;
    turn.key = key;
    if (!isWhole) turn.whole ||= setTimeout(() => ((turn.whole = 0), load(false)), WHOLE_MS);
    if (isFresh) setList((before) => ({ ...before, isLoading: true, error: null }));
    try {
      const [page, counts] = await Promise.all([
        get("/allocations", { ...parameters, limit: isWhole ? FIRST : AGAIN }),
        get("/allocations/count", parameters),
      ]);
      if (turn.key !== key) return;
      setList((before) => {
        const kept = isFresh ? [] : before.rows.slice(0);
        return { ...merged(page, kept), total: counts.total, states: counts.states, error: null, isLoading: false,
          cursor: kept.length > page.items.length ? before.cursor : page.next_cursor };
      });
    } catch (error) {
      if (turn.key === key) setList((before) => ({ ...before, error, isLoading: false }));
    }
  }, [key]);

  useEffect(() => {
    load(true);
    const soon = () => {
      const turn = asking.current;
      // What no longer has the state that was searched for leaves the list only by reading all of it.
      turn.timer ||= setTimeout(() => ((turn.timer = 0), load(false, Boolean(parameters.state))), AGAIN_MS);
    };
    const stop = onChange((change) => {
      if (change.what === "gap") return load(false);
      if (change.what !== "allocation") return undefined;
      setList((before) => patched(before, change));
      return soon();
    });
    return () => (stop(), clearTimeout(asking.current.timer), clearTimeout(asking.current.whole), Object.assign(asking.current, { timer: 0, whole: 0 }));
  }, [load]);

  const reload = useCallback(() => load(false), [load]);
  useReturn(list.error, reload);

  const more = useCallback(async () => {
    const turn = asking.current;
    if (!list.cursor || turn.isBusy) return;
    turn.isBusy = true;
    try {
      const page = await get("/allocations", { ...parameters, limit: MORE, cursor: list.cursor });
      if (turn.key !== key) return;
      setList((before) => {
        const known = new Set(before.rows.map((row) => row.id));
        return { ...before, rows: [...before.rows, ...page.items.filter((row) => !known.has(row.id))], cursor: page.next_cursor };
      });
    } catch {
      // Scrolling on asks again.
    } finally {
      turn.isBusy = false;
    }
  }, [list.cursor, key]);

  return { ...list, more, reload };
}

// The newest page, and below it what was read before.
function merged(page, kept) {
  if (!kept.length || !page.items.length) return { rows: page.items };
  const last = page.items.at(-1).number;
  return { rows: page.next_cursor ? [...page.items, ...kept.filter((row) => row.number < last)] : page.items };
}

function patched(list, change) {
  const at = list.rows.findIndex((row) => row.id === change.id);
  if (at < 0) return list;
  const rows = list.rows.slice();
  rows[at] = changed(rows[at], change);
  return { ...list, rows };
}
