"""An S3 server on loopback, with a bucket."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from lattice.integrations.s3.bucket import Bucket

REGION = "us-east-1"
STARTS_WITHIN_S = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class S3Server:
    """Objects are in its memory: they are gone when it stops."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                self._ask("GET", "/moto-api/")
                return
            except OSError:
                assert self._process.poll() is None, "the S3 server ended"
                assert time.monotonic() < until, "the S3 server does not answer"
                time.sleep(0.05)

    def _ask(self, method: str, path: str) -> int:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=_UNCHECKED)
            with connection.getresponse() as answer:
                return answer.status
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def make_bucket(self, name: str) -> Bucket:
        assert self._ask("PUT", f"/{name}") == 200
        return self.bucket(name)

    def bucket(self, name: str) -> Bucket:
        return Bucket(name=name, endpoint=self.endpoint, region=REGION, key_id="test", key_secret="test", timeout_s=5.0)


# The server looks at the form of a signature, not at the signature.
_UNCHECKED = {"Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/s3/aws4_request"}


@contextmanager
def running_s3() -> Iterator[S3Server]:
    server = S3Server()
    try:
        server.start()
        yield server
    finally:
        server.stop()
