// The tasks of a group as a grid of squares: on its own page, and unfolded in the list of allocations.
import { get } from "../api.js";
import { onChange } from "../events.js";
import { html, useEffect, useRef, useState } from "../ui.js";
import { toneOf } from "./basics.js";

export const SHOWN = 2000;
const AGAIN_MS = 1000;

export const Grid = ({ tasks }) => html`<div class="tasks" role="list">${tasks.map((task) => html`<span role="listitem" key=${task.id}><a class=${toneOf(task.state)} href=${`/allocations/${task.id}`} title=${`${task.task_index}: ${task.state}`} aria-label=${`Task ${task.task_index}: ${task.state}`}></a></span>`)}</div>`;

export async function tasksOf(group) {
  const { items } = await get("/allocations", { group, all: true, limit: SHOWN });
  return items.sort((one, other) => one.task_index - other.task_index);
}

// The tasks of each unfolded group, kept fresh; `open` names the groups.
export function useTasks(open) {
  const [known, setKnown] = useState({});
  const timers = useRef({});
  useEffect(() => {
    const read = (group) => tasksOf(group).then((tasks) => setKnown((before) => ({ ...before, [group]: tasks })), () => {});
    open.forEach(read);
    const soon = (group) => (timers.current[group] ||= setTimeout(() => (delete timers.current[group], read(group)), AGAIN_MS));
    const stop = onChange((change) => {
      if (change.what === "gap") open.forEach(soon);
      else if (open.includes(change.group_id)) soon(change.group_id);
    });
    return () => (stop(), Object.values(timers.current).forEach(clearTimeout), (timers.current = {}));
  }, [open.join()]);
  return known;
}

// The list with the grid below each unfolded group. All rows have one height, so a large grid takes several of them.
export function unfolded(rows, open, known, perRow) {
  return rows.flatMap((row) => {
    if (!row.tasks || !open.includes(row.id)) return [row];
    const tasks = known[row.id] ?? [];
    const pieces = [];
    for (let at = 0; at < tasks.length; at += perRow) pieces.push({ id: `${row.id}/${at}`, under: row.id, piece: tasks.slice(at, at + perRow) });
    if (tasks.length && row.tasks.size > tasks.length) pieces.push({ id: `${row.id}/more`, under: row.id, piece: [], more: row.tasks.size - tasks.length });
    return [row, ...pieces];
  });
}
