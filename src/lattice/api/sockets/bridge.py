"""Between one client and one terminal: messages in, messages out, and whatever servers come and go behind it.

Output is read by position and input sent by offset, as `lattice attach` does: a stream that breaks off is taken up where it was,
so nothing is lost or doubled while this connection lives. A client whose connection is lost says where it was in its next one.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from lattice.api.sockets.inner import Event, Failed, InnerCalls
from lattice.api.sockets.messages import (
    AttachStart,
    ClientMessage,
    Error,
    ExitCode,
    Keepalive,
    Notice,
    Opened,
    Position,
    Resize,
    Screen,
    ServerMessage,
    Signal,
    Taken,
)
from lattice.wire.agents.journals import RECORD

AGAIN_S = 0.05
MAX_AGAIN_S = 1.0
GIVE_UP_S = 60.0  # without any answer
HELD_INPUT_BYTES = 1 << 20
OUTPUT_STREAMS = (1, 2)
READ_ONLY = "You watch the terminal of somebody else: nothing that you type is passed on."

Send = Callable[[ServerMessage, bytes], Awaitable[None]]


class _Piece(Struct, frozen=True):
    node: int
    next: int
    data: bytes  # base64 on the wire
    rows: int = 0
    columns: int = 0


class _Result(Struct, frozen=True):
    exit_code: int = 0
    message: str = ""


class _Refusal(Struct, frozen=True):
    code: str
    message: str
    hint: str = ""


_piece = msgspec.json.Decoder(_Piece)
_result = msgspec.json.Decoder(_Result)
_refusal = msgspec.json.Decoder(_Refusal)
_notice = msgspec.json.Decoder(Notice)


class TerminalBridge:
    """`run` once. `send` gives the client a message and the bytes that belong behind it; of a session, `path` names the session."""

    def __init__(self, calls: InnerCalls, path: str, start: AttachStart, send: Send) -> None:
        self._calls = calls
        self._path = path  # /allocations/a17/attach or /sessions/a17/terminal
        self._start = start
        self._send = send
        self._client = start.client or secrets.token_hex(8)
        self._at = ""  # /allocations/a17/steps/3, once it is open
        self._is_watched = False  # not the caller's own
        self._place = start.after
        self._offset = start.offset
        self._typed = bytearray()  # and not taken yet
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self, incoming: AsyncIterator[ClientMessage]) -> None:
        """Returns when the client is gone, or has heard how it ended."""
        try:
            is_new = await self._open()
        except Failed as refusal:
            await self._refuse(refusal)
            return
        output = asyncio.create_task(self._follow(is_new=is_new), name="output of a terminal")
        typing = asyncio.create_task(self._type(), name="input of a terminal")
        hearing = asyncio.create_task(self._hear(incoming), name="client of a terminal")
        tasks = (output, typing, hearing)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except Failed as refusal:
            await self._refuse(refusal)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _refuse(self, refusal: Failed) -> None:
        await self._send(Error(refusal.status, refusal.code, str(refusal), refusal.hint), b"")

    async def _open(self) -> bool:
        """Whether it was opened for this client."""
        start = self._start
        request_id = secrets.token_hex(16)
        is_session = self._path.startswith("/sessions/")
        if is_session and (start.terminal is not None or start.node or start.command):
            hint = "use /allocations/{id}/attach for others"
            raise Failed(400, "invalid", "a session has one shell: it takes no terminal, node or command", hint)
        if start.terminal is not None:
            allocation = self._path.split("/")[2]
            step = await self._patient("GET", f"/allocations/{allocation}/steps/{start.terminal}")
            if not step["is_terminal"]:
                raise Failed(409, "conflict", f"{step['id']} is a step, not a terminal", "leave `terminal` out")
        else:
            fields: dict[str, Any] = {"rows": start.rows, "columns": start.columns, "keep": start.keep}
            fields["environment"] = {"TERM": start.term}
            if not is_session:
                fields |= {"node": start.node, "command": start.command}
            step = await self._patient("POST", self._path, fields, request_id)
        self._at = f"/allocations/{quote(step['allocation'])}/steps/{step['step']}"
        self._is_watched = bool(step.get("read_only"))
        await self._send(
            Opened(
                id=step["id"],
                allocation=step["allocation"],
                terminal=step["step"],
                client=self._client,
                read_only=self._is_watched,
            ),
            b"",
        )
        return start.terminal is None and not is_session

    async def _patient(self, method: str, path: str, fields: object = None, request_id: str = "") -> Any:  # noqa: ANN401 - JSON
        """The answer, asked for again while no server can give one. Raises Failed."""
        pause_s, waited_s = AGAIN_S, 0.0
        while True:
            try:
                return await self._calls.ask(method, path, fields, request_id)
            except Failed as refusal:
                if not refusal.may_pass or waited_s >= GIVE_UP_S:
                    raise
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, MAX_AGAIN_S)

    # Output.

    async def _follow(self, *, is_new: bool) -> None:
        pause_s, waited_s = AGAIN_S, 0.0
        while True:
            wants_screen = self._place < 0 and not is_new
            place = "" if self._place < 0 else f"0:{self._place}"
            events = self._calls.events(f"{self._at}/stream?screen={'true' if wants_screen else 'false'}", place)
            try:
                async for event in events:
                    pause_s, waited_s = AGAIN_S, 0.0
                    if await self._show(event):
                        return
            except Failed as refusal:
                if not refusal.may_pass or waited_s >= GIVE_UP_S:
                    raise
            finally:
                await events.aclose()
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, MAX_AGAIN_S)

    async def _show(self, event: Event) -> bool:
        """Whether that was the last one."""
        match event.name:
            case "message":
                piece = _piece.decode(event.data)
                await self._send(Position(piece.next), written(piece.data))
                self._place = piece.next
            case "screen":
                piece = _piece.decode(event.data)
                await self._send(Screen(piece.rows, piece.columns, piece.next), piece.data)
                self._place = piece.next
            case "notice":
                await self._send(_notice.decode(event.data), b"")
            case "result":
                result = _result.decode(event.data)
                await self._send(ExitCode(result.exit_code, result.message), b"")
                return True
            case "error":
                said = _refusal.decode(event.data)
                if said.code != "unavailable":
                    raise Failed(401 if said.code == "unauthenticated" else 403, said.code, said.message, said.hint)
        return False

    # Input.

    async def _hear(self, incoming: AsyncIterator[ClientMessage]) -> None:
        is_told = False
        async for message in incoming:
            match message:
                case bytes() | Signal() if self._is_watched:
                    if not is_told:
                        await self._send(Notice(READ_ONLY), b"")
                    is_told = True
                case Resize() if self._is_watched:
                    pass
                case bytes():
                    self._typed += message
                    self._news.set()
                    while len(self._typed) >= HELD_INPUT_BYTES:
                        self._room.clear()
                        await self._room.wait()
                case Resize():
                    shape = {"client": self._client, "rows": message.rows, "columns": message.columns}
                    await self._patient("POST", f"{self._at}/window", shape)
                case Signal():
                    await self._patient("POST", f"{self._at}/signal", {"signal": message.number})
                case Keepalive():
                    pass

    async def _type(self) -> None:
        pause_s = AGAIN_S
        while True:
            if not self._typed:
                self._news.clear()
                await self._news.wait()
            piece = bytes(self._typed[: 1 << 16])
            fields = {"client": self._client, "offset": self._offset, "data": piece}
            upto = (await self._patient("POST", f"{self._at}/input", fields))["upto"]
            # A client that came back repeats what was taken before it heard so: what it has not sent again yet does not count here.
            taken = min(max(0, upto - self._offset), len(piece))
            del self._typed[:taken]
            self._offset += taken
            self._room.set()
            if taken:
                pause_s = AGAIN_S
                await self._send(Taken(self._offset), b"")
            if taken < len(piece):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_AGAIN_S)


def written(records: bytes) -> bytes:
    """What the records of a journal say was written to the terminal."""
    pieces, place = [], 0
    while place < len(records):
        stream, _, length = RECORD.unpack_from(records, place)
        place += RECORD.size + length
        if stream in OUTPUT_STREAMS:
            pieces.append(records[place - length : place])
    return b"".join(pieces)
