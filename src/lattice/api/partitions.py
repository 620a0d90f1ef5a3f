"""Which partition is which vCluster, which QoS is which preemption class: as the site says, else by their own names."""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_QOS: Mapping[str, int] = {"low": 2, "normal": 5, "high": 8}
DEFAULT_CLASS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNames:
    """`partitions` maps names to vClusters; empty = every vCluster is a partition of its own name. `qos` maps names to classes."""

    cluster: str = "lattice"
    partitions: Mapping[str, str] = field(default_factory=dict)
    qos: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_QOS))
    salloc_on_node: bool = False  # the shell of salloc runs on the first node

    def vcluster_of(self, partition: str, vclusters: Mapping[str, object]) -> str | None:
        """The vCluster behind a partition; None when there is none."""
        name = self.partitions.get(partition, "" if self.partitions else partition)
        return name if name in vclusters else None

    def partition_of(self, vcluster: str) -> str:
        """The first partition that stands for the vCluster, else its own name."""
        return next((name for name, target in self.partitions.items() if target == vcluster), vcluster)

    def known_partitions(self, vclusters: Mapping[str, object]) -> list[str]:
        if not self.partitions:
            return sorted(vclusters)
        return [name for name, target in self.partitions.items() if target in vclusters]

    def class_of(self, qos: str) -> int | None:
        """The preemption class that a QoS stands for; None for one that is not known."""
        return self.qos.get(qos)

    def qos_of(self, preemption_class: int) -> str:
        """The name of a class: the one that is exactly it, else the highest one below, else the lowest there is."""
        ranked = sorted(self.qos.items(), key=lambda item: item[1])
        below = [name for name, value in ranked if value <= preemption_class]
        if below:
            return below[-1]
        return ranked[0][0] if ranked else "normal"


def slurm_names(
    cluster: str, partitions: Mapping[str, str], qos: Mapping[str, int], *, salloc_on_node: bool = False
) -> SlurmNames:
    """The names of a site's settings."""
    return SlurmNames(
        cluster=cluster, partitions=dict(partitions), qos=dict(qos or DEFAULT_QOS), salloc_on_node=salloc_on_node
    )
