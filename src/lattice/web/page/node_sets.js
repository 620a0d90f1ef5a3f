// Names of nodes, folded as n[1-4,7] and not.
const LIMIT = 100_000;

export function expand(text) {
  const found = [];
  for (const word of words(text)) grow(word, found);
  return found;
}

function words(text) {
  const found = [];
  let depth = 0;
  let word = "";
  for (const char of text) {
    if (char === "[") depth += 1;
    if (char === "]") depth -= 1;
    if (char === "," && depth === 0) {
      if (word) found.push(word);
      word = "";
    } else word += char;
  }
  return word ? [...found, word] : found;
}

function grow(word, found) {
  const parts = /^([^[]*)\[([^\]]*)\](.*)$/.exec(word);
  if (!parts) {
    if (found.length < LIMIT) found.push(word);
    return;
  }
  for (const piece of parts[2].split(",")) {
    const [low, high = low] = piece.split("-");
    for (let number = Number(low); number <= Number(high) && found.length < LIMIT; number += 1) {
      grow(parts[1] + String(number).padStart(low.length, "0") + parts[3], found);
    }
  }
}

// A short text for a few names, and how many there are for many.
export function fold(names) {
  const groups = new Map();
  for (const name of names) {
    const [, head, digits] = /^(.*?)(\d*)$/.exec(name);
    const key = digits.startsWith("0") ? `${head}\0${digits.length}` : head;
    if (!groups.has(key)) groups.set(key, { head, width: digits.startsWith("0") ? digits.length : 0, numbers: [] });
    groups.get(key).numbers.push(digits === "" ? null : Number(digits));
  }
  return [...groups.values()].map(folded).join(",");
}

function folded({ head, width, numbers }) {
  const sorted = numbers.filter((number) => number !== null).sort((a, b) => a - b);
  const show = (number) => String(number).padStart(width, "0");
  const ranges = [];
  for (const number of sorted) {
    const last = ranges.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const text = ranges.map(([low, high]) => (low === high ? show(low) : `${show(low)}-${show(high)}`)).join(",");
  const plain = numbers.includes(null) ? [head] : [];
  if (!ranges.length) return plain.join(",");
  const one = sorted.length === 1 ? head + text : `${head}[${text}]`;
  return [...plain, one].join(",");
}
