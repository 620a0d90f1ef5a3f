// Who is logged in. The token is in a cookie that no script can read; this page's key goes along with each request.
import { watched } from "./ui.js";

const KEY = "lattice-page-key";
const SIGN = "lattice-logged-in"; // other tabs hear of a login by it

// undefined = not asked yet, null = nobody
export const person = watched(undefined);
export const expired = watched(""); // why the session is over, while what it left on the screen stays

export function pageKey() {
  let key = localStorage.getItem(KEY);
  if (!key || key.length < 64) {
    key = [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    localStorage.setItem(KEY, key);
  }
  return key;
}

export async function pageDigest() {
  const bytes = new TextEncoder().encode(pageKey());
  return sha256(bytes);
}

export function announceLogin() {
  localStorage.setItem(SIGN, String(Date.now()));
}

export function onLoginElsewhere(act) {
  addEventListener("storage", (event) => event.key === SIGN && act());
}

export const isOperator = (who) => who?.roles.some((role) => role === "SystemAdmin" || role === "Operator") ?? false;
export const isAdmin = (who) => who?.roles.includes("SystemAdmin") ?? false;
export const isReader = (who) => who?.roles.every((role) => role === "ReadOnly" || role === "AllocationReader") ?? true;

// The browser's own digest exists on https and localhost alone, and a cluster may be reached by plain http.
async function sha256(bytes) {
  if (crypto.subtle) {
    const digest = await crypto.subtle.digest("SHA-256", bytes);
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  const { digest } = await import("./sha256.js");
  return digest(bytes);
}
