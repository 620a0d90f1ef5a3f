"""Asks runs of this node for checkpoints and tells the servers what came of it (docs/architecture/checkpoints.md).

The request lies in place before the work hears of it, and on disk: an agent that follows one that died continues where that one was.
A server repeats its order until it has heard the answer, and every repetition of an order that was carried out is answered again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

import msgspec

from lattice.agent.checkpoints import directories, shared_memory
from lattice.agent.checkpoints.answers import Answer, Watch
from lattice.agent.checkpoints.control import (
    GRPC,
    REQUEST,
    SHM,
    SHMEM,
    Request,
    control_folder,
    note_hinted,
    note_registered,
    read_request,
    was_hinted,
    were_registered,
    write_request,
)
from lattice.agent.checkpoints.doors import Doors
from lattice.agent.shim_client import ShimMessage
from lattice.core.model.work.checkpoints import MAX_MESSAGE, CheckpointPhase
from lattice.ports.nodes.checkpoints import (
    PROBED,
    REMOVED,
    STORAGE_AWAY,
    STORED,
    UNSTORED,
    CheckpointOrder,
    CheckpointReport,
)
from lattice.ports.nodes.run_keys import RunKey
from lattice.wire.agents.messages import CHECKPOINT_REPORT, CHECKPOINT_RUN
from lattice.wire.pb import agent_pb2 as pb

FEATURE = "checkpoint"  # of a node that asks its work for checkpoints
SHIM_WITHIN_S = 10.0
STORAGE_WITHIN_S = 30.0
MAX_OPEN = 4096

_log = logging.getLogger(__name__)
_P = CheckpointPhase


class Copies(Protocol):
    """The object store, as far as copies of complete checkpoints go there."""

    async def put(self, order: CheckpointOrder, owner: tuple[int, int]) -> str:
        """Why it could not be copied; empty when the store has it."""
        ...


class _Open(msgspec.Struct, kw_only=True):
    n: int
    answer: Answer | None = None


class Checkpointing:
    """`ask` reaches the shim; `owner_of` gives uid and gid of an account or raises OSError; `is_alive` says whether anything of a run lives here."""

    def __init__(
        self,
        state_dir: Path,
        node_id: str,
        owner_of: Callable[[str], tuple[int, int]],
        ask: Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None],
        post: Callable[[pb.AgentMessage], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
        is_alive: Callable[[RunKey], bool],
        doors: Doors,
        store: Copies,
    ) -> None:
        self._state_dir = state_dir
        self._node_id = node_id
        self._owner_of = owner_of
        self._ask = ask
        self._post = post
        self._spawn = spawn
        self._is_alive = is_alive
        self._doors = doors
        self._store = store
        self._storing: set[str] = set()  # directories that are copied to the object store, or wait for it
        self._storing_one = asyncio.Lock()
        self._open: dict[RunKey, _Open] = {}
        self._removed: set[str] = set()  # directories that wait for their removal
        self._removing = asyncio.Lock()

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether it was an order about checkpoints."""
        if not message.HasField("checkpoint_run"):
            return False
        order = CHECKPOINT_RUN.read(message.checkpoint_run)
        work = self._seal if order.seal else self._remove if order.remove else self._keep_copy if order.store else None
        if order.probe or work is not None:
            self._spawn(self._probe(order) if work is None else work(order))
            return True
        known = self._open.get(order.key)
        if known is None or known.n < order.n:
            while len(self._open) >= MAX_OPEN:
                del self._open[next(iter(self._open))]
            self._open[order.key] = _Open(n=order.n)
            self._spawn(self._carry_out(order))
        elif known.n == order.n and known.answer is not None:
            self._tell(order, known.answer)
        return True

    def _tell(self, order: CheckpointOrder, answer: Answer) -> None:
        report = CheckpointReport(
            key=order.key,
            n=order.n,
            phase=answer.phase.value,
            bytes=answer.bytes,
            elapsed_s=answer.elapsed_s,
            message=answer.message,
        )
        self._post(pb.AgentMessage(checkpoint_report=CHECKPOINT_REPORT.write(report)))

    def _tell_storage_away(self, order: CheckpointOrder, why: str) -> None:
        report = CheckpointReport(key=order.key, n=order.n, phase=STORAGE_AWAY, message=why[:MAX_MESSAGE])
        self._post(pb.AgentMessage(checkpoint_report=CHECKPOINT_REPORT.write(report)))

    async def _carry_out(self, order: CheckpointOrder) -> None:
        known = self._open[order.key]
        try:
            known.answer = await self._answer(order)
        except OSError as error:
            # Storage or shim away: nothing was said, so the order comes again.
            _log.warning("checkpoint %d of run %s has to wait: %s", order.n, order.key, str(error) or "no answer")
        if known.answer is None:
            if self._open.get(order.key) is known:
                del self._open[order.key]
            return
        if known.answer.phase is _P.NOTHING and self._open.get(order.key) is known:
            del self._open[order.key]  # the number may be given again, and the work may have learned to answer
        self._tell(order, known.answer)

    async def _answer(self, order: CheckpointOrder) -> Answer | None:
        """None when nothing of the run is left that could be asked: the servers learn its end by other ways."""
        folder = control_folder(self._state_dir, order.key)
        members = await self._members(order, order.signal if _by_signal(order) else 0, dry=True)
        if not members.members:
            return Answer(phase=_P.NOTHING)
        if not folder.is_dir():
            return Answer(phase=_P.NOTHING, message="its processes were not started with checkpoints")
        hinted = was_hinted(folder, order.n)
        if _by_signal(order) and not members.pids and not hinted:
            return _none_catches(order)
        if order.protocol == GRPC and not await self._doors.can_be_asked(order.key, order.port) and not hinted:
            return _none_there(order)
        before = were_registered(folder, order.n)
        noted = max(before, 0 if order.port else self._doors.present(order.key))
        try:
            async with asyncio.timeout(STORAGE_WITHIN_S):
                request, gid, damage = await asyncio.to_thread(
                    self._put_in_place, order, folder, hints=not hinted, noted=noted
                )
        except OSError as error:
            self._tell_storage_away(order, str(error) or "it does not answer")
            raise
        if damage is not None:
            raise damage
        if order.protocol == GRPC:
            return await self._converse(order, folder, request, gid, before=before, noted=noted)
        if not hinted:
            refusal = await self._hint(order, folder)
            if refusal is not None:
                return refusal
            note_hinted(folder, order.n)
        return await Watch(order, folder, request, gid, self._is_alive).answer()

    async def _converse(
        self, order: CheckpointOrder, folder: Path, request: Request, gid: int, *, before: int, noted: int
    ) -> Answer | None:
        """Also after a restart of the agent: who hears the same request again repeats its answer, or continues."""
        talk = self._doors.begin(order.key, order.port, request, order.max_deferral_s, before)
        try:
            if max(before, talk.size) != noted:  # a process came or went since
                note_registered(folder, order.n, max(before, talk.size))
            return await Watch(order, folder, request, gid, self._is_alive, talk).answer()
        finally:
            self._doors.end(order.key, talk)

    def _put_in_place(
        self, order: CheckpointOrder, folder: Path, *, hints: bool, noted: int
    ) -> tuple[Request, int, OSError | None]:
        """Work that is asked by shared memory hears of it at once: the event loop may be busy with something else.

        What an agent that follows needs to know of work that is asked by gRPC, `noted` processes, is written before the request, so
        that nothing lies between the request and the word to the work.

        The last one returned is what is wrong with its shared memory, which is no fault of the storage.
        """
        request, gid = self._written(order, folder, noted)
        if hints and order.protocol == SHMEM:
            try:
                shared_memory.ask(folder / SHM, order.n, int(request.deadline * 1000))
            except OSError as error:
                return request, gid, error
        return request, gid, None

    def _written(self, order: CheckpointOrder, folder: Path, noted: int) -> tuple[Request, int]:
        owner = self._owner_of(order.user)
        before = read_request(folder)
        if before is not None and before.n == order.n:
            return before, owner[1]
        path = directories.make_checkpoint(order.root, order.path, owner, self._node_id if order.apart else "")
        if order.protocol == GRPC:
            note_registered(folder, order.n, noted)
            note_hinted(folder, order.n)
        now = time.time()
        request = Request(n=order.n, path=path, deadline=now + order.timeout_s, reason=order.reason, asked=now)
        write_request(folder, request, owner[1])
        return request, owner[1]

    async def _hint(self, order: CheckpointOrder, folder: Path) -> Answer | None:
        if order.protocol == SHMEM:
            return None  # it was given with the request
        caught = await self._members(order, order.signal)
        if caught.pids:
            return None
        (folder / REQUEST).unlink(missing_ok=True)  # the number may be given again
        return _none_catches(order)

    async def _members(self, order: CheckpointOrder, number: int, *, dry: bool = False) -> ShimMessage:
        """The shim's answer to a hint, with `dry` to the question who would get one; raises TimeoutError."""
        answer: asyncio.Future[ShimMessage] = asyncio.get_running_loop().create_future()

        def take(message: ShimMessage) -> None:
            if not answer.done():
                answer.set_result(message)

        body: dict[str, object] = {"op": "hint", "number": order.key.number, "run": order.key.run, "signal": number}
        if dry:
            body["dry"] = True
        self._ask(body, take)
        async with asyncio.timeout(SHIM_WITHIN_S):
            told = await answer
        if told.members is None:
            raise OSError(told.error or "the shim of this node is older than its agent")
        return told

    async def _remove(self, order: CheckpointOrder) -> None:
        """One after the other: each may take long, or for ever where the storage hangs, and all threads of the agent are few."""
        if order.path in self._removed:
            return  # orders are repeated
        self._removed.add(order.path)
        try:
            async with self._removing:
                await asyncio.to_thread(directories.remove_all, order.root, order.path)
        except OSError as error:
            _log.warning("the checkpoints in %s stay: %s", order.path, error.strerror or error)
            return
        finally:
            self._removed.discard(order.path)
        report = CheckpointReport(key=order.key, n=order.n, phase=REMOVED)
        self._post(pb.AgentMessage(checkpoint_report=CHECKPOINT_REPORT.write(report)))

    async def _probe(self, order: CheckpointOrder) -> None:
        try:
            async with asyncio.timeout(STORAGE_WITHIN_S):
                elapsed_s = await asyncio.to_thread(directories.write_probe, order.root)
        except OSError as error:
            _log.warning("how fast %s is cannot be measured: %s", order.root, str(error) or "no answer")
            return
        report = CheckpointReport(
            key=order.key, n=order.n, phase=PROBED, bytes=directories.PROBE_BYTES, elapsed_s=elapsed_s
        )
        self._post(pb.AgentMessage(checkpoint_report=CHECKPOINT_REPORT.write(report)))

    async def _keep_copy(self, order: CheckpointOrder) -> None:
        """One after the other, beside whatever the work does meanwhile; also after its run has ended."""
        if order.path in self._storing:
            return  # orders are repeated
        self._storing.add(order.path)
        try:
            async with self._storing_one:
                why = await self._store.put(order, self._owner_of(order.user))
        except OSError as error:
            why = str(error)
        finally:
            self._storing.discard(order.path)
        phase = UNSTORED if why else STORED
        report = CheckpointReport(key=order.key, n=order.n, phase=phase, message=why[:MAX_MESSAGE])
        self._post(pb.AgentMessage(checkpoint_report=CHECKPOINT_REPORT.write(report)))

    async def _seal(self, order: CheckpointOrder) -> None:
        try:
            async with asyncio.timeout(STORAGE_WITHIN_S):
                size = await asyncio.to_thread(self._complete, order)
        except OSError as error:
            _log.warning("checkpoint %d of run %s has to wait: %s", order.n, order.key, str(error) or "no answer")
            return
        self._tell(order, Answer(phase=_P.SEALED, bytes=size))

    def _complete(self, order: CheckpointOrder) -> int:
        owner = self._owner_of(order.user)
        size = directories.size_of(order.path)
        manifest = directories.Manifest(
            allocation=Path(order.path).parent.parent.name,
            n=order.n,
            run=order.key.run,
            nodes=order.nodes,
            bytes=size,
            completed_at=int(time.time()),
        )
        directories.seal(order.root, order.path, owner, manifest)
        removed = directories.remove_others(order.root, order.path, set(order.keep))
        if removed:
            _log.info("removed checkpoints %s of run %s", removed, order.key)
        return size


def _none_catches(order: CheckpointOrder) -> Answer:
    return Answer(phase=_P.NOTHING, message=f"none of its processes catches signal {order.signal}")


def _none_there(order: CheckpointOrder) -> Answer:
    where = f"listens on port {order.port} alone" if order.port else "has registered for checkpoints"
    return Answer(phase=_P.NOTHING, message=f"none of its processes {where}")


def _by_signal(order: CheckpointOrder) -> bool:
    return order.protocol not in (SHMEM, GRPC)
