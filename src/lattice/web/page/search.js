// The search language of the list (also that of `lattice tui`): words such as state:failed user:ada node:n[1-4] since:2h tag:x=y, and bare words.
import { seconds, shell } from "./format.js";

export const WORDS = {
  state: "state of the allocation: pending, running, failed, ... (several with commas)",
  user: "its user",
  tenant: "its tenant",
  project: "its project",
  vcluster: "its vCluster",
  name: "its name, as a whole",
  tag: "a tag: tag:key=value (may be repeated)",
  node: "a node that it runs or ran on: node:n[1-4]",
  group: "tasks of a task group: group:a17",
  since: "ended since: 2h, 3d, or a date; finished ones are shown, too",
  until: "ended before: 2h, 3d, or a date",
};
const MANY = new Set(["tag"]);
const [EARLIEST, LATEST] = [Date.parse("0001-01-02T00:00:00Z"), Date.parse("9999-12-31T00:00:00Z")]; // as the API takes times
const ID = /^a?\d+(_\d+)?$/;

// Words are parted by spaces, outside of double quotes: name:"night run". What begins with a quote is a name, whatever it says.
function words(text) {
  const found = [];
  let word = null;
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (!isQuoted && /\s/.test(char)) {
      if (word) found.push(word);
      word = null;
      continue;
    }
    word ??= { text: "", isName: char === '"' };
    if (char === '"') isQuoted = !isQuoted;
    else if (isQuoted && char === "\\" && '"\\'.includes(text[at + 1] ?? " ")) word.text += text[++at];
    else word.text += char;
  }
  return { found: word ? [...found, word] : found, isOpen: isQuoted };
}

// {parameters for GET /allocations, problems to show, id when a single one is meant, moments as they were typed}
export function understand(text, nowMs = Date.now()) {
  const found = { parameters: {}, problems: [], id: "", moments: {} };
  const { parameters, problems } = found;
  const { found: typed, isOpen } = words(text);
  if (isOpen) problems.push("a quote is not closed");
  for (const { text: word, isName } of typed) {
    const [, key, value] = (!isName && /^(\w+):(.*)$/s.exec(word)) || [];
    if (isName) word && (parameters.name = word);
    else if (word === "all" || word === "history") parameters.all = true;
    else if (word === "tasks") parameters.tasks = true;
    else if (!key && ID.test(word)) found.id = word;
    else if (!key) parameters.name = word;
    else if (!Object.hasOwn(WORDS, key)) problems.push(`"${key}:" is no filter; use ${Object.keys(WORDS).join(", ")}`);
    else if (!value) problems.push(`${key}: needs a value`);
    else if (key === "since" || key === "until") timed(key, value, nowMs, found);
    else if (MANY.has(key)) parameters[key] = [...(parameters[key] ?? []), value];
    else parameters[key] = value;
  }
  if (parameters.since || parameters.until) parameters.all = true;
  return found;
}

function timed(key, value, nowMs, { parameters, problems, moments }) {
  const ago = seconds(value);
  const moment = ago === null ? Date.parse(value) : nowMs - ago * 1000;
  if (!(EARLIEST <= moment && moment < LATEST)) problems.push(`${key}: "${value}" is no time; write 2h, 3d or 2026-03-01`);
  else {
    parameters[key] = new Date(moment).toISOString();
    moments[key] = value;
  }
}

// The line of the command line that shows the same.
export function asCommand(text, who) {
  const { parameters, id, moments } = understand(text);
  if (id) return `lattice status ${id}`;
  const verb = parameters.all ? "history" : "status";
  const flags = [];
  const { user, tenant, vcluster, since, until, ...rest } = parameters;
  if (user && user !== who) flags.push(`--user=${shell(user)}`);
  else if (!user) flags.push("--all");
  if (tenant) flags.push(`--tenant=${shell(tenant)}`);
  if (vcluster) flags.push(`--vcluster=${shell(vcluster)}`);
  if (since) flags.push(`--since=${shell(moments.since)}`);
  if (until) flags.push(`--until=${shell(moments.until)}`);
  for (const [key, value] of Object.entries(rest)) {
    if (key === "all" || key === "group") continue;
    for (const each of [value].flat()) flags.push(each === true ? `--${key}` : `--${key}=${shell(each)}`);
  }
  return rest.group ? `lattice status --tasks ${shell(rest.group)}` : ["lattice", verb, ...flags].join(" ");
}
