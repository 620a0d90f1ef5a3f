"""Small machines with work on them and a queue before them, drawn by hypothesis or by a seed."""

from random import Random

from lattice.core.machine.commands import (
    CancelAllocation,
    DisableNode,
    DrainNode,
    SetProject,
    SetReservation,
    SetSetting,
)
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import NodeSharing, Project
from lattice.core.model.work.allocations import Hold, Request
from tests.properties.checkpoint_generator import draw_way
from tests.unit.core.scheduler.world import FirstCome, World

VCLUSTERS = ("default", "shared", "part", "other")


def draw_machine(dice: Random, *, tight_limits: bool = True) -> World:
    """A machine in the middle of its day; the caller makes the next plan."""
    world = FirstCome()
    names = [f"n{index}" for index in range(dice.randrange(1, 9))]
    depth = dice.choice((1, 3, 50))
    world.set_vcluster("default", backfill_depth=depth)
    world.set_vcluster("shared", node_sharing=NodeSharing.SHARED, backfill_depth=depth)
    world.set_vcluster("other", node_sharing=NodeSharing.SHARED, backfill_depth=depth)
    world.set_vcluster(
        "part", nodes=tuple(name for name in names if dice.random() < 0.5) or ("n0",), backfill_depth=depth
    )
    for name in names:
        _add_node(world, dice, name)
    if dice.random() < 0.3:
        world.do(SetSetting(key="scheduler.power_budget_w", value=str(dice.choice((500, 900, 1400)))))
    if dice.random() < 0.3:
        _draw_reservation(world, dice, names)
    if tight_limits:
        _draw_limits(world, dice)
    else:
        world.set_tenant("physics")
    for _ in range(dice.randrange(3)):
        draw_work(world, dice)
        world.run_cycle()
        _draw_progress(world, dice)
    _draw_trouble(world, dice, names)
    prints = {name: dice.choice(("x", "y")) for name in names if dice.random() < 0.7}
    world.cycle.signals = Signals(fingerprints=prints if dice.random() < 0.7 else {})
    draw_work(world, dice)
    return world


def _add_node(world: World, dice: Random, name: str) -> None:
    gpus = dice.choice((0, 0, 2))
    world.add_node(
        name,
        cpus=dice.choice((2, 4, 4)),
        memory_mb=dice.choice((2000, 4001)),
        gpus=gpus,
        gpu_type=dice.choice(("H100", "A100")) if gpus else "",
        group=dice.choice(("a", "b", "c")),
        features=dice.choice(((), ("nvme",), ("nvme", "ib"))),
        power_w=dice.choice((200, 300)),
    )


def _draw_reservation(world: World, dice: Random, names: list[str]) -> None:
    start = world.now + dice.choice((0, 1_800_000, 5_400_000, 9_000_000))
    record = AdvanceReservation(
        name="upkeep",
        start_at=start,
        end_at=start + dice.choice((600_000, 7_200_000)),
        nodes=tuple(name for name in names if dice.random() < 0.5),
        users=dice.choice(((), ("ann",))),
        repeat_s=dice.choice((0, 0, 10_800)),
    )
    world.do(SetReservation(reservation=record, create=True))


def _draw_limits(world: World, dice: Random) -> None:
    def limit(*values: int) -> int | None:
        return dice.choice((None, *values))

    for tenant in ("default", "physics"):
        limits = {
            "max_nodes": limit(1, 3, 5),
            "max_concurrent_allocations": limit(2, 4),
            "max_running_per_user": limit(1, 3),
        }
        world.set_tenant(tenant, **{name: value for name, value in limits.items() if value is not None})
    project = Project(tenant="physics", name="cfd", max_nodes=limit(1, 2, 4))
    world.do(SetProject(project=project, create=True))


def draw_work(world: World, dice: Random) -> None:
    for _ in range(dice.randrange(1, 8)):
        tenant = dice.choice(("default", "physics"))
        is_group = dice.random() < 0.2
        fields: dict[str, object] = {
            "tenant": tenant,
            "user": dice.choice(("ann", "bob")),
            "project": "cfd" if tenant == "physics" and dice.random() < 0.4 else "",
            "vcluster": dice.choice(VCLUSTERS),
            "walltime_s": dice.choice((0, 600, 3600, 3600, 7200)),
            "preemption_class": dice.choice((3, 5, 5, 7)),
            "hold": dice.choice((Hold.NONE, Hold.NONE, Hold.NONE, Hold.USER)),
            "eligible_at": dice.choice((0, 0, 0, world.now + 60_000)),
            "tasks": ((0, dice.randrange(1, 5), 1),) if is_group else (),
            "concurrency": dice.choice((0, 1, 2)) if is_group else 0,
        }
        if world.state.settings.get("checkpoint.root"):
            fields["checkpoint"] = draw_way(dice)
        world.try_submit(draw_request(dice), **fields)
        world.now += dice.choice((0, 0, 1000))


def draw_request(dice: Random) -> Request:
    nodes = dice.choice((1, 1, 1, 2, 3, 4))
    return Request(
        nodes=nodes,
        max_nodes=dice.choice((0, 0, 0, nodes + 2)),
        cpus=dice.choice((0, 0, 1, 2, 3)),
        memory_mb=dice.choice((0, 0, 0, 500, 2500)),
        gpus=dice.choice((0, 0, 0, 1)),
        gpu_type=dice.choice(("", "", "", "", "H100")),
        min_memory_mb=dice.choice((0, 0, 0, 3000)),
        features=dice.choice(((), (), (), ("nvme",))),
        topology=dice.choice(("", "", "tight", "any")),
        node_list=dice.choice(((), (), (), (), ("n0", "n1", "n2"))),
        exclude=dice.choice(((), (), (), ("n1",))),
        exclusive=dice.random() < 0.15,
        require_conformance=dice.random() < 0.1,
    )


def _draw_progress(world: World, dice: Random) -> None:
    for number, record in list(world.state.allocations.items()):
        if not record.is_holding:
            continue
        fate = dice.random()
        if fate < 0.6:
            world.report_running(number)
        elif fate < 0.8:
            world.finish(number, exit_code=dice.choice((0, 1)))
        elif fate < 0.9:
            world.do(CancelAllocation(number=number))
    world.now += dice.choice((1000, 600_000, 3_700_000))


def _draw_trouble(world: World, dice: Random, names: list[str]) -> None:
    for name in names:
        fate = dice.random()
        if fate < 0.08:
            assert not isinstance(world.try_to(DrainNode(node=name)), Rejected)
        elif fate < 0.12:
            assert not isinstance(world.try_to(DisableNode(node=name)), Rejected)
    world.observations = Observations()
    for name in names:
        if dice.random() < 0.9:
            world.observations.join(name, 1.0)
