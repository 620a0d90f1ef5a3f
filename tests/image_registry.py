"""A registry for tests: Debian's docker-registry on a free port, filled over HTTP."""

import base64
import hashlib
import http.client
import http.server
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from lattice.testing import eventually
from tests.conftest import require_program
from tests.oci_files import CONFIG, MANIFEST

SQUASHFS = "application/x-squashfs"
COSIGN = "cosign container image signature"


class RegistryProcess:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.host = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config = {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.host},
        }
        (self.folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["docker-registry", "serve", self.folder / "config.yml"], stdout=log, stderr=log
            )
        eventually(self._answers, "the registry to answer")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool | None:
        try:
            return self.ask("GET", "/v2/")[0] == 200 or None
        except OSError:
            return None

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> tuple[int, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.request(method, path, body=body, headers={"Content-Type": kind} if kind else {})
            with connection.getresponse() as answer:
                answer.read()
                return answer.status, {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def push_blob(self, repository: str, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        status, headers = self.ask("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, status
        place = urlsplit(headers["location"])
        target = f"{place.path}?{place.query}{'&' if place.query else ''}digest={digest}"
        assert self.ask("PUT", target, data, "application/octet-stream")[0] == 201
        return digest

    def push_manifest(self, repository: str, tag: str, document: bytes, kind: str = MANIFEST) -> None:
        status, _ = self.ask("PUT", f"/v2/{repository}/manifests/{tag}", document, kind)
        assert status == 201, status

    def push_layout(self, folder: Path, repository: str, tag: str = "v1") -> str:
        """The image of a layout with one; the digest of its manifest."""
        blobs = folder / "blobs" / "sha256"
        digest = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"].removeprefix("sha256:")
        for blob in blobs.iterdir():
            if blob.name != digest:
                self.push_blob(repository, blob.read_bytes())
        self.push_manifest(repository, tag, (blobs / digest).read_bytes())
        return str(digest)

    def push_squashfs(self, file: Path, repository: str, tag: str = "v1") -> str:
        """A squashfs file as registries of uenv images have them; the digest of its manifest."""
        data = file.read_bytes()
        layer = {"mediaType": SQUASHFS, "digest": self.push_blob(repository, data), "size": len(data)}
        config = {"mediaType": CONFIG, "digest": self.push_blob(repository, b"{}"), "size": 2}
        document = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}).encode()
        self.push_manifest(repository, tag, document)
        return hashlib.sha256(document).hexdigest()

    def push_signature(self, repository: str, digest: str, key: Path) -> None:
        """As `cosign sign --key` leaves one of the manifest of this digest."""
        text = {"critical": {"identity": {}, "image": {"docker-manifest-digest": f"sha256:{digest}"}, "type": COSIGN}}
        payload = json.dumps(text).encode()
        private = load_pem_private_key(key.read_bytes(), None)
        if isinstance(private, Ed25519PrivateKey):
            made = private.sign(payload)
        else:
            assert isinstance(private, EllipticCurvePrivateKey)
            made = private.sign(payload, ECDSA(SHA256()))
        entry = {
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": self.push_blob(repository, payload),
            "size": len(payload),
            "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(made).decode()},
        }
        config = {"mediaType": CONFIG, "digest": self.push_blob(repository, b"{}"), "size": 2}
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [entry]}
        self.push_manifest(repository, f"sha256-{digest}.sig", json.dumps(document).encode())


class SlowRegistry:
    """Serves the one image of a layout, its largest blob at the rate of 1 kB in a tenth of a second, as if it had no end."""

    def __init__(self, folder: Path) -> None:
        blobs = {path.name: path.read_bytes() for path in (folder / "blobs" / "sha256").iterdir()}
        manifest = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"].removeprefix("sha256:")
        largest = max(blobs, key=lambda name: len(blobs[name]))
        self.pieces = 0  # of the largest that were asked for
        self.open = 0
        slow = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rsplit("/", 1)[-1].removeprefix("sha256:")
                data = blobs.get(manifest if "/manifests/v" in self.path else name, b"")
                self.send_response(200 if data else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if name != largest:
                    self.wfile.write(data)
                    return
                slow.open += 1
                try:
                    for begin in range(0, len(data), 1000):
                        self.wfile.write(data[begin : begin + 1000])
                        slow.pieces += 1
                        time.sleep(0.1)
                except OSError:
                    pass
                finally:
                    slow.open -= 1

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"

    def is_quiet(self) -> bool:
        return bool(eventually(lambda: self.open == 0 or None, "the readers to leave"))

    def __enter__(self) -> "SlowRegistry":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def running_registry(folder: Path) -> Iterator[RegistryProcess]:
    require_program("docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    registry = RegistryProcess(folder, port)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()
