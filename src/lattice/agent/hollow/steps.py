"""Pretended steps of a hollow node: launched, ended by time or order, reported until that is acknowledged. They write nothing."""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from lattice.agent.hollow.work import Work
from lattice.agent.machine.step_status import EndedTask, StepStatus
from lattice.agent.steps.messages import input_taken, step_report
from lattice.ports.nodes.agents import KnownStep, RunKey, StepKey
from lattice.ports.nodes.steps import AckOrder, EndOrder, LaunchOrder, ResizeOrder, SignalOrder
from lattice.wire.agents.messages import step_order_of
from lattice.wire.pb import agent_pb2 as pb

REPEAT_AFTER_S = 5.0
_TERMINATED = 15


@dataclass
class _Step:
    key: StepKey
    launch_id: str
    plan: bytes
    ranks: tuple[int, ...]
    timer: asyncio.TimerHandle | None = None
    status: StepStatus | None = None  # once it has ended
    sent_s: float = 0.0


class HollowSteps:
    """`post` drops what cannot be said now; it is said again."""

    def __init__(self, work: Work, source: random.Random, post: Callable[[pb.AgentMessage], None]) -> None:
        self._work = work
        self._source = source
        self._post = post
        self._steps: dict[StepKey, _Step] = {}

    def known(self) -> list[KnownStep]:
        return [
            KnownStep(key=step.key, launch_id=step.launch_id, plan=step.plan, ended=step.status is not None)
            for step in self._steps.values()
        ]

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was about a step."""
        match step_order_of(message):
            case LaunchOrder() as launch:
                self._launch(launch)
            case SignalOrder(key=key, signal=signal):
                self._end(key, signal=signal)
            case EndOrder(key=key):
                self._end(key, signal=_TERMINATED)
            case AckOrder(key=key):
                self._forget(key)
            case ResizeOrder():
                pass
            case None if message.HasField("step_input"):
                fed = message.step_input
                self._post(input_taken(fed.ticket, fed.offset + len(fed.data), ""))
            case None:
                return False
        return True

    def judge(self, held_by: Collection[RunKey]) -> None:
        """After a Welcome: what belongs to no run that holds the node is gone, the rest is reported again."""
        for step in list(self._steps.values()):
            if step.key.of_run not in held_by:
                self._forget(step.key)
            else:
                self._report(step, 0.0)

    def tick(self, now_s: float) -> None:
        for step in self._steps.values():
            if step.status is not None and now_s - step.sent_s >= REPEAT_AFTER_S:
                self._report(step, now_s)

    def _launch(self, launch: LaunchOrder) -> None:
        key = launch.key
        known = self._steps.get(key)
        if known is not None:
            self._report(known, 0.0)
            return
        ranks = tuple(task.rank for task in launch.tasks)
        step = self._steps[key] = _Step(key, launch.launch_id, launch.plan, ranks)
        outcome = self._work.outcome(launch.base, self._source)
        code = outcome.end.exit_code
        seconds = min(outcome.work_s, launch.time_s) if launch.time_s else outcome.work_s
        step.timer = asyncio.get_running_loop().call_later(seconds, lambda: self._end(key, code))

    def _end(self, key: StepKey, exit_code: int = 0, signal: int = 0) -> None:
        step = self._steps.get(key)
        if step is None or step.status is not None:
            return
        if step.timer is not None:
            step.timer.cancel()
        tasks = tuple(EndedTask(rank=rank, exit_code=exit_code, signal=signal) for rank in step.ranks)
        step.status = StepStatus(number=key.number, run=key.run, step=key.step, phase="ended", tasks=tasks)
        self._report(step, 0.0)

    def _report(self, step: _Step, now_s: float) -> None:
        if step.status is not None:
            step.sent_s = now_s
            self._post(step_report(step.status, step.launch_id))

    def _forget(self, key: StepKey) -> None:
        step = self._steps.pop(key, None)
        if step is not None and step.timer is not None:
            step.timer.cancel()

    @property
    def is_empty(self) -> bool:
        return not self._steps
