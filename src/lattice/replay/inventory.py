"""Mode full: a trace on nodes instead of counts, through the state machine, the cycle and the plan of production.

The machine comes from a YAML file, or is made up: as many nodes as the trace had, all alike::

    nodes:
      - names: n[001-064]
        cpus: 128
        memory_mb: 512000
        gpus: 4
        gpu_type: GH200
        group_size: 16        # topology groups of this many nodes, in the order of the names
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.tenants import OnQuota, Tenant, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.profiles import Profile
from lattice.replay.cluster import Arrival, Cluster, ReplayStuck, Scenario
from lattice.replay.traces.entries import Entry, Trace, TraceError
from lattice.replay.traces.workload import Workload, keep_r1
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField

NAME = "default"


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    names: str
    cpus: int = 1
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    group: str = ""
    group_size: int = 0
    features: tuple[str, ...] = ()


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: tuple[NodeGroup, ...]


def read_inventory(path: Path) -> dict[str, Hardware]:
    """The nodes that the file names; raises TraceError, or OSError when there is no such file."""
    try:
        found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Inventory)
        machine: dict[str, Hardware] = {}
        for group in found.nodes:
            for place, name in enumerate(node_names(group.names, "names")):
                if name in machine:
                    raise TraceError(f'{path}: node "{name}" is there twice')
                machine[name] = _hardware(group, place)
    except (yaml.YAMLError, msgspec.ValidationError, BadField, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    if not machine:
        raise TraceError(f"{path}: names no nodes")
    return machine


def _hardware(group: NodeGroup, place: int) -> Hardware:
    label = group.group
    if group.group_size > 0:
        label = f"{group.group or 'g'}{place // group.group_size}"
    return Hardware(
        cpus=max(1, group.cpus),
        memory_mb=group.memory_mb,
        gpus=group.gpus,
        gpu_type=group.gpu_type,
        group=label,
        features=group.features,
    )


def made_up(count: int, cpus: int = 1) -> dict[str, Hardware]:
    """This many identical nodes."""
    width = len(str(count - 1))
    return {f"n{place:0{width}}": Hardware(cpus=cpus, memory_mb=0) for place in range(count)}


def on_nodes(trace: Trace, machine: Mapping[str, Hardware]) -> Workload:
    """The trace with whole nodes in the place of processors; raises TraceError when nothing fits."""
    cpus = max(hardware.cpus for hardware in machine.values())
    entries = [msgspec.structs.replace(entry, procs=_nodes_of(entry, cpus)) for entry in trace.entries]
    return keep_r1(Trace(name=trace.name, entries=entries), len(machine))


def _nodes_of(entry: Entry, cpus: int) -> int:
    return entry.nodes if entry.nodes > 0 else -(-entry.procs // cpus)


def simulate_full(
    work: Workload, machine: Mapping[str, Hardware], profiles: Mapping[str, Profile] | None = None
) -> list[int]:
    """When each entry starts, by position, in seconds of the trace; raises TraceError."""
    first_s = work.submits[0]
    arrivals = tuple(
        Arrival(at_s=work.submits[place] - first_s, run_s=work.runs[place], submission=_submission(work, place))
        for place in range(len(work))
    )
    names = sorted({arrival.submission.tenant for arrival in arrivals})
    scenario = Scenario(
        name="trace",
        nodes=dict(machine),
        tenants=tuple(Tenant(name=name, on_quota=OnQuota.QUEUE) for name in names),
        vclusters=(Vcluster(name=NAME),),
        arrivals=arrivals,
    )
    try:
        stays = Cluster(scenario, profiles=profiles).run()
    except ReplayStuck as stuck:
        raise TraceError(str(stuck)) from stuck
    return [first_s + stay.start_s for stay in sorted(stays, key=lambda stay: stay.number)]


def _submission(work: Workload, place: int) -> SubmitAllocation:
    entry = work.entries[place]
    return SubmitAllocation(
        name=entry.name or "work",
        user=entry.user or NAME,
        account=entry.user or NAME,
        tenant=entry.tenant or NAME,
        vcluster=NAME,
        request=Request(nodes=work.procs[place]),
        preemption_class=min(10, max(0, entry.preemption_class)),
        walltime_s=max(1, work.estimates[place]),
    )
