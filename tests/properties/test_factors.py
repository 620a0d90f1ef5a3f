"""Whatever waits and whatever is known: factors and totals lie in [0, 1] and depend on nothing but their input."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.machine.commands import SetTenant, SetVcluster
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import OnQuota, Tenant, Vcluster
from lattice.core.model.site.weights import FACTORS, PROFILES, RECORDS
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.score.factors.registry import REGISTRY
from lattice.core.scheduler.score.score import score
from tests.unit.core.scheduler.world import HOUR, World

TENANTS = ("physics", "biology", "chemistry")
fractions = st.floats(0, 1, allow_nan=False)
anything = st.floats(allow_nan=True, allow_infinity=True)
requests = st.builds(
    Request,
    nodes=st.integers(1, 5),
    gpus=st.integers(0, 4),
    gpu_type=st.sampled_from(["", "GH200"]),
    cpus=st.integers(0, 8),
)
rows = st.fixed_dictionaries(
    {
        "request": requests,
        "tenant": st.sampled_from(TENANTS),
        "user": st.sampled_from(["ann", "ben"]),
        "walltime_s": st.sampled_from([0, 1, 3600, 10**7]),
        "preemption_class": st.integers(0, 10),
        "vcluster": st.sampled_from(["default", *PROFILES]),
    }
)
limits = st.tuples(
    st.none() | fractions, st.none() | st.floats(0.5, 3), st.none() | st.floats(0, 100), st.none() | st.floats(0, 100)
)


def machine(tenants: list[tuple[float | None, ...]]) -> World:
    world = World()
    for index in range(6):
        world.add_node(f"n{index}", group=f"g{index % 3}", gpus=4 * (index % 2), gpu_type="GH200" if index % 2 else "")
    for name, (target, burst, node_hours, gpu_hours) in zip(TENANTS, tenants, strict=True):
        tenant = Tenant(
            name=name,
            on_quota=OnQuota.QUEUE,
            fair_share_target=target,
            burst_allowance=burst,
            node_hours_budget=node_hours,
            gpu_hours_budget=gpu_hours,
        )
        world.do(SetTenant(tenant=tenant, create=True))
    for profile in PROFILES:
        scheduler = "interactive-fifo" if profile == "interactive" else "hpc-backfill"
        world.do(SetVcluster(vcluster=Vcluster(name=profile, profile=profile, scheduler=scheduler), create=True))
    return world


@settings(max_examples=60, deadline=None)
@given(
    waiting=st.lists(rows, max_size=12),
    running=st.lists(st.tuples(st.sampled_from(TENANTS), st.booleans()), max_size=5),
    tenants=st.lists(limits, min_size=3, max_size=3),
    known=st.tuples(st.none() | anything, st.lists(anything, max_size=12), st.lists(anything, max_size=12)),
    hours=st.integers(0, 10_000),
)
def test_every_factor_and_every_total_lies_between_zero_and_one(
    waiting: list[dict[str, object]],
    running: list[tuple[str, bool]],
    tenants: list[tuple[float | None, ...]],
    known: tuple[float | None, list[float], list[float]],
    hours: int,
) -> None:
    world = machine(tenants)
    for index, (tenant, is_over) in enumerate(running):
        number = world.submit(tenant=tenant)
        world.place(number, f"n{index}")
        world.report_running(number)
        world.now += HOUR
        if is_over:
            world.finish(number)
    outcomes = [world.try_submit(**row) for row in waiting]  # type: ignore[arg-type]
    numbers = [outcome.number for outcome in outcomes if isinstance(outcome, Accepted)]
    price, ready, minutes = known
    world.cycle.signals = Signals(
        energy_price=price,
        data_readiness=dict(zip(numbers, ready, strict=False)),
        checkpoint_minutes=dict(zip(numbers, minutes, strict=False)),
        fingerprints={"n0": "x", "n2": "x", "n3": "y"},
    )
    snapshot, now = world.snapshot(), world.now + hours * HOUR
    for record in RECORDS:
        column = REGISTRY[record.name](Moment(snapshot, now))
        assert len(column) == len(snapshot.queue.number)
        assert ((column >= record.lowest) & (column <= record.highest)).all(), record.name
    scores = score(snapshot, {}, now)
    assert ((scores.total >= 0) & (scores.total <= 1)).all()
    assert sorted(scores.order().tolist()) == list(range(len(scores.total)))
    assert scores.order().tolist() == score(snapshot, {}, now).order().tolist()
    assert list(REGISTRY) == list(FACTORS)


@settings(max_examples=40, deadline=None)
@given(waits=st.lists(st.integers(0, 10**6), min_size=2, max_size=2, unique=True), walltime=st.integers(1, 10**6))
def test_who_has_waited_longer_is_never_wanted_less(waits: list[int], walltime: int) -> None:
    world = World()
    start = world.now
    for wait in sorted(waits, reverse=True):
        world.now = start + 10**9 - wait * 1000
        world.submit(walltime_s=walltime)
    for name in ("wait_time", "expansion"):
        first, second = REGISTRY[name](Moment(world.snapshot(), start + 10**9)).tolist()
        assert first >= second
