"""Nodes, vClusters and reservations as rows of Slurm's listings."""

from lattice.api.context import Context
from lattice.api.find.visibility import (
    own_tenants_among,
    own_user_among,
    sees_all_reservations,
    sees_all_vclusters,
    visible_reservations,
    visible_vclusters,
)
from lattice.api.slurm.accounts import user_ids
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.evictions import limits_of, preempt_mode
from lattice.slurm.listings.machine import NodeRow, PartitionRow, ReservationRow
from lattice.slurm.version import VERSION

_DOWN = frozenset({NodeState.DOWN, NodeState.FAILED, NodeState.QUARANTINE})
_UNKNOWN = frozenset({NodeState.UNKNOWN, NodeState.BOOTING})
_DRAINED = frozenset({NodeState.DRAINING, NodeState.DRAINED})


class MachineRows:
    """Makes the rows of one listing."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = context.state
        self._now_ms = context.services.clock.now_ms()
        self._vclusters = self._partition_table()
        self._members: dict[str, list[str]] = {}
        for name, vcluster in self._vclusters.items():
            for node in vcluster.nodes:
                self._members.setdefault(node, []).append(name)
        self._everywhere = [name for name, vcluster in self._vclusters.items() if not vcluster.nodes]
        self._kept = self._reserved()

    def _partition_table(self) -> dict[str, Vcluster]:
        """vClusters by the names of their partitions, those that the caller's tenants may use."""
        names, visible = self._context.services.slurm, visible_vclusters(self._context)
        table = {}
        for name in names.known_partitions(visible):
            vcluster = names.vcluster_of(name, visible)
            if vcluster is not None:
                table[name] = visible[vcluster]
        return table

    def _reserved(self) -> dict[str, bool]:
        """Nodes of which a reservation is in force now; True where it is maintenance, which admits no work."""
        kept: dict[str, bool] = {}
        for record in self._state.reservations.values():
            window = record.occurrence(self._now_ms)
            if window is None or window[0] > self._now_ms:
                continue
            for node in record.nodes or tuple(self._state.nodes):
                kept[node] = kept.get(node, False) or not (record.tenants or record.users)
        return kept

    def node(self, node: Node) -> NodeRow:
        hardware = node.hardware
        heard = self._context.services.observations.get(node.id)
        held = _held(node)
        # How much a node that runs something of its own uses is known; what is left of the rest is a guess.
        free = None if heard is None else max(0, hardware.memory_mb - heard.memory_used_mb)
        return NodeRow(
            name=node.id,
            base=_base(node, held[0]),
            is_drained=node.state in _DRAINED or bool(node.shortfall) or (node.drain_wanted and node.state in _DOWN),
            is_silent=node.state is NodeState.DEGRADED
            or (node.state is NodeState.DOWN and node.down_cause is DownCause.SILENCE)
            or node.state in _UNKNOWN,
            is_reserved=bool(node.claimant) or self._kept.get(node.id) is False,
            is_maintained=self._kept.get(node.id, False),
            cpus=hardware.cpus,
            cpus_held=held[0],
            memory_mb=hardware.memory_mb,
            memory_held_mb=held[1],
            memory_free_mb=free,
            load=None if heard is None else heard.load1,
            features=",".join(hardware.features),
            gpus=hardware.gpus,
            gpus_held=held[2],
            gpu_type=hardware.gpu_type,
            partitions=(*self._members.get(node.id, ()), *self._everywhere),
            address=node.address.rpartition(":")[0] or node.address,
            reason=(node.reason if node.state is not NodeState.READY else "") or node.shortfall,
            reason_by=node.reason_by,
            reason_uid=user_ids(node.reason_by)[0] if node.reason_by else 0,
            reason_at=node.changed_at / 1000 if node.changed_at else None,
            started_at=node.registered_at / 1000 if node.registered_at else None,
            version=VERSION,
        )

    def nodes(self) -> dict[str, NodeRow]:
        """All of them by name."""
        known = self._state.nodes
        return {name: self.node(known[name]) for name in sorted(known, key=name_order)}

    def partitions(self, nodes: dict[str, NodeRow]) -> list[PartitionRow]:
        services = self._context.services
        default = services.slurm.partition_of(self._context.default_vcluster)
        limits = limits_of(self._state.settings)
        return [
            PartitionRow(
                name=name,
                nodes=tuple(row for row in nodes.values() if name in row.partitions),
                is_default=name == default,
                is_up=vcluster.is_up,
                is_shared=vcluster.node_sharing is NodeSharing.SHARED,
                max_time_s=vcluster.max_walltime_s,
                default_time_s=vcluster.default_walltime_s,
                max_nodes=vcluster.max_nodes,
                accounts=self._tenants(vcluster.tenants),
                preempt_mode=preempt_mode(vcluster, limits),
            )
            for name, vcluster in self._vclusters.items()
        ]

    def _tenants(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names if sees_all_vclusters(self._context) else own_tenants_among(self._context, names)

    def _users(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names if sees_all_reservations(self._context) else own_user_among(self._context, names)

    def reservations(self) -> list[ReservationRow]:
        """Those that concern the caller and are in force or still to come."""
        nodes, now = self._state.nodes, self._now_ms
        rows = []
        for record in visible_reservations(self._context).values():
            window = record.occurrence(now)
            if window is None:
                continue
            names = tuple(sorted(record.nodes or nodes, key=name_order))
            is_maintenance = not (record.tenants or record.users)
            flags = ["MAINT"] if is_maintenance else []
            flags += ["SPEC_NODES"] if record.nodes else ["ALL_NODES"]
            flags += {86_400: ["DAILY"], 604_800: ["WEEKLY"]}.get(record.repeat_s, [])
            rows.append(
                ReservationRow(
                    name=record.name,
                    start_at=window[0] / 1000,
                    end_at=window[1] / 1000,
                    is_active=window[0] <= now,
                    nodes=names,
                    cpus=sum(nodes[name].hardware.cpus for name in names if name in nodes),
                    users=self._users(record.users),
                    accounts=self._tenants(record.tenants),
                    is_maintenance=is_maintenance,
                    flags=tuple(flags),
                )
            )
        return rows


def name_order(name: str) -> tuple[str, int, str]:
    """n2 before n10."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits) if digits else -1, name


def _held(node: Node) -> tuple[int, int, int]:
    """CPUs, megabytes and GPUs that work holds."""
    hardware = node.hardware
    if node.holder:
        return hardware.cpus, hardware.memory_mb, hardware.gpus
    tenures = node.tenures
    return sum(t.cpus for t in tenures), sum(t.memory_mb for t in tenures), sum(t.gpus for t in tenures)


def _base(node: Node, cpus_held: int) -> str:
    if node.state in _DOWN:
        return "DOWN"
    if node.state in _UNKNOWN:
        return "UNKNOWN"
    if not cpus_held and not node.holder and not node.tenures:
        return "IDLE"
    return "ALLOCATED" if cpus_held >= node.hardware.cpus else "MIXED"
