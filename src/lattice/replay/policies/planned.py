"""Lattice's own policy in mode r1: the cycle and the plan of production, with the trace's time, on one wide node.

The machine is a single shared node with as many CPUs as the trace has processors, so that processors are interchangeable and an
allocation holds a share of it. The cycle sees estimates as walltimes and learns of a run's length when it has ended.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from lattice.core.cycle import Cycle
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState, Share, Tenure
from lattice.core.model.site.tenants import NodeSharing, Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Request
from lattice.core.scheduler.score.profiles import Profile, built_in
from lattice.replay.traces.workload import Workload

DEFAULT_PROFILE = "responsive"
_NAME = "default"
_NODE = "machine"
_FIRST_SUBMIT_S = 1_000_000_000  # traces often begin at 0, which stands for "not yet" in a record


class Planned:
    def __init__(self, work: Workload, profile: Profile | None = None) -> None:
        self._work = work
        self._shift_s = _FIRST_SUBMIT_S - work.submits[0]
        self._hardware = Hardware(cpus=work.procs_total, memory_mb=0)
        self._requests = {procs: Request(cpus=procs, topology="any") for procs in set(work.procs)}
        self._running: dict[int, Allocation] = {}
        self._used = 0
        self._cycle = Cycle({_NAME: profile or built_in(DEFAULT_PROFILE)})
        self._cycle.put_vcluster(Vcluster(name=_NAME, node_sharing=NodeSharing.SHARED))
        self._cycle.put_tenant(Tenant(name=_NAME))
        self._put_node()

    def step(self, now: int, ended: Sequence[int], arrived: range) -> list[int]:
        at = (now + self._shift_s) * 1000
        for position in ended:
            self._end(position, at)
        for position in arrived:
            self._cycle.put_allocation(self._submitted(position, at))
        if ended:
            self._put_node()
        started: list[int] = []
        for placement in self._cycle.plan(None, at).placements:
            position = placement.number - 1
            self._start(position, at, placement.shares)
            started.append(position)
        if started:
            self._put_node()
        return started

    def _submitted(self, position: int, at: int) -> Allocation:
        work = self._work
        entry = work.entries[position]
        return Allocation(
            number=position + 1,
            name=entry.name,
            user=entry.user,
            account=entry.user,
            tenant=_NAME,
            vcluster=_NAME,
            request=self._requests[work.procs[position]],
            submitted_at=at,
            walltime_s=max(1, work.estimates[position]),
        )

    def _start(self, position: int, at: int, shares: tuple[Share, ...]) -> None:
        waiting = self._submitted(position, (self._work.submits[position] + self._shift_s) * 1000)
        record = replace(waiting, state=AllocationState.RUNNING, run=1, started_at=at, shares=shares)
        self._running[position] = record
        self._used += self._work.procs[position]
        self._cycle.put_allocation(record)

    def _end(self, position: int, at: int) -> None:
        record = self._running.pop(position)
        self._used -= self._work.procs[position]
        self._cycle.end_allocation(replace(record, state=AllocationState.COMPLETED, ended_at=at))

    def _put_node(self) -> None:
        """The node with all that is held of it as one tenure: the cycle only adds them up."""
        tenures = (Tenure(number=0, tenant=_NAME, cpus=self._used, memory_mb=0, gpus=0),) if self._used else ()
        self._cycle.put_node(
            Node(
                id=_NODE,
                hardware=self._hardware,
                state=NodeState.READY,
                vcluster=_NAME if tenures else "",
                tenures=tenures,
            )
        )
