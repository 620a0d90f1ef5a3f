"""What a follower has in place of the loops, which run on the leader with everything that only they know, and a server that starts in
place of its links to the agents."""

from collections.abc import AsyncIterator

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.nodes.agents import AgentUnreachable, Order, OutputName, OutputPiece, RunKey
from lattice.ports.nodes.images import ImagesAsk, NodeImagesTold
from lattice.ports.nodes.measures import GroupUse, NodeUse
from lattice.ports.nodes.telemetry import TelemetryAsk, TelemetryTold
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


class NoLinks:
    """Implements `NodeLinks` while no agent can have connected."""

    def send(self, node: str, order: Order) -> bool:
        return False

    def is_connected(self, node: str) -> bool:
        return False

    def connected(self) -> frozenset[str]:
        return frozenset()

    def close(self, node: str, why: str) -> None:
        return

    def read_output(
        self,
        node: str,
        number: int,
        run: int,
        stream: OutputName,
        *,
        offset: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputPiece]:
        raise _starting()

    async def measure(self, node: str, key: RunKey | None = None) -> tuple[GroupUse, ...]:
        raise _starting()

    async def measure_node(self, node: str) -> NodeUse:
        raise _starting()

    async def read_log(self, node: str, since_s: float) -> list[str]:
        raise _starting()

    async def ask_images(self, node: str, ask: ImagesAsk) -> NodeImagesTold:
        raise _starting()

    async def ask_telemetry(self, node: str, ask: TelemetryAsk) -> TelemetryTold:
        raise _starting()

    def follow_telemetry(self, node: str, ask: TelemetryAsk) -> AsyncIterator[TelemetryTold]:
        raise _starting()


def _starting() -> AgentUnreachable:
    return AgentUnreachable("the server is starting")
