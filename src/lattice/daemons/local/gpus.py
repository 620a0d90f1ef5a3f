"""The GPUs of this machine, dealt out to the nodes of a local cluster: each is offered by one node alone."""

import os

import msgspec

from lattice.agent.runs.devices import NodeTopology
from lattice.core.model.nodes.gpus import GpuTopology
from lattice.core.model.nodes.inventory import gpu_topology
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.options import Options, StartFailed

# Without one of these the machine has no GPU whose driver is there: nothing is looked for, and starting stays fast.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/kfd")


def machine_gpus() -> GpuTopology:
    if not any(os.path.exists(path) for path in DRIVER_FILES):
        return GpuTopology()
    from lattice.agent.discovery.discover import discover

    return gpu_topology(discover())


def deal(found: GpuTopology, nodes: list[str], per_node: int | None) -> dict[str, GpuTopology]:
    """By node; without a number as many as there are, earlier nodes first. Raises StartFailed."""
    indices = list(found.indices)
    if per_node is not None and per_node * len(nodes) > len(indices):
        raise StartFailed(
            f"--node-gpus {per_node} needs {per_node * len(nodes)} GPUs for {len(nodes)} nodes; this machine has {len(indices)}",
            hint="use fewer nodes or a lower --node-gpus",
        )
    share, rest = divmod(len(indices), max(1, len(nodes))) if per_node is None else (per_node, 0)
    dealt, place = {}, 0
    for number, node in enumerate(nodes):
        count = share + (number < rest)
        dealt[node] = _part(found, frozenset(indices[place : place + count]))
        place += count
    return dealt


def _part(found: GpuTopology, own: frozenset[int]) -> GpuTopology:
    return GpuTopology(
        gpus=tuple(gpu for gpu in found.gpus if gpu.index in own),
        links=tuple(link for link in found.links if {link.gpu_a, link.gpu_b} <= own),
        nic_affinity={gpu: nic for gpu, nic in found.nic_affinity.items() if gpu in own},
    )


def write_topologies(layout: Layout, options: Options) -> None:
    """A topology file for each node that has GPUs, in its state directory; `agent_command` finds it there. Raises StartFailed."""
    found = GpuTopology() if options.node_gpus == 0 else machine_gpus()
    for node, own in deal(found, options.node_names(), options.node_gpus).items():
        path = layout.topology_of(node)
        if own.gpus:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, msgspec.json.encode(NodeTopology(gpus=own)))
        else:
            path.unlink(missing_ok=True)
