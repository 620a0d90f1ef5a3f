"""The replica for one term of leadership. After the term has ended it neither proposes nor delivers events."""

from collections.abc import Callable, Sequence

from lattice.core.machine.commands import AnyCommand
from lattice.core.machine.outcomes import Outcome
from lattice.core.machine.state import State
from lattice.core.model.work.dags import Dag
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveFilter
from lattice.ports.quorum.replica import Replica, ReplicaStopped, Subscriber


class Term:
    """Implements `Replica` over another one, until `end`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._has_ended = False
        self._unsubscribe: list[Callable[[], None]] = []

    def end(self) -> None:
        """Disconnects everything that was built on this term; idempotent."""
        self._has_ended = True
        while self._unsubscribe:
            self._unsubscribe.pop()()

    @property
    def state(self) -> State:
        return self._replica.state

    @property
    def applied_index(self) -> int:
        return self._replica.applied_index

    @property
    def is_leader(self) -> bool:
        return not self._has_ended and self._replica.is_leader

    async def propose(
        self, command: AnyCommand, *, actor: str, command_id: str = "", based_on: int | None = None
    ) -> Outcome:
        self._check()
        return await self._replica.propose(command, actor=actor, command_id=command_id, based_on=based_on)

    async def propose_many(
        self, commands: Sequence[AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        self._check()
        return await self._replica.propose_many(commands, actor, based_on=based_on)

    def subscribe(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        unsubscribe = self._replica.subscribe(callback, of)
        self._unsubscribe.append(unsubscribe)
        return unsubscribe

    async def wait_for(self, index: int) -> None:
        await self._replica.wait_for(index)

    async def read_index(self) -> int:
        return await self._replica.read_index()

    async def archived(self, number: int) -> ArchivedRecord | None:
        return await self._replica.archived(number)

    async def archived_payload(self, number: int) -> bytes:
        return await self._replica.archived_payload(number)

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        return await self._replica.archived_page(wanted, before, limit)

    async def archived_dag(self, number: int) -> Dag | None:
        return await self._replica.archived_dag(number)

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        return await self._replica.archived_dags(user, tenant, before, limit)

    def _check(self) -> None:
        if self._has_ended:
            raise ReplicaStopped("this server is no longer the leader")
