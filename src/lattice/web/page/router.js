// Addresses of views. Links are plain links: a click stays in the page, everything else is the browser's.
import { watched } from "./ui.js";

const read = () => ({
  path: location.pathname.replace(/\/+$/, "") || "/",
  query: new URLSearchParams(location.search),
});

export const route = watched(read());

// A word of an address as people wrote it; one that is coded wrongly stays as it is.
export function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

export function go(target, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", target);
  route.set(read());
  if (!replace) scrollTo(0, 0);
}

// Changes parameters of the present address; an empty value removes one.
export function setQuery(changes, { replace = true } = {}) {
  const { path, query } = route.get();
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  go(path + (text ? `?${text}` : ""), { replace });
}

addEventListener("popstate", () => route.set(read()));
addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
  if (/^\/(api|v1|assets|web|metrics|healthz)(\/|$)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});
