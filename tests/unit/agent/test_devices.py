"""Which devices runs get, and how they are told."""

from pathlib import Path

import msgspec
import pytest

from lattice.agent.runs.devices import (
    Devices,
    DeviceTable,
    NodeTopology,
    NoDevices,
    TopologyUnusable,
    read_cores,
    read_topology,
)
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.launch import Account, build_environment
from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuTopology, GpuVendor
from lattice.core.model.nodes.memory import NO_CORES, Cores, MemoryDomain, MemoryTopology
from lattice.ports.nodes.agents import RunKey, StartOrder

ALICE = Account(name="alice", uid=5000, gid=500, groups=(), home="/", shell="/bin/sh")  # noqa: S604
CPUS = frozenset(range(8))
MEMORY = MemoryTopology(
    domains=(
        MemoryDomain(id=0, attached_cpus=(0, 1, 2, 3), attached_gpus=(0, 1)),
        MemoryDomain(id=1, attached_cpus=(4, 5, 6, 7), attached_gpus=(2, 3)),
    )
)


def gpus(vendor: GpuVendor = GpuVendor.NVIDIA, *, uuids: bool = False) -> GpuTopology:
    devices = tuple(GpuDevice(index=i, vendor=vendor, uuid=f"MIG-{i}" if uuids else "") for i in range(4))
    links = (GpuLink(gpu_a=0, gpu_b=1, bandwidth_gbps=450.0), GpuLink(gpu_a=2, gpu_b=3, bandwidth_gbps=450.0))
    return GpuTopology(gpus=devices, links=links)


def table(topology: NodeTopology | None = None, cores: Cores | None = None) -> DeviceTable:
    return DeviceTable(8, 4, "H100", topology or NodeTopology(gpus=gpus(), memory=MEMORY), CPUS, cores or NO_CORES)


def order(number: int, cpus: int, gpus: int = 0) -> StartOrder:
    return StartOrder(key=RunKey(number, 1), cpus=cpus, gpus=gpus)


def alive(_key: RunKey) -> bool:
    return True


def test_runs_get_linked_gpus_and_the_cpus_beside_them() -> None:
    devices = table()
    assert devices.assign(order(1, 1), alive) == Devices(gpus=(), cpus=(0,))
    assert devices.assign(order(2, 2, 2), alive) == Devices(gpus=(0, 1), cpus=(1, 2))
    assert devices.assign(order(3, 4, 1), alive) == Devices(gpus=(2,), cpus=(4, 5, 6, 7))
    assert devices.assign(order(4, 1, 1), alive) == Devices(gpus=(3,), cpus=(3,))


def test_a_whole_node_is_all_gpus_and_no_binding() -> None:
    assert table().assign(order(1, 8, 4), alive) == Devices(gpus=(0, 1, 2, 3))
    assert table().assign(order(1, 0, 0), alive) == Devices(gpus=(0, 1, 2, 3)), "nothing said of shares"
    assert table().assign(order(1, 8, 0), alive) == Devices(gpus=())


def test_whole_cores_are_given_before_single_siblings() -> None:
    """Each core has two CPUs: 0 and 2, 1 and 3, 4 and 6, 5 and 7."""
    cores = {cpu: (cpu & ~2, cpu | 2) for cpu in range(8)}
    devices = table(cores=cores)
    assert devices.assign(order(1, 2), alive).cpus == (0, 2)
    assert devices.assign(order(2, 1), alive).cpus == (1,)
    assert devices.assign(order(3, 3), alive).cpus == (4, 5, 6)
    assert devices.assign(order(4, 1), alive).cpus == (3,), "a core that is shared already"


def test_the_machine_says_which_cpus_are_one_core(tmp_path: Path) -> None:
    for cpu, told in ((0, "0,4"), (4, "0,4"), (1, "1-2"), (2, "1-2"), (3, "rubbish")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(told + "\n")
    found = read_cores((0, 1, 2, 3, 4, 9), tmp_path)
    assert found == {0: (0, 4), 4: (0, 4), 1: (1, 2), 2: (1, 2), 3: (3,), 9: (9,)}


def test_work_that_prefers_one_domain_gets_gpus_beside_its_cpus() -> None:
    """GPUs 1 and 2 have the fastest link, across two domains."""
    links = (GpuLink(gpu_a=1, gpu_b=2, bandwidth_gbps=900.0), GpuLink(gpu_a=2, gpu_b=3, bandwidth_gbps=450.0))
    fast = NodeTopology(gpus=msgspec.structs.replace(gpus(), links=links), memory=MEMORY)
    wish = msgspec.structs.replace(order(1, 4, 2), same_numa=True)
    assert table(fast).assign(order(1, 4, 2), alive).gpus == (1, 2)
    assert table(fast).assign(wish, alive) == Devices(gpus=(2, 3), cpus=(4, 5, 6, 7))
    too_many = msgspec.structs.replace(wish, cpus=5)
    assert table(fast).assign(too_many, alive).gpus == (1, 2), "no domain has room for all of it"


def test_what_ended_is_free_again_and_what_lives_is_not() -> None:
    devices = table()
    devices.assign(order(1, 2, 3), alive)
    with pytest.raises(NoDevices, match="2 GPUs were assigned on this node, but 1 of 4 are free"):
        devices.assign(order(2, 2, 2), alive)
    assert devices.assign(order(2, 2, 2), lambda key: key.number != 1).gpus == (0, 1)


def test_runs_that_were_found_again_keep_what_they_have(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path, reachable=False)
    first = table()
    held = first.assign(order(1, 3, 2), alive)
    folders.create(order(1, 3, 2), (0, 0), "shim", held)
    again = table()
    again.recall(RunKey(1, 1), folders.devices(RunKey(1, 1)))
    assert folders.devices(RunKey(9, 9)) == Devices()
    assert again.assign(order(2, 3, 2), alive) == first.assign(order(2, 3, 2), alive)
    assert again.assign(order(3, 2), alive) == Devices(gpus=(), cpus=(3, 7)), "the last two of eight"
    assert again.assign(order(4, 1), alive) == Devices(gpus=()), "none is left to be bound to"


def test_cpus_that_this_machine_does_not_have_are_not_bound() -> None:
    made_up = DeviceTable(8, 0, "", NodeTopology(memory=MEMORY), frozenset({0, 1}))
    assert made_up.is_empty
    assert made_up.assign(order(1, 2), alive) == Devices()


def test_without_a_topology_gpus_are_counted_from_0_and_nothing_is_bound() -> None:
    devices = DeviceTable(8, 2, "", NodeTopology(), CPUS)
    assert devices.assign(order(1, 2, 1), alive) == Devices(gpus=(0,))
    assert devices.assign(order(2, 2, 1), alive) == Devices(gpus=(1,))
    assert DeviceTable(8, 0, "", NodeTopology(), CPUS).assign(order(1, 2), alive) == Devices()


def test_the_environment_names_the_gpus_and_nothing_else_does() -> None:
    devices = table()
    told = devices.environment(devices.assign(order(1, 2, 2), alive))
    wanted = {"CUDA_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "3", "LATTICE_GPUS": "7"}
    asked = StartOrder(key=RunKey(1, 1), env=wanted)
    environment = build_environment(asked, ALICE, "n1", "", "", told)
    seen = {name: value for name, value in environment.items() if "DEVICE" in name or "GPU" in name}
    assert seen == {
        "LATTICE_GPUS": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert devices.environment(devices.assign(order(2, 2), alive))["CUDA_VISIBLE_DEVICES"] == ""
    plain = build_environment(asked, ALICE, "n1", "")
    assert plain["CUDA_VISIBLE_DEVICES"] == "3", "on a node without GPUs it is the user's own"
    assert "LATTICE_GPUS" not in plain


def test_amd_gpus_are_named_once_because_names_are_renumbered_after_each_filter() -> None:
    for devices in (
        table(NodeTopology(gpus=gpus(GpuVendor.AMD))),
        DeviceTable(8, 4, "MI300X", NodeTopology(), CPUS),
    ):
        assert devices.environment(Devices(gpus=(2, 3))) == {"LATTICE_GPUS": "2,3", "ROCR_VISIBLE_DEVICES": "2,3"}


def test_nvidia_gpus_are_named_to_cuda_alone() -> None:
    told = table(NodeTopology(gpus=gpus(GpuVendor.NVIDIA))).environment(Devices(gpus=(2, 3)))
    assert told == {"LATTICE_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_each_vendor_is_told_of_its_own_gpus() -> None:
    mixed = GpuTopology(
        gpus=(GpuDevice(index=0, vendor=GpuVendor.NVIDIA, uuid="GPU-0"), GpuDevice(index=1, vendor=GpuVendor.AMD))
    )
    told = table(NodeTopology(gpus=mixed)).environment(Devices(gpus=(1,)))
    assert (told["ROCR_VISIBLE_DEVICES"], told["CUDA_VISIBLE_DEVICES"]) == ("1", "")


def test_instances_are_named_as_their_vendor_names_them() -> None:
    told = table(NodeTopology(gpus=gpus(uuids=True))).environment(Devices(gpus=(1, 2)))
    assert (told["CUDA_VISIBLE_DEVICES"], told["LATTICE_GPUS"]) == ("MIG-1,MIG-2", "1,2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot read"),
        ("{", "truncated"),
        ('{"gpus": {"gpus": [{"index": 0}]}}', "vendor"),
        ('{"gpus": {"nic_affinity": {"1": "hsn0"}}}', "names GPU 1"),
        ('{"memory": {"domains": [{"id": 0}, {"id": 0}]}}', "the same id"),
    ],
)
def test_a_topology_that_cannot_be_used_says_why(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "node.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TopologyUnusable, match=problem) as refused:
        read_topology(file)
    assert str(file) in str(refused.value)
