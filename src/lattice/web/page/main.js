// The frame around all views, and which view an address shows.
import { get } from "./api.js";
import { live, onChange } from "./events.js";
import { decoded, go, route } from "./router.js";
import { expired, isAdmin, isOperator, onLoginElsewhere, person } from "./session.js";
import { Component, html, logins, reachable, render, useEffect, useState, watched } from "./ui.js";
import { Keys } from "./parts/keys.js";
import { applyTheme, nextTheme, theme } from "./theme.js";
import { Login, logOut } from "./views/login.js";

const VIEWS = [
  { word: "allocations", title: "Allocations", load: () => import("./views/allocations.js"), one: () => import("./views/allocation.js") },
  { word: "submit", title: "Submit", load: () => import("./views/submit.js") },
  { word: "timeline", title: "Timeline", load: () => import("./views/timeline.js") },
  { word: "nodes", title: "Nodes", load: () => import("./views/nodes.js"), one: () => import("./views/node.js") },
  { word: "dags", title: "DAGs", load: () => import("./views/dags.js"), one: () => import("./views/dag.js") },
  { word: "services", key: "v", title: "Services", load: () => import("./views/services.js"), one: () => import("./views/service.js") },
  { word: "usage", title: "Usage", load: () => import("./views/usage.js") },
  { word: "admin", key: "m", title: "Admin", load: () => import("./views/admin.js"), who: (user) => isAdmin(user) || isOperator(user) },
];
const viewsOf = (who) => VIEWS.filter((view) => !view.who || view.who(who));
const letterOf = (view) => view.key ?? view.word[0];
const keysShown = watched(false);
const MODULES = new Map();
// A browser remembers that a module could not be fetched and does not ask for it again: only a new page does.
const MISSED = new Set();
const RELOADED = "lattice.reloaded";
const RELOAD_PAUSE_MS = 10_000;

function reloadSoon() {
  const since = Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0);
  const timer = setTimeout(() => (sessionStorage.setItem(RELOADED, String(Date.now())), location.reload()), Math.max(0, RELOAD_PAUSE_MS - since));
  return () => clearTimeout(timer);
}

// A view that fails must not take the others with it.
class Guard extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }
  render({ children }) {
    if (!this.state.error) return children;
    return html`<main><div class="problem" role="alert"><p>This view failed: ${this.state.error.message}</p></div>
      <button type="button" onClick=${() => this.setState({ error: null })}>Try again</button></main>`;
  }
}

function useView(path) {
  const [first, ...rest] = path.split("/").filter(Boolean);
  const entry = VIEWS.find((view) => view.word === (first ?? "allocations"));
  const load = entry && (rest.length ? entry.one ?? entry.load : entry.load);
  const [, draw] = useState(0);
  useEffect(() => {
    if (!load || MODULES.has(load)) return undefined;
    if (MISSED.has(load)) return reachable.get() ? reloadSoon() : undefined;
    load().then((module) => (MODULES.set(load, module), draw((count) => count + 1)), () => (MISSED.add(load), reachable.set(false)));
    return undefined;
  }, [load, reachable.use()]);
  return { entry, View: load && MODULES.get(load)?.default, rest: rest.map(decoded) };
}

const Side = ({ who, word }) => html`<div class="side">
  <a class="brand" href="/"><img src="/assets/icon.svg" alt="" />Lattice</a>
  <nav aria-label="Views">
    ${viewsOf(who).map((view) => html`
      <a key=${view.word} href=${`/${view.word}`} aria-current=${view.word === word ? "page" : null}>${view.title}</a>`)}
  </nav>
  <div class="foot">
    <span class=${live.use() ? "connection on" : "connection"}><span class="mark" aria-hidden="true"></span>${live.get() ? "Live" : "Not live"}</span>
    <span title=${who.roles.join(", ")}>${who.user}</span>
    <button type="button" class="plain" onClick=${nextTheme} title="Light, dark, or as the system has it">${theme.use()}</button>
    <button type="button" class="plain keys-button" onClick=${() => keysShown.set(true)}>Keys</button>
    <button type="button" class="plain" onClick=${logOut}>Log out</button>
  </div>
</div>`;

function Frame({ who }) {
  const { path, query } = route.use();
  const { entry, View, rest } = useView(path);
  useEffect(() => onChange(() => {}), []);
  useEffect(() => {
    document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    document.title = `${rest[0] ?? entry?.title ?? "Not found"} · Lattice`;
  }, [path]);
  return html`<div class="frame">
    <a class="skip" href="#content">Skip to the content</a>
    <${Side} who=${who} word=${entry?.word} />
    <div class="content" id="content">
      ${reachable.use() ? null : html`<div class="banner" role="status">The server does not answer. What you see is what it said last; this page comes back by itself.</div>`}
      <${Guard} key=${path}>
        ${View ? html`<${View} who=${who} id=${rest[0]} rest=${rest} query=${query} />` : entry ? html`<main aria-busy="true"></main>` : html`<${Missing} path=${path} />`}
      <//>
    </div>
    ${keysShown.use() ? html`<${Keys} views=${viewsOf(who).map((view) => [letterOf(view), view.title])} onClose=${() => keysShown.set(false)} />` : null}
    ${expired.use() ? html`<${Login} again=${expired.get()} />` : null}
  </div>`;
}

const Missing = ({ path }) => html`<main><h1>Nothing here</h1><p class="quiet">There is no view at ${path}.</p><p><a href="/">Allocations</a></p></main>`;

async function ask() {
  try {
    person.set(await get("/whoami"));
    const wasOut = Boolean(expired.get());
    expired.set("");
    if (wasOut) logins.set(logins.get() + 1);
  } catch (error) {
    if (error.status === 401) person.set(person.get() || null);
  }
}

function App() {
  const who = person.use();
  const { path } = route.use();
  const isReachable = reachable.use();
  useEffect(() => {
    if (path !== "/login") ask();
  }, [path === "/login"]);
  useEffect(() => {
    if (isReachable) return undefined;
    const timer = setInterval(() => ask(), 1000);
    return () => clearInterval(timer);
  }, [isReachable]);
  if (path === "/login" || who === null) return html`<${Login} />`;
  if (who === undefined) return isReachable ? null : html`<main><p class="quiet" role="status">The server does not answer yet. This page tries again by itself.</p></main>`;
  return html`<${Frame} who=${who} />`;
}

// Keys: a letter after g goes to a view, / to the search, ? to the list of keys.
let pending = "";
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog, .terminal")) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) (event.preventDefault(), field.focus());
  } else if (event.key === "?") keysShown.set(Boolean(person.get()));
  else if (pending === "g") {
    const view = VIEWS.find((each) => letterOf(each) === event.key);
    pending = "";
    if (view) go(`/${view.word}`);
  } else pending = event.key === "g" ? "g" : "";
});

applyTheme();
onLoginElsewhere(ask);
render(html`<${App} />`, document.getElementById("root"));
