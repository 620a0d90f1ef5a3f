"""A small model server: answers POST /v1/predict, tells its readiness at /healthz and how busy it is at /metrics.

It runs as it is, with Python alone. The model is a bag of words; put yours into `load` and `predict`.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

VERSION = os.environ.get("MODEL", "v1")
SECONDS = float(os.environ.get("PREDICT_SECONDS", "0.05"))
LARGEST = 1 << 20

weights: dict[str, int] = {}
state = {"ready": False, "busy": 0, "answered": 0}
lock = threading.Lock()


def load() -> dict[str, int]:
    """The weights; takes a moment, as real ones do."""
    time.sleep(0.5)
    return {"good": 1, "great": 2, "bad": -1, "awful": -2}


def predict(text: str) -> dict[str, object]:
    time.sleep(SECONDS)
    score = sum(weights.get(word.strip(".,!?"), 0) for word in text.lower().split())
    return {"model": VERSION, "node": os.environ.get("LATTICE_NODE_ID", ""), "score": score}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.answer(200 if state["ready"] else 503, b"")
        elif self.path == "/metrics":
            self.answer(200, f"queue_depth {state['busy']}\npredictions_total {state['answered']}\n".encode())
        else:
            self.answer(404, b"")

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        if self.path != "/v1/predict" or size > LARGEST:
            self.close_connection = True
            self.answer(404 if size <= LARGEST else 413, b"")
            return
        asked = self.rfile.read(size)
        with lock:
            state["busy"] += 1
        try:
            said = predict(str(json.loads(asked)["text"]))
            self.answer(200, json.dumps(said).encode())
        except (ValueError, KeyError, TypeError):
            self.answer(400, b'{"error": "send {\\"text\\": ...}"}')
        finally:
            with lock:
                state["busy"] -= 1
                state["answered"] += 1

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def is_ready() -> bool:
    """For the probe, which runs in the environment of the instance."""
    try:
        with urlopen(f"http://127.0.0.1:{os.environ['LATTICE_PORT_MODEL']}/healthz", timeout=2):
            return True
    except OSError:
        return False


def main() -> None:
    if "--ready" in sys.argv:
        sys.exit(0 if is_ready() else "the model is not loaded")
    # Lattice sends it when the instance gets no more requests and has answered those it had.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    places = {int(os.environ["LATTICE_PORT_MODEL"]), int(os.environ["LATTICE_PORT_METRICS"])}
    for port in places:
        threading.Thread(target=Server(("127.0.0.1", port), Handler).serve_forever, daemon=True).start()
    weights.update(load())
    state["ready"] = True
    signal.pause()


if __name__ == "__main__":
    main()
