"""Exposed ports and the registry of services: what is refused, and that a name is there exactly while its allocation runs."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.parts.services import Endpoint, ServiceKey, endpoints_of, is_registered
from lattice.core.model.site.tenants import SENSITIVE, Tenant, Vcluster
from lattice.core.model.work.allocations import AllocationState, Lifecycle, PartPhase
from lattice.core.model.work.exposure import Exposed, find_exposed, is_label
from tests.unit.core.machine.world import World

WEB = Exposed(name="web", port=8080)
KEY = ServiceKey("physics", "web")


def service(world: World, *nodes: str, **changes: object) -> int:
    return world.running(*nodes, **{"lifecycle": Lifecycle.UNBOUNDED, "exposes": (WEB,), **changes})


def numbers(world: World, key: ServiceKey = KEY) -> list[int]:
    return [each.number for each in world.state.services.running(key)]


@pytest.mark.parametrize(
    ("exposes", "words"),
    [
        ((Exposed(name="Web", port=1),), "needs a name"),
        ((Exposed(name="web", port=70_000),), "needs a name"),
        ((Exposed(name="web", port=-1),), "needs a name"),
        ((WEB, Exposed(name="web", port=81)), "each name and each port once"),
        ((WEB, Exposed(name="other", port=8080)), "each name and each port once"),
        (tuple(Exposed(name=f"p{each}") for each in range(17)), "too many ports"),
        ((Exposed(name="web", port=1, users=tuple(f"u{each}" for each in range(65))),), "too many users"),
    ],
)
def test_ports_that_cannot_be_exposed_are_refused(exposes: tuple[Exposed, ...], words: str) -> None:
    refusal = World().refused(World().submission(exposes=exposes))
    assert (refusal.code, words in refusal.message) == ("invalid", True)


def test_task_groups_and_sensitive_work_expose_nothing() -> None:
    world = World()
    assert "task group" in world.refused(world.submission(exposes=(WEB,), tasks=((0, 3, 1),))).message
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="secret", scheduler=SENSITIVE), create=True))
    refusal = world.refused(world.submission(exposes=(WEB,), vcluster="secret"))
    assert (refusal.code, "sensitive" in refusal.message) == ("forbidden", True)


def test_an_older_level_refuses_them_by_name() -> None:
    world = World(level=OLDEST)
    assert "exposes" in world.refused(world.submission(exposes=(WEB,))).message


def test_a_service_is_registered_exactly_while_it_runs() -> None:
    world = World()
    number = world.submit(lifecycle=Lifecycle.UNBOUNDED, exposes=(WEB,), nodes=2)
    assert numbers(world) == []
    world.place(number, "n1", "n2")
    world.started(number, "n1")
    assert numbers(world) == []
    world.started(number, "n2")
    assert (numbers(world), is_registered(world[number])) == ([number], True)
    assert [key for key, _ in world.state.services.registered()] == [KEY]
    assert [each.node for each in endpoints_of(world[number], WEB)] == ["n1", "n2"]
    world.must(cmd.CancelAllocation(number=number))
    assert world[number].state is AllocationState.STOPPING
    assert (numbers(world), list(world.state.services.registered())) == ([], [])
    assert world.state.services.owner(KEY) == "ada"  # until it has ended
    world.ended(number, "n1", stopped=True)
    world.ended(number, "n2", stopped=True)
    assert world.state.services.owner(KEY) == ""


def test_bounded_work_has_ports_but_no_service() -> None:
    world = World()
    number = world.running("n1", exposes=(WEB,))
    assert world[number].exposes == (WEB,)
    assert numbers(world) == []
    assert service(world, "n2", user="bob")


def test_allocations_of_one_owner_share_a_name_and_others_are_refused() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="art"), create=True))
    first, second = service(world, "n1"), service(world, "n2")
    assert numbers(world) == [first, second]
    other = world.submission(lifecycle=Lifecycle.UNBOUNDED, exposes=(WEB,), user="bob", account="bob")
    refusal = world.refused(other)
    assert (refusal.code, "of another user" in refusal.message, "ada" in refusal.message) == ("conflict", True, False)
    elsewhere = service(world, "n3", user="bob", tenant="art")
    assert numbers(world, ServiceKey("art", "web")) == [elsewhere]
    assert numbers(world) == [first, second]


def test_members_of_a_dag_are_judged_together() -> None:
    world = World()
    mine = world.submission(lifecycle=Lifecycle.UNBOUNDED, exposes=(WEB,))
    theirs = world.submission(lifecycle=Lifecycle.UNBOUNDED, exposes=(WEB,), user="bob")
    members = (cmd.DagMember(ref="a", submission=mine), cmd.DagMember(ref="b", submission=theirs))
    refusal = world.refused(cmd.SubmitDag(name="both", user="ada", tenant="physics", members=members))
    assert "of another user" in refusal.message


def test_the_ports_that_nodes_choose_are_told_with_the_start() -> None:
    world = World()
    free = Exposed(name="web")
    number = world.submit(lifecycle=Lifecycle.UNBOUNDED, exposes=(free,))
    world.place(number, "n1")
    running = cmd.ReportPart(number=number, run=1, node="n1", seq=1, phase=PartPhase.RUNNING)
    report = cmd.StartPart(report=running, ports=(("web", 20_017), ("x", 1)))
    world.must(report)
    assert endpoints_of(world[number], free) == (Endpoint(number, 1, "n1", 20_017),)
    assert endpoints_of(world[number], Exposed(name="other"))[0].port == 0
    world.must(cmd.RequeueAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert world[number].parts == ()


def test_names_are_labels_of_addresses() -> None:
    for good in ("a", "web", "port-8080", "a1-b2"):
        assert is_label(good), good
    for bad in ("", "1a", "-a", "a-", "a--b", "A", "ä", "a_b", "a/b", "a" * 41):
        assert not is_label(bad), bad


def test_a_port_is_found_by_name_and_by_number() -> None:
    both = (WEB, Exposed(name="free"))
    assert find_exposed(both, "web") == find_exposed(both, "8080") == WEB
    assert find_exposed(both, "free") == both[1]
    for text in ("0", "80", "", "999999", "web2"):
        assert find_exposed(both, text) is None, text
    shared = Exposed(name="x", users=("bob",))
    assert (shared.admits("bob"), shared.admits("eve")) == (True, False)
    assert (Exposed(name="x", tenant=True).admits("eve"), Exposed(name="a-b").variable) == (True, "LATTICE_PORT_A_B")


def test_the_check_finds_a_registry_that_lies() -> None:
    world = World()
    number = service(world, "n1")
    world.state.services.note(world[number], None)
    assert any("is not what its allocations offer" in each for each in check(world.state))
    assert any("is not registered" in each for each in check(world.state))
    world.state.services.note(None, world[number])
    assert check(world.state) == []
    second = service(world, "n2")
    world.state.put_allocation(replace(world[second], user="bob"))
    assert any("has several owners" in each for each in check(world.state))
