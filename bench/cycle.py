"""How long one scheduling cycle takes: snapshot and plan, on columns of a machine that does not exist.

`measure()` returns the timings; run as a program it prints them.
"""

import random
import time
from collections.abc import Callable, Mapping
from statistics import median

from msgspec.structs import replace

from bench.queues import Queue, folder, read_queue
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState, Share, Tenure
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import NodeSharing, Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Request
from lattice.core.scheduler.plan import plan
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.score.profiles import Profile
from lattice.core.scheduler.tables.columns import Columns

NOW = 1_772_700_000_000
GROUP_SIZE = 128
FEATURES = tuple(f"feature{index}" for index in range(20))
SIGNALS = Signals(fingerprints={f"n{index}": f"print{index * 5 // 50_000 + index % 4}" for index in range(50_000)})
EVERYTHING = {"default": Profile(order="fifo", window=1_000_000, backfill_depth=1_000_000)}
EASY = {"default": Profile(order="fifo", backfill_depth=1)}
NO_PROFILES: dict[str, Profile] = {}


def measure(repeats: int = 3) -> dict[str, float]:
    """Milliseconds, medians: name of the case -> time of one cycle (snapshot and plan)."""
    figures = {
        "1000 pending x 10000 nodes, 500 running, 50 reservations": _timed(varied_machine(10_000, 1_000), repeats),
        "10000 pending x 50000 nodes, 50 reservations": _timed(varied_machine(50_000, 10_000), repeats),
        "one submission changed, 10000 nodes": _one_changed(repeats),
    }
    for path in sorted(folder().glob("d_*.txt")) if folder().is_dir() else []:
        queue = read_queue(path)
        name = f"{len(queue.pending)} pending x {queue.nodes} nodes, all reserved"
        figures[name] = _timed(queued_machine(queue), repeats, EVERYTHING)
    cases: dict[str, Callable[[], Columns]] = {
        "10000 nodes free, 1000 pending": lambda: machine(10_000, 1_000),
        "10000 nodes half busy, 1000 pending": lambda: machine(10_000, 1_000, busy=0.5),
        "10000 nodes busy, 30000 pending": lambda: machine(10_000, 30_000, busy=1.0),
        "10000 nodes busy, 30000 pending alike": lambda: machine(10_000, 30_000, busy=1.0, shapes=1),
        "10000 nodes shared, 1000 pending": lambda: machine(10_000, 1_000, busy=0.5, shared=True),
        "one node of 1000 CPUs, 1000 pending": lambda: wide_node(1_000, 100, 1_000),
        "one node of 90000 CPUs, 10000 pending": lambda: wide_node(90_000, 2_000, 10_000),
    }
    return figures | {name: _timed(make(), repeats, EASY if "CPUs" in name else {}) for name, make in cases.items()}


def varied_machine(nodes: int, pending: int, *, running: int = 500, seed: int = 1) -> Columns:
    """64 groups, 6 types of GPU, 20 features, 5 fingerprints; nearly all nodes busy with a few large allocations."""
    dice = random.Random(seed)
    columns = Columns()
    columns.put_vcluster(Vcluster(name="default", backfill_depth=50))
    columns.put_tenant(Tenant(name="default"))
    hardware = [_varied_hardware(dice, f"g{index * 64 // nodes}") for index in range(nodes)]
    rows = list(range(nodes))
    dice.shuffle(rows)
    size = nodes * 19 // 20 // running
    held: dict[int, int] = {}
    for number in range(1, running + 1):
        mine = [rows.pop() for _ in range(size)]
        held.update(dict.fromkeys(mine, number))
    for index in range(nodes):
        columns.put_node(_plain_node(index, hardware[index], held.get(index, 0)))
    by_number: dict[int, list[int]] = {}
    for index, number in held.items():
        by_number.setdefault(number, []).append(index)
    for number, mine in by_number.items():
        columns.put_allocation(_running_on(number, mine, dice.randrange(600, 86_400)))
    for number in range(running + 1, running + 1 + pending):
        columns.put_allocation(_pending(number, _varied_request(dice), dice.randrange(1, 1440) * 60))
    return columns


def queued_machine(queue: Queue) -> Columns:
    columns = Columns()
    columns.put_vcluster(Vcluster(name="default", scheduler="interactive-fifo"))
    columns.put_tenant(Tenant(name="default"))
    plain = Hardware(cpus=64, memory_mb=256_000)
    index = 0
    for number, work in enumerate(queue.running, 1):
        mine = list(range(index, index + work.nodes))
        index += work.nodes
        for row in mine:
            columns.put_node(_plain_node(row, plain, number))
        columns.put_allocation(_running_on(number, mine, work.minutes * 60))
    for number, work in enumerate(queue.pending, len(queue.running) + 1):
        columns.put_allocation(_pending(number, Request(nodes=work.nodes), work.minutes * 60, klass=5))
    return columns


def wide_node(cpus: int, running: int, pending: int, seed: int = 1) -> Columns:
    """One node that everybody shares, nearly full."""
    dice = random.Random(seed)
    columns = Columns()
    columns.put_vcluster(Vcluster(name="default", node_sharing=NodeSharing.SHARED, backfill_depth=1))
    columns.put_tenant(Tenant(name="default"))
    each = (cpus - 3) // running
    tenures = (Tenure(number=1, tenant="default", cpus=each * running, memory_mb=0, gpus=0),)
    node = Node(
        id="n0",
        hardware=Hardware(cpus=cpus, memory_mb=0),
        state=NodeState.READY,
        vcluster="default",
        tenures=tenures,
    )
    columns.put_node(node)
    share = Share(node="n0", whole=False, cpus=each)
    for number in range(1, running + 1):
        columns.put_allocation(replace(_running(number, 0, dice, shared=True), shares=(share,)))
    for number in range(running + 1, running + 1 + pending):
        request = Request(cpus=dice.randrange(1, max(2, cpus // 10)))
        columns.put_allocation(_pending(number, request, dice.randrange(60, 86_400), klass=5))
    return columns


def _one_changed(repeats: int) -> float:
    """A machine that is full and has planned before, one more submission, and the next cycle."""
    columns = varied_machine(10_000, 1_000)
    last = _settled(columns)
    times: list[float] = []
    for index in range(repeats):
        promised = {kept.number: kept for kept in last.reservations}
        began = time.perf_counter()
        columns.put_allocation(_pending(1_000_000 + index, Request(nodes=1), 600))
        last = plan(columns.snapshot(signals=SIGNALS, promised=promised), NO_PROFILES, NOW)
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def _settled(columns: Columns) -> Plan:
    """Carries out plans until nothing starts any more; returns the last."""
    made = plan(columns.snapshot(signals=SIGNALS), NO_PROFILES, NOW)
    while made.placements:
        snapshot = columns.snapshot(signals=SIGNALS)
        rows = {int(number): row for row, number in enumerate(snapshot.queue.number)}
        for placement in made.placements:
            names = [share.node for share in placement.shares]
            for name in names:
                row = snapshot.nodes.rows[name]
                hardware = replace(
                    snapshot.nodes.kinds[snapshot.nodes.kind[row]],
                    group=snapshot.nodes.groups[snapshot.nodes.group[row]],
                )
                columns.put_node(_plain_node(int(name[1:]), hardware, placement.number))
            length = int(snapshot.queue.walltime_s[rows[placement.number]])
            columns.put_allocation(_running_on(placement.number, [int(name[1:]) for name in names], length))
        made = plan(columns.snapshot(signals=SIGNALS), NO_PROFILES, NOW)
    return made


def _varied_hardware(dice: random.Random, group: str) -> Hardware:
    kind = dice.randrange(7)
    return Hardware(
        cpus=64,
        memory_mb=256_000,
        gpus=4 if kind else 0,
        gpu_type=f"T{kind}" if kind else "",
        group=group,
        features=tuple(sorted(dice.sample(FEATURES, 2))),
    )


def _varied_request(dice: random.Random) -> Request:
    kind = dice.choice((0, 0, 1, 2, 3, 4, 5, 6))
    return Request(
        nodes=dice.choice((1, 1, 2, 4, 8, 16, 32, 64)),
        gpus=4 if kind else 0,
        gpu_type=f"T{kind}" if kind else "",
        features=(dice.choice(FEATURES),) if dice.random() < 0.3 else (),
    )


def _plain_node(index: int, hardware: Hardware, holder: int) -> Node:
    return Node(
        id=f"n{index}",
        hardware=hardware,
        state=NodeState.READY,
        holder=holder,
        vcluster="default" if holder else "",
    )


def _running_on(number: int, rows: list[int], left_s: int) -> Allocation:
    return _running_with(number, tuple(Share(node=f"n{row}") for row in rows), since_ms=60_000, walltime_s=left_s + 60)


def _running_with(number: int, shares: tuple[Share, ...], *, since_ms: int, walltime_s: int) -> Allocation:
    return Allocation(
        number=number,
        name="r",
        user="u",
        account="u",
        tenant="default",
        vcluster="default",
        request=Request(nodes=len(shares)),
        submitted_at=NOW - 10_000_000,
        state=AllocationState.RUNNING,
        started_at=NOW - since_ms,
        walltime_s=walltime_s,
        shares=shares,
        run=1,
    )


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
    since_ms, walltime_s = dice.randrange(3_000_000), dice.randrange(3_600, 86_400)
    return _running_with(number, (share,), since_ms=since_ms, walltime_s=walltime_s)


def _request(dice: random.Random) -> Request:
    size = dice.choice((1, 1, 1, 2, 4, 8, 16, 32))
    return Request(
        nodes=size,
        cpus=dice.randrange(1, 33),
        gpus=dice.choice((0, 0, 4)),
        min_memory_mb=dice.choice((0, 0, 600_000)),
    )


def _pending(number: int, request: Request, walltime_s: int, klass: int = 0) -> Allocation:
    return Allocation(
        number=number,
        name="p",
        user=f"u{number % 20}",
        account="u",
        tenant="default",
        vcluster="default",
        request=request,
        submitted_at=NOW - 1_000_000 + number,
        preemption_class=klass or number % 3 + 4,
        walltime_s=walltime_s,
    )


def _timed(columns: Columns, repeats: int, profiles: Mapping[str, Profile] = NO_PROFILES) -> float:
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        plan(columns.snapshot(signals=SIGNALS), profiles, NOW)
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


if __name__ == "__main__":
    for case, milliseconds in measure().items():
        print(f"{milliseconds:9.2f} ms  {case}")
