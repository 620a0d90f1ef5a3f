// Requests to the REST API, with the session of this page.
import { reachable } from "./ui.js";
import { expired, pageKey, person } from "./session.js";

const PREFIX = "/api/v1";
const RENEW_BEFORE_S = 60;
const ENDED = "your session has ended";

export class ApiError extends Error {
  constructor(status, body) {
    super(body.message || `the server answered with status ${status}`);
    Object.assign(this, { status, code: body.code ?? "", hint: body.hint ?? "", figures: body });
  }
}

export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
    this.code = "unreachable";
    this.hint = "this page tries again by itself";
  }
}

let clockOffsetMs = 0;
// The server's time, as far as its answers tell it.
export const now = () => Date.now() + clockOffsetMs;

function noteTime(answer) {
  const said = Date.parse(answer.headers.get("date") ?? "");
  // The header has whole seconds, so a small difference says nothing.
  if (said && Math.abs(said - Date.now()) > 2000) clockOffsetMs = said - Date.now();
}

export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "" && each !== false) query.append(name, String(each));
    }
  }
  const text = query.toString();
  return PREFIX + path + (text ? `?${text}` : "");
}

export const at = (...words) => words.map((word) => `/${encodeURIComponent(word)}`).join("");

export async function send(method, url, { body, headers = {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(url, {
      method,
      signal,
      headers: {
        "X-Lattice-Page": pageKey(),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    reachable.set(false);
    throw new Unreachable();
  }
  noteTime(answer);
  if (answer.ok) {
    reachable.set(true);
    return answer;
  }
  const problem = (await answer.json().catch(() => ({}))).error ?? {};
  reachable.set(answer.status !== 503);
  if (answer.status !== 401 || !url.startsWith(PREFIX)) throw new ApiError(answer.status, problem);
  // What the API says is for those who send tokens themselves.
  if (person.get()) expired.set(ENDED);
  throw new ApiError(401, { code: problem.code, message: ENDED, hint: "log in again" });
}

async function call(method, path, parameters, body) {
  await renewed();
  const headers = method === "GET" ? {} : { "X-Request-Id": requestId() };
  const answer = await send(method, address(path, parameters), { body, headers });
  const text = await answer.text();
  return answer.headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text) : text;
}

export const get = (path, parameters) => call("GET", path, parameters);
export const post = (path, body = {}, parameters = {}) => call("POST", path, parameters, body);
export const put = (path, body) => call("PUT", path, {}, body);
export const remove = (path) => call("DELETE", path, {});

const requestId = () => `web-${crypto.getRandomValues(new Uint32Array(4)).join("")}`;

// Tokens of an identity provider may end after minutes: the server gets the next one before.
let renewing = null;

async function renewed() {
  const ends = Date.parse(person.get()?.expires_at ?? "");
  if (!ends || person.get().cannotRenew || ends - now() > RENEW_BEFORE_S * 1000) return;
  renewing ??= renew().finally(() => (renewing = null));
  await renewing;
}

async function renew() {
  try {
    const answer = await send("POST", "/web/session/renew", { body: {} });
    const { expires_at: end } = await answer.json();
    person.set({ ...person.get(), expires_at: new Date(end * 1000).toISOString() });
  } catch (error) {
    if (error instanceof ApiError) person.set({ ...person.get(), cannotRenew: true });
  }
}
