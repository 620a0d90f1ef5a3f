"""What a server that follows has in place of the loops: they run on the leader, and so does everything that only they know."""

from collections.abc import Sequence

from lattice.core.model.allocations import Allocation, TaskGroup
from lattice.ports.agents import Beat, Greeting, Registration, Report
from lattice.ports.replica import ReplicaStopped
from lattice.ports.scheduling import Outlook, SchedulingStatus


class NoScheduling:
    """Implements `SchedulingView`: says nothing."""

    def reason_for(self, number: int) -> str:
        return ""

    def outlook(self, number: int) -> Outlook | None:
        return None

    def queue(self) -> list[int]:
        return []

    async def foresee(self, record: Allocation | TaskGroup) -> Outlook:
        return Outlook()

    def status(self) -> SchedulingStatus:
        return SchedulingStatus()


class NoDesk:
    """Implements `AgentDesk`: agents are sent on to the next server."""

    async def register(self, registration: Registration) -> Greeting:
        raise ReplicaStopped("this server does not lead; ask the next one")

    async def confirm(self, node: str, session: int) -> bool:
        return False

    def opened(self, node: str, session: int) -> None:
        return

    async def report(self, node: str, session: int, reports: Sequence[Report]) -> None:
        raise ReplicaStopped("this server does not lead")

    def beat(self, node: str, session: int, beat: Beat) -> None:
        return

    def closed(self, node: str, session: int) -> None:
        return
