"""The memory policy of a run on this node: what the shim is asked to set before it executes anything."""

from lattice.agent.runs.devices import Devices
from lattice.agent.runs.launch import LaunchRefused
from lattice.core.model.nodes.memory import MemoryTopology
from lattice.core.model.nodes.memory_policy import LOCAL, PREFER_LOCAL, chosen_nodes, read_policy


def policy_request(text: str, memory: MemoryTopology, devices: Devices) -> dict[str, object]:
    """For the request to the shim; empty where nothing is to be set. Raises LaunchRefused for NUMA nodes that are not there."""
    if not text:
        return {}
    if text == PREFER_LOCAL:
        # One memory for all: there is no nearer one.
        return {} if memory.is_unified else _request(LOCAL, ())
    present = tuple(sorted({each.numa_node for each in memory.domains if each.numa_node is not None})) or (0,)
    mine = set(devices.cpus)
    near = {each.numa_node for each in memory.domains if mine & set(each.attached_cpus) and each.numa_node is not None}
    try:
        policy = read_policy(text)
        nodes = chosen_nodes(policy, tuple(sorted(near)), present)
    except ValueError as error:
        raise LaunchRefused(f"memory policy {text}: {error}") from error
    return _request(policy.kind, nodes)


def _request(kind: str, nodes: tuple[int, ...]) -> dict[str, object]:
    return {"memory_policy": {"kind": kind, "nodes": list(nodes)}}
