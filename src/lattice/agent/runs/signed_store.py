"""Objects that this node stores by requests that a server signs: the node holds no key of the store.

A server is asked over the agent's stream for each object; the bytes go to the store itself. The server checks that the run was given
to this node (`grant`), so a node writes only what is its own. See docs/architecture/logs.md.
"""

import asyncio
import contextlib
import http.client
import itertools
import ssl
from typing import Protocol
from urllib.parse import urlsplit

from lattice.agent.connection import Outbox
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.pb import agent_pb2 as pb

ANSWER_WITHIN_S = 10.0
PUT_WITHIN_S = 60.0
MAX_TEXT = 200


class NoServer(ObjectStoreError):
    """There is no server now that could sign."""


class Unsigned(ObjectStoreError):
    """There is a server, and it did not sign in time."""


class Puts(Protocol):
    """The part of an object store that is needed here."""

    async def put(self, name: str, data: bytes) -> None: ...


class ChunkSink:
    """Where chunks of output go: to the store by requests that servers sign, where they do, else to `store`, if there is one."""

    def __init__(self, store: Puts | None) -> None:
        self.store = store
        self.signed = SignedStore()

    @property
    def may_take(self) -> bool:
        """Whether there is a store, or no server has said yet that there is none."""
        return self.store is not None or self.signed.signs or not self.signed.is_known

    def takes(self, grant: str) -> bool:
        return self.store is not None or self._is_signed(grant)

    def _is_signed(self, grant: str) -> bool:
        """A server granted it when it ordered the run, and none has taken it back since."""
        return bool(grant) and (self.signed.signs or not self.signed.is_known)

    async def put(self, prefix: str, name: str, grant: str, data: bytes) -> None:
        """Stores a chunk as `prefix/name`. Raises ObjectStoreError."""
        if self._is_signed(grant):
            await self.signed.put(prefix, name, grant, data)
        elif self.store is not None:
            await self.store.put(f"{prefix}/{name}", data)


class SignedStore:
    """Knows after the first greeting whether the servers sign."""

    def __init__(self) -> None:
        self._outbox: Outbox | None = None
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[pb.UploadSigned]] = {}
        self._connected = asyncio.Event()
        self.signs = False
        self.is_known = False

    # The stream to a server.

    def opened(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def closed(self) -> None:
        self._outbox = None
        self._connected.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(NoServer("the connection to the server was lost"))

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this store alone."""
        if message.HasField("welcome"):
            self.signs = message.welcome.signs_uploads
            self.is_known = True
            self._connected.set()
            return False
        if not message.HasField("upload_signed"):
            return False
        future = self._waiting.pop(message.upload_signed.ticket, None)
        if future is not None and not future.done():
            future.set_result(message.upload_signed)
        return True

    async def connected(self) -> None:
        await self._connected.wait()

    # Objects.

    async def put(self, prefix: str, name: str, grant: str, data: bytes) -> None:
        """Stores the bytes as `prefix/name`. Raises ObjectStoreError, and NoServer when it is worth another try with the next one."""
        signed = await self.sign(prefix, name, grant)
        if signed.error:
            raise ObjectStoreError(signed.error)
        await asyncio.to_thread(_put, signed, data)

    async def sign(self, prefix: str, name: str, grant: str, method: str = "", query: str = "") -> pb.UploadSigned:
        """A request for that object. Raises NoServer, and Unsigned where a server that is there does not answer."""
        if self._outbox is None or not self._connected.is_set():
            raise NoServer("no server is connected")
        ticket = next(self._tickets)
        future: asyncio.Future[pb.UploadSigned] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        asked = pb.SignUpload(ticket=ticket, prefix=prefix, name=name, grant=grant, method=method, query=query)
        self._outbox.post(pb.AgentMessage(sign_upload=asked))
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return await future
        except TimeoutError:
            # There is a server, so an end can be reported and does not wait for this.
            raise Unsigned("the server did not sign in time") from None
        finally:
            self._waiting.pop(ticket, None)


def _put(signed: pb.UploadSigned, data: bytes) -> None:
    """One request; what failed is tried again by the caller, with a new signature. Raises ObjectStoreError."""
    address = urlsplit(signed.url)
    port = address.port or (443 if address.scheme == "https" else 80)
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context(cadata=signed.authorities or None)
        connection = http.client.HTTPSConnection(address.hostname or "", port, timeout=PUT_WITHIN_S, context=context)
    else:
        connection = http.client.HTTPConnection(address.hostname or "", port, timeout=PUT_WITHIN_S)
    path = f"{address.path}?{address.query}" if address.query else address.path
    with contextlib.closing(connection):
        try:
            connection.request("PUT", path, body=data, headers=dict(signed.headers))
            with connection.getresponse() as answer:
                said = answer.read(4096)
        except (OSError, http.client.HTTPException) as error:
            raise ObjectStoreError(f"cannot reach the store: {str(error) or type(error).__name__}") from None
    if answer.status not in (200, 201, 204):
        text = said.decode("utf-8", "replace")[:MAX_TEXT]
        raise ObjectStoreError(f"the store answered with status {answer.status}: {text}")
