"""The steps of this node: launched on order, followed by readers, reported until their end was acknowledged.

A step belongs to a run of an allocation and never outlives it here: the shim ends it with the run's script, the server when the
allocation stops, and after a break every step whose run does not hold the node any more is ended before the node takes orders.
"""

import asyncio
import binascii
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from lattice.agent.connection import Outbox
from lattice.agent.machine.step_status import EndedTask, StepStatus
from lattice.agent.messages import output_chunk
from lattice.agent.shim.journal import read_journal, tail_of
from lattice.agent.shim_client import ShimMessage
from lattice.agent.steps.folders import StepFolders
from lattice.agent.steps.messages import input_taken, step_report
from lattice.ports.nodes.agents import KnownStep, RunKey, StepKey
from lattice.wire.pb import agent_pb2 as pb

REPEAT_AFTER_S = 5.0
CHUNK_BYTES = 64 * 1024
# A journal that grows wakes its readers; this is for what might have been missed.
LOOK_AGAIN_S = 1.0

_log = logging.getLogger(__name__)


class StepRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much is kept of steps whose end was acknowledged, for readers that come late."""

    keep_s: float = 3600.0
    max_bytes: int = 2 << 30
    max_steps: int = 2000


@dataclass
class _Step:
    key: StepKey
    launch_id: str
    plan: bytes
    ranks: tuple[int, ...]
    fence: bool
    status: StepStatus | None = None  # None: the shim was not asked yet, or has not answered
    is_acknowledged: bool = False
    sent_s: float = 0.0
    kept_since_s: float = 0.0
    size: int = 0
    is_ending: bool = False
    held: list[tuple[dict[str, object], Callable[[ShimMessage], None] | None]] = field(default_factory=list)
    readers: set[asyncio.Event] = field(default_factory=set)

    @property
    def has_ended(self) -> bool:
        return self.status is not None and self.status.has_ended


Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]


class Steps:
    """`ask` speaks to the shim, `post` to the server; both drop what cannot be said now."""

    def __init__(
        self,
        folders: StepFolders,
        ask: Ask,
        post: Callable[[pb.AgentMessage], None],
        cleared: Callable[[], None],
        retention: StepRetention,
    ) -> None:
        self._folders = folders
        self._ask = ask
        self._post = post
        self._cleared = cleared
        self._retention = retention
        self._steps: dict[StepKey, _Step] = {}
        self._stale: set[StepKey] = set()

    # What is known.

    def recall(self) -> None:
        """Find the steps of an earlier agent; `shim_answers` follows and says which of them live."""
        for found in self._folders.found():
            self._folders.clear_drafts(found.key, of_shim=False)
            self._steps[found.key] = _Step(
                key=found.key,
                launch_id=found.spec.launch_id,
                plan=found.spec.plan,
                ranks=found.spec.ranks,
                fence=found.spec.fence,
                status=found.status if found.status and found.status.has_ended else None,
                is_acknowledged=found.acknowledged_wall_s is not None,
                kept_since_s=found.acknowledged_wall_s or 0.0,
                size=found.size,
            )

    def shim_answers(self, listed: Iterable[StepStatus], lost_message: str) -> None:
        """What the shim knows is as it says; of the rest the record on disk speaks, or it is lost."""
        statuses = {status.key: status for status in listed}
        for key, status in statuses.items():
            if key in self._steps:
                self.heard(status)
            else:
                self._ask({"op": "end_step", **_about(key), "grace_s": 0, "why": "unknown"}, None)
        for step in list(self._steps.values()):
            if step.key in statuses or step.has_ended:
                continue
            self._folders.clear_drafts(step.key, of_shim=True)
            left = self._folders.status(step.key)
            self.heard(left if left and left.has_ended else _lost(step.key, step.ranks, lost_message))

    def is_alive(self, key: RunKey) -> bool:
        return any(not step.has_ended for step in self._steps.values() if step.key.of_run == key)

    def is_open(self, key: StepKey) -> bool:
        step = self._steps.get(key)
        return step is not None and not step.has_ended

    def known(self) -> list[KnownStep]:
        return [
            KnownStep(key=step.key, launch_id=step.launch_id, plan=step.plan, ended=step.has_ended)
            for step in self._steps.values()
            if not step.is_acknowledged
        ]

    # What a server says.

    def begin(self, key: StepKey, launch_id: str, plan: bytes, ranks: tuple[int, ...], *, fence: bool) -> bool:
        """Note the launch; False, and a report, when the step is known already."""
        known = self._steps.get(key)
        if known is not None:
            if known.launch_id != launch_id:
                refusal = _refused(key, ranks, "this node has another step of that number")
                self._post(step_report(refusal, launch_id))
            elif known.status is not None:
                self._report(known)
            return False
        self._steps[key] = _Step(key=key, launch_id=launch_id, plan=plan, ranks=ranks, fence=fence)
        return True

    def refuse(self, key: StepKey, message: str) -> None:
        """The step could not be launched here: all its tasks failed."""
        step = self._steps.get(key)
        if step is not None:
            self.heard(_refused(key, step.ranks, message))

    def launched(self, key: StepKey, answer: ShimMessage) -> None:
        step = self._steps.get(key)
        if not answer.ok:
            self.refuse(key, answer.error)
        elif step is not None and step.status is None:
            step.status = StepStatus(number=key.number, run=key.run, step=key.step)
            self._ask_held(step)
            self._wake(step)
            if step.is_ending:
                self.end(key, 0.0, "ended before it was started")

    def judge(self, held_by: Collection[RunKey]) -> bool:
        """Ends the steps of runs that do not hold this node; True when there are any to be waited for."""
        self._stale = {key for key, step in self._steps.items() if not step.has_ended and key.of_run not in held_by}
        for key in sorted(self._stale):
            self.end(key, 0.0, "the allocation does not hold this node any more")
        return bool(self._stale)

    def end(self, key: StepKey, grace_s: float, why: str) -> None:
        step = self._steps.get(key)
        if step is None or step.has_ended:
            return
        step.is_ending = True
        self._ask({"op": "end_step", **_about(key), "grace_s": grace_s, "why": why}, None)

    def fence(self) -> None:
        """No server was heard for too long."""
        for step in list(self._steps.values()):
            if step.fence and not step.has_ended and not step.is_ending:
                self.end(step.key, 0.0, "fenced")

    def feed(self, asked: pb.StepInput, key: StepKey) -> None:
        def taken(answer: ShimMessage) -> None:
            self._post(input_taken(asked.ticket, answer.upto, "" if answer.ok else answer.error))

        data = binascii.b2a_base64(asked.data, newline=False).decode()
        request = {"op": "feed_step", **_about(key), "offset": asked.offset, "data": data, "eof": asked.eof}
        if asked.client:
            request["client"] = asked.client
        if asked.HasField("task"):
            request["task"] = asked.task
        self._ask_launched(key, request, taken)

    def order(self, operation: str, key: StepKey, **more: object) -> None:
        self._ask_launched(key, {"op": operation, **_about(key), **more}, None)

    def _ask_launched(
        self, key: StepKey, request: dict[str, object], on_answer: Callable[[ShimMessage], None] | None
    ) -> None:
        """Asks the shim, or holds the request while a step is being prepared of which the shim knows nothing yet."""
        step = self._steps.get(key)
        if step is not None and step.status is None:
            step.held.append((request, on_answer))
        else:
            self._ask(request, on_answer)

    def _ask_held(self, step: _Step) -> None:
        held, step.held = step.held, []
        for request, on_answer in held:
            self._ask(request, on_answer)

    def acknowledged(self, key: StepKey) -> None:
        step = self._steps.get(key)
        if step is None or not step.has_ended or step.is_acknowledged:
            return
        step.is_acknowledged = True
        step.kept_since_s = time.time()
        step.size = self._folders.size(key)
        self._folders.acknowledge(key)
        self.order("forget_step", key)

    # What the shim says.

    def heard(self, status: StepStatus) -> None:
        step = self._steps.get(status.key)
        if step is None or step.has_ended:
            return
        step.status = status
        self._ask_held(step)
        self._report(step)
        self._wake(step)
        if status.has_ended and step.key in self._stale:
            self._stale.discard(step.key)
            if not self._stale:
                self._cleared()

    def grew(self, key: StepKey) -> None:
        step = self._steps.get(key)
        if step is not None:
            self._wake(step)

    def _wake(self, step: _Step) -> None:
        for reader in step.readers:
            reader.set()

    def _report(self, step: _Step) -> None:
        if step.status is not None and (step.has_ended or step.status.tasks or step.status.pmi):
            step.sent_s = time.monotonic()
            self._post(step_report(step.status, step.launch_id))

    def repeat_reports(self, *, all_of_them: bool = False) -> None:
        """Reports that no server has acknowledged, when they are due again."""
        now_s = time.monotonic()
        for step in self._steps.values():
            is_due = all_of_them or (step.has_ended and now_s - step.sent_s >= REPEAT_AFTER_S)
            if is_due and not step.is_acknowledged:
                self._report(step)

    def expired(self) -> list[StepKey]:
        """Steps whose folders are kept no longer, oldest first."""
        limit = self._retention
        kept = sorted((s for s in self._steps.values() if s.is_acknowledged), key=lambda step: step.kept_since_s)
        size = sum(step.size for step in kept)
        gone = []
        for place, step in enumerate(kept):
            too_many = len(kept) - place > limit.max_steps or size > limit.max_bytes
            if not too_many and time.time() - step.kept_since_s < limit.keep_s:
                break
            size -= step.size
            del self._steps[step.key]
            gone.append(step.key)
        return gone

    # Who reads.

    async def send_journal(self, asked: pb.ReadOutput, key: StepKey, outbox: Outbox) -> None:
        """Send the journal from an offset on; a reader that follows ends with the step."""
        step = self._steps.get(key)
        if step is None:
            unknown = f"step {key} is not known on this node"
            await outbox.put_output(output_chunk(asked.reader, 0, eof=True, error=unknown))
            return
        offset = await self._beginning(key, asked.offset)
        grown = asyncio.Event()
        step.readers.add(grown)
        try:
            while True:
                grown.clear()
                # Asked before reading: what was written before the end is then seen.
                is_over = not asked.follow or step.has_ended
                offset, data = self._read(key, offset)
                if data or is_over:
                    is_last = is_over and len(data) < CHUNK_BYTES
                    await outbox.put_output(output_chunk(asked.reader, offset, data, eof=is_last))
                    offset += len(data)
                    if is_last:
                        return
                if step.status is not None and not step.has_ended:
                    self.order("read_step", key, upto=offset)
                if len(data) < CHUNK_BYTES:
                    await _wait(grown)
        finally:
            step.readers.discard(grown)

    async def _beginning(self, key: StepKey, offset: int) -> int:
        """A negative offset means the end of the journal, this many bytes of it."""
        if offset >= 0:
            return offset
        try:
            return await asyncio.to_thread(tail_of, str(self._folders.path(key)), -offset)
        except OSError:
            return 0

    def _read(self, key: StepKey, offset: int) -> tuple[int, bytes]:
        try:
            return read_journal(str(self._folders.path(key)), offset, CHUNK_BYTES)
        except OSError:
            return offset, b""


async def _wait(grown: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_AGAIN_S):
            await grown.wait()
    except TimeoutError:
        return


def _about(key: StepKey) -> dict[str, object]:
    return {"number": key.number, "run": key.run, "step": key.step}


def _lost(key: StepKey, ranks: tuple[int, ...], message: str) -> StepStatus:
    tasks = tuple(EndedTask(rank=rank, error=message, lost=True) for rank in ranks)
    return StepStatus(number=key.number, run=key.run, step=key.step, phase="ended", tasks=tasks, error=message)


def _refused(key: StepKey, ranks: tuple[int, ...], message: str) -> StepStatus:
    tasks = tuple(EndedTask(rank=rank, error=message) for rank in ranks)
    return StepStatus(number=key.number, run=key.run, step=key.step, phase="ended", tasks=tasks, error=message)
