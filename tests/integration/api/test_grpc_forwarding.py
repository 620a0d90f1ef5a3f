"""A server that follows hands calls on to the leader: answers, refusals, streams, and what happens when the leader changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from lattice.api.grpc import forwarding
from lattice.api.grpc.forwarding import LeaderCalls
from lattice.api.grpc.operations import OperationServices
from tests.integration.api.grpc_wire import ask
from tests.integration.api.world import World, in_world


class Place:
    """Who leads, told by the test."""

    def __init__(self, name: str) -> None:
        self.leader_name = name
        self._moved: asyncio.Future[None] | None = None

    def moved(self) -> "asyncio.Future[None]":
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def lead(self, name: str) -> None:
        self.leader_name = name
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)


class Callers:
    """Implements `Callers`: every caller is the same server, which belongs to the cluster or not."""

    belongs = True

    def named_by(self, certificate: bytes) -> str:
        return "follower"

    async def is_member(self, name: str) -> bool:
        return self.belongs


class Servers:
    """A leader with the world's state, and followers that know only where it is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.place = Place("leader")
        self.callers = Callers()
        self.addresses: dict[str, str] = {}
        self.operations: dict[str, OperationServices] = {}
        self.calls: dict[str, LeaderCalls] = {}
        self.servers: list[grpc.aio.Server] = []

    async def start(self, name: str, *, leads: bool) -> str:
        """The address for clients; the one for other servers is noted."""
        calls = LeaderCalls(self.place, lambda leader: self.addresses.get(leader, ""), grpc.aio.insecure_channel)
        operations = OperationServices()
        if leads:
            operations.serve(self.world.services)
        else:
            operations.follow(self.world.services, calls)
        self.operations[name], self.calls[name] = operations, calls
        for_clients, for_servers = grpc.aio.server(), grpc.aio.server()
        operations.add_to(for_clients)
        operations.add_to(for_servers, peers=self.callers)
        self.addresses[name] = f"127.0.0.1:{for_servers.add_insecure_port('127.0.0.1:0')}"
        address = f"127.0.0.1:{for_clients.add_insecure_port('127.0.0.1:0')}"
        for server in (for_clients, for_servers):
            await server.start()
            self.servers.append(server)
        return address

    async def stop(self) -> None:
        for calls in self.calls.values():
            await calls.close()
        for server in self.servers:
            await server.stop(0)


@asynccontextmanager
async def follower_of(world: World) -> AsyncIterator[tuple[Servers, grpc.aio.Channel]]:
    servers = Servers(world)
    await servers.start("leader", leads=True)
    address = await servers.start("follower", leads=False)
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield servers, channel
    finally:
        await servers.stop()


@in_world
async def test_answers_and_refusals_come_from_the_leader(world: World) -> None:
    async with follower_of(world) as (_, channel):
        made = await ask(channel, "submit", {"entrypoint": ["true"]}, token=world.alice)
        assert made.value["allocation"]["user"] == "alice"
        refused = await ask(channel, "get_allocation", {"id": "a9"}, token=world.alice, headers={"x-request-id": "r7"})
        assert refused.status is grpc.StatusCode.NOT_FOUND
        assert refused.error is not None
        assert refused.error["code"] == "not_found"
        assert refused.trailers["x-request-id"] == "r7"
        stranger = await ask(channel, "whoami", {}, token="x")
        assert stranger.status is grpc.StatusCode.UNAUTHENTICATED


@in_world
async def test_nothing_is_taken_from_a_server_that_was_removed_and_another_one_may_be_asked(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        servers.callers.belongs = False
        for operation, request in (("submit", {"entrypoint": ["true"]}), ("watch", {"since": 0})):
            refused = await ask(channel, operation, request, token=world.alice)
            assert refused.status is grpc.StatusCode.UNAVAILABLE
            assert refused.error is not None
            assert "does not belong to this cluster" in refused.error["message"]
        assert world.services.replica.state.allocations == {}


@in_world
async def test_streams_come_from_the_leader(world: World) -> None:
    async with follower_of(world) as (_, channel):
        watching = asyncio.create_task(ask(channel, "watch", {"since": 0}, token=world.alice, most=2))
        await world.submit()
        assert len((await watching).values) == 2
        refused = await ask(channel, "watch", {"ids": ["a99"]}, token=world.alice)
        assert refused.status is grpc.StatusCode.NOT_FOUND


@in_world
async def test_a_read_that_may_be_old_is_answered_here(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        servers.place.lead("nobody")
        answer = await ask(channel, "whoami", {}, token=world.alice, headers={"x-lattice-consistency": "stale"})
        assert answer.value["user"] == "alice"


@in_world
async def test_a_call_waits_for_the_next_leader(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        servers.place.lead("")
        asking = asyncio.create_task(ask(channel, "submit", {"entrypoint": ["true"]}, token=world.alice))
        watching = asyncio.create_task(ask(channel, "watch", {"since": 0}, token=world.alice, most=1))
        await asyncio.sleep(0.05)
        assert not asking.done()
        servers.place.lead("leader")
        assert (await asking).value["allocation"]["id"] == "a1"
        assert len((await watching).values) == 1


@in_world
async def test_a_server_that_is_elected_answers_what_waits(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        servers.place.lead("")
        asking = asyncio.create_task(ask(channel, "whoami", {}, token=world.alice))
        reading = asyncio.create_task(ask(channel, "logs", {"id": "a9"}, token=world.alice))
        await asyncio.sleep(0.05)
        servers.operations["follower"].serve(world.services)
        servers.calls["follower"].lead(is_leading=True)
        servers.place.lead("follower")
        assert (await asking).value["user"] == "alice"
        assert (await reading).status is grpc.StatusCode.NOT_FOUND


@in_world
async def test_a_server_that_does_not_lead_refuses_what_another_hands_on(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        await servers.start("other", leads=False)
        servers.place.lead("other")
        asking = asyncio.create_task(ask(channel, "whoami", {}, token=world.alice))
        reading = asyncio.create_task(ask(channel, "watch", {"since": 0}, token=world.alice, most=1))
        await asyncio.sleep(0.2)
        assert not asking.done()
        await world.submit()
        servers.place.lead("leader")
        assert (await asking).value["user"] == "alice"
        assert len((await reading).values) == 1


@in_world
async def test_a_leader_that_is_gone_is_looked_for_until_the_time_is_over(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forwarding, "GIVE_UP_S", 0.3)
        async with follower_of(world) as (servers, channel):
            servers.addresses["leader"] = "127.0.0.1:9"
            for operation in ("whoami", "watch"):
                answer = await ask(channel, operation, {}, token=world.alice)
                assert answer.status is grpc.StatusCode.UNAVAILABLE
                assert answer.error is not None
                assert "no server leads now" in answer.error["message"]


@in_world
async def test_a_server_that_stops_keeps_nobody_waiting(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        servers.calls["follower"].renew()
        await servers.calls["follower"].close()
        answer = await ask(channel, "whoami", {}, token=world.alice)
        assert answer.error is not None
        assert "stopping" in answer.error["message"]


@in_world
async def test_new_certificates_are_taken_up_with_the_next_call(world: World) -> None:
    async with follower_of(world) as (servers, channel):
        for _ in range(2):
            assert (await ask(channel, "whoami", {}, token=world.alice)).value["user"] == "alice"
            servers.calls["follower"].renew()
