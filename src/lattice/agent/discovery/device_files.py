"""The device files of each GPU: where its driver says that they are."""

from collections.abc import Iterable

from msgspec.structs import replace

from lattice.agent.discovery.tree import Tree
from lattice.core.model.nodes.gpus import GpuVendor
from lattice.core.model.nodes.inventory import Gpu, GpuPartition


def with_device_files(tree: Tree, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    return tuple(_amd(tree, gpu) if gpu.vendor is GpuVendor.AMD else _nvidia(tree, gpu) for gpu in gpus)


def _amd(tree: Tree, gpu: Gpu) -> Gpu:
    names = tree.names(f"sys/bus/pci/devices/{gpu.pci_address}/drm") if gpu.pci_address else []
    files = tuple(f"/dev/dri/{name}" for name in names if name.startswith(("renderD", "card")))
    return replace(gpu, devices=files)


def _nvidia(tree: Tree, gpu: Gpu) -> Gpu:
    minor = _value(tree.text(f"proc/driver/nvidia/gpus/{gpu.pci_address}/information"), "Device Minor")
    if not minor:
        return gpu
    own = f"/dev/nvidia{minor}"
    parts = tuple(replace(part, devices=(own, *_capabilities(tree, minor, part))) for part in gpu.partitions)
    return replace(gpu, devices=(own,), partitions=parts)


def _capabilities(tree: Tree, minor: str, part: GpuPartition) -> list[str]:
    """An instance of a partitioned GPU is opened by two files more: that of the GPU instance and that of the compute instance."""
    if part.gpu_instance < 0 or part.compute_instance < 0:
        return []
    instance = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{part.gpu_instance}"
    places = (f"{instance}/access", f"{instance}/ci{part.compute_instance}/access")
    numbers = [_value(tree.text(place), "DeviceFileMinor") for place in places]
    return [f"/dev/nvidia-caps/nvidia-cap{number}" for number in numbers if number]


def _value(text: str, key: str) -> str:
    """The number behind `key:` in a file of such lines."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key and value.strip().isdigit():
            return value.strip()
    return ""
