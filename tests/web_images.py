"""A web server for tests that gives files of a folder, and parts of them, as those of sites do."""

import http.server
import re
import threading
from pathlib import Path


class WebServer:
    """`asked` are the paths that were asked for, with the ranges."""

    def __init__(self, root: Path, *, with_ranges: bool = True) -> None:
        self.asked: list[tuple[str, str]] = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = root / self.path.lstrip("/")
                wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                web.asked.append((self.path, self.headers.get("Range", "")))
                if not path.is_file():
                    self.send_error(404)
                    return
                data = path.read_bytes()
                whole = len(data)
                if wanted and with_ranges:
                    first = int(wanted[1])
                    last = min(int(wanted[2] or whole), whole - 1)
                    if first >= whole:
                        self.send_error(416)
                        return
                    data = data[first : last + 1]
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
                else:
                    self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "WebServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
