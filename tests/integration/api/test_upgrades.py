"""The level of a cluster over the API: what is shown, when it is raised, and who keeps it down."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from lattice.core.machine.commands import ConfirmNode, RegisterNode
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.upgrades import FiguresBefore, Upgrade
from lattice.ports.quorum.servers import ReplicaAt, ServerState
from tests.integration.api.grpc_wire import ask, grpc_of
from tests.integration.api.test_audit import auditing, kinds
from tests.integration.api.world import World


@dataclass
class Servers:
    """A quorum that says of its servers what it is told to."""

    levels: dict[str, int | None]
    releases: dict[str, str] = field(default_factory=dict)
    leader_name: str = "s1"
    asked: list[int | None] = field(default_factory=list)

    def replica_at(self, index: int | None) -> ReplicaAt:
        return ReplicaAt(name="s1", leads=True, applied_index=1)

    async def resign(self, successor: str) -> None:
        raise AssertionError("nobody asked for that")

    async def ask_all(self, index: int | None) -> list[ServerState]:
        return [
            ServerState(name=name, problem="connection refused")
            if level is None
            else ServerState(
                name=name,
                replica=ReplicaAt(
                    name=name,
                    leads=name == "s1",
                    applied_index=1,
                    newest_level=level,
                    release=self.releases.get(name, "0.2.0"),
                ),
            )
            for name, level in self.levels.items()
        ]


def at_level(level: int) -> Callable[[Callable[[World], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Runs the test in a world of this level."""

    def decorated(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def scenario() -> None:
            world = World(level)
            await world.start()
            try:
                await test(world)
            finally:
                await world.stop()

        @functools.wraps(test)
        def run() -> None:
            asyncio.run(asyncio.wait_for(scenario(), 30))

        del run.__wrapped__  # pytest would take its argument for a fixture
        return run

    return decorated


@at_level(OLDEST)
async def test_one_server_is_its_own_member_and_raises_the_level(world: World) -> None:
    async with auditing(world):
        before = (await world.call("GET", "/admin/upgrade", token=world.admin)).json()
        assert (before["level"], before["next_level"], before["blocked_by"]) == (1, 2, "")
        assert [(each["name"], each["newest_level"]) for each in before["servers"]] == [("s1", NEWEST)]
        raised = await world.call("POST", "/admin/upgrade/finalize", {}, token=world.admin)
        assert raised.status == 200, raised.body
        assert raised.json()["level"] == 2
        assert world.state.level == 2
        assert "upgrade.finalize" in await kinds(world)


@at_level(NEWEST)
async def test_a_cluster_at_the_newest_level_has_nothing_to_finalize(world: World) -> None:
    refused = await world.call("POST", "/admin/upgrade/finalize", {}, token=world.admin)
    assert (refused.status, refused.error["code"]) == (409, "conflict")
    assert f"supports no level above {NEWEST}" in refused.error["message"]


@at_level(OLDEST)
async def test_a_server_of_the_release_before_keeps_the_level_down_and_is_named(world: World) -> None:
    world.services.quorum = Servers({"s1": 2, "s2": 1, "s3": 2})
    refused = await world.call("POST", "/admin/upgrade/finalize", {}, token=world.admin)
    assert refused.status == 409
    assert "server s2 supports level 1 at most; upgrade it first" in refused.error["message"]
    world.services.quorum = Servers({"s1": 2, "s2": 2, "s3": None})
    async with grpc_of(world.services) as channel:
        answer = await ask(channel, "finalize_upgrade", {}, token=world.admin)
        assert answer.error is not None
        assert "what server s3 supports is not known (connection refused)" in answer.error["message"]
        assert world.state.level == 1
        world.services.quorum = Servers({"s1": 2, "s2": 2, "s3": 3})
        answer = await ask(channel, "finalize_upgrade", {"request_id": "r"}, token=world.admin)
        assert answer.value["level"] == 2
    assert world.state.level == 2


@at_level(OLDEST)
async def test_only_administrators_raise_the_level_and_everybody_sees_it(world: World) -> None:
    assert (await world.call("POST", "/admin/upgrade/finalize", {}, token=world.alice)).status == 403
    assert (await world.call("GET", "/admin/upgrade", token=world.alice)).json()["level"] == 1
    assert world.state.level == 1


@at_level(NEWEST)
async def test_agents_are_counted_by_the_version_they_speak(world: World) -> None:
    world.observations.protocols.update({"n1": 1, "n2": 2, "n3": 2})
    view = (await world.call("GET", "/admin/upgrade", token=world.alice)).json()
    assert view["agents"] == [{"protocol": 1, "nodes": 1}, {"protocol": 2, "nodes": 2}]


@at_level(NEWEST)
async def test_a_client_without_a_common_version_is_refused_with_both_versions(world: World) -> None:
    for said, status in (("", 200), ("1-1", 200), ("1-2", 200), ("2-9", 200), ("8-9", 426), ("two", 400)):
        answer = await world.call("GET", "/whoami", headers={"x-lattice-protocol": said})
        assert answer.status == status, (said, answer.body)
    refused = (await world.call("GET", "/whoami", headers={"x-lattice-protocol": "8-9"})).error
    assert refused["code"] == "unsupported_version"
    assert "this client speaks protocol versions 8 to 9, this server versions 1 to 2" in refused["message"]
    async with grpc_of(world.services) as channel:
        told = await ask(channel, "whoami", {}, token=world.alice, headers={"x-lattice-protocol": "8-9"})
        assert told.error is not None
        assert told.error["code"] == "unsupported_version"


@at_level(NEWEST)
async def test_everybody_may_ask_which_versions_a_server_speaks(world: World) -> None:
    said = (await world.call("GET", "/version", token="")).json()
    assert said["protocol"] == {"oldest": 1, "newest": 2, "features": []}
    assert (said["oldest_level"], said["newest_level"]) == (OLDEST, NEWEST)


class Upgrading:
    """The leader's loop, as far as the API asks it."""

    has_program = True

    def before(self) -> FiguresBefore:
        return FiguresBefore(errors_ppm=7)


async def with_agents(world: World, release: str = "0.2.0") -> None:
    world.services.upgrading = Upgrading()
    for name in ("n1", "n2", "n3"):
        command = RegisterNode(node=name, hardware=Hardware(cpus=4, memory_mb=4096), agent_version=release)
        assert isinstance(await world.replica.propose(command, actor="test"), Accepted)
        await world.replica.propose(ConfirmNode(node=name), actor="test")


def newest_of(world: World) -> list[Upgrade]:
    newest = world.state.upgrades.newest
    return [] if newest is None else [newest]


@at_level(NEWEST)
async def test_a_rolling_upgrade_is_planned_started_paused_resumed_and_rolled_back(world: World) -> None:
    await with_agents(world)
    wanted = {"to": "0.2.1", "batch": "50%", "observe_s": 60}
    plan = (await world.call("POST", "/admin/upgrade/plan", wanted, token=world.admin)).json()
    assert [(each["batch"], each["nodes"]) for each in plan["batches"]] == [(0, ["n1"]), (1, ["n2", "n3"])]
    assert not newest_of(world)
    started = {**wanted, "request_id": "one"}
    for _ in range(2):
        answer = await world.call("POST", "/admin/upgrade/start", started, token=world.admin)
        assert answer.status == 200, answer.body
        assert (answer.json()["rollout"]["target"], answer.json()["rollout"]["phase"]) == ("0.2.1", "canary")
    assert [each.before.errors_ppm for each in newest_of(world)] == [7]
    again = await world.call("POST", "/admin/upgrade/start", wanted, token=world.admin)
    assert "there is one at a time" in again.error["message"]
    for verb, phase in (("pause", "paused"), ("resume", "canary"), ("rollback", "rolling_back")):
        answer = await world.call("POST", f"/admin/upgrade/{verb}", {"reason": "as planned"}, token=world.admin)
        assert (answer.json()["rollout"]["phase"], answer.json()["rollout"]["reason"]) == (phase, "as planned")
    refused = await world.call("POST", "/admin/upgrade/resume", {}, token=world.admin)
    assert (refused.status, refused.error["code"]) == (409, "conflict")


@at_level(NEWEST)
async def test_an_upgrade_that_cannot_go_well_is_refused_before_it_begins(world: World) -> None:
    await with_agents(world)

    async def said(**request: object) -> str:
        answer = await world.call("POST", "/admin/upgrade/start", {"to": "0.2.1", **request}, token=world.admin)
        assert answer.status >= 400, answer.body
        return str(answer.error["message"])

    assert "the servers run 0.2.0, and a release lies between that and 0.4.0" in await said(to="0.4.0")
    assert "no node can be upgraded to 0.2.0" in await said(to="0.2.0")
    assert "is not a version" in await said(to="new; rm -rf /")
    assert 'unknown reservation "night"' in await said(within="night")
    assert '"0%" is no size of a batch' in await said(batch="0%")
    assert '"-1" is no size of a batch' in await said(batch="-1")
    world.services.quorum = Servers({"s1": 2, "s2": None})
    assert "server s2 does not answer" in await said()
    world.services.upgrading = None
    assert "upgrade.program is not set" in await said()
    assert world.state.upgrades.newest is None


@at_level(NEWEST)
async def test_only_administrators_upgrade(world: World) -> None:
    await with_agents(world)
    for verb in ("plan", "start", "pause", "resume", "rollback"):
        body = {"to": "0.2.1"} if verb in ("plan", "start") else {}
        assert (await world.call("POST", f"/admin/upgrade/{verb}", body, token=world.alice)).status == 403


@at_level(OLDEST)
async def test_a_cluster_of_the_level_before_refuses_a_rolling_upgrade(world: World) -> None:
    await with_agents(world)
    refused = await world.call("POST", "/admin/upgrade/start", {"to": "0.2.1"}, token=world.admin)
    assert "needs level 2" in refused.error["message"]


SERVERS = {"s1": 2, "s2": 2, "s3": 2}


@at_level(NEWEST)
async def test_servers_are_upgraded_one_by_one_with_the_leader_last(world: World) -> None:
    await with_agents(world, "0.2.1")
    world.services.quorum = Servers(dict(SERVERS))
    wanted = {"to": "0.2.1", "kind": "servers", "observe_s": 60}
    plan = (await world.call("POST", "/admin/upgrade/plan", wanted, token=world.admin)).json()
    assert [each["nodes"] for each in plan["batches"]] == [["s2"], ["s3"], ["s1"]]
    started = (await world.call("POST", "/admin/upgrade/start", wanted, token=world.admin)).json()["rollout"]
    assert (started["kind"], started["phase"]) == ("servers", "canary")
    assert [(each["node"], each["former"]) for each in started["nodes"]] == [
        ("s2", "0.2.0"),
        ("s3", "0.2.0"),
        ("s1", "0.2.0"),
    ]
    for body, says in (
        ({"kind": "agents"}, "the newest upgrade was one of the servers"),
        ({"to": "0.1.0"}, "began at release 0.2.0, so a rollback does not lead to 0.1.0"),
    ):
        refused = await world.call("POST", "/admin/upgrade/rollback", body, token=world.admin)
        assert (refused.status, says in refused.error["message"]) == (409, True), refused.body
    back = await world.call("POST", "/admin/upgrade/rollback", {"to": "0.2.0", "kind": "servers"}, token=world.admin)
    assert back.json()["rollout"]["phase"] == "rolling_back"


@at_level(NEWEST)
async def test_an_upgrade_of_the_servers_that_cannot_go_well_is_refused(world: World) -> None:
    await with_agents(world, "0.2.1")

    async def said(servers: Servers | None, **request: object) -> str:
        world.services.quorum = servers
        body = {"to": "0.2.1", "kind": "servers", **request}
        answer = await world.call("POST", "/admin/upgrade/start", body, token=world.admin)
        assert answer.status >= 400, answer.body
        return str(answer.error["message"])

    assert "with 1 server the cluster stops while one is replaced" in await said(None)
    assert "with 2 servers the cluster stops" in await said(Servers({"s1": 2, "s2": 2}))
    assert "server s3 cannot take part: connection refused" in await said(Servers({**SERVERS, "s3": None}))
    unsaid = Servers(dict(SERVERS), {"s2": ""})
    assert "server s2 cannot take part: it does not say which release it runs" in await said(unsaid)
    all_new = Servers(dict(SERVERS), dict.fromkeys(SERVERS, "0.2.1"))
    assert "every server runs 0.2.1 already" in await said(all_new)
    assert "server s1 runs 0.2.0, and a release lies between that and 0.4.0" in await said(
        Servers(dict(SERVERS)), to="0.4.0"
    )
    before = Servers(dict(SERVERS))
    assert "finalized at level 2, which servers before 0.2.0 cannot read" in await said(before, to="0.1.0")
    assert "servers are upgraded one at a time" in await said(before, batch="2")
    assert "cannot be urgent" in await said(before, urgent=True)
    behind = await said(before, to="0.3.0")
    assert "agents are upgraded before servers, and 3 of 3 in service run an older release: n1, n2, n3" in behind
    world.services.upgrading = None
    assert "upgrade.program is not set" in await said(before)
    assert world.state.upgrades.newest is None
