"""Made-up workloads against which changes of the scheduler are judged: the same seed gives the same scenario, always.

Each has its own question: is the machine used (steady_state), does anybody starve in a rush (burst), does one tenant crowd
out others (unfair), are claims immediate (sensitive_claim), what becomes of urgent work (preemption_heavy), how fast does an
idle machine fill (empty_to_full).
"""

import dataclasses
from collections.abc import Callable
from random import Random

from msgspec import structs

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.tenants import NodeSharing, OnQuota, Tenant, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.core.model.work.evictions import FIRST_UNPREEMPTED_CLASS
from lattice.replay.cluster import Arrival, CheckpointCosts, Scenario

HOUR = 3600
GROUP_SIZE = 16
HPC = Vcluster(name="hpc")


def machine(count: int, gpu_nodes: int = 0) -> dict[str, Hardware]:
    """Nodes in topology groups of sixteen; the last ones have four GPUs each."""
    found = {}
    for place in range(count):
        gpus = 4 if place >= count - gpu_nodes else 0
        found[f"n{place:04}"] = Hardware(
            cpus=64,
            memory_mb=256_000,
            gpus=gpus,
            gpu_type="GH200" if gpus else "",
            group=f"g{place // GROUP_SIZE}",
        )
    return found


def tenants(*names: str, target: float | None = None) -> tuple[Tenant, ...]:
    return tuple(Tenant(name=name, on_quota=OnQuota.QUEUE, fair_share_target=target) for name in names)


class Writer:
    """Submissions in any order, with one source of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - made-up work, not secrets
        self._arrivals: list[Arrival] = []

    def add(
        self,
        at_s: float,
        run_s: float,
        request: Request,
        *,
        tenant: str,
        vcluster: str = "hpc",
        preemption_class: int = 5,
        optimism: float = 1.0,
    ) -> None:
        """`optimism` = how much more than the run was asked for. Minutes are fine enough, and there are fewer of them."""
        run = max(1, round(run_s / 60)) * 60
        submission = SubmitAllocation(
            name=f"{vcluster}-work",
            user=f"{tenant}-{self.chance.randrange(3)}",
            account=tenant,
            tenant=tenant,
            vcluster=vcluster,
            request=request,
            preemption_class=preemption_class,
            walltime_s=int(run * optimism),
        )
        self._arrivals.append(Arrival(at_s=int(at_s) // 60 * 60, run_s=run, submission=submission))

    def run_s(self, mean_s: float) -> float:
        """Many short runs and a few long ones, as on real machines."""
        return min(8 * mean_s, self.chance.lognormvariate(0.0, 1.0) * mean_s * 0.6)

    def optimism(self) -> float:
        return self.chance.uniform(1.0, 3.0)

    def arrivals(self) -> tuple[Arrival, ...]:
        return tuple(sorted(self._arrivals, key=lambda arrival: arrival.at_s))


def _hpc_stream(writer: Writer, *, last_s: int, load: float, nodes: int, names: tuple[str, ...]) -> None:
    """HPC work that asks for `load` times what `nodes` nodes give, on average."""
    sizes, mean_s = (1, 1, 2, 4, 8), HOUR
    work_per_arrival = sum(sizes) / len(sizes) * mean_s
    at_s = 0.0
    while True:
        at_s += writer.chance.expovariate(load * nodes / work_per_arrival)
        if at_s >= last_s:
            return
        request = Request(nodes=writer.chance.choice(sizes))
        tenant = writer.chance.choice(names)
        writer.add(at_s, writer.run_s(mean_s), request, tenant=tenant, optimism=writer.optimism())


STEADY_LAST_S = 24 * HOUR


def steady_state(seed: int = 1) -> Scenario:
    """A day on 32 plain nodes and 16 with GPUs: HPC, ML training, services that stay. Slightly more than fits."""
    writer, last_s = Writer(seed), STEADY_LAST_S
    for _ in range(12):
        request = Request(cpus=16, memory_mb=32_000)
        writer.add(0, last_s + 6 * HOUR, request, tenant="web", vcluster="services")
    _hpc_stream(writer, last_s=last_s, load=1.05, nodes=29, names=("physics", "chemistry"))
    at_s = 0.0
    while (at_s := at_s + writer.chance.expovariate(1.05 * 16 / (2.5 * 2 * HOUR))) < last_s:
        request = Request(nodes=writer.chance.choice((1, 2, 2, 5)), gpus=4, gpu_type="GH200")
        writer.add(at_s, writer.run_s(2 * HOUR), request, tenant="vision", vcluster="ml", optimism=writer.optimism())
    return Scenario(
        name="steady-state",
        nodes=machine(48, gpu_nodes=16),
        tenants=tenants("physics", "chemistry", "vision", "web"),
        vclusters=(
            HPC,
            Vcluster(name="ml", scheduler="ml-training"),
            Vcluster(name="services", scheduler="service-bin-pack", node_sharing=NodeSharing.SHARED),
        ),
        arrivals=writer.arrivals(),
    )


def burst(seed: int = 2) -> Scenario:
    """Half a load, and at noon 250 submissions within ten minutes: two hours' work of the whole machine."""
    writer = Writer(seed)
    _hpc_stream(writer, last_s=24 * HOUR, load=0.5, nodes=64, names=("physics", "chemistry"))
    for _ in range(250):
        request = Request(nodes=writer.chance.choice((1, 1, 1, 2, 4)))
        at_s, run_s = 12 * HOUR + writer.chance.uniform(0, 600), min(2 * HOUR, writer.run_s(1100))
        writer.add(at_s, run_s, request, tenant="biology", optimism=writer.optimism())
    return Scenario(
        name="burst",
        nodes=machine(64),
        tenants=tenants("physics", "chemistry", "biology"),
        vclusters=(HPC,),
        arrivals=writer.arrivals(),
    )


UNFAIR_LAST_S = 18 * HOUR


def unfair(seed: int = 3) -> Scenario:
    """Four tenants with a quarter each. One floods the queue at once; the others come as they go, with more than fits.

    One reservation at a time: each is a promise, and what is promised to the flood precedes later arrivals.
    """
    writer, nodes = Writer(seed), 32
    for _ in range(300):
        request = Request(nodes=writer.chance.choice((1, 2, 3)))
        writer.add(writer.chance.uniform(0, HOUR), writer.run_s(HOUR), request, tenant="greedy", optimism=1.5)
    for tenant in ("ants", "bees", "cats"):
        at_s = 0.0
        while (at_s := at_s + writer.chance.expovariate(2.0 * nodes / 4 / (2 * HOUR))) < UNFAIR_LAST_S:
            request = Request(nodes=writer.chance.choice((1, 2, 3)))
            writer.add(at_s, writer.run_s(HOUR), request, tenant=tenant, optimism=1.5)
    return Scenario(
        name="unfair",
        nodes=machine(nodes),
        tenants=tenants("greedy", "ants", "bees", "cats", target=0.25),
        vclusters=(Vcluster(name="hpc", backfill_depth=1),),
        arrivals=writer.arrivals(),
    )


def sensitive_claim(seed: int = 4) -> Scenario:
    """HPC work that never ends, and claims of which no more than the pool's eight nodes are wanted at once."""
    writer, nodes = Writer(seed), machine(40)
    names = tuple(nodes)
    pool, common = names[:8], names[8:]
    _hpc_stream(writer, last_s=12 * HOUR, load=1.2, nodes=len(common), names=("physics", "chemistry"))
    at_s = 0.0
    while at_s < 12 * HOUR:
        at_s += writer.chance.uniform(60, 1800)
        longest_s = 0
        for wanted in writer.chance.choice(((8,), (3, 3), (1, 2, 4), (2,))):
            run_s = writer.chance.randrange(300, HOUR)
            longest_s = max(longest_s, run_s)
            request = Request(nodes=wanted)
            writer.add(at_s, run_s, request, tenant="clinic", vcluster="sensitive", preemption_class=10)
        at_s += longest_s
    return Scenario(
        name="sensitive-claim",
        nodes=nodes,
        tenants=tenants("physics", "chemistry", "clinic"),
        vclusters=(
            Vcluster(name="hpc", nodes=common),
            Vcluster(name="sensitive", scheduler="sensitive-reservation", nodes=pool, tenants=("clinic",)),
        ),
        arrivals=writer.arrivals(),
    )


def preemption_heavy(seed: int = 5) -> Scenario:
    """A machine full of long work of low class, into which short urgent work comes all the time."""
    writer = Writer(seed)
    for _ in range(60):
        request = Request(nodes=writer.chance.choice((2, 4)))
        writer.add(writer.chance.uniform(0, 4 * HOUR), 3 * HOUR, request, tenant="bulk", preemption_class=1)
    for _ in range(90):
        at_s, request = writer.chance.uniform(HOUR, 12 * HOUR), Request(nodes=writer.chance.choice((1, 2, 4)))
        writer.add(at_s, writer.run_s(900), request, tenant="urgent", preemption_class=8, optimism=1.5)
    return Scenario(
        name="preemption-heavy",
        nodes=machine(32),
        tenants=tenants("bulk", "urgent"),
        vclusters=(HPC,),
        arrivals=writer.arrivals(),
    )


def preempting(scenario: Scenario) -> Scenario:
    """The same with preemption: work below class 7 writes a checkpoint in a minute, and half a minute to continue from it."""
    arrivals = tuple(
        dataclasses.replace(each, submission=structs.replace(each.submission, checkpoint=CheckpointWay()))
        if each.submission.preemption_class < FIRST_UNPREEMPTED_CLASS
        else each
        for each in scenario.arrivals
    )
    costs = CheckpointCosts(write_s=60, restart_s=30)
    return dataclasses.replace(scenario, arrivals=arrivals, moves=True, checkpoints=costs)


def empty_to_full(seed: int = 6) -> Scenario:
    """A thousand idle nodes, and within ten minutes submissions for nearly twice as many."""
    writer = Writer(seed)
    for _ in range(240):
        request = Request(nodes=writer.chance.choice((1, 2, 4, 8, 24)))
        at_s = writer.chance.uniform(0, 600)
        writer.add(at_s, HOUR + writer.run_s(HOUR), request, tenant="physics", optimism=writer.optimism())
    return Scenario(
        name="empty-to-full",
        nodes=machine(1000),
        tenants=tenants("physics"),
        vclusters=(HPC,),
        arrivals=writer.arrivals(),
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "steady-state": steady_state,
    "burst": burst,
    "unfair": unfair,
    "sensitive-claim": sensitive_claim,
    "preemption-heavy": preemption_heavy,
    "empty-to-full": empty_to_full,
}
