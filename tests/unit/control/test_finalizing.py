"""A cluster that raises its level by itself, and only when every server is there and able."""

from collections.abc import Sequence

from lattice.control.finalizing import Finalizing
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.ports.quorum.servers import ReplicaAt, ServerState, alone
from lattice.testing import scenario
from tests.unit.control.world import World


def server(name: str, level: int) -> ServerState:
    return ServerState(name=name, replica=ReplicaAt(name=name, leads=False, applied_index=1, newest_level=level))


def finalizing(world: World, servers: Sequence[ServerState]) -> Finalizing:
    async def ask() -> Sequence[ServerState]:
        return servers

    return Finalizing(world.replica, ask)


@scenario
async def test_the_level_is_raised_when_every_server_supports_the_next() -> None:
    world = World()
    assert world.state.level == OLDEST
    everybody = finalizing(world, [alone("s1", 1), server("s2", NEWEST)])
    while await everybody.finalize_when_ready():
        pass
    assert world.state.level == NEWEST


@scenario
async def test_an_old_or_silent_server_keeps_the_level_down() -> None:
    world = World()
    for other in (server("s2", OLDEST), ServerState(name="s2", problem="connection refused")):
        assert not await finalizing(world, [alone("s1", 1), other]).finalize_when_ready()
    assert world.state.level == OLDEST
