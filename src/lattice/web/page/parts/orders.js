// What can be done to allocations: the same orders from the list and from the page of one.
import { at, post } from "../api.js";
import { html } from "../ui.js";
import { plural } from "../format.js";
import { Confirm } from "./basics.js";

const ENDED = new Set(["Completed", "Failed", "Cancelled"]);
export const hasEnded = (allocation) => ENDED.has(allocation.state);

// Which orders make sense for an allocation.
export function ordersFor(allocation) {
  if (hasEnded(allocation)) return allocation.archived ? [] : ["requeue"];
  const found = ["cancel"];
  if (["Pending", "Suspended"].includes(allocation.state)) found.push(allocation.hold && allocation.hold !== "none" ? "release" : "hold");
  if (allocation.state === "Running") found.push("requeue");
  return found;
}

export const TITLES = { cancel: "Cancel", hold: "Hold", release: "Release", requeue: "Requeue" };

export async function order(name, ids) {
  const failed = [];
  if (name === "cancel") {
    const { items } = await post("/allocations/cancel", { ids });
    failed.push(...items.filter((item) => !item.ok).map((item) => `${item.id}: ${item.error?.message ?? "refused"}`));
  } else {
    for (const id of ids) {
      await post(at("allocations", id, name)).catch((error) => {
        if (ids.length === 1) throw error;
        failed.push(`${id}: ${error.message}`);
      });
    }
  }
  if (failed.length) throw new Error(failed.slice(0, 8).join("\n"));
}

export function OrderDialog({ name, ids, onClose, onDone }) {
  const act = async () => {
    try {
      await order(name, ids);
    } finally {
      onDone?.();
    }
  };
  return html`<${Confirm} title=${`${TITLES[name]} ${plural(ids.length, "allocation")}`} label=${TITLES[name]}
      tone=${name === "cancel" ? "danger" : "primary"} act=${act} line=${`lattice ${name} ${ids.join(" ")}`} onClose=${onClose}>
    <p>${ids.slice(0, 12).join(", ")}${ids.length > 12 ? ` and ${ids.length - 12} more` : ""}</p>
    ${name === "requeue" ? html`<p class="quiet">What runs is stopped, and runs again under the same id.</p>` : null}
  <//>`;
}
