"""Uploads results of a run to a bucket, with the rights of the user whose work left them there.

A program of its own, as `copier`: one JSON object on standard input, then an answer for each request that it wants signed; lines of JSON
on standard output. It holds no key: every request is signed by a server, for one object of this run. An object is in place when its
last byte has arrived; a large one is uploaded in parts. Links, sockets, pipes and devices have no place in a bucket and are left out.
Standard library only.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 - for names of hosts; the user may not be able to read it any more
import http.client
import json
import os
import queue
import re
import ssl
import stat
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from lattice.agent.results.copier import FINAL, MAX_NAMED, MAX_SHOWN, TELL_EVERY_S, become, mount_image

PART = 64 << 20
MAX_PARTS = 9_000
PIECE = 1 << 20
TOGETHER = 6
TRIES = 3
PAUSE_S = 0.5
REQUEST_WITHIN_S = 60.0
MAX_ANSWER = 1 << 20
MAX_TEXT = 200
WORTH_ANOTHER = (408, 425, 429, 500, 502, 503, 504)
_UPLOAD_ID = re.compile(rb"<UploadId>([^<]+)</UploadId>")
_Found = tuple[int, str, str]  # number of the order, name below its target, path


class Refused(Exception):
    """The store or a server does not take it; another try cannot help."""


class Again(Exception):
    """Worth another try."""


class Uploader:
    """What was uploaded, and what was not. For several threads."""

    def __init__(self) -> None:
        self.files = self.bytes = self.failures = 0
        self.failed: list[str] = []
        self.is_final = False
        self.missing: list[str] = []
        self._lock = threading.Lock()
        self._told_s = 0.0
        self._tickets = 0
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}

    # what a server signs

    def answered(self, line: bytes) -> None:
        said = json.loads(line)
        with self._lock:
            waiting = self._answers.pop(said["ticket"], None)
        if waiting is not None:
            waiting.put(said)

    def signed(self, order: int, name: str, method: str, query: str) -> dict[str, Any]:
        answer: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._answers[ticket] = answer
        self._write({"sign": {"ticket": ticket, "order": order, "name": name, "method": method, "query": query}})
        said = answer.get()  # this program ends with its standard input, so it never waits for good
        if said.get("error"):
            raise Refused(said["error"])
        return said

    def request(
        self,
        order: int,
        name: str,
        method: str = "",
        query: str = "",
        *,
        body: bytes = b"",
        file: tuple[int, int, int] | None = None,
    ) -> tuple[http.client.HTTPMessage, bytes]:
        """One signed request; `file`: descriptor, start and length of what is sent. Raises Again, Refused and OSError."""
        said = self.signed(order, name, method, query)
        address = urlsplit(said["url"])
        connection = connect(address.scheme, address.hostname or "", address.port, said.get("authorities") or "")
        try:
            connection.putrequest(method or "PUT", f"{address.path}?{address.query}", skip_accept_encoding=True)
            connection.putheader("content-type", "application/octet-stream")
            connection.putheader("content-length", str(file[2] if file is not None else len(body)))
            connection.endheaders()
            if file is not None:
                self._send(connection, *file)
            elif body:
                connection.send(body)
            with connection.getresponse() as answer:
                text = answer.read(MAX_ANSWER)
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            raise Again(f"cannot reach the store: {str(error) or type(error).__name__}") from None
        finally:
            connection.close()
        if answer.status in (200, 201, 204):
            return answer.headers, text
        what = f"the store answered with status {answer.status}: {text.decode('utf-8', 'replace')[:MAX_TEXT]}"
        raise Again(what) if answer.status in WORTH_ANOTHER else Refused(what)

    def _send(self, connection: http.client.HTTPConnection, fd: int, start: int, length: int) -> None:
        end = start + length
        while start < end:
            piece = os.pread(fd, min(PIECE, end - start), start)
            if not piece:
                raise Again("it became shorter while it was uploaded")
            connection.send(piece)
            start += len(piece)

    # what is uploaded

    def upload(self, found: _Found) -> None:
        """One file; what fails is noted."""
        order, name, path = found
        for left in range(TRIES - 1, -1, -1):
            try:
                self._file(order, name, path)
                return
            except Again as error:
                if not left:
                    self.note(path, str(error))
                time.sleep(PAUSE_S * (TRIES - left) if left else 0)
            except Refused as error:
                self.note(path, str(error), is_final=True)
                return
            except OSError as error:
                self.note(path, error.strerror or str(error), is_final=error.errno in FINAL)
                return

    def _file(self, order: int, name: str, path: str) -> None:
        # Without waiting: what was a file a moment ago may be a pipe now.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise Again("it is no file any more")
            if info.st_size <= PART:
                self.request(order, name, file=(fd, 0, info.st_size))
                self.tell(info.st_size)
            else:
                self._in_parts(order, name, fd, info.st_size)
        finally:
            os.close(fd)
        with self._lock:
            self.files += 1

    def _in_parts(self, order: int, name: str, fd: int, size: int) -> None:
        _, said = self.request(order, name, "POST", "uploads")
        found = _UPLOAD_ID.search(said)
        if found is None:
            raise Again("the store began no upload in parts")
        upload = f"uploadId={quote(found[1].decode(), safe='~/=+')}"
        part_size = max(PART, -(-size // MAX_PARTS))
        rows = []
        try:
            for number, start in enumerate(range(0, size, part_size), 1):
                length = min(part_size, size - start)
                headers, _ = self.request(order, name, "PUT", f"partNumber={number}&{upload}", file=(fd, start, length))
                rows.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{headers.get('etag', '')}</ETag></Part>")
                self.tell(length)
            whole = f"<CompleteMultipartUpload>{''.join(rows)}</CompleteMultipartUpload>".encode()
            _, said = self.request(order, name, "POST", upload, body=whole)
            if b"<Error>" in said:  # S3 answers 200 before it knows
                raise Again(f"the store did not put the parts together: {said.decode('utf-8', 'replace')[:MAX_TEXT]}")
        except BaseException:
            with contextlib.suppress(Again, Refused, OSError):  # the store forgets it by its own rules
                self.request(order, name, "DELETE", upload)
            raise

    # what is said

    def note(self, path: str, why: str, *, is_final: bool = False) -> None:
        with self._lock:
            self.failures += 1
            self.is_final = self.is_final or is_final
            if len(self.failed) < MAX_NAMED:
                text = os.fsencode(path).decode("utf-8", "replace")
                text = text if len(text) <= MAX_SHOWN else f"...{text[-MAX_SHOWN:]}"
                self.failed.append(f"{text}: {why}")

    def tell(self, count: int = 0, *, is_last: bool = False) -> None:
        now_s = time.monotonic()
        with self._lock:
            self.bytes += count
            is_due = is_last or now_s - self._told_s >= TELL_EVERY_S
            if is_due:
                self._told_s = now_s
        if not is_due:
            return
        said: dict[str, Any] = {"bytes": self.bytes, "files": self.files}
        self._write(said | self.outcome() if is_last else said)

    def outcome(self) -> dict[str, Any]:
        """What is said at the end."""
        more = {"failed": self.failed, "failures": self.failures, "is_final": self.is_final}
        return {**more, "missing": self.missing, "done": True}

    def _write(self, said: dict[str, Any]) -> None:
        line = json.dumps(said).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(1, line) :]


def connect(scheme: str, host: str, port: int | None, authorities: str) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        if authorities:
            context.load_verify_locations(cadata=authorities)
        return http.client.HTTPSConnection(host, port or 443, timeout=REQUEST_WITHIN_S, context=context)
    return http.client.HTTPConnection(host, port or 80, timeout=REQUEST_WITHIN_S)


def put_files(uploader: Uploader, order: int, source: str, found_files: queue.Queue[_Found | None]) -> None:
    """A directory's files, below the target; a file becomes the target."""
    try:
        info = os.lstat(source)
    except FileNotFoundError:
        uploader.missing.append(source)
        return
    except OSError as error:
        uploader.note(source, error.strerror or str(error))
        return
    if stat.S_ISREG(info.st_mode):
        found_files.put((order, "", source))
        return

    def failed(error: OSError) -> None:
        uploader.note(str(error.filename), error.strerror or str(error), is_final=error.errno in FINAL)

    for folder, folders, names in os.walk(source, onerror=failed):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                is_file = stat.S_ISREG(os.lstat(path).st_mode)
            except OSError as error:
                uploader.note(path, error.strerror or str(error))
                continue
            below = os.path.relpath(path, source)
            if is_file and not is_object_name(below):
                uploader.note(path, "its name cannot be that of an object", is_final=True)
            elif is_file:
                found_files.put((order, below, path))


def is_object_name(name: str) -> bool:
    """Objects have names in UTF-8; files may have any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name.isprintable()


def _work(uploader: Uploader, found_files: queue.Queue[_Found | None]) -> None:
    while (found := found_files.get()) is not None:
        uploader.upload(found)


def read_lines() -> Iterator[bytes]:
    """Of standard input; the program ends with it."""
    rest = b""
    while True:
        piece = os.read(0, 65536)
        if not piece:
            os._exit(3)
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole


def listen(uploader: Uploader, lines: Iterator[bytes]) -> None:
    for line in lines:
        uploader.answered(line)


def main() -> int:
    lines = read_lines()
    asked = json.loads(next(lines))
    uploader = Uploader()
    threading.Thread(target=listen, args=(uploader, lines), daemon=True).start()
    found_files: queue.Queue[_Found | None] = queue.Queue(1000)
    try:
        if asked.get("image"):
            mount_image(asked["image"], asked["folder"])
        become(asked["uid"], asked["gid"], asked["groups"])
        threads = [threading.Thread(target=_work, args=(uploader, found_files), daemon=True) for _ in range(TOGETHER)]
        for thread in threads:
            thread.start()
        for order, source in enumerate(asked["sources"]):
            put_files(uploader, order, os.path.normpath(os.path.join(asked["folder"], source)), found_files)
        for _ in threads:
            found_files.put(None)
        for thread in threads:
            thread.join()
    except OSError as error:
        uploader.note(asked["folder"], error.strerror or str(error))
    uploader.tell(is_last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
