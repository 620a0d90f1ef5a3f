"""What makes two nodes alike, and what does not."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lattice.core.model.nodes.gpus import GpuLink, GpuLinkType, GpuVendor
from lattice.core.model.nodes.inventory import (
    MAX_DOCUMENT_BYTES,
    Board,
    Gpu,
    GpuPartition,
    Inventory,
    Nic,
    Software,
    UnusableInventory,
    components,
    decode_inventory,
    encode_inventory,
    gpu_topology,
    inventory_fingerprint,
    memory_topology,
    shared_parameters,
)
from lattice.core.model.nodes.memory import MemoryDomain, MemoryDomainType, MemoryTopology

GUIDE = Path(__file__).parents[3] / "docs" / "guide"


def gpu(index: int, **more: object) -> Gpu:
    return msgspec.convert({"index": index, "vendor": "nvidia", "model": "H100", **more}, Gpu)


NODE = Inventory(
    memory_mb=1024,
    memory=MemoryTopology(domains=(MemoryDomain(id=0, attached_cpus=(0, 1), attached_gpus=(0, 1)),)),
    gpus=(gpu(0, uuid="GPU-a", firmware="96.00", nic="hsn0"), gpu(1, uuid="GPU-b", firmware="96.00")),
    gpu_links=(GpuLink(gpu_a=0, gpu_b=1, link_type=GpuLinkType.NVLINK, bandwidth_gbps=450.0),),
    drivers={"nvidia": "550.54.14"},
    nics=(Nic(name="hsn0", driver="cxi", firmware="1.5.53"), Nic(name="eth0", driver="virtio_net")),
    board=Board(bios_vendor="HPE", bios_version="2.4", bmc_version="1.10"),
    software=Software(kernel="6.1.0", boot_parameters="quiet root=UUID=12-34 iommu=pt", base_image="sha256:aa"),
)


def test_what_counts_is_named_and_nothing_else() -> None:
    assert components(NODE) == {
        "gpu_driver.nvidia": "550.54.14",
        "gpu_firmware.H100": "96.00",
        "nic_firmware.cxi": "1.5.53",
        "bios": "HPE 2.4",
        "bmc": "1.10",
        "kernel": "6.1.0",
        "boot_parameters": "iommu=pt quiet",
        "base_image": "sha256:aa",
        "memory": "1 dram",
    }


@pytest.mark.parametrize(
    "other",
    [
        replace(NODE, memory_mb=2048),
        replace(NODE, gpus=(gpu(0, uuid="GPU-x", firmware="96.00"), gpu(1, uuid="GPU-y", firmware="96.00"))),
        replace(NODE, nics=tuple(reversed(NODE.nics))),
        replace(NODE, runtimes={"crun": "1.8"}, sources=("file",), problems=("hwloc: gone",)),
        replace(NODE, software=replace(NODE.software, boot_parameters="iommu=pt quiet ip=10.0.0.7 hostname=n7")),
    ],
)
def test_nodes_that_differ_in_sizes_names_and_addresses_are_alike(other: Inventory) -> None:
    assert inventory_fingerprint(other) == inventory_fingerprint(NODE)


@pytest.mark.parametrize(
    "other",
    [
        replace(NODE, drivers={"nvidia": "550.90.07"}),
        replace(NODE, gpus=(gpu(0, firmware="96.01"), gpu(1, firmware="96.00"))),
        replace(NODE, nics=(Nic(name="hsn0", driver="cxi", firmware="1.5.54"),)),
        replace(NODE, board=replace(NODE.board, bios_version="2.5")),
        replace(NODE, board=replace(NODE.board, bmc_version="1.11")),
        replace(NODE, software=replace(NODE.software, kernel="6.1.1")),
        replace(NODE, software=replace(NODE.software, boot_parameters="quiet iommu=off")),
        replace(NODE, software=replace(NODE.software, base_image="sha256:bb")),
    ],
)
def test_nodes_that_differ_below_the_work_are_not(other: Inventory) -> None:
    assert inventory_fingerprint(other) != inventory_fingerprint(NODE)


def test_an_inventory_that_says_nothing_has_no_fingerprint() -> None:
    assert inventory_fingerprint(Inventory()) == ""


def test_boot_parameters_that_every_node_has_for_itself_do_not_count() -> None:
    own = "BOOT_IMAGE=(hd0)/vmlinuz root=PARTUUID=1-02 ip=dhcp hostname=n1 BOOTIF=01-aa xname=x1 rd.md.uuid=1:2"
    assert shared_parameters(f"{own} quiet") == "quiet"
    assert shared_parameters("root=live:http://images/a.squashfs") == "root=live:http://images/a.squashfs"


def test_repeated_parameters_keep_their_order_and_those_of_the_first_process_do_not_count() -> None:
    assert shared_parameters("b console=tty0 a console=ttyS0") == "a b console=tty0 console=ttyS0"
    assert shared_parameters("b a -- z --port 5 y") == shared_parameters("b a --") == "a b"


def test_a_document_comes_back_as_it_was() -> None:
    assert decode_inventory(encode_inventory(NODE)) == NODE


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"", "truncated"),
        (b"\xff\xfe garbage", "JSON"),
        (b"[1]", "object"),
        (b'{"gpus": [{"index": "x", "vendor": "nvidia"}]}', "int"),
        (b'{"gpus": [{"index": 0, "vendor": "nvidia"}, {"index": 0, "vendor": "amd"}]}', "same index"),
        (b'{"gpu_links": [{"gpu_a": 0, "gpu_b": 1}]}', "not two GPUs"),
        (b'{"memory": {"domains": [{"id": 0}, {"id": 0}]}}', "same id"),
        (b'{"a": "' + b"x" * MAX_DOCUMENT_BYTES + b'"}', "at most"),
        (b'{"x": ' + b"[" * 100_000, "recursion"),
    ],
)
def test_garbage_is_refused_with_a_reason(document: bytes, complaint: str) -> None:
    with pytest.raises(UnusableInventory, match=f"(?i){complaint}"):
        decode_inventory(document)


def test_parts_of_a_gpu_are_devices_of_their_own() -> None:
    halves = (
        GpuPartition(profile="3g.40gb", uuid="MIG-1", memory_bytes=40),
        GpuPartition(profile="3g.40gb", uuid="MIG-2", memory_bytes=40),
    )
    split = replace(NODE, gpus=(replace(NODE.gpus[0], partitions=halves), NODE.gpus[1]))
    topology = gpu_topology(split)
    assert topology.problem() == ""
    assert topology.indices == (1, 2, 3)
    assert [(device.uuid, device.partitioned) for device in topology.gpus] == [
        ("MIG-1", True),
        ("MIG-2", True),
        ("GPU-b", False),
    ]
    assert topology.nic_affinity == {2: "hsn0", 3: "hsn0"}
    assert topology.links == ()
    assert memory_topology(split).domains[0].attached_gpus == (2, 3, 1)


def test_whole_gpus_keep_their_links_and_interfaces() -> None:
    topology = gpu_topology(NODE)
    assert (topology.indices, topology.links, topology.nic_affinity) == ((0, 1), NODE.gpu_links, {0: "hsn0"})
    assert memory_topology(NODE) == NODE.memory
    assert topology.gpus[0].vendor is GpuVendor.NVIDIA


def test_a_domain_inside_another_is_not_counted_as_a_kind_of_its_own() -> None:
    domains = (
        MemoryDomain(id=0, domain_type=MemoryDomainType.UNIFIED),
        MemoryDomain(id=1, domain_type=MemoryDomainType.HBM, part_of=0),
    )
    assert components(Inventory(memory=MemoryTopology(domains=domains))) == {"memory": "1 unified"}


def test_a_machine_with_a_real_gpu_as_its_agent_described_it() -> None:
    kept = msgspec.json.decode((GUIDE / "inventory-h200.json").read_bytes())
    found = decode_inventory(msgspec.json.encode(kept["inventory"]))
    assert (components(found), inventory_fingerprint(found)) == (kept["components"], kept["fingerprint"])
    assert kept["components"]["gpu_driver.nvidia"] == "580.159.04"
    device = gpu_topology(found).gpus[0]
    assert (device.model, device.memory_bytes >> 30, device.compute_capability) == ("H200", 140, "9.0")
    assert memory_topology(found).domains[0].attached_gpus == (0,)


def test_what_a_strange_node_says_of_itself_is_bounded_and_printable() -> None:
    drivers = {f"vendor{number:04}": "1" for number in range(1000)} | {"a" * 10_000: "2"}
    found = components(Inventory(drivers=drivers, board=Board(bios_version="\x1b[31mred\nbmc=7")))
    assert len(found) == 256
    assert max(map(len, found)) == 128
    assert found["bios"] == "?[31mred?bmc=7"
