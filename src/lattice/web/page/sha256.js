// SHA-256 (FIPS 180-4), for pages that a browser gives no crypto.subtle: those of plain http from another machine.
const first = (count, power) => {
  const found = [];
  for (let number = 2; found.length < count; number += 1) {
    if (found.every(([prime]) => number % prime)) {
      const root = number ** power;
      found.push([number, ((root - Math.floor(root)) * 2 ** 32) | 0]);
    }
  }
  return found.map(([, fraction]) => fraction);
};
const START = first(8, 1 / 2);
const ROUND = first(64, 1 / 3);
const turn = (word, by) => (word >>> by) | (word << (32 - by));

function mix(state, words) {
  for (let at = 16; at < 64; at += 1) {
    const [a, b] = [words[at - 15], words[at - 2]];
    const low = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
    const high = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
    words[at] = (words[at - 16] + low + words[at - 7] + high) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let at = 0; at < 64; at += 1) {
    const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[at] + words[at];
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  return [a, b, c, d, e, f, g, h].map((word, at) => (word + state[at]) | 0);
}

export function digest(bytes) {
  const padded = new Uint8Array((((bytes.length + 8) >> 6) + 1) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, bytes.length * 8);
  let state = START;
  for (let block = 0; block < padded.length; block += 64) {
    state = mix(state, Array.from({ length: 16 }, (_, at) => view.getInt32(block + 4 * at)));
  }
  return state.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
