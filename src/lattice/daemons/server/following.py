"""What a follower has in place of the loops, which run on the leader with everything that only they know."""

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.scheduling import Outlook, Prediction, SchedulingStatus


class NoScheduling:
    """Implements `SchedulingView` with no data."""

    def reason_for(self, number: int) -> str:
        return ""

    def behind(self) -> frozenset[int]:
        return frozenset()

    def outlook(self, number: int) -> Outlook | None:
        return None

    def predictions(self, number: int) -> tuple[Prediction, ...]:
        return ()

    def candidates(self, number: int) -> Candidates | None:
        return None

    def queue(self) -> list[int]:
        return []

    async def predict(self, record: Allocation | TaskGroup) -> Outlook:
        return Outlook()

    def status(self) -> SchedulingStatus:
        return SchedulingStatus()
