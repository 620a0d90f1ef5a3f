"""GPUs of the machine are dealt out to the nodes of a local cluster, each to one node."""

from pathlib import Path

import pytest

from lattice.agent.runs.devices import read_topology
from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuTopology, GpuVendor
from lattice.daemons.local import gpus
from lattice.daemons.local.commands import agent_command
from lattice.daemons.local.layout import Layout
from lattice.daemons.local.options import Options, StartFailed

FIVE = GpuTopology(
    gpus=tuple(
        GpuDevice(index=n, vendor=GpuVendor.NVIDIA, model="H200", devices=(f"/dev/nvidia{n}",)) for n in range(5)
    ),
    links=(GpuLink(gpu_a=0, gpu_b=1), GpuLink(gpu_a=2, gpu_b=3)),
    nic_affinity={0: "hsn0", 4: "hsn1"},
)


def test_earlier_nodes_get_what_is_left_over() -> None:
    dealt = gpus.deal(FIVE, ["n1", "n2"], None)
    assert {node: own.indices for node, own in dealt.items()} == {"n1": (0, 1, 2), "n2": (3, 4)}
    assert dealt["n1"].links == (GpuLink(gpu_a=0, gpu_b=1),)
    assert dealt["n2"].nic_affinity == {4: "hsn1"}
    assert not gpus.deal(GpuTopology(), ["n1"], None)["n1"].gpus


def test_a_number_per_node_must_be_there() -> None:
    assert [own.indices for own in gpus.deal(FIVE, ["n1", "n2"], 2).values()] == [(0, 1), (2, 3)]
    with pytest.raises(StartFailed, match="--node-gpus 3 needs 6 GPUs for 2 nodes; this machine has 5"):
        gpus.deal(FIVE, ["n1", "n2"], 3)


def test_agents_are_told_their_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "machine_gpus", lambda: FIVE)
    layout, options = Layout(tmp_path), Options(nodes=2)
    gpus.write_topologies(layout, options)
    command = agent_command(layout, options, "n1", "server")
    assert "--gpus" not in command
    topology = read_topology(Path(command[command.index("--topology-file") + 1]))
    assert topology.gpus.indices == (0, 1, 2)
    gpus.write_topologies(layout, Options(nodes=2, node_gpus=0))
    command = agent_command(layout, options, "n1", "server")
    assert command[command.index("--gpus") + 1] == "0"
