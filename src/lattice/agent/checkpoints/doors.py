"""Work that is asked for checkpoints by gRPC (proto/lattice/v1/checkpoints.proto).

A run has a door, a Unix socket in its own folder on which its processes register; or they listen on a port, which is called only while
nothing but the run answers there. Everything that comes through either is bounded: it is a user's.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import grpc
import grpc.aio

from lattice.agent.checkpoints.control import SOCKET, Request, control_folder
from lattice.agent.checkpoints.talk import Caller, Talk
from lattice.ports.nodes.run_keys import RunKey
from lattice.wire.pb import checkpoints_pb2 as pb

REGISTER = "/lattice.v1.CheckpointRegistry/Register"
ASK = "/lattice.v1.CheckpointWork/Ask"
LONGEST_PATH = 107  # of a Unix socket, as the kernel has it
BACK_WITHIN_S = 10.0  # after a restart of the agent, processes have registered again by then
CALL_WITHIN_S = 5.0  # until the work answers on its port at all
MAX_MESSAGE_BYTES = 16_384
MAX_CALLERS = 64  # of one run on this node
PACE_S = 0.005  # between two answers of one process
LOOK_S = 0.1
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", MAX_CALLERS),
    ("grpc.max_allowed_incoming_connections", MAX_CALLERS),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
)

_log = logging.getLogger(__name__)

Listens = Callable[
    [RunKey, int], Awaitable[tuple[str, int]]
]  # address and inode of the run's own socket; raises OSError


class _Door:
    """The socket of one run, and who came through it."""

    def __init__(self, server: grpc.aio.Server | None, opened_s: float) -> None:
        self.server = server
        self.opened_s = opened_s  # of a run that this agent has not started itself; else long ago
        self.callers: list[Caller] = []
        self.talk: Talk | None = None


class Doors:
    """`listens` finds the socket on which a run listens alone."""

    def __init__(self, state_dir: Path, listens: Listens) -> None:
        self._state_dir = state_dir
        self._listens = listens
        self._open: dict[RunKey, _Door] = {}

    async def open(self, key: RunKey, owner: tuple[int, int], *, is_recalled: bool = False) -> None:
        """The socket of a run, which its user alone may open. Raises OSError."""
        if key in self._open:
            return
        path = control_folder(self._state_dir, key) / SOCKET
        if len(str(path)) > LONGEST_PATH:
            raise OSError(
                f"the path of its socket is longer than {LONGEST_PATH} characters; the agent needs a shorter --state-dir"
            )
        door = _Door(None, time.monotonic() if is_recalled else -BACK_WITHIN_S)
        self._open[key] = door
        try:
            door.server = await _serve(path, lambda context: self._register(door, context))
            if os.geteuid() == 0:
                os.chown(path, *owner, follow_symlinks=False)
            path.chmod(0o600)
        except (OSError, RuntimeError) as error:
            await self.close(key)
            raise OSError(f"cannot listen at {path}: {error}") from error

    async def recall(self, alive: Iterable[RunKey]) -> None:
        """Opens the doors of runs that an earlier agent has started."""
        for key in alive:
            try:
                found = (control_folder(self._state_dir, key) / SOCKET).lstat()  # in a folder that is the agent's own
            except OSError:
                continue
            try:
                await self.open(key, (found.st_uid, found.st_gid), is_recalled=True)
            except OSError as error:
                _log.warning("run %s cannot register for checkpoints: %s", key, error)

    async def close(self, key: RunKey) -> None:
        door = self._open.pop(key, None)
        if door is not None and door.server is not None:
            await door.server.stop(None)

    async def close_all(self) -> None:
        for key in list(self._open):
            await self.close(key)

    async def can_be_asked(self, key: RunKey, port: int) -> bool:
        """Whether a process of the run has registered, or listens. After a restart of the agent they get time to come back."""
        if port:
            with contextlib.suppress(OSError):
                return bool(await self._listens(key, port))
            return False
        door = self._open.get(key)
        while door is not None and not door.callers and time.monotonic() - door.opened_s < BACK_WITHIN_S:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)  # bounded: this is no wait for an event that must come
        return door is not None and bool(door.callers)

    def present(self, key: RunKey) -> int:
        """How many processes of the run have registered, and would be asked now."""
        door = self._open.get(key)
        return 0 if door is None else len(door.callers)

    def begin(self, key: RunKey, port: int, request: Request, max_deferral_s: float, expected: int = 0) -> Talk:
        """Asks everyone who can be asked, and everyone who comes while the talk is open; see Talk for `expected`."""
        talk = Talk(request, max_deferral_s, 0 if port else expected)
        door = self._open.setdefault(key, _Door(None, 0.0)) if port else self._open.get(key)
        if door is None:
            return talk
        door.talk = talk
        if port:
            talk.calling = asyncio.create_task(self._call(key, port, talk))
        else:
            for caller in door.callers:
                talk.join(caller)
        return talk

    def end(self, key: RunKey, talk: Talk) -> None:
        talk.is_over = True
        if talk.calling is not None:
            talk.calling.cancel()
        door = self._open.get(key)
        if door is not None and door.talk is talk:
            door.talk = None

    async def _register(self, door: _Door, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """One process, until it goes."""
        caller = Caller()
        door.callers.append(caller)
        if door.talk is not None and not door.talk.is_over:
            door.talk.join(caller)
        hearing = asyncio.create_task(_hear(door, caller, context))
        try:
            while True:
                await context.write(await caller.next_word())
        finally:
            hearing.cancel()
            door.callers.remove(caller)
            if door.talk is not None:
                door.talk.leave(caller)

    async def _call(self, key: RunKey, port: int, talk: Talk) -> None:
        """Calls work that listens, again after each time that it puts the checkpoint off."""
        caller = Caller()
        talk.join(caller)
        while not talk.is_over and not caller.is_final:
            word = await caller.next_word()
            try:
                await self._call_once(key, port, word, caller, talk)
            except grpc.aio.AioRpcError as error:
                talk.fail(caller, f"its call of port {port} ended: {error.details() or error.code().name}")
            except OSError as error:
                talk.fail(caller, str(error) or f"port {port} does not answer")
            talk.hung_up(caller)

    async def _call_once(self, key: RunKey, port: int, word: bytes, caller: Caller, talk: Talk) -> None:
        before = await self._listens(key, port)
        host = f"[{before[0]}]" if ":" in before[0] else before[0]
        async with grpc.aio.insecure_channel(f"{host}:{port}", options=_OPTIONS) as channel:
            call = channel.unary_stream(ASK, None, None)(word)
            try:
                async with asyncio.timeout(CALL_WITHIN_S):
                    await call.wait_for_connection()
                if await self._listens(key, port) != before:  # no other process was called
                    raise OSError(f"what listens on port {port} has changed")
                while not talk.is_over and isinstance(answer := await call.read(), bytes):
                    talk.hear(caller, _parsed(answer))
                    if caller.is_final or caller.again_s:
                        return
                    await asyncio.sleep(PACE_S)
            finally:
                call.cancel()


async def _hear(door: _Door, caller: Caller, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        while isinstance(answer := await context.read(), bytes):
            if door.talk is not None:
                door.talk.hear(caller, _parsed(answer))
            await asyncio.sleep(PACE_S)


def _parsed(data: bytes) -> pb.CheckpointAnswer:
    try:
        return pb.CheckpointAnswer.FromString(data)
    except Exception:  # noqa: BLE001 - protobuf has its own, which is not part of its interface
        return pb.CheckpointAnswer()


async def _serve(
    path: Path, register: Callable[[grpc.aio.ServicerContext[bytes, bytes]], Awaitable[None]]
) -> grpc.aio.Server:
    async def handle(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await register(context)

    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_CALLERS)
    service, method = REGISTER.strip("/").split("/")
    handlers = {method: grpc.stream_stream_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    await asyncio.to_thread(path.unlink, missing_ok=True)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server
