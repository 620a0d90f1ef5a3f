"""What the agent finds on machines of different kinds, as their kernels and their vendors' tools show them."""

from pathlib import Path

import pytest

from lattice.agent.discovery import amd, hwloc, nvidia
from lattice.agent.discovery.discover import discover, pcie_links
from lattice.agent.discovery.found import FoundGpus
from lattice.agent.discovery.processors import read_memory, with_total
from lattice.agent.discovery.superchips import unify
from lattice.agent.discovery.system import HIDDEN, read_software, without_secrets
from lattice.agent.discovery.tools import ToolFailed
from lattice.agent.discovery.tree import Tree, cpu_list
from lattice.core.model.nodes.gpus import GpuLinkType, GpuVendor, choose_gpus, intra_node_fitness
from lattice.core.model.nodes.inventory import Gpu, components, gpu_topology
from lattice.core.model.nodes.memory import (
    MemoryDomain,
    MemoryDomainType,
    MemoryInterconnect,
    MemoryLinkType,
    MemoryTopology,
    choose_cpus,
)
from tests.unit.agent.machine_trees import MACHINES, grow

GB = 1 << 30


def document(name: str) -> bytes:
    return (MACHINES / name).read_bytes()


def test_a_machine_with_two_sockets_four_numa_nodes_and_memory_behind_cxl(tmp_path: Path) -> None:
    found = discover(grow("two-sockets", tmp_path))
    assert found.problem() == ""
    assert (found.cpus.model, found.cpus.sockets, found.cpus.cores, found.cpus.threads, found.cpus.mhz) == (
        "AMD EPYC 9454 48-Core Processor",
        2,
        8,
        8,
        3810,
    )
    assert (found.memory_mb, found.swap_mb) == (1_536_000, 8192)
    kinds = [(domain.id, domain.domain_type, domain.attached_cpus) for domain in found.memory.domains]
    assert kinds == [
        (0, MemoryDomainType.DRAM, (0, 1)),
        (1, MemoryDomainType.DRAM, (2, 3)),
        (2, MemoryDomainType.DRAM, (4, 5)),
        (3, MemoryDomainType.DRAM, (6, 7)),
        (4, MemoryDomainType.CXL_ATTACHED, ()),
    ]
    assert found.memory.cxl_memory_mb == 512 * 1024
    assert [(drive.model, drive.firmware, drive.size_bytes) for drive in found.drives] == [
        ("SAMSUNG MZQL23T8HCLS-00A07", "GDC5902Q", 3_840_755_982_336)
    ]
    assert [(nic.name, nic.driver, nic.firmware, nic.speed_mbps, nic.numa_node) for nic in found.nics] == [
        ("hsn0", "mlx5_core", "20.39.3004", 200_000, 0),
        ("hsn1", "mlx5_core", "20.39.3004", 200_000, 2),
    ]
    assert "CZ12345678" not in str(found)


def test_a_domain_that_is_still_being_brought_up_has_all_the_memory_of_the_machine() -> None:
    lazy = MemoryTopology(domains=(domain(0, 4, 0, 1),), total_capacity_bytes=4 * GB)
    assert with_total(lazy, 128 * GB).domains[0].capacity_bytes == with_total(lazy, 128 * GB).total_capacity_bytes
    assert with_total(lazy, 128 * GB).total_capacity_bytes == 128 * GB
    assert with_total(lazy, 3 * GB) == lazy
    two = MemoryTopology(domains=(domain(0, 4, 0), domain(1, 4, 1)), total_capacity_bytes=8 * GB)
    assert with_total(two, 128 * GB) == two


def test_its_nearest_domains_are_chosen_together(tmp_path: Path) -> None:
    memory = read_memory(grow("two-sockets", tmp_path))
    links = {(link.domain_a, link.domain_b): (link.link_type, link.latency_ns) for link in memory.interconnects}
    assert links[0, 1] == (MemoryLinkType.NUMA_LINK, 96)
    assert links[0, 4] == (MemoryLinkType.CXL_SWITCH, 400)
    assert choose_cpus(memory, {0, 1, 4, 5, 6, 7}, 4) == (4, 5, 6, 7)


def test_what_counts_of_it(tmp_path: Path) -> None:
    assert components(discover(grow("two-sockets", tmp_path))) == {
        "nic_firmware.mlx5_core": "20.39.3004",
        "bios": "HPE 2.4.1",
        "bmc": "1.10",
        "kernel": "5.14.21-150500.55.65_13.0.73-cray_shasta_c #1 SMP Mon Jun 10 14:02:11 UTC 2026 (2a1b9f0)",
        "boot_parameters": (
            f"bss_token={HIDDEN} console=ttyS0,115200 iommu=pt quiet root=live:http://images/compute-2026.06.squashfs"
        ),
        "base_image": "sha256:3f1c9d",
        "memory": "1 cxl_attached, 4 dram",
    }


def test_an_empty_root_is_a_machine_of_which_nothing_is_known(tmp_path: Path) -> None:
    found = discover(Tree(tmp_path))
    assert (found.memory_mb, found.cpus.threads, found.gpus, found.memory.domains) == (0, 0, (), ())
    assert components(found) == {}


def test_secrets_stay_on_the_node() -> None:
    said = without_secrets("quiet api_key=abc bss.token=x url=http://me:pw@host/i crashkernel=256M keyboard=us")
    assert said == f"quiet api_key={HIDDEN} bss.token={HIDDEN} url=http://host/i crashkernel=256M keyboard=us"


@pytest.mark.parametrize(
    ("release", "parameters", "image"),
    [
        ("IMAGE_ID=compute\nIMAGE_VERSION=26.06\n", "quiet", "compute 26.06"),
        ("ID=debian\n", f"ostree=/ostree/boot.1/os/{'ab' * 32}/0", f"ostree:{'ab' * 32}"),
        ("ID=debian\n", "quiet", ""),
    ],
)
def test_an_image_says_what_it_is(release: str, parameters: str, image: str, tmp_path: Path) -> None:
    for name, text in (("etc/os-release", release), ("proc/cmdline", parameters)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_software(Tree(tmp_path)).base_image == image


def test_two_numa_nodes_as_hwloc_draws_them() -> None:
    memory = hwloc.read_topology(document("hwloc-two-nodes.xml")).memory
    assert [(d.id, d.capacity_bytes, d.attached_cpus) for d in memory.domains] == [
        (0, 64_000_000_000, tuple(range(8))),
        (1, 64_000_000_000, tuple(range(8, 16))),
    ]
    assert memory.problem() == ""


def test_four_numa_nodes_as_hwloc_draws_them() -> None:
    memory = hwloc.read_topology(document("hwloc-four-nodes.xml")).memory
    assert [d.attached_cpus for d in memory.domains] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert memory.total_capacity_bytes == 128_000_000_000


WITH_GPUS = b"""<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x0000000f">
 <object type="Package" cpuset="0x00000003"><object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1024"/>
  <object type="Bridge"><object type="PCIDev" pci_busid="0000:3b:00.0" pci_type="0302 [10de:2330]">
   <object type="OSDev" name="cuda0" subtype="CUDA" osdev_type="5"/></object></object></object>
 <object type="Package" cpuset="0x0000000c"><object type="NUMANode" os_index="1" cpuset="0x0000000c" local_memory="1024"/>
  <object type="Bridge"><object type="PCIDev" pci_busid="0000:86:00.0" pci_type="0302 [10de:2330]"/></object></object>
 <object type="NUMANode" os_index="2" cpuset="0x0" subtype="CXL-DRAM" local_memory="4096"/></object>
 <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os"><indexes length="4">0 1 </indexes>
  <u64values length="12">10 20 20 10 </u64values></distances2></topology>"""


def test_hwloc_knows_where_gpus_hang_and_what_kinds_of_memory_there_are() -> None:
    seen = hwloc.read_topology(WITH_GPUS)
    assert seen.pci_nodes == {"0000:3b:00.0": 0, "0000:86:00.0": 1}
    assert [d.domain_type for d in seen.memory.domains] == [
        MemoryDomainType.DRAM,
        MemoryDomainType.DRAM,
        MemoryDomainType.CXL_ATTACHED,
    ]
    assert [(link.domain_a, link.domain_b, link.latency_ns) for link in seen.memory.interconnects] == [(0, 1, 160)]


def test_kinds_and_distances_that_hwloc_does_not_know_come_from_the_kernel(tmp_path: Path) -> None:
    known = read_memory(grow("two-sockets", tmp_path))
    told = MemoryTopology(
        domains=tuple(MemoryDomain(id=d.id, numa_node=d.id, attached_cpus=d.attached_cpus) for d in known.domains)
    )
    merged = hwloc.merged(known, hwloc.SeenTopology(memory=told))
    assert merged.domains[4].domain_type is MemoryDomainType.CXL_ATTACHED
    assert merged.interconnects == known.interconnects
    assert hwloc.merged(known, hwloc.SeenTopology()) is known


@pytest.mark.parametrize("said", [b"", b"<topology", b"<html/>", b"\0\1"])
def test_what_is_not_of_hwloc_is_refused(said: bytes) -> None:
    with pytest.raises(hwloc.UnreadableTopology):
        hwloc.read_topology(said)


def test_wide_cpu_sets() -> None:
    assert hwloc.cpu_set("0x00000001,0x80000000") == (31, 32)
    assert hwloc.cpu_set("nonsense") == ()
    assert cpu_list("0-2,8") == (0, 1, 2, 8)
    assert cpu_list("0-999999999") == cpu_list("x-") == cpu_list("") == ()


def test_gpus_of_amd_from_the_files_of_their_driver(tmp_path: Path) -> None:
    found = discover(grow("mi250", tmp_path))
    assert [(gpu.model, gpu.memory_bytes, gpu.firmware, gpu.numa_node) for gpu in found.gpus] == [
        ("MI250X", 68_702_699_520, "113-D65201-046", 0),
        ("MI250X", 68_702_699_520, "113-D65201-046", 1),
    ]
    assert [(link.link_type, link.bandwidth_gbps) for link in found.gpu_links] == [(GpuLinkType.XGMI, 200.0)]
    assert found.drivers == {"amd": "6.3.6"}
    assert [domain.attached_gpus for domain in found.memory.domains] == [(0,), (1,)]


def test_gpus_without_known_links_are_joined_by_pcie_and_slower_between_sockets(tmp_path: Path) -> None:
    tree = grow("mi250", tmp_path)
    gpus = discover(tree).gpus
    assert [(link.link_type, link.bandwidth_gbps) for link in pcie_links(tree, gpus)] == [(GpuLinkType.PCIE, 16.0)]


ROCM = b"""{"card0": {"Card Series": "AMD Instinct MI300X", "Unique ID": "0xabc0", "VRAM Total Memory (B)": "206141652992",
 "VBIOS version": "113-M3000100-102", "PCI Bus": "0000:05:00.0", "(Topology) Numa Node": "0", "GFX Version": "gfx942"},
 "card1": {"Card Series": "AMD Instinct MI300X", "Unique ID": "N/A", "VRAM Total Memory (B)": "206141652992",
 "VBIOS version": "113-M3000100-102", "PCI Bus": "0000:26:00.0", "(Topology) Numa Node": "-1"},
 "system": {"Driver version": "6.7.0", "(Topology) Link type between DRM devices 0 and 1": "XGMI"}}"""


def test_gpus_of_amd_as_their_tool_tells_them() -> None:
    found = amd.read_answer(ROCM)
    assert [(gpu.model, gpu.uuid, gpu.numa_node, gpu.pci_address) for gpu in found.gpus] == [
        ("MI300X", "GPU-abc0", 0, "0000:05:00.0"),
        ("MI300X", "", None, "0000:26:00.0"),
    ]
    assert [link.link_type for link in found.links] == [GpuLinkType.XGMI]
    assert found.drivers == {"amd": "6.7.0"}
    for garbage in (b"", b"WARNING: no GPUs", b'{"card0": 3}'):
        with pytest.raises(ToolFailed):
            amd.read_answer(garbage)


STATIC = b"""[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300A", "target_graphics_version": "gfx942"},
 "bus": {"bdf": "0000:01:00.0"}, "vbios": {"part_number": "113-MI3SRIOV-001"}, "driver": {"name": "amdgpu", "version": "6.12.12"},
 "vram": {"type": "HBM", "size": {"value": 131072, "unit": "MB"}}, "numa": {"node": 2}},
 {"gpu": 1, "asic": {"market_name": "N/A"}, "bus": {"bdf": "0001:01:00.0"}, "driver": "N/A", "vram": {"size": "N/A"}}]"""


def test_gpus_of_amd_as_their_newer_tool_tells_them() -> None:
    found = amd.read_static(STATIC)
    first, second = found.gpus
    assert (first.model, first.memory_bytes, first.firmware, first.numa_node) == (
        "MI300A",
        128 * GB,
        "113-MI3SRIOV-001",
        2,
    )
    assert (second.model, second.memory_bytes, second.pci_address) == ("", 0, "0001:01:00.0")
    assert found.drivers == {"amd": "6.12.12"}
    assert amd.read_static(b'{"gpu_data": ' + STATIC + b"}") == found
    for garbage in (b"", b"3", b'{"x": 1}', b'["GPU 0"]', b'[{"gpu": "x"}]', b'[{"vram": "?"}]'):
        with pytest.raises(ToolFailed):
            amd.read_static(garbage)


SMI = b"""<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log>
<driver_version>550.54.14</driver_version><attached_gpus>2</attached_gpus>
<gpu id="00000000:3B:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name><uuid>GPU-1</uuid>
<vbios_version>96.00.61.00.01</vbios_version><mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices><mig_device><index>0</index><fb_memory_usage><total>40448 MiB</total></fb_memory_usage></mig_device></mig_devices>
<pci><pci_bus_id>00000000:3B:00.0</pci_bus_id></pci><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu>
<gpu id="00000000:86:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name><uuid>GPU-2</uuid><mig_devices>None</mig_devices>
<vbios_version>N/A</vbios_version><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>"""
LISTING = (
    "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-7)\nGPU 1: NVIDIA H100 (UUID: GPU-2)\n"
)
MATRIX = "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\tSYS\tPIX\t0-31\nGPU1\tNV18\t X \tNODE\tSYS\t0-31\nGPU2\tSYS\tNODE\t X \tSYS\nNIC0\tPIX\tSYS\tSYS\t X\n\nLegend:\n"
SPEEDS = "GPU 0: NVIDIA H100\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"


def test_gpus_of_nvidia_as_their_program_tells_them() -> None:
    found = nvidia.with_partitions(nvidia.read_log(SMI), LISTING)
    assert found.drivers == {"nvidia": "550.54.14"}
    assert [(gpu.model, gpu.uuid, gpu.firmware, gpu.pci_address) for gpu in found.gpus] == [
        ("H100", "GPU-1", "96.00.61.00.01", "0000:3b:00.0"),
        ("H100", "GPU-2", "", "0000:86:00.0"),
    ]
    assert [(part.profile, part.uuid, part.memory_bytes >> 20) for part in found.gpus[0].partitions] == [
        ("3g.40gb", "MIG-7", 40448)
    ]
    assert [(link.gpu_a, link.gpu_b, link.bandwidth_gbps) for link in nvidia.read_matrix(MATRIX, SPEEDS)] == [
        (0, 1, 478.1)
    ]
    with pytest.raises(ToolFailed):
        nvidia.read_log(b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver")


@pytest.mark.parametrize(
    ("name", "short"),
    [("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA GH200 480GB", "GH200"), ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB")],
)
def test_gpus_have_short_names(name: str, short: str) -> None:
    assert nvidia.short_model(name) == short


def grace(index: int, node: int, memory_node: int | None) -> Gpu:
    return Gpu(
        index=index,
        vendor=GpuVendor.NVIDIA,
        model="GH200",
        memory_bytes=96 * GB,
        numa_node=node,
        memory_node=memory_node,
    )


def domain(number: int, size_gb: int, *cpus: int) -> MemoryDomain:
    kind = MemoryDomainType.DRAM if cpus else MemoryDomainType.HBM
    return MemoryDomain(id=number, domain_type=kind, capacity_bytes=size_gb * GB, numa_node=number, attached_cpus=cpus)


def test_a_gh200_is_one_unified_domain_with_its_gpu_behind_a_coherent_link() -> None:
    far = MemoryInterconnect(domain_a=0, domain_b=4, bandwidth_gbps=12.5)
    memory = unify(
        MemoryTopology(domains=(domain(0, 480, 0, 1), domain(4, 96)), interconnects=(far,)), [grace(0, 0, 4)]
    )
    whole, part = memory.domains
    assert (whole.domain_type, whole.capacity_bytes, whole.attached_gpus) == (MemoryDomainType.UNIFIED, 576 * GB, (0,))
    assert (part.part_of, part.attached_gpus) == (0, (0,))
    assert memory.total_capacity_bytes == 576 * GB
    assert [(link.link_type, link.bandwidth_gbps) for link in memory.interconnects] == [
        (MemoryLinkType.COHERENT_FABRIC, 900.0)
    ]
    assert memory.is_unified
    assert memory.problem() == ""


def test_four_of_them_are_four_domains() -> None:
    cpus = [domain(number, 120, number) for number in range(4)]
    memory = unify(MemoryTopology(domains=tuple(cpus)), [grace(number, number, None) for number in range(4)])
    unified = [d for d in memory.domains if d.domain_type is MemoryDomainType.UNIFIED]
    assert [(d.attached_cpus, d.attached_gpus) for d in unified] == [((n,), (n,)) for n in range(4)]
    assert memory.total_capacity_bytes == 4 * 216 * GB


def test_an_mi300a_has_one_memory_for_both() -> None:
    gpu = Gpu(index=0, vendor=GpuVendor.AMD, model="MI300A", memory_bytes=128 * GB, numa_node=0)
    memory = unify(MemoryTopology(domains=(domain(0, 128, 0, 1),)), [gpu])
    assert [(d.domain_type, d.capacity_bytes, d.attached_gpus) for d in memory.domains] == [
        (MemoryDomainType.UNIFIED, 128 * GB, (0,))
    ]


def test_gpus_of_two_vendors_have_one_numbering() -> None:
    found = nvidia.read_log(SMI).joined(amd.read_answer(ROCM))
    assert [(gpu.index, gpu.vendor.value) for gpu in found.gpus] == [
        (0, "nvidia"),
        (1, "nvidia"),
        (2, "amd"),
        (3, "amd"),
    ]
    assert [(link.gpu_a, link.gpu_b) for link in found.links] == [(2, 3)]
    assert sorted(found.drivers) == ["amd", "nvidia"]
    assert FoundGpus().joined(found) == found


def test_discovered_links_decide_which_gpus_go_together(tmp_path: Path) -> None:
    topology = gpu_topology(discover(grow("mi250", tmp_path)))
    assert choose_gpus(topology, frozenset(topology.indices), 2) == (0, 1)
    assert intra_node_fitness(topology, (0, 1)) == 1.0
