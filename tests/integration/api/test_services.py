"""The registry of services over REST and the gateway: who sees what, how it changes, and where requests go."""

import asyncio

import pytest

from lattice.api.gateway.tickets import Grant
from lattice.api.gateway.work import Address, Refused
from lattice.api.pages.work import PortWork
from lattice.core.machine.commands import SetTenant
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import Allocation
from tests.integration.api.test_ports import Nodes
from tests.integration.api.world import World, in_world

SERVICE = {"entrypoint": ["serve"], "lifecycle": {"type": "unbounded"}}
WEB = {"name": "web", "port": 8888}


async def service(world: World, node: str = "n1", *, token: str = "", share: tuple[str, ...] = ()) -> str:
    fields = {**SERVICE, "expose": [{**WEB, "share": list(share)}]}
    answer = await world.call("POST", "/allocations", fields, token=token or world.token("alice"))
    assert answer.status == 201, answer.error
    name = str(answer.json()["id"])
    await world.start_run(int(name[1:]), node)
    return name


@in_world
async def test_a_service_is_listed_and_looked_up_while_it_runs(world: World) -> None:
    assert (await world.call("GET", "/services")).json()["items"] == []
    first, second = await service(world, "n1"), await service(world, "n2")
    listed = (await world.call("GET", "/services")).json()["items"]
    assert [(each["name"], each["user"], each["ready"], each["size"]) for each in listed] == [("web", "alice", 2, 2)]
    found = (await world.call("GET", "/services/web")).json()
    assert [(each["id"], each["node"], each["port"], each["ready"]) for each in found["endpoints"]] == [
        (first, "n1", 8888, True),
        (second, "n2", 8888, True),
    ]
    assert found["shared"]
    await world.call("DELETE", f"/allocations/{first}")
    left = (await world.call("GET", "/services/web")).json()
    assert (left["allocations"], left["version"] != found["version"]) == ([second], True)
    await world.call("DELETE", f"/allocations/{second}")
    answer = await world.call("GET", "/services/web")
    assert (answer.status, "no service" in answer.error["message"]) == (404, True)
    kinds = [(each.kind, each.number) for each in world.services.feed.read(0, 1000) if each.what == "service"]
    assert kinds == [
        ("registered", int(first[1:])),
        ("registered", int(second[1:])),
        ("deregistered", int(first[1:])),
        ("deregistered", int(second[1:])),
    ]


@in_world
async def test_nothing_of_a_service_is_seen_from_another_tenant(world: World) -> None:
    await service(world, share=("tenant",))
    await world.do(SetTenant(tenant=Tenant(name="other"), create=True))
    zoe, root = world.token("zoe", tenants=("other",)), world.token("root", scope="admin")
    assert (await world.call("GET", "/services", token=zoe)).json()["items"] == []
    for path, status in (
        ("/services/web", 404),
        ("/services/web?tenant=default", 403),
        ("/services?tenant=default", 403),
        ("/services/web?timeout=0.05", 404),
    ):
        answer = await world.call("GET", path, token=zoe)
        assert answer.status == status, (path, answer.body)
        assert "alice" not in str(answer.error)
        assert "n1" not in str(answer.error)
    answer = await world.call("POST", "/services/web/open", {}, token=zoe)
    assert answer.status == 404
    work = PortWork(world.services)
    for tenant, status in (("", 404), ("default", 403)):
        with pytest.raises(Refused) as refused:
            await work.authorized(f"Bearer {zoe}", tenant, Address("", "web"), "")
        assert refused.value.status == status
    assert [each["tenant"] for each in (await world.call("GET", "/services", token=root)).json()["items"]] == [
        "default"
    ]
    # The same name in another tenant is another service, and no conflict tells of the first.
    answer = await world.call("POST", "/allocations", {**SERVICE, "expose": [WEB]}, token=zoe)
    assert answer.status == 201, answer.error


@in_world
async def test_those_who_watch_hear_of_the_services_of_their_own_tenant_alone(world: World) -> None:
    await world.do(SetTenant(tenant=Tenant(name="other"), create=True))
    zoe = world.token("zoe", tenants=("other",))
    own, strange = (
        await world.open("/events?what=service", token=world.token("alice")),
        await world.open("/events?what=service", token=zoe),
    )
    hidden = await service(world)
    seen = await service(world, "n2", token=zoe)
    for stream, name, tenant, user in ((own, hidden, "default", "alice"), (strange, seen, "other", "zoe")):
        event = await stream.next()
        assert event is not None
        assert (event.data["kind"], event.data["id"]) == ("registered", "web")
        assert (event.data["number"], event.data["tenant"], event.data["user"]) == (int(name[1:]), tenant, user)
    assert b"alice" not in strange.raw
    for stream in (own, strange):
        await stream.close()
    assert b"alice" not in (await world.call("GET", "/metrics", token=zoe)).body


@in_world
async def test_a_name_of_another_user_is_refused_without_telling_whose_it_is(world: World) -> None:
    await service(world)
    answer = await world.call("POST", "/allocations", {**SERVICE, "expose": [WEB]}, token=world.token("bert"))
    assert (answer.status, "of another user" in answer.error["message"]) == (409, True)
    assert "alice" not in str(answer.error)
    found = (await world.call("GET", "/services/web", token=world.token("bert"))).json()
    assert (found["size"], found["shared"]) == (1, False)
    answer = await world.call("POST", "/services/web/open", {}, token=world.token("bert"))
    assert (answer.status, "not shared" in answer.error["message"]) == (403, True)


@in_world
async def test_roles_that_read_nothing_of_a_tenant_read_no_services(world: World) -> None:
    await service(world)
    for scope, status in (("readonly", 200), ("allocations:read", 403), ("allocations:attach", 403), ("operator", 200)):
        for path in ("/services", "/services/web"):
            answer = await world.call("GET", path, token=world.token("rita", scope=scope))
            assert answer.status == status, (scope, path)
    answer = await world.call("POST", "/services/web/open", {}, token=world.token("rita", scope="readonly"))
    assert answer.status == 403


@in_world
async def test_a_long_poll_answers_when_endpoints_or_readiness_change(world: World) -> None:
    waiting = asyncio.create_task(world.call("GET", "/services/web?timeout=30"))
    await asyncio.sleep(0)
    name = await service(world)
    found = (await asyncio.wait_for(waiting, 20)).json()
    assert found["size"] == 1
    same = await world.call("GET", f"/services/web?timeout=0.05&version={found['version']}")
    assert same.json()["version"] == found["version"]
    is_ready = [True]
    world.services.ready = lambda allocation, node: is_ready[0]
    waiting = asyncio.create_task(world.call("GET", f"/services/web?timeout=30&version={found['version']}"))
    await asyncio.sleep(0)
    is_ready[0] = False
    found = (await asyncio.wait_for(waiting, 20)).json()
    assert (found["ready"], found["endpoints"][0]["ready"]) == (0, False)
    waiting = asyncio.create_task(world.call("GET", f"/services/web?timeout=30&version={found['version']}"))
    await asyncio.sleep(0)
    await world.call("DELETE", f"/allocations/{name}")
    assert (await asyncio.wait_for(waiting, 20)).status == 404
    assert (await world.call("GET", "/services/web?timeout=100")).status == 400


@in_world
async def test_services_are_listed_page_by_page(world: World) -> None:
    fields = {**SERVICE, "expose": [{"name": f"s{each}", "port": 8000 + each} for each in range(5)]}
    number = int((await world.call("POST", "/allocations", fields)).json()["id"][1:])
    await world.start_run(number)
    page = (await world.call("GET", "/services?limit=3")).json()
    assert [each["name"] for each in page["items"]] == ["s0", "s1", "s2"]
    page = (await world.call("GET", f"/services?limit=3&cursor={page['next_cursor']}")).json()
    assert ([each["name"] for each in page["items"]], page["next_cursor"]) == (["s3", "s4"], None)


@in_world
async def test_the_gateway_spreads_requests_over_what_is_ready_and_leaves_out_what_failed(world: World) -> None:
    first, second = await service(world, "n1", share=("bert",)), await service(world, "n2", share=("bert",))
    nodes = world.services.ports = Nodes()
    nodes.is_open = True
    work = PortWork(world.services)
    grant = await work.authorized(f"Bearer {world.token('bert')}", "", Address("", "web"), "")
    assert (grant.is_own, grant.number, grant.tenant) == (False, 0, "default")
    links = [await work.connect(grant, is_safe=True, is_again=False) for _ in range(4)]
    assert [node for node, _, _ in nodes.asked] == ["n1", "n2", "n1", "n2"]
    for link in links[1:]:
        link.done(is_good=False)
    links[0].failed()
    links[0].done(is_good=False)
    nodes.asked.clear()
    again = [await work.connect(grant, is_safe=True, is_again=False) for _ in range(3)]
    assert [node for node, _, _ in nodes.asked] == ["n2", "n2", "n2"]
    for link in again:
        link.done(is_good=False)
    world.services.ready = lambda allocation, node: node == "n1"
    assert [each.node for each in work.endpoints("default", "web", "bert")] == ["n1"]
    world.services.ready = lambda allocation, node: False
    with pytest.raises(Refused, match="is ready") as refused:
        await work.connect(grant, is_safe=True, is_again=False)
    assert refused.value.status == 503
    stranger = Grant(user="carl", prefix="/proxy/services/web", port="web", tenant="default", is_own=False)
    world.services.ready = _always
    assert work.endpoints("default", "web", "carl") == []
    with pytest.raises(Refused):
        await work.connect(stranger, is_safe=True, is_again=False)
    nodes.is_open = False
    with pytest.raises(Refused) as refused:
        await work.connect(grant, is_safe=True, is_again=False)
    assert (refused.value.status, {node for node, _, _ in nodes.asked[-2:]}) == (502, {"n1", "n2"})
    for name in (first, second):
        await world.call("DELETE", f"/allocations/{name}")
    with pytest.raises(Refused):
        await work.authorized(f"Bearer {world.token('bert')}", "", Address("", "web"), "")


def _always(_allocation: Allocation, _node: str) -> bool | None:
    return None


@in_world
async def test_a_service_is_opened_on_a_host_of_its_own(world: World) -> None:
    await service(world, share=("tenant",))
    world.services.proxy_url = "https://gate"
    answer = await world.call("POST", "/services/web/open", {"path": "/docs"})
    assert answer.json()["url"].startswith("https://gate/proxy/services/web/docs?lattice-ticket=")
    answer = await world.call("POST", "/services/web/open", {}, token=world.token("bert"))
    assert (answer.status, "api.proxy_domain" in answer.error["hint"]) == (409, True)
    world.services.proxy_domain = "apps.example.org"
    answer = await world.call("POST", "/services/web/open", {}, token=world.token("bert"))
    assert answer.json()["url"].startswith("https://s-")
    assert ".apps.example.org/proxy/services/web/?" in answer.json()["url"]
