// What happened to an allocation: the changes that the servers still remember and, for older ones, the times that its record holds.
import { address } from "./api.js";
import { onChange, readEvents } from "./events.js";
import { fold } from "./node_sets.js";
import { useEffect, useState } from "./ui.js";

const WORDS = {
  submitted: () => "submitted",
  eligible: () => "may start from now on",
  placed: (change) => `placed on ${fold(change.nodes ?? [])}`,
  started: (change) => (change.run > 1 ? `run ${change.run} started` : "started"),
  stopping: () => "is being stopped",
  ended: (change) => `ended: ${change.state}${change.cause && change.cause !== "exit" ? `, ${change.cause}` : ""}${change.exit_code ? `, exit code ${change.exit_code}` : ""}`,
  requeued: () => "put back into the queue",
  held: () => "held",
  released: () => "released",
  updated: () => "changed",
};
const told = (change) => ({ at: change.at, text: (WORDS[change.kind] ?? (() => change.kind))(change) });

export function useStory(id, allocation) {
  const [changes, setChanges] = useState([]);
  const own = allocation?.id;
  useEffect(() => {
    if (!own) return undefined;
    const control = new AbortController();
    const found = [];
    const finish = () => (setChanges(found), control.abort());
    const timer = setTimeout(finish, 3000);
    readEvents(address("/events", { ids: own, since: 1 }), {
      signal: control.signal,
      take(name, data) {
        if (name === "message") found.push(JSON.parse(data));
        else if (name === "position") finish();
      },
    }).catch(() => {});
    const stop = onChange((change) => change.id === own && setChanges((before) => [...before, change]));
    return () => (clearTimeout(timer), control.abort(), stop());
  }, [own]);
  if (!allocation) return [];
  const mine = changes.filter((change) => change.id === own).map(told);
  const kinds = new Set(changes.filter((change) => change.id === own).map((change) => change.kind));
  const recorded = [
    ["submitted", allocation.submitted_at, "submitted"],
    ["started", allocation.started_at, allocation.nodes.length ? `started on ${fold(allocation.nodes)}` : "started"],
    ["ended", allocation.completed_at, allocation.ending || `ended: ${allocation.state}`],
  ].filter(([kind, at]) => at && !kinds.has(kind)).map(([, at, text]) => ({ at, text }));
  return [...recorded, ...mine].sort((one, other) => one.at.localeCompare(other.at));
}
