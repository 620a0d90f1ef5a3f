"""Sources that are switched off: the next one answers, and the node says which and why."""

import asyncio
import os
from pathlib import Path

import pytest

from lattice.agent.machine.state import AgentState
from lattice.agent.runs.devices import DeviceTable, NodeTopology
from lattice.agent.runs.folders import RunFolders
from lattice.agent.shim_client import GroupPlace, ShimMessage
from lattice.agent.telemetry.node import NodeTelemetry, TelemetrySettings
from lattice.core.model.telemetry.rates import Name
from lattice.ports.nodes.agents import RunKey

RUN = RunKey(7, 1)
GROUP_BYTES = 12_345_000_000  # no process here uses that much
WHY = "switched off by --telemetry-without"


def node_without(folder: Path, *sources: str) -> NodeTelemetry:
    node = NodeTelemetry(
        RunFolders(folder / "state", reachable=False),
        DeviceTable(4, 0, "", NodeTopology()),
        lambda *_: None,
        lambda _: None,
        AgentState,
    )
    node.arrange(TelemetrySettings(without=frozenset(sources)))
    return node


def figures_of(node: NodeTelemetry, folder: Path) -> dict[Name, float]:
    """Of a run whose group says one thing and whose process, this one, another."""
    group = folder / "group"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 0\n")
    (group / "memory.stat").write_text(f"anon {GROUP_BYTES}\nshmem 0\nfile 0\n")
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    node.collector._found(ShimMessage(places=(GroupPlace(number=7, run=1, path=str(group)),)))
    asyncio.run(node.collector._measure(1e9))
    return node.collector.targets[RUN].figures


@pytest.mark.parametrize("without", [("bpf",), ("bpf", "cgroup"), ("bpf", "cgroup", "nvml", "dcgm", "rocm")])
def test_the_next_source_answers_and_the_node_says_so(without: tuple[str, ...], tmp_path: Path) -> None:
    node = node_without(tmp_path, *without)
    used = figures_of(node, tmp_path)["memory_used", ""]
    if "cgroup" in without:
        assert 0 < used < GROUP_BYTES
        assert node.sources() == ("proc",)
    else:
        assert used == GROUP_BYTES
        assert node.sources() == ("cgroup", "proc")
    assert {f"{name}: {WHY}" for name in without} <= set(node.missing())
