"""Ports over REST: who may ask for which, and what the refusals say."""

import pytest

from lattice.api.gateway.server import Refused
from lattice.api.running.pages import PortWork
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import ListeningPort, Tunnel, TunnelRefused
from tests.integration.api.world import World, in_world

LISTENING = (ListeningPort(port=8888, address="127.0.0.1", pid=7, program="python"),)


class Nodes:
    """Implements `PortLinks`: one port listens."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, RunKey, int]] = []

    async def connect_port(self, node: str, key: RunKey, port: int) -> Tunnel:
        self.asked.append((node, key, port))
        raise TunnelRefused("not_listening", f"no process of it listens on port {port} alone", LISTENING)

    async def listening(self, node: str, key: RunKey) -> tuple[ListeningPort, ...]:
        return LISTENING


async def running(world: World) -> str:
    world.services.ports = Nodes()
    answer = await world.call("POST", "/allocations", {"entrypoint": ["true"]})
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
    grant = work.tickets.session(work.tickets.redeem(ticket, prefix) or "", prefix)
    assert grant is not None
    assert work.is_token(world.token("alice"))
    assert not work.is_token("word")
    for told in ("listens on port 8888", "is not running"):
        with pytest.raises(Refused, match=told):
            await work.connect(grant)
        await world.call("DELETE", f"/allocations/{name}")
