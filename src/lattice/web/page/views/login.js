// Logging in: by a link of `lattice web`, or by the site's identity provider.
import { send } from "../api.js";
import { capital } from "../format.js";
import { go, route } from "../router.js";
import { announceLogin, expired, pageDigest, person } from "../session.js";
import { html, useEffect, useState } from "../ui.js";
import { CommandLine, Dialog, Problem } from "../parts/basics.js";

const PLAIN_PATH = /^\/(?![/\\])/;
const target = () => {
  const { path, query } = route.get();
  const to = query.get("to") ?? "";
  if (path !== "/login") return path + location.search;
  return PLAIN_PATH.test(to) && !to.startsWith("/login") ? to : "/allocations";
};

async function byLink(ticket) {
  const answer = await send("POST", "/web/session", { body: { ticket, page: await pageDigest() } });
  await answer.json();
  announceLogin();
}

async function byProvider() {
  const query = new URLSearchParams({ page: await pageDigest(), to: target() });
  location.assign(`/web/login?${query}`);
}

export async function logOut() {
  await send("DELETE", "/web/session").catch(() => {});
  person.set(null);
  go("/login");
}

function useTicket() {
  const [state, setState] = useState({ isBusy: Boolean(location.hash.slice(1)), error: null });
  useEffect(() => {
    const ticket = location.hash.slice(1);
    if (route.get().path !== "/login" || !ticket) return;
    const to = target();
    // A link is good once: it has no place in the history.
    history.replaceState(null, "", "/login");
    byLink(ticket).then(
      () => (person.set(undefined), expired.set(""), go(to, { replace: true })),
      (error) => setState({ isBusy: false, error }),
    );
  }, []);
  return state;
}

function useProvider() {
  const [kind, setKind] = useState("");
  useEffect(() => {
    fetch("/api/v1/auth/discovery").then((answer) => answer.json()).then((found) => setKind(found.kind), () => setKind("hmac"));
  }, []);
  return kind;
}

export function Login({ again }) {
  const { isBusy, error } = useTicket();
  const kind = useProvider();
  const problem = error ?? (route.get().query.get("problem") ? { message: route.get().query.get("problem") } : null);
  const ways = html`
    <${Problem} error=${problem} />
    ${kind === "oidc" ? html`<button type="button" class="primary" onClick=${byProvider}>Log in</button><p class="quiet">or, from a terminal where you are logged in:</p>` : null}
    ${kind === "hmac" ? html`<p>Open the page from a terminal where you are logged in:</p>` : null}
    ${kind ? html`<${CommandLine} line="lattice web" />` : null}`;
  if (again) {
    return html`<${Dialog} title="Log in again" isKept><p>${capital(again)}. What is on this page is kept.</p>${ways}<//>`;
  }
  return html`<main class="login"><div class="section">
    <h1><img src="/assets/icon.svg" alt="" />Lattice</h1>
    ${isBusy ? html`<p class="quiet" role="status">Logging in …</p>` : ways}
  </div></main>`;
}
