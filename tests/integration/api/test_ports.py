"""Ports over REST: who may ask for which, and what the refusals say."""

import asyncio

import pytest

from lattice.api.gateway.tickets import TICKET_S, Grant, Tickets
from lattice.api.gateway.work import Address, Refused
from lattice.api.pages.work import PortWork
from lattice.core.machine.commands import AddAuditKey
from lattice.core.model.site.audit import AuditKey, key_id
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import ListeningPort, Tunnel, TunnelRefused
from tests.integration.api.world import World, in_world

LISTENING = (ListeningPort(port=8888, address="127.0.0.1", pid=7, program="python"),)


class Open:
    """Implements `Tunnel`: nothing ever comes."""

    is_quiet = True

    def __init__(self) -> None:
        self.is_closed = False

    async def read(self) -> bytes:
        raise AssertionError("nothing to read")

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing to write to")

    def end(self) -> None:
        return

    def close(self) -> None:
        self.is_quiet = False
        self.is_closed = True


class Nodes:
    """Implements `PortLinks`: one port listens."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, RunKey, int]] = []
        self.is_open = False

    async def connect_port(self, node: str, key: RunKey, port: int) -> Tunnel:
        self.asked.append((node, key, port))
        if self.is_open:
            return Open()
        raise TunnelRefused("not_listening", f"no process of it listens on port {port} alone", LISTENING)

    async def listening(self, node: str, key: RunKey) -> tuple[ListeningPort, ...]:
        return LISTENING


async def running(world: World, **fields: object) -> str:
    world.services.ports = Nodes()
    answer = await world.call("POST", "/allocations", {"entrypoint": ["true"], **fields})
    assert answer.status == 201, answer.error
    name = str(answer.json()["id"])
    await world.start_run(int(name[1:]))
    return name


@in_world
async def test_the_owner_sees_ports_and_opens_pages(world: World) -> None:
    name = await running(world)
    answer = await world.call("GET", f"/allocations/{name}/ports")
    assert [(each["port"], each["program"]) for each in answer.json()["items"]] == [(8888, "python")]
    answer = await world.call("GET", f"/allocations/{name}/ports/8888/connect")
    assert (answer.status, "Upgrade: lattice-tunnel" in answer.error["hint"]) == (400, True)
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "8888"})
    assert (answer.status, "no gateway" in answer.error["message"]) == (409, True)
    world.services.proxy_url = "https://gate"
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "8888", "path": "/lab?x=1"})
    assert answer.json()["url"].startswith(f"https://gate/proxy/{name}/8888/lab?x=1&lattice-ticket=")
    for fields, told in (
        ({"port": "0"}, "not a port"),
        ({"port": "x"}, "not a port"),
        ({"port": "8888", "path": "//evil"}, "not a path"),
        ({"port": "8888", "node": "n99"}, "not a node of"),
    ):
        answer = await world.call("POST", f"/allocations/{name}/open", fields)
        assert (answer.status, told in answer.error["message"]) == (400, True), answer.error


@in_world
async def test_others_reach_nothing_of_it(world: World) -> None:
    name = await running(world)
    world.services.proxy_url = "https://gate"
    for token, status in (
        (world.token("bert"), 403),
        (world.token("root", scope="admin"), 403),
        (world.token("zoe", tenants=("other",)), 404),
        (world.token("rita", scope="readonly"), 403),
    ):
        for method, path in (("GET", "ports"), ("GET", "ports/8888/connect"), ("POST", "open")):
            body = {"port": "8888"} if method == "POST" else None
            answer = await world.call(method, f"/allocations/{name}/{path}", body, token=token)
            assert answer.status == status, (path, answer.error)
    assert isinstance(world.services.ports, Nodes)
    assert world.services.ports.asked == []


@in_world
async def test_a_session_of_the_gateway_ends_with_the_work(world: World) -> None:
    name = await running(world)
    world.services.proxy_url = "https://gate"
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "8888"})
    ticket, prefix = answer.json()["url"].rpartition("=")[2], f"/proxy/{name}/8888"
    work = PortWork(world.services)
    found = work.tickets.ticket(ticket, prefix)
    assert found is not None
    grant = work.tickets.session(work.tickets.begin(found.grant), prefix)
    assert grant is not None
    assert work.is_token(world.token("alice"))
    assert not work.is_token("word")
    for told in ("listens on port 8888", "is not running"):
        with pytest.raises(Refused, match=told):
            await work.connect(grant, is_safe=True, is_again=False)
        await world.call("DELETE", f"/allocations/{name}")


@in_world
async def test_a_ticket_is_used_once_under_whichever_leader_and_its_use_is_recorded(world: World) -> None:
    name = await running(world)
    world.services.proxy_url = "https://gate"
    await world.do(AddAuditKey(key=AuditKey(id=key_id("ab" * 32), public="ab" * 32, server="s1")))
    world.services.tickets = Tickets(lambda: world.clock.ms / 1000, b"secret of the cluster")
    prefix, found = f"/proxy/{name}/8888", []
    for _ in range(3):
        answer = await world.call("POST", f"/allocations/{name}/open", {"port": "8888"})
        found.append(world.services.tickets.ticket(answer.json()["url"].rpartition("=")[2], prefix))
    first, both, _ = found
    assert first is not None
    assert both is not None
    work = PortWork(world.services)
    assert await work.use_up(first, "10.0.0.1")
    assert sorted(await asyncio.gather(work.use_up(both, "10.0.0.1"), work.use_up(both, "10.0.0.2"))) == [False, True]
    world.clock.ms += int(TICKET_S * 1000)  # as long as it could be good
    next_leader = PortWork(world.services)
    assert [await next_leader.use_up(each, "10.0.0.1") for each in (first, both)] == [False, False]
    opened = [each.entry for each in world.state.audit.entries.values() if each.entry.kind == "page.open"]
    assert len(opened) == 2
    entry = opened[0]
    told = entry.actor, entry.subject, entry.user, entry.tenant, entry.nodes, entry.detail
    assert told == ("alice", name, "alice", "default", ("n1",), "port 8888 from 10.0.0.1")


@in_world
async def test_a_ticket_whose_use_cannot_be_recorded_opens_nothing(world: World) -> None:
    tickets = Tickets(lambda: 0.0)
    grant = Grant(user="alice", prefix="/proxy/services/web", port="web", tenant="default")
    found = tickets.ticket(tickets.issue(grant), grant.prefix)
    assert found is not None
    assert not await PortWork(world.services).use_up(found, "10.0.0.1"), "no chain to record it in"
    await world.replica.stop()
    other = tickets.ticket(tickets.issue(grant), grant.prefix)
    assert other is not None
    with pytest.raises(Refused, match="could not be recorded"):
        await PortWork(world.services).use_up(other, "10.0.0.1")


@in_world
async def test_a_page_is_not_opened_where_nothing_listens(world: World) -> None:
    name = await running(world, expose=[{"name": "late", "port": 9000, "share": ["bert"]}])
    world.services.proxy_url, world.services.proxy_domain = "https://gate", "apps.example.org"
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "7777"})
    assert (answer.status, answer.error["hint"]) == (409, "listening: 8888 (python)")
    assert f"nothing of {name} listens on port 7777" in answer.error["message"]
    for port in ("late", "9000"):
        answer = await world.call("POST", f"/allocations/{name}/open", {"port": port})
        assert (answer.status, "exposed as late, is not ready" in answer.error["message"]) == (409, True)
        assert answer.error["hint"] == "try again when it is; listening: 8888 (python)"
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "late"}, token=world.token("bert"))
    assert (answer.status, answer.error["hint"]) == (409, "try again when it is"), "other ports are not his business"
    nodes = world.services.ports
    assert isinstance(nodes, Nodes)
    nodes.is_open = True  # one more than a node names
    assert (await world.call("POST", f"/allocations/{name}/open", {"port": "7777"})).status == 201


SHARED = [{"name": "web", "port": 8888, "share": ["bert"]}, {"name": "all", "port": 9000, "share": ["tenant"]}]


@in_world
async def test_a_shared_port_is_reached_by_those_it_names_and_by_nobody_else(world: World) -> None:
    name = await running(world, expose=SHARED)
    assert [
        (each["name"], each["share"]) for each in (await world.call("GET", f"/allocations/{name}")).json()["expose"]
    ] == [
        ("web", ["bert"]),
        ("all", ["tenant"]),
    ]
    world.services.proxy_url, world.services.proxy_domain = "https://gate:8443", "apps.example.org"
    answer = await world.call("GET", f"/allocations/{name}/ports", token=world.token("bert"))
    assert [(each["port"], each["name"]) for each in answer.json()["items"]] == [(8888, "web")]
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "web"}, token=world.token("bert"))
    assert answer.json()["url"].startswith(f"https://{name}.apps.example.org:8443/proxy/{name}/web/?lattice-ticket=")
    for token, port, status in (
        (world.token("bert"), "8888", 201),
        (world.token("bert"), "7777", 403),
        (world.token("carl"), "web", 403),
        (world.token("carl"), "all", 409),
        (world.token("rita", scope="readonly"), "all", 403),
        (world.token("bert", tenants=("other",)), "web", 404),
        (world.token("zoe", tenants=("other",)), "all", 404),
    ):
        answer = await world.call("POST", f"/allocations/{name}/open", {"port": port}, token=token)
        assert answer.status == status, (port, answer.error)
    answer = await world.call("GET", f"/allocations/{name}/ports", token=world.token("zoe", tenants=("other",)))
    assert (answer.status, name in answer.error["message"]) == (404, True)
    assert "alice" not in str(answer.error)


@in_world
async def test_pages_of_others_are_not_opened_where_all_pages_share_an_origin(world: World) -> None:
    name = await running(world, expose=SHARED)
    world.services.proxy_url = "https://gate"
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "web"}, token=world.token("bert"))
    assert (answer.status, "api.proxy_domain" in answer.error["hint"]) == (409, True)
    answer = await world.call("POST", f"/allocations/{name}/open", {"port": "web"})
    assert answer.json()["url"].startswith(f"https://gate/proxy/{name}/web/?")


@in_world
async def test_the_gateway_takes_tokens_and_judges_them_like_the_api(world: World) -> None:
    name = await running(world, expose=SHARED)
    work = PortWork(world.services)

    async def grant(token: str, port: str = "web") -> Grant:
        return await work.authorized(f"Bearer {token}", "", Address(name, port), "10.0.0.1")

    assert (await grant(world.token("alice"))).is_own
    shared = await grant(world.token("bert"))
    assert (shared.is_own, shared.user) == (False, "bert")
    for token, port, status in (
        ("word", "web", 401),
        (world.token("carl"), "web", 404),
        (world.token("bert"), "8887", 404),
        (world.token("bert"), "none", 404),
        (world.token("rita", scope="readonly"), "all", 403),
        (world.token("zoe", tenants=("other",)), "all", 404),
        (world.token("root", scope="admin"), "web", 404),
    ):
        with pytest.raises(Refused) as refused:
            await grant(token, port)
        assert refused.value.status == status, port


@in_world
async def test_a_connection_serves_the_same_user_and_port_again(world: World) -> None:
    name = await running(world, expose=SHARED)
    nodes = world.services.ports
    assert isinstance(nodes, Nodes)
    nodes.is_open = True
    work = PortWork(world.services)
    owner = Grant(user="alice", number=int(name[1:]), prefix=f"/proxy/{name}/web", port="web")
    other = Grant(user="bert", number=int(name[1:]), prefix=f"/proxy/{name}/web", port="web", is_own=False)

    async def once(grant: Grant, *, is_again: bool = False, is_good: bool = True) -> None:
        link = await work.connect(grant, is_safe=True, is_again=is_again)
        link.done(is_good=is_good)

    await once(owner)
    await once(owner)
    assert len(nodes.asked) == 1
    await once(other)
    assert len(nodes.asked) == 2
    await once(owner, is_again=True)
    await once(owner, is_good=False)
    assert len(nodes.asked) == 3
    work.close()
    await once(owner)
    assert len(nodes.asked) == 4


@in_world
async def test_what_cannot_be_exposed_is_refused_with_the_field(world: World) -> None:
    for expose, told in (
        ([{"port": 70_000}], "expose[0].port"),
        ([{"port": 0}], "needs a name"),
        ([{"port": 80, "name": "Web"}], "not a name for a port"),
        ([{"port": 80, "name": "../x"}], "not a name for a port"),
        ([{"port": 80, "name": "a--b"}], "not a name for a port"),
        ([{"port": 80, "protocol": "udp"}], "udp"),
        ([{"port": 80}, {"port": 80, "name": "web"}], "exposed twice"),
        ([{"port": 80, "name": "web"}, {"port": 81, "name": "web"}], "two ports are called"),
        ([{"port": 80, "share": [""]}], "no name"),
        ([{"port": 80 + each} for each in range(17)], "too many ports"),
    ):
        answer = await world.call("POST", "/allocations", {"entrypoint": ["true"], "expose": expose})
        assert (answer.status, told in answer.error["message"]) == (400, True), (expose, answer.error)
    group = {"entrypoint": ["true"], "expose": [{"port": 80}], "tasks": "0-3"}
    answer = await world.call("POST", "/allocations", group)
    assert (answer.status, "task group" in answer.error["message"]) == (400, True)
