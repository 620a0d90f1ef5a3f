"""What users have consumed, by day: the source of fair share, budgets and usage reports. See docs/architecture/core.md."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.nodes.nodes import Node, Share

DAY_MS = 86_400_000
KEPT_DAYS = 400
UNKNOWN_NODE_GPUS = 1  # what a node counts whose record is gone


class Ledger(Struct, frozen=True, kw_only=True, gc=False):
    """Node and GPU milliseconds of one user in one project, by the day (since 1970) on which a run ended."""

    tenant: str
    project: str
    user: str
    days: tuple[tuple[int, int, int], ...] = ()  # (day, node_ms, gpu_ms), rising

    def with_run(self, at: int, node_ms: int, gpu_ms: int) -> "Ledger":
        """The ledger after a run that ended at `at`; days beyond the kept ones are forgotten."""
        day = at // DAY_MS
        days = tuple(entry for entry in self.days if day - KEPT_DAYS < entry[0] < day)
        today = [entry for entry in self.days if entry[0] == day]
        before = today[0] if today else (day, 0, 0)
        return replace(self, days=(*days, (day, before[1] + node_ms, before[2] + gpu_ms)))

    def since(self, first_day: int) -> tuple[int, int]:
        """Node and GPU milliseconds from that day on."""
        kept = [entry for entry in self.days if entry[0] >= first_day]
        return sum(entry[1] for entry in kept), sum(entry[2] for entry in kept)


def run_amounts(shares: Sequence[Share], nodes: Mapping[str, Node], elapsed_ms: int) -> tuple[int, int]:
    """Node and GPU milliseconds of a run that long; a share counts by its CPUs. A node that is not known counts as one with a GPU."""
    node_ms = gpu_ms = 0
    for share in shares:
        node = nodes.get(share.node)
        cpus, gpus = (share.cpus, UNKNOWN_NODE_GPUS) if node is None else (node.hardware.cpus, node.hardware.gpus)
        part_ms = elapsed_ms if share.whole else elapsed_ms * share.cpus // max(1, cpus)
        node_ms += part_ms
        gpu_ms += elapsed_ms * (gpus if share.whole else share.gpus)
    return node_ms, gpu_ms
