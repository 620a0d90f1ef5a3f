"""Whether a leader in trouble lets another one lead: only where one is well."""

import asyncio

from lattice.ports.quorum.servers import ReplicaAt, ServerState
from lattice.quorum.leadership.stepping_down import SteppingDown


class Servers:
    """Implements `QuorumView` over what each of them says."""

    leader_name = "s1"

    def __init__(self, *states: ServerState) -> None:
        self._states = list(states)
        self.asked = asyncio.Event()
        self.successors: list[str] = []

    def replica_at(self, index: int | None) -> ReplicaAt:
        return ReplicaAt(name="s1", leads=True, applied_index=9)

    async def resign(self, successor: str) -> None:
        self.successors.append(successor)

    async def ask_all(self, index: int | None) -> list[ServerState]:
        self.asked.set()
        return self._states


def state(name: str, index: int = 5, problem: str = "") -> ServerState:
    return ServerState(name=name, replica=ReplicaAt(name=name, leads=False, applied_index=index, problem=problem))


def test_the_one_that_has_come_furthest_of_those_without_a_problem_is_asked_to_lead() -> None:
    servers = Servers(state("s1", 9), state("s2", 8, "full"), state("s3", 6), state("s4", 7), ServerState(name="s5"))

    async def scenario() -> None:
        async with asyncio.timeout(5):
            await SteppingDown("s1", lambda: "full", servers, every_s=0).run()

    asyncio.run(scenario())
    assert servers.successors == ["s4"]


def test_a_leader_goes_on_while_it_is_well_and_where_all_others_are_in_trouble() -> None:
    servers = Servers(state("s1", 9), state("s2", 8, "full"), ServerState(name="s3", problem="no answer"))
    troubles = ["", "", "full"]

    async def scenario() -> None:
        running = asyncio.create_task(
            SteppingDown("s1", lambda: troubles.pop(0) if troubles else "", servers, every_s=0).run()
        )
        await asyncio.wait_for(servers.asked.wait(), 5)
        assert troubles == []
        for _ in range(3):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    assert servers.successors == []
