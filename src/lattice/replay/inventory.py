"""Mode full: a trace on nodes instead of counts, through the state machine, the cycle and the plan of production.

The machine comes from a YAML file, or is made up: as many nodes as the trace had, all alike::

    nodes:
      - names: n[001-064]
        cpus: 128
        memory_mb: 512000
        gpus: 4
        gpu_type: GH200
        group_size: 16        # topology groups of this many nodes, in the order of the names
    vclusters:                # absent: one that may use all nodes
      - name: batch
        nodes: n[001-048]
        queues: [1, 3]        # of the trace; or partitions
        preemption_class: 3
        checkpoint: true      # its work writes a checkpoint before it is preempted
        lends: idle
        return_grace_s: 60
      - name: urgent
        nodes: n[049-064]
        borrows: true
    preemption: {min_runtime_s: 300}    # settings preemption.*; absent: no preemption
    checkpoints: {write_s: 60, restart_s: 30}
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import yaml

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.settings import SETTINGS
from lattice.core.model.site.tenants import Demands, Lending, Lends, OnQuota, Preemption, Tenant, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.core.scheduler.score.profiles import Profile
from lattice.replay.cluster import Arrival, CheckpointCosts, Cluster, Moves, ReplayStuck, Scenario
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


class VclusterPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vCluster: its nodes, the queues and partitions of the trace that are its work, and how it lends and borrows."""

    name: str
    nodes: str = ""
    queues: tuple[str | int, ...] = ()
    partitions: tuple[str | int, ...] = ()
    scheduler: str = "hpc-backfill"
    preemption_class: int | None = None  # of all its work; else as the trace has it
    checkpoint: bool = False  # its work writes a checkpoint before it is preempted
    preemption: Preemption | None = None
    lends: Lends = Lends.NEVER
    lend_to: tuple[str, ...] = ()
    max_lent: int = 0
    lend_after_s: int = 0
    borrows: bool = False
    max_borrowed: int = 0
    borrow_priority: int = 0
    max_borrow_s: int = 0
    return_grace_s: int = 60

    def takes(self, entry: Entry) -> bool:
        if not self.queues and not self.partitions:
            return True
        return entry.queue in map(str, self.queues) or entry.partition in map(str, self.partitions)


class CheckpointPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    write_s: int = 60
    restart_s: int = 0


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: tuple[NodeGroup, ...]
    vclusters: tuple[VclusterPart, ...] = ()
    preemption: dict[str, float] | None = None  # settings `preemption.*` without the prefix; absent = no preemption
    checkpoints: CheckpointPart = CheckpointPart()


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The machine of a replay and who may use what of it; without vClusters all work may use all nodes."""

    nodes: dict[str, Hardware]
    vclusters: tuple[VclusterPart, ...] = ()
    preemption: Mapping[str, float] | None = None
    checkpoints: CheckpointPart = field(default_factory=CheckpointPart)

    @property
    def moves(self) -> bool:
        """Whether anything may be preempted or lent."""
        return self.preemption is not None or any(
            each.lends is Lends.IDLE or each.borrows or each.preemption is not None or each.checkpoint
            for each in self.vclusters
        )

    def vcluster_of(self, entry: Entry) -> VclusterPart | None:
        return next((each for each in self.vclusters if each.takes(entry)), None)

    def size_for(self, entry: Entry) -> int:
        """How many nodes the entry may have: those of its vCluster; 0 when no vCluster takes it."""
        if not self.vclusters:
            return len(self.nodes)
        found = self.vcluster_of(entry)
        return 0 if found is None else len(node_names(found.nodes, "nodes")) if found.nodes else len(self.nodes)


def read_inventory(path: Path) -> Site:
    """The machine that the file describes; raises TraceError, or OSError when there is no such file."""
    try:
        found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Inventory)
        machine: dict[str, Hardware] = {}
        for group in found.nodes:
            for place, name in enumerate(node_names(group.names, "names")):
                if name in machine:
                    raise TraceError(f'{path}: node "{name}" is there twice')
                machine[name] = _hardware(group, place)
        _check_vclusters(path, found, machine)
    except (yaml.YAMLError, msgspec.ValidationError, BadField, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    if not machine:
        raise TraceError(f"{path}: names no nodes")
    return Site(nodes=machine, vclusters=found.vclusters, preemption=found.preemption, checkpoints=found.checkpoints)


def _check_vclusters(path: Path, found: Inventory, machine: Mapping[str, Hardware]) -> None:
    names = [each.name for each in found.vclusters]
    for each in found.vclusters:
        if names.count(each.name) > 1:
            raise TraceError(f'{path}: vCluster "{each.name}" is there twice')
        strangers = [node for node in node_names(each.nodes, "nodes") if node not in machine] if each.nodes else []
        if strangers:
            raise TraceError(f'{path}: vCluster "{each.name}" has node "{strangers[0]}", which is not in nodes')
    for name in found.preemption or {}:
        if f"preemption.{name}" not in SETTINGS:
            known = ", ".join(key.removeprefix("preemption.") for key in SETTINGS if key.startswith("preemption."))
            raise TraceError(f"{path}: unknown setting preemption.{name}; known: {known}")


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


def on_nodes(trace: Trace, site: Site) -> Workload:
    """The trace with whole nodes in the place of processors; raises TraceError when nothing fits.

    Work that no vCluster takes, or that is larger than its vCluster, is dropped.
    """
    cpus = max(hardware.cpus for hardware in site.nodes.values())
    entries = [msgspec.structs.replace(entry, procs=_nodes_of(entry, cpus)) for entry in trace.entries]
    fitting = [entry for entry in entries if entry.procs <= site.size_for(entry)] if site.vclusters else entries
    work = keep_r1(Trace(name=trace.name, entries=fitting), len(site.nodes))
    return dataclasses.replace(work, dropped=work.dropped + len(entries) - len(fitting))


def _nodes_of(entry: Entry, cpus: int) -> int:
    return entry.nodes if entry.nodes > 0 else -(-entry.procs // cpus)


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """By position: when each entry started first and when it ended, in seconds of the trace, and in which vCluster it was."""

    starts: list[int]
    ends: list[int]
    vclusters: list[str]
    moves: Moves | None  # None: nothing may be preempted or lent


def simulate_full(work: Workload, site: Site, profiles: Mapping[str, Profile] | None = None) -> Replayed:
    """Replays the entries; `profiles` by name of vCluster. Raises TraceError."""
    first_s = work.submits[0]
    arrivals = tuple(
        Arrival(at_s=work.submits[place] - first_s, run_s=work.runs[place], submission=_submission(work, place, site))
        for place in range(len(work))
    )
    names = sorted({arrival.submission.tenant for arrival in arrivals})
    settings = {f"preemption.{name}": f"{value:g}" for name, value in (site.preemption or {}).items()}
    if site.preemption is None and site.moves:
        settings["preemption.max_victims"] = "0"
    scenario = Scenario(
        name="trace",
        nodes=dict(site.nodes),
        tenants=tuple(Tenant(name=name, on_quota=OnQuota.QUEUE) for name in names),
        vclusters=tuple(map(_vcluster, site.vclusters)) or (Vcluster(name=NAME),),
        arrivals=arrivals,
        moves=site.moves,
        settings=settings,
        checkpoints=CheckpointCosts(write_s=site.checkpoints.write_s, restart_s=site.checkpoints.restart_s),
    )
    try:
        cluster = Cluster(scenario, profiles=profiles)
        stays = sorted(cluster.run(), key=lambda stay: stay.number)
    except ReplayStuck as stuck:
        raise TraceError(str(stuck)) from stuck
    return Replayed(
        starts=[first_s + stay.start_s for stay in stays],
        ends=[first_s + stay.end_s for stay in stays],
        vclusters=[stay.vcluster for stay in stays],
        moves=cluster.moves if site.moves else None,
    )


def _vcluster(part: VclusterPart) -> Vcluster:
    lending = Lending(
        lends=part.lends,
        lend_to=part.lend_to,
        max_lent=part.max_lent,
        lend_after_s=part.lend_after_s,
        borrows=part.borrows,
        max_borrowed=part.max_borrowed,
        borrow_priority=part.borrow_priority,
        max_borrow_s=part.max_borrow_s,
        return_grace_s=part.return_grace_s,
    )
    says_nothing = part.lends is Lends.NEVER and not part.borrows and part.preemption is None
    return Vcluster(
        name=part.name,
        scheduler=part.scheduler,
        nodes=tuple(node_names(part.nodes, "nodes")) if part.nodes else (),
        demands=None if says_nothing else Demands(lending=lending, preemption=part.preemption),
    )


def _submission(work: Workload, place: int, site: Site) -> SubmitAllocation:
    entry = work.entries[place]
    part = site.vcluster_of(entry)
    klass = entry.preemption_class if part is None or part.preemption_class is None else part.preemption_class
    return SubmitAllocation(
        name=entry.name or "work",
        user=entry.user or NAME,
        account=entry.user or NAME,
        tenant=entry.tenant or NAME,
        vcluster=NAME if part is None else part.name,
        request=Request(nodes=work.procs[place]),
        preemption_class=min(10, max(0, klass)),
        walltime_s=max(1, work.estimates[place]),
        checkpoint=CheckpointWay() if part is not None and part.checkpoint else None,
    )
