"""Leads updates of services: proposes the next instance when the last is ready, the end, and that an update is taken back.

Which updates are open is in the state, so a new leader continues where the last one stopped. What is ready is observed, so while there is
an update the loop looks often; otherwise it rests.
"""

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import AnyCommand, Envelope
from lattice.core.machine.events import (
    AllocationEnded,
    AllocationRequeued,
    AllocationStarted,
    AnyEvent,
    InstanceRenewed,
    NodeJoined,
    NodeLeft,
    PartChanged,
    RolloutChanged,
    ServiceRevised,
)
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.services.rollouts import Rollout
from lattice.core.rollouts import next_steps
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica

LOOP = "updates"
LOOK_EVERY_S = 0.25
REST_S = 3600.0
_HEARD = (
    ServiceRevised,
    RolloutChanged,
    InstanceRenewed,
    PartChanged,
    NodeJoined,
    NodeLeft,
    AllocationStarted,
    AllocationRequeued,
    AllocationEnded,
)


class Updating:
    """`step_due` does the work of one turn."""

    def __init__(self, replica: Replica, observations: Observations, clock: Clock) -> None:
        self._replica = replica
        self._observations = observations
        self._clock = clock
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._heard_since = clock.now_ms()
        self._open = {record.number for record in replica.state.allocations.values() if _is_open(record.rollout)}
        replica.subscribe(self._note, of=_HEARD)

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(LOOK_EVERY_S if self._open else REST_S)
        await self.step_due()

    async def step_due(self) -> None:
        """Proposes whatever is due for every open update."""
        due: list[AnyCommand] = []
        now = self._clock.now_ms()
        for number in sorted(self._open):
            with self._guard.item(allocation_id(number)):
                record = self._replica.state.allocations.get(number)
                if record is None or record.is_terminal or not _is_open(record.rollout):
                    self._open.discard(number)
                    continue
                due += next_steps(record, self._observations.readiness, now, self._heard_since)
        if due:
            await self._replica.propose_many(due, LOOP)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, ServiceRevised):
                self._open.add(event.number)
                self._alarm.ring()
            elif isinstance(event, _HEARD) and event.number in self._open:
                self._alarm.ring()


def _is_open(rollout: Rollout | None) -> bool:
    return rollout is not None and rollout.is_open
