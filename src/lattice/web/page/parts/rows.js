// A list of any length: only the rows that can be seen exist. All rows have one height, so that a place is a multiplication.
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";

const SPARE = 8;

export function Rows({ rows, height, label, head, row, onEnd, total, onKey, cursor }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, room: 600 });
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    setView((before) => (before.top === scrollTop && before.room === clientHeight ? before : { top: scrollTop, room: clientHeight }));
  };
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.room) / height) + SPARE);
  useEffect(() => {
    if (onEnd && last >= rows.length - SPARE) onEnd();
  }, [last, rows.length, onEnd]);
  useEffect(() => {
    if (cursor === undefined || cursor < 0) return;
    const place = cursor * height;
    if (place < box.current.scrollTop) box.current.scrollTop = place;
    else if (place + 2 * height > box.current.scrollTop + box.current.clientHeight) {
      box.current.scrollTop = place + 2 * height - box.current.clientHeight;
    }
  }, [cursor, height]);
  return html`<div class="rows" style=${{ maxHeight: `${Math.max(2, rows.length) * height + 34}px` }}>
    <div class="rows-scroll" ref=${box} onScroll=${measure} tabindex="0" onKeyDown=${onKey} role="table" aria-label=${label} aria-rowcount=${(total ?? rows.length) + 1}>
      <div role="rowgroup" class="rows-head"><div class="row head" role="row" aria-rowindex="1">${head}</div></div>
      <div role="rowgroup" class="rows-body" style=${{ height: `${rows.length * height}px` }}>
        ${rows.slice(first, last).map((each, at) => row(each, first + at, { top: `${(first + at) * height}px`, height: `${height}px` }))}
      </div>
    </div>
  </div>`;
}

// A row that is drawn again only when something about it changed: while a list is scrolled, most rows stay as they are.
export class Row extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => name !== "place" && next[name] !== this.props[name]);
  }
  render(props) {
    return props.draw(props);
  }
}

// Narrow screens show two lines for a row.
export function useNarrow(width = 720) {
  const [isNarrow, setNarrow] = useState(() => matchMedia(`(max-width: ${width}px)`).matches);
  useEffect(() => {
    const query = matchMedia(`(max-width: ${width}px)`);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [width]);
  return isNarrow;
}
