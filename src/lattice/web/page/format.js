// Figures, times and names as people read them.
export const PLAIN = "–";

export function clock(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return PLAIN;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(whole / 86400);
  const time = `${two(Math.floor((whole % 86400) / 3600))}:${two(Math.floor((whole % 3600) / 60))}:${two(whole % 60)}`;
  return days ? `${days}d ${time}` : time;
}

export const ago = (seconds) => (seconds < 120 ? `${Math.max(0, Math.round(seconds))} s ago` : `${clock(seconds)} ago`);

// As the API takes durations: 90s, 30m, 24h, 2d.
export function duration(seconds) {
  if (!seconds) return "";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds % size === 0) return `${seconds / size}${unit}`;
  }
  return `${seconds}s`;
}

export function seconds(text) {
  const found = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text.trim());
  return found ? Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86400, w: 604800 }[found[2]] : null;
}

const sameDay = (one, other) => one.toDateString() === other.toDateString();

export function moment(text, { withSeconds = false } = {}) {
  if (!text) return PLAIN;
  const when = new Date(text);
  const time = when.toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    ...(withSeconds ? { second: "2-digit" } : {}),
  });
  if (sameDay(when, new Date())) return time;
  const two = (number) => String(number).padStart(2, "0");
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${time}`;
}

// A sentence of the server with its times, which are in UTC, as the clock of the reader shows them.
const STAMP = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
const UTC_TIME = /(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d) UTC/g;
export const withLocalTimes = (text, nowMs = Date.now()) =>
  (text ?? "")
    .replace(STAMP, (found) => moment(found)).replace(UTC_TIME, (_, day, time) => moment(`${day ?? new Date(nowMs).toISOString().slice(0, 10)}T${time}:00Z`));

// Milliseconds since 1970, as records keep times: 13 digits until the year 2286.
const INSTANT = /(?<![\w.])[1-9]\d{12}(?![\w.])/g;
const LENGTH = /\b([a-z]\w*)_(m?s): (\w+) -> (\w+)/g;
const lasting = (text, unit) => (/^\d+$/.test(text) ? duration(Number(text) / (unit === "ms" ? 1000 : 1)) || "0s" : text);

// A line of the audit log, `start: none -> 1731945600000`, with times and lengths that people can read.
export const readable = (text) =>
  (text ?? "")
    .replace(LENGTH, (_, name, unit, before, after) => `${name}: ${lasting(before, unit)} -> ${lasting(after, unit)}`)
    .replace(INSTANT, (found) => new Date(Number(found)).toISOString().replace(".000Z", "Z"));

export const exact = (text) => (text ? new Date(text).toISOString() : "");

export function memory(megabytes) {
  if (megabytes === null || megabytes === undefined) return PLAIN;
  if (megabytes < 1024) return `${megabytes} MiB`;
  const gigabytes = megabytes / 1024;
  return gigabytes < 1024 ? `${trim(gigabytes)} GiB` : `${trim(gigabytes / 1024)} TiB`;
}

const trim = (number) => (number >= 100 ? Math.round(number) : Math.round(number * 10) / 10).toString();
export const percent = (value) => (value === null || value === undefined ? PLAIN : `${Math.round(value)} %`);
export const count = (number) => (number ?? 0).toLocaleString("en").replaceAll(",", "\u202f");
export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A word for the shell, quoted only where it has to be.
export const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", `'"'"'`)}'`);
