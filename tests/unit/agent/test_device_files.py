"""Where the drivers say that the device files of their GPUs are."""

from pathlib import Path

from lattice.agent.discovery.device_files import with_device_files
from lattice.agent.discovery.tree import Tree
from lattice.core.model.nodes.gpus import GpuVendor
from lattice.core.model.nodes.inventory import Gpu, GpuPartition, Inventory, gpu_topology


def written(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nvidia_gpu_has_the_file_of_its_minor_number(tmp_path: Path) -> None:
    written(tmp_path, "proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t X\nDevice Minor: \t 5\n")
    known = Gpu(index=0, vendor=GpuVendor.NVIDIA, pci_address="0000:3b:00.0")
    unknown = Gpu(index=1, vendor=GpuVendor.NVIDIA, pci_address="0000:5e:00.0")
    first, second = with_device_files(Tree(tmp_path), (known, unknown))
    assert (first.devices, second.devices) == (("/dev/nvidia5",), ())


def test_instance_of_a_partitioned_gpu_has_the_files_of_its_capabilities(tmp_path: Path) -> None:
    written(tmp_path, "proc/driver/nvidia/gpus/0000:3b:00.0/information", "Device Minor: 0\n")
    instance = "proc/driver/nvidia/capabilities/gpu0/mig/gi7"
    written(tmp_path, f"{instance}/access", "DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    written(tmp_path, f"{instance}/ci0/access", "DeviceFileMinor: 67\n")
    part = GpuPartition(uuid="MIG-1", gpu_instance=7, compute_instance=0)
    whole = Gpu(index=0, vendor=GpuVendor.NVIDIA, pci_address="0000:3b:00.0", partitions=(part,))
    topology = gpu_topology(Inventory(gpus=with_device_files(Tree(tmp_path), (whole,))))
    assert [device.devices for device in topology.gpus] == [
        ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    ]


def test_amd_gpu_has_its_renderer_and_its_card(tmp_path: Path) -> None:
    for name in ("card1", "renderD129", "controlD65"):
        written(tmp_path, f"sys/bus/pci/devices/0000:c1:00.0/drm/{name}/dev")
    (gpu,) = with_device_files(Tree(tmp_path), (Gpu(index=0, vendor=GpuVendor.AMD, pci_address="0000:c1:00.0"),))
    assert gpu.devices == ("/dev/dri/card1", "/dev/dri/renderD129")
