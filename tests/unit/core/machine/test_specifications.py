"""Specifications of nodes: imported all at once, judged with every registration, and what follows for work."""

import pytest
from msgspec.structs import replace

from lattice.core.cycle import Cycle
from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.model.nodes.nodes import Hardware, NodeState, Share
from lattice.core.model.nodes.records import Status, is_lower_level, record_of, release_order, status_of
from lattice.core.model.nodes.specifications import Figures, Specification
from lattice.core.model.site.tenants import Vcluster
from tests.unit.core.machine.test_audit import audited, recorded
from tests.unit.core.machine.world import World

FIGURES = Figures(os="Linux.6.1.0-13", speed=2400.0, virtual_memory_mb=8192, tmp_disk_mb=10_000)


def imported(*nodes: str, vclusters: tuple[Vcluster, ...] = (), **wanted: object) -> cmd.ImportNodes:
    return cmd.ImportNodes(
        specifications=(Specification(**wanted),),  # type: ignore[arg-type]
        nodes=tuple((name, 0) for name in nodes),
        vclusters=vclusters,
    )


def register(node: str, *, figures: Figures | None = FIGURES, **hardware: object) -> cmd.RegisterNode:
    declared = Hardware(**{"cpus": 4, "memory_mb": 4096, **hardware})  # type: ignore[arg-type]
    return cmd.RegisterNode(node=node, hardware=declared, boot_id="b1", figures=figures)


def test_an_imported_node_is_unknown_until_it_is_heard_and_keeps_its_place_in_the_file() -> None:
    world = World(nodes=0)
    world.must(imported("lx02", "lx01", cpus=2, memory_mb=2048))
    assert [world.node(name).specification.position for name in ("lx02", "lx01")] == [1, 2]  # type: ignore[union-attr]
    assert world.node("lx01").state is NodeState.UNKNOWN
    assert world.node("lx01").hardware == Hardware(cpus=2, memory_mb=2048)
    assert [(entry.trigger, entry.by) for entry in world.state.node_history("lx01")] == [("declared", "ada")]
    world.must(register("lx01"))
    world.must(cmd.ConfirmNode(node="lx01"))
    assert world.node("lx01").state is NodeState.READY
    assert world.node("lx01").hardware.cpus == 4


def test_importing_the_same_again_changes_nothing() -> None:
    world = World()
    command = imported("n1", "lx01", cpus=2, vclusters=(Vcluster(name="debug", nodes=("n1",)),))
    assert world.must(command)
    assert world.must(command) == ()
    world.must(imported("lx01", "n1", cpus=3))
    assert world.node("lx01").hardware.cpus == 3  # never heard: what was declared follows the file


def test_settings_and_vclusters_come_with_the_nodes_or_nothing_does() -> None:
    world = World()
    command = cmd.ImportNodes(
        specifications=(Specification(),),
        nodes=(("n1", 0),),
        vclusters=(Vcluster(name="debug", nodes=("n1",)),),
        settings=(("node.heartbeat_interval_s", "5"),),
    )
    assert world.refused(replace(command, settings=(("node.heartbeat_interval_s", "soon"),))).code == "invalid"
    assert "debug" not in world.state.vclusters
    bad = Vcluster(name="debug", scheduler="magic")
    assert "magic" in world.refused(replace(command, vclusters=(bad,))).message
    assert "node.heartbeat_interval_s" not in world.state.settings
    world.must(command)
    assert world.state.vclusters["debug"].nodes == ("n1",)
    assert world.state.settings["node.heartbeat_interval_s"] == "5"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (imported("n 1"), '"n 1" is no name for a node'),
        (imported("n1", "n1"), 'node "n1" is specified twice'),
        (cmd.ImportNodes(nodes=(("n1", 0),)), 'node "n1" has no specification'),
        (imported("n1", cpus=-1), "a specification cannot be negative"),
        (imported("n1", partitions=(32,)), "partitions are numbered from 0 to 31"),
    ],
)
def test_an_import_that_makes_no_sense_is_refused(command: cmd.ImportNodes, message: str) -> None:
    assert World().refused(command).message == message


@pytest.mark.parametrize(
    ("wanted", "shortfall"),
    [
        ({"cpus": 8}, "CPUs 4 below the specified 8"),
        ({"speed": 2400.5}, "Speed 2400 below the specified 2400.5"),
        ({"memory_mb": 4097}, "RealMemory 4096 below the specified 4097"),
        ({"virtual_memory_mb": 8193}, "VirtualMemory 8192 below the specified 8193"),
        ({"tmp_disk_mb": 20_000}, "TmpDisk 10000 below the specified 20000"),
        ({"os": "Linux.6.2"}, "OS Linux.6.1.0-13 below the specified Linux.6.2"),
        ({"os": "AIX.4.3"}, "OS Linux.6.1.0-13 below the specified AIX.4.3"),
        ({"partitions": ()}, "in no partition"),
        ({"cpus": 8, "partitions": ()}, "in no partition, CPUs 4 below the specified 8"),
        ({"cpus": 4, "memory_mb": 4096, "speed": 1.0, "os": "linux.2.4.7-10"}, ""),
    ],
)
def test_a_node_with_less_than_specified_says_what_it_lacks(wanted: dict[str, object], shortfall: str) -> None:
    world = World(nodes=0)
    world.must(imported("n1", **wanted))  # type: ignore[arg-type]
    world.must(register("n1"))
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").shortfall == shortfall
    assert status_of(world.node("n1")) is (Status.DOWN if shortfall else Status.IDLE)


def test_an_unfit_node_gets_no_work_until_it_registers_with_enough_or_its_specification_changes() -> None:
    world = World(nodes=1)
    world.must(imported("n1", memory_mb=8192))
    number = world.submit()
    refusal = world.refused(cmd.PlaceAllocation(number=number, run=1, shares=(Share(node="n1"),)))
    assert refusal.message == "node n1 cannot be given"
    assert _placed(world) == []
    world.must(register("n1", memory_mb=8192))
    assert world.node("n1").shortfall == ""
    assert [(entry.trigger, entry.by) for entry in world.state.node_history("n1")][-2:] == [
        ("unfit", "ada"),
        ("fit", "ada"),
    ]
    assert _placed(world) == [number]
    world.must(imported("n1", memory_mb=16_384))
    assert _placed(world) == []
    world.must(imported("n1", memory_mb=1024))
    assert _placed(world) == [number]


def _placed(world: World) -> list[int]:
    cycle = Cycle()
    cycle.load(world.state)
    return [placement.number for placement in cycle.plan(None, world.at).placements]


def test_work_on_a_node_that_falls_short_goes_on() -> None:
    world = World(nodes=1)
    number = world.running("n1")
    world.must(imported("n1", cpus=64))
    assert world.node("n1").holder == number
    assert status_of(world.node("n1")) is Status.BUSY


def test_sensitive_work_is_given_no_unfit_node() -> None:
    world = World(nodes=1, scheduler="sensitive-reservation")
    world.must(imported("n1", cpus=64))
    assert world.refused(world.submission()).code == "conflict"


def test_figures_are_kept_when_an_agent_does_not_report_them_and_changes_are_events() -> None:
    world = World(nodes=0)
    world.must(register("n1", figures=None))
    assert world.node("n1").figures is None
    assert any(isinstance(event, ev.NodeMeasured) for event in world.must(register("n1")))
    assert world.must(register("n1")) == ()
    assert world.must(register("n1", figures=None)) == ()
    assert world.node("n1").figures == FIGURES


def test_what_nobody_reported_is_taken_from_the_specification() -> None:
    world = World(nodes=0)
    world.must(imported("n1", os="Linux.2.4", speed=1.5, tmp_disk_mb=7, virtual_memory_mb=9, partitions=(1, 3)))
    world.must(register("n1", figures=None))
    record = record_of(world.node("n1"))
    assert (record.os, record.speed, record.tmp_disk_mb, record.virtual_memory_mb) == ("Linux.2.4", 1.5, 7, 9)
    assert (record.cpus, record.partitions, world.node("n1").shortfall) == (4, (1, 3), "")
    world.must(register("n2"))
    assert record_of(world.node("n2")).partitions == ()


def test_states_have_their_names_of_2001() -> None:
    world = World(nodes=3)
    world.must(cmd.DrainNode(node="n1"))
    world.running("n2")
    world.must(cmd.DrainNode(node="n2"))
    world.must(cmd.DegradeNode(node="n3"))
    found = [status_of(world.node(name)) for name in ("n1", "n2", "n3")]
    assert found == [Status.DRAINED, Status.DRAINING, Status.DOWN]


@pytest.mark.parametrize(
    ("release", "numbers"),
    [("2.4.7-10", (2, 4, 7, 10)), ("6.1.0-13-amd64", (6, 1, 0, 13)), ("5.14.0", (5, 14)), ("4smp.3", (4,)), ("", ())],
)
def test_a_release_is_read_as_numbers(release: str, numbers: tuple[int, ...]) -> None:
    assert release_order(release) == numbers


def test_levels_are_compared_as_numbers_and_names_by_their_letters() -> None:
    assert not is_lower_level("Linux.2.10", "Linux.2.9")
    assert is_lower_level("Linux.2.4.7-9", "Linux.2.4.7-10")
    assert not is_lower_level("LINUX.2.4", "Linux.2.4.0")


def test_a_snapshot_keeps_specifications_figures_and_shortfalls() -> None:
    world = World(nodes=0)
    world.must(imported("n1", cpus=64))
    world.must(register("n1"))
    copy = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert copy.nodes == world.state.nodes
    assert copy.digest() == world.state.digest()


def test_an_import_is_audited_as_one_entry() -> None:
    world = audited()
    assert [entry.kind for entry in recorded(world.must(imported("n1", "n2", cpus=2)))] == ["node.import"]
