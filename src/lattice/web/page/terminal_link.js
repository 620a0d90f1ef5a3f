// A connection to a terminal (docs/reference/terminal-protocol.md) that comes back where it was when it is lost.
import { pageKey } from "./session.js";

const PROTOCOL = "lattice.terminal.v1";
const PAUSE_MS = 500;
const LONGEST_MS = 5000;

export class TerminalLink {
  // `say` gets {kind: "bytes" | "notice" | "opened" | "end" | "lost", ...}
  constructor(path, size, say) {
    Object.assign(this, { path, size, say });
    this.place = -1; // of the last byte that was shown
    this.coming = -1;
    this.taken = 0; // bytes of ours that the terminal has
    this.unsent = new Uint8Array();
    this.pause = PAUSE_MS;
    this.isOver = false;
    this.connect();
  }

  connect() {
    const query = new URLSearchParams({ rows: this.size.rows, columns: this.size.columns });
    if (this.opened) {
      query.set("terminal", this.opened.terminal);
      query.set("client", this.opened.client);
      query.set("offset", this.taken);
      if (this.place >= 0) query.set("after", this.place);
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1${this.path}?${query}`, [PROTOCOL, `lattice.page.${pageKey()}`]);
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => (typeof event.data === "string" ? this.hear(JSON.parse(event.data)) : this.show(event.data));
    socket.onclose = (event) => this.closed(event);
    this.socket = socket;
  }

  hear(message) {
    this.pause = PAUSE_MS;
    if (message.type === "opened") {
      const isBack = Boolean(this.opened);
      this.opened = message;
      if (isBack && this.unsent.length) this.socket.send(this.unsent);
      this.say({ kind: "opened", id: message.id });
    } else if (message.type === "position" || message.type === "screen") {
      this.coming = message.next;
      if (message.type === "screen") this.say({ kind: "clear" });
    } else if (message.type === "taken") {
      this.unsent = this.unsent.slice(message.upto - this.taken);
      this.taken = message.upto;
    } else if (message.type === "notice") this.say({ kind: "notice", text: message.text });
    else if (message.type === "exit") this.end(message.message || `exited with code ${message.code}`);
    else if (message.type === "error") this.end(message.message, message.hint);
  }

  show(data) {
    this.say({ kind: "bytes", data: new Uint8Array(data) });
    this.place = this.coming;
  }

  closed(event) {
    if (this.isOver) return;
    if (event.code >= 4000 || event.code === 1000) return void this.end(event.reason || "the terminal has ended");
    this.say({ kind: "lost" });
    setTimeout(() => this.isOver || this.connect(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_MS);
  }

  end(text, hint = "") {
    if (this.isOver) return;
    this.isOver = true;
    this.say({ kind: "end", text, hint });
    this.socket.close();
  }

  type(bytes) {
    if (this.isOver) return;
    const all = new Uint8Array(this.unsent.length + bytes.length);
    all.set(this.unsent);
    all.set(bytes, this.unsent.length);
    this.unsent = all;
    if (this.socket.readyState === WebSocket.OPEN && this.opened) this.socket.send(bytes);
  }

  resize(size) {
    this.size = size;
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "resize", ...size }));
  }

  close() {
    this.isOver = true;
    this.socket.close();
  }
}
