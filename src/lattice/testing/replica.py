"""A replica without a log: the real state machine, applied at once."""

from collections.abc import Callable, Sequence

from lattice.core.machine.apply import apply
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.commands import AnyCommand, Envelope
from lattice.core.machine.outcomes import Accepted, Outcome
from lattice.core.machine.state import State
from lattice.core.model.work.dags import Dag
from lattice.ports.clock import Clock
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveFilter
from lattice.ports.quorum.replica import Subscriber
from lattice.quorum.subscribers import Subscribers


class FakeReplica:
    """Implements `Replica` and checks the invariants after every command; nothing is archived.

    `proposed` keeps the commands in their order; `failure` is raised by the next proposal, before anything happens.
    """

    def __init__(self, clock: Clock, state: State | None = None) -> None:
        self.state = State() if state is None else state
        self.applied_index = 0
        self.is_leader = True
        self.failure: Exception | None = None
        self.proposed: list[AnyCommand] = []
        self._clock = clock
        self._subscribers = Subscribers()

    async def propose(
        self,
        command: AnyCommand,
        *,
        actor: str,
        command_id: str = "",
        based_on: int | None = None,
    ) -> Outcome:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.proposed.append(command)
        at = max(self._clock.now_ms(), self.state.last_at)
        envelope = Envelope(at=at, command=command, actor=actor, command_id=command_id)
        outcome = apply(self.state, envelope)
        broken = check(self.state)
        if broken:
            raise AssertionError(f"{command}: {broken}")
        self.applied_index += 1
        if isinstance(outcome, Accepted):
            for subscriber in self._subscribers.for_events(outcome.events):
                subscriber(self.applied_index, envelope, outcome.events)
        return outcome

    async def propose_many(
        self, commands: Sequence[AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        return [await self.propose(command, actor=actor) for command in commands]

    def subscribe(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        return self._subscribers.add(callback, of)

    async def wait_for(self, index: int) -> None:
        if index > self.applied_index:
            raise AssertionError(f"number {index} will never be proposed")

    async def read_index(self) -> int:
        return self.applied_index

    async def archived(self, number: int) -> ArchivedRecord | None:
        return None

    async def archived_payload(self, number: int) -> bytes:
        return b""

    async def archived_dag(self, number: int) -> Dag | None:
        return None

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        return []

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        return []
