"""How long one scheduling cycle takes: snapshot and plan, on columns of a machine that does not exist.

`measure()` returns the timings; run as a program it prints them.
"""

import random
import time
from collections.abc import Callable
from statistics import median

from lattice.core.model.allocations import Allocation, AllocationState, Request
from lattice.core.model.nodes import Hardware, Node, NodeState, Share, Tenure
from lattice.core.model.tenants import NodeSharing, Tenant, Vcluster
from lattice.core.scheduler.columns import Columns
from lattice.core.scheduler.plan import plan
from lattice.core.scheduler.proposals import Plan

NOW = 1_772_700_000_000
GROUP_SIZE = 128


def measure(repeats: int = 3) -> dict[str, float]:
    """Milliseconds, medians: name of the case -> time of one cycle (snapshot and plan)."""
    cases: dict[str, Callable[[], Columns]] = {
        "10000 nodes free, 1000 pending": lambda: machine(10_000, 1_000),
        "10000 nodes half busy, 1000 pending": lambda: machine(10_000, 1_000, busy=0.5),
        "10000 nodes busy, 30000 pending": lambda: machine(10_000, 30_000, busy=1.0),
        "10000 nodes busy, 30000 pending alike": lambda: machine(10_000, 30_000, busy=1.0, shapes=1),
        "10000 nodes shared, 1000 pending": lambda: machine(10_000, 1_000, busy=0.5, shared=True),
        "50000 nodes half busy, 10000 pending": lambda: machine(50_000, 10_000, busy=0.5),
    }
    return {name: _timed(make(), repeats)[0] for name, make in cases.items()}


def machine(
    nodes: int, pending: int, *, busy: float = 0.0, shapes: int = 200, shared: bool = False, seed: int = 1
) -> Columns:
    """Columns of a machine of three kinds of nodes, part of them busy, with a queue of mixed sizes."""
    dice = random.Random(seed)
    columns = Columns()
    sharing = NodeSharing.SHARED if shared else NodeSharing.EXCLUSIVE
    columns.put_vcluster(Vcluster(name="default", node_sharing=sharing))
    columns.put_tenant(Tenant(name="default"))
    number = 1
    for index in range(nodes):
        is_busy = dice.random() < busy
        columns.put_node(_node(index, number if is_busy else 0, shared=shared))
        if is_busy:
            columns.put_allocation(_running(number, index, dice, shared=shared))
            number += 1
    kinds = [_request(dice) for _ in range(shapes)]
    for _ in range(pending):
        columns.put_allocation(_pending(number, dice.choice(kinds), dice.choice((1, 4, 12, 24)) * 3600))
        number += 1
    return columns


def _node(index: int, holder: int, *, shared: bool) -> Node:
    gpus = 4 if index % 3 == 0 else 0
    hardware = Hardware(
        cpus=64,
        memory_mb=512_000 if index % 5 else 1_024_000,
        gpus=gpus,
        gpu_type="H100" if gpus else "",
        group=f"g{index // GROUP_SIZE}",
    )
    tenures = (Tenure(number=holder, tenant="default", cpus=32, memory_mb=1000, gpus=0),) if shared and holder else ()
    return Node(
        id=f"n{index}",
        hardware=hardware,
        state=NodeState.READY,
        holder=0 if shared else holder,
        vcluster="default" if holder else "",
        tenures=tenures,
    )


def _running(number: int, index: int, dice: random.Random, *, shared: bool) -> Allocation:
    share = Share(node=f"n{index}", whole=False, cpus=32, memory_mb=1000) if shared else Share(node=f"n{index}")
    return Allocation(
        number=number,
        name="r",
        user="u",
        account="u",
        tenant="default",
        vcluster="default",
        request=Request(),
        submitted_at=NOW - 10_000_000,
        state=AllocationState.RUNNING,
        started_at=NOW - dice.randrange(3_000_000),
        walltime_s=dice.randrange(3_600, 86_400),
        shares=(share,),
        run=1,
    )


def _request(dice: random.Random) -> Request:
    size = dice.choice((1, 1, 1, 2, 4, 8, 16, 32))
    return Request(
        nodes=size,
        cpus=dice.randrange(1, 33),
        gpus=dice.choice((0, 0, 4)),
        min_memory_mb=dice.choice((0, 0, 600_000)),
    )


def _pending(number: int, request: Request, walltime_s: int) -> Allocation:
    return Allocation(
        number=number,
        name="p",
        user=f"u{number % 20}",
        account="u",
        tenant="default",
        vcluster="default",
        request=request,
        submitted_at=NOW - 1_000_000 + number,
        preemption_class=number % 3 + 4,
        walltime_s=walltime_s,
    )


def _timed(columns: Columns, repeats: int) -> tuple[float, Plan]:
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        outcome = plan(columns.snapshot(), {}, NOW)
        times.append((time.perf_counter() - began) * 1000)
    return median(times), outcome


if __name__ == "__main__":
    for case, milliseconds in measure().items():
        print(f"{milliseconds:9.1f} ms  {case}")
