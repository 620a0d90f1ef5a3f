// What a row of the list says about an allocation.
import { now } from "./api.js";
import { plural, withLocalTimes } from "./format.js";
import { fold } from "./node_sets.js";

// Seconds that it runs, or ran; null before.
export function elapsed(row) {
  if (!row.started_at) return null;
  const end = row.completed_at ? Date.parse(row.completed_at) : now();
  return Math.max(0, (end - Date.parse(row.started_at)) / 1000);
}

export const whatIs = (row) => withLocalTimes(row.reason || row.ending || row.message || "");

export function nodesText(row) {
  if (!row.nodes?.length) return plural(row.node_count ?? 1, "node");
  return row.nodes.length > 3 ? plural(row.nodes.length, "node") : fold(row.nodes);
}
