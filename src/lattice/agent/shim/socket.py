"""The shim's end of the Unix socket: JSON objects, one per line, both ways.

One agent at a time: a new connection replaces the old one, whose unfinished request is dropped with
it. Answers carry the serial number of the connection that asked and go nowhere else. An agent that
does not read is cut off rather than kept in memory; it finds everything by `list` when it returns.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable

from lattice.agent.shim.loop import Loop, boot_now, complain

Body = dict[str, object]

MAX_LINE_BYTES = 8 << 20
MAX_UNSENT_BYTES = 64 << 20
RECEIVE_BYTES = 1 << 16  # larger buffers are mapped and unmapped for every request
# So that a burst of starts leaves room for output, timers and ends in between.
REQUEST_BATCH = 16
FLUSH_S = 2.0
ACCEPT_AGAIN_S = 0.5


class Link:
    """One connection."""

    __slots__ = ("inbox", "mask", "outbox", "scanned", "serial", "socket", "waiting")

    def __init__(self, connection: socket.socket, serial: int) -> None:
        self.socket = connection
        self.serial = serial
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.scanned = 0
        self.mask = -1
        self.waiting = False

    def next_line(self) -> bytes | None:
        end = self.inbox.find(b"\n", self.scanned)
        if end < 0:
            self.scanned = len(self.inbox)
            return None
        line = bytes(self.inbox[:end])
        del self.inbox[: end + 1]
        self.scanned = 0
        return line


class Server:
    """Listens in the current directory, so that long paths do not matter."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop = loop
        self._link: Link | None = None
        self._serial = 0
        self.handle: Callable[[int, Body], Body | None] | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        new = f"{name}.new"
        if os.path.lexists(new):
            os.unlink(new)
        old_mask = os.umask(0o177)
        try:
            self._socket.bind(new)
        finally:
            os.umask(old_mask)
        self._socket.listen(8)
        # Atomic: a client that finds the name finds a listening socket.
        os.rename(new, name)
        self._listen()

    def _listen(self) -> None:
        self._loop.watch(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _accept(self, _mask: int) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            # Most likely no descriptor is left. Clients keep waiting.
            complain(error)
            self._loop.unwatch(self._socket.fileno())
            self._loop.call_at(boot_now() + ACCEPT_AGAIN_S, self._listen)
            return
        connection.setblocking(False)
        if self._link is not None:
            self._drop(self._link)
        self._serial += 1
        self._link = Link(connection, self._serial)
        self._watch(self._link)

    def _watch(self, link: Link) -> None:
        mask = 0 if link.waiting else select.EPOLLIN
        if link.outbox:
            mask |= select.EPOLLOUT
        if mask != link.mask:
            link.mask = mask
            self._loop.watch(link.socket.fileno(), mask, lambda bits: self._ready(link, bits))

    def _drop(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            self._loop.unwatch(link.socket.fileno())
            link.socket.close()

    def _ready(self, link: Link, mask: int) -> None:
        if mask & select.EPOLLOUT:
            self._flush(link)
        if self._link is link and mask & ~select.EPOLLOUT:
            self._receive(link)

    def _receive(self, link: Link) -> None:
        try:
            data = link.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(link)
            return
        link.inbox += data
        self._serve(link)

    def _serve(self, link: Link) -> None:
        """Answer some of the waiting requests; with more of them left, come back soon."""
        for _ in range(REQUEST_BATCH):
            if self._link is not link:
                return
            line = link.next_line()
            if line is None:
                self._all_served(link)
                return
            self._answer(link, line)
        if self._link is link:
            link.waiting = True
            self._watch(link)
            self._loop.call_soon(lambda: self._serve(link))

    def _all_served(self, link: Link) -> None:
        if len(link.inbox) > MAX_LINE_BYTES:
            self.reply(link.serial, None, {"ok": False, "error": "request is too long"})
            self._drop(link)
        elif link.waiting:
            link.waiting = False
            self._watch(link)

    def _answer(self, link: Link, line: bytes) -> None:
        request_id: object = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("a request is a JSON object")
            request_id = request.get("id")
            answer = None if self.handle is None else self.handle(link.serial, request)
        except (ValueError, RecursionError, OSError) as error:
            answer = {"ok": False, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - one request's fault must not cost the connection of all others
            complain(error)
            answer = {"ok": False, "error": f"the shim failed: {type(error).__name__}: {error}"}
        if answer is not None:
            self.reply(link.serial, request_id, answer)

    def reply(self, serial: int, request_id: object, body: Body) -> bool:
        """Answer a request; False when the connection that asked is gone."""
        link = self._link
        if link is None or link.serial != serial:
            return False
        self._send(link, {"id": request_id, **body})
        return self._link is link

    def tell(self, body: Body) -> None:
        """Send an event to the connected client."""
        if self._link is not None:
            self._send(self._link, body)

    def _send(self, link: Link, body: Body) -> None:
        link.outbox += json.dumps(body).encode()
        link.outbox += b"\n"
        self._flush(link)

    def _flush(self, link: Link) -> None:
        try:
            sent = link.socket.send(link.outbox)
            del link.outbox[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(link)
            return
        if len(link.outbox) > MAX_UNSENT_BYTES:
            self._drop(link)
        else:
            self._watch(link)

    def close(self) -> None:
        """Send what is left to send, then no more."""
        link = self._link
        if link is not None:
            try:
                link.socket.settimeout(FLUSH_S)
                link.socket.sendall(link.outbox)
            except OSError:
                pass
            self._drop(link)
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
