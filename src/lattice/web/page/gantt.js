// Draws nodes over time onto a canvas: only what can be seen, so that ten thousand nodes cost as much as a hundred.
const HEAD = 26;
const STEPS_S = [60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 7 * 86400, 30 * 86400];

export const rowHeight = (count, room) => Math.max(4, Math.min(26, Math.floor((room - HEAD) / Math.max(1, count))));

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return Object.fromEntries(["panel", "sunk", "line", "edge", "ink", "quiet", "accent", "bad", "bar-run", "bar-past", "bar-next", "own"].map((name) => [name, read(`--${name}`)]));
}

// Rows by node, and for each bar the rows that it covers, as ranges: a bar on many nodes is a few rectangles.
export function layOut(view, expand) {
  const rows = new Map(view.nodes.map((node, place) => [node.name, place]));
  const placed = (names) => {
    const found = names.map((name) => rows.get(name)).filter((row) => row !== undefined).sort((a, b) => a - b);
    const ranges = [];
    for (const row of found) {
      const last = ranges.at(-1);
      if (last && row === last[1] + 1) last[1] = row;
      else ranges.push([row, row]);
    }
    return ranges;
  };
  return {
    bars: view.bars.map((bar) => ({ ...bar, from: Date.parse(bar.start), to: bar.end ? Date.parse(bar.end) : Infinity, ranges: placed(expand(bar.nodes)) })),
    reservations: view.reservations.map((each) => ({
      ...each, from: Date.parse(each.start), to: Date.parse(each.end), ranges: each.nodes ? placed(expand(each.nodes)) : [[0, view.nodes.length - 1]],
    })),
  };
}

export function draw(canvas, { plan, nodes, window: span, top, now, height, gutter, hovered }) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: tall } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(tall * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = palette();
  const x = (moment) => gutter + ((moment - span.from) / (span.to - span.from)) * (width - gutter);
  const y = (row) => HEAD + row * height - top;
  pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
  pen.textBaseline = "middle";
  pen.save();
  pen.beginPath();
  pen.rect(0, HEAD, width, tall - HEAD);
  pen.clip();
  drawRows(pen, { nodes, height, y, tall, width, gutter, colours });
  pen.beginPath();
  pen.rect(gutter, HEAD, width - gutter, tall - HEAD);
  pen.clip();
  drawGrid(pen, { span, x, tall, colours });
  for (const each of plan.reservations) drawReservation(pen, each, { x, y, height, gutter, colours });
  for (const bar of plan.bars) drawBar(pen, bar, { x, y, height, tall, width, gutter, colours, isHovered: bar === hovered });
  pen.fillStyle = colours.ink;
  pen.fillRect(Math.round(x(now)), HEAD, 1, tall);
  pen.restore();
  drawHead(pen, { span, x, width, gutter, colours });
}

function drawRows(pen, { nodes, height, y, tall, width, colours, gutter }) {
  const first = Math.max(0, Math.floor((HEAD - y(0)) / height));
  for (let row = first; row < nodes.length && y(row) < tall; row += 1) {
    if (height >= 8) {
      pen.fillStyle = colours.line;
      pen.fillRect(0, y(row) + height - 1, width, 1);
    }
    const every = Math.ceil(14 / height);
    if (row % every) continue;
    pen.fillStyle = nodes[row].state === "Ready" ? colours.quiet : colours.bad;
    pen.fillText(nodes[row].name, 8, y(row) + height / 2, gutter - 12);
  }
}

function drawBar(pen, bar, { x, y, height, tall, width, gutter, colours, isHovered }) {
  const left = Math.max(gutter - 4, x(bar.from));
  const right = Math.min(width + 4, x(bar.to));
  if (right < gutter || left > width) return;
  const inset = height > 10 ? 2 : height > 5 ? 1 : 0;
  for (const [low, high] of bar.ranges) {
    const up = y(low) + inset;
    const down = y(high) + height - inset - (height > 5 ? 1 : 0);
    if (down < HEAD || up > tall) continue;
    const broad = Math.max(2, right - left);
    if (bar.kind === "predicted") {
      pen.strokeStyle = bar.own ? colours.own : colours["bar-run"];
      pen.setLineDash([4, 3]);
      pen.strokeRect(left + 0.5, up + 0.5, broad - 1, down - up - 1);
      pen.setLineDash([]);
    } else {
      pen.fillStyle = bar.kind === "running" ? colours["bar-run"] : bar.state === "Failed" ? colours.bad : colours["bar-past"];
      pen.fillRect(left, up, broad, down - up);
      if (bar.failed && height > 5) {
        pen.fillStyle = colours.bad;
        pen.fillRect(left, up, broad, 3);
      }
      if (bar.own && height > 5) {
        pen.fillStyle = colours.own;
        pen.fillRect(left, down - 3, broad, 3);
      }
    }
    if (isHovered) {
      pen.strokeStyle = colours.ink;
      pen.strokeRect(left + 0.5, up + 0.5, broad - 1, down - up - 1);
    }
    if (height >= 15 && broad > 44) label(pen, bar, { left: Math.max(left, gutter), room: broad, middle: up + Math.min(height, down - up) / 2, colours });
  }
}

function label(pen, bar, { left, room, middle, colours }) {
  pen.save();
  pen.beginPath();
  pen.rect(left, middle - 10, room - 6, 20);
  pen.clip();
  pen.fillStyle = bar.kind === "running" || bar.state === "Failed" ? colours.panel : colours.ink;
  pen.fillText([bar.id, bar.name, bar.tasks ? `×${bar.tasks}` : ""].filter(Boolean).join(" "), left + 6, middle);
  pen.restore();
}

function drawReservation(pen, each, { x, y, height, gutter, colours }) {
  pen.save();
  pen.globalAlpha = 0.16;
  pen.fillStyle = each.maintenance ? colours.bad : colours.accent;
  for (const [low, high] of each.ranges) pen.fillRect(x(each.from), y(low), x(each.to) - x(each.from), (high - low + 1) * height);
  pen.restore();
  if (height < 15 || x(each.to) - x(each.from) < 44) return;
  for (const [low] of each.ranges) {
    pen.save();
    pen.beginPath();
    pen.rect(x(each.from), y(low), x(each.to) - x(each.from) - 4, height);
    pen.clip();
    pen.fillStyle = colours.quiet;
    pen.fillText(each.name, Math.max(x(each.from), gutter) + 6, y(low) + height / 2);
    pen.restore();
  }
}

const step = (span, room) => STEPS_S.find((seconds) => (room * seconds * 1000) / (span.to - span.from) >= 76) ?? STEPS_S.at(-1);

function* ticks(span, seconds) {
  const zone = new Date(span.from).getTimezoneOffset() * 60_000;
  const size = seconds * 1000;
  for (let at = Math.ceil((span.from - zone) / size) * size + zone; at < span.to; at += size) yield at;
}

function drawGrid(pen, { span, x, tall, colours }) {
  pen.fillStyle = colours.line;
  for (const at of ticks(span, step(span, x(span.to) - x(span.from)))) pen.fillRect(Math.round(x(at)), HEAD, 1, tall);
}

function drawHead(pen, { span, x, width, gutter, colours }) {
  pen.fillStyle = colours.panel;
  pen.fillRect(0, 0, width, HEAD - 1);
  pen.fillStyle = colours.line;
  pen.fillRect(0, HEAD - 1, width, 1);
  pen.fillStyle = colours.quiet;
  const seconds = step(span, width - gutter);
  for (const at of ticks(span, seconds)) {
    const when = new Date(at);
    const day = `${when.getDate()} ${when.toLocaleString("en", { month: "short" })}`;
    const time = `${String(when.getHours()).padStart(2, "0")}:${String(when.getMinutes()).padStart(2, "0")}`;
    if (x(at) + 44 < width) pen.fillText(seconds >= 86400 || time === "00:00" ? day : time, x(at) + 4, HEAD / 2);
  }
}

// The bar at a place of the canvas.
export function barAt(plan, place, { window: span, top, height, gutter, width }) {
  if (place.x < gutter || place.y < HEAD) return null;
  const moment = span.from + ((place.x - gutter) / (width - gutter)) * (span.to - span.from);
  const slack = ((span.to - span.from) / (width - gutter)) * 3;
  const row = Math.floor((place.y - HEAD + top) / height);
  return plan.bars.findLast((bar) => bar.from - slack <= moment && moment <= bar.to + slack && bar.ranges.some(([low, high]) => low <= row && row <= high)) ?? null;
}

// The reservation at a place of the canvas.
export function reservationAt(plan, place, { window: span, top, height, gutter, width }) {
  if (place.x < gutter || place.y < HEAD) return null;
  const moment = span.from + ((place.x - gutter) / (width - gutter)) * (span.to - span.from);
  const row = Math.floor((place.y - HEAD + top) / height);
  return plan.reservations.findLast((each) => each.from <= moment && moment <= each.to && each.ranges.some(([low, high]) => low <= row && row <= high)) ?? null;
}

export const totalHeight = (count, height) => HEAD + count * height;
