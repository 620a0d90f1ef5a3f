// Light, dark, or as the system has it.
import { watched } from "./ui.js";

const KEY = "lattice-theme";
const NAMES = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
const ORDER = Object.keys(NAMES);
const chosen = () => (ORDER.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system");

export const theme = watched(NAMES[chosen()]);

export function applyTheme() {
  const name = chosen();
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.set(NAMES[name]);
}

export function nextTheme() {
  localStorage.setItem(KEY, ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length]);
  applyTheme();
}
