"""Asks NVIDIA's management library and prints what it says as JSON. A program of its own: `python -m` this module.

What a driver or a GPU does not support is left out.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import msgspec

from lattice.agent.discovery.found import FoundGpus
from lattice.agent.discovery.nvidia import NVLINK_GBPS, plain_address, short_model
from lattice.core.model.nodes.gpus import GpuLink, GpuLinkType, GpuVendor
from lattice.core.model.nodes.inventory import Gpu, GpuPartition

MAX_LINKS = 36
_LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.97, 5: 3.94, 6: 7.56}
_FAR = 50  # the way between two GPUs goes over the link between sockets
_SWITCH = 2
_NO_NODE = 0xFFFFFFFF


class Library:
    """The library, with every question answered by a default where it cannot be."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - it has no types
        self._library = library

    def ask(self, name: str, *about: object, default: object) -> Any:  # noqa: ANN401 - as above
        try:
            answer = getattr(self._library, name)(*about)
        except (self._library.NVMLError, AttributeError, TypeError):
            return default
        if isinstance(answer, bytes):
            return answer.decode(errors="replace")
        return answer

    def gpus(self) -> tuple[list[Any], list[Gpu]]:
        handles = [
            self._library.nvmlDeviceGetHandleByIndex(place) for place in range(self._library.nvmlDeviceGetCount())
        ]
        return handles, [self._gpu(place, handle) for place, handle in enumerate(handles)]

    def _gpu(self, place: int, handle: object) -> Gpu:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle, default=None)
        capability = self.ask("nvmlDeviceGetCudaComputeCapability", handle, default=())
        node = self.ask("nvmlDeviceGetNumaNodeId", handle, default=None)
        return Gpu(
            index=place,
            vendor=GpuVendor.NVIDIA,
            model=short_model(self.ask("nvmlDeviceGetName", handle, default="")),
            uuid=self.ask("nvmlDeviceGetUUID", handle, default=""),
            memory_bytes=int(getattr(memory, "total", 0)),
            compute_capability=".".join(map(str, capability)),
            firmware=self.ask("nvmlDeviceGetVbiosVersion", handle, default=""),
            pci_address=self.address("nvmlDeviceGetPciInfo", handle),
            memory_node=node if isinstance(node, int) and 0 <= node < _NO_NODE else None,
            partitions=self._partitions(handle),
        )

    def address(self, question: str, *about: object) -> str:
        info = self.ask(question, *about, default=None)
        bus = getattr(info, "busId", "")
        return plain_address(bus.decode() if isinstance(bus, bytes) else str(bus))

    def _partitions(self, handle: object) -> tuple[GpuPartition, ...]:
        if not next(iter(self.ask("nvmlDeviceGetMigMode", handle, default=(0,))), 0):
            return ()
        found = []
        for place in range(self.ask("nvmlDeviceGetMaxMigDeviceCount", handle, default=0)):
            part = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place, default=None)
            if part is None:
                continue
            memory = self.ask("nvmlDeviceGetMemoryInfo", part, default=None)
            name = self.ask("nvmlDeviceGetName", part, default="")
            found.append(
                GpuPartition(
                    profile=name.rpartition("MIG ")[2] if "MIG " in name else name,
                    uuid=self.ask("nvmlDeviceGetUUID", part, default=""),
                    memory_bytes=int(getattr(memory, "total", 0)),
                    gpu_instance=self.ask("nvmlDeviceGetGpuInstanceId", part, default=-1),
                    compute_instance=self.ask("nvmlDeviceGetComputeInstanceId", part, default=-1),
                )
            )
        return tuple(found)

    def links(self, handles: Sequence[object], gpus: Sequence[Gpu]) -> tuple[GpuLink, ...]:
        """NVLink by pairs, or over switches from each to each; PCIe for pairs without."""
        places = {gpu.pci_address: gpu.index for gpu in gpus}
        direct: dict[tuple[int, int], float] = {}
        switched: dict[int, float] = {}
        for gpu, handle in zip(gpus, handles, strict=True):
            for link in range(MAX_LINKS):
                if self.ask("nvmlDeviceGetNvLinkState", handle, link, default=0) != 1:
                    continue
                gbps = self._link_gbps(handle, link)
                other = places.get(self.address("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
                if other is not None and other > gpu.index:
                    direct[gpu.index, other] = direct.get((gpu.index, other), 0.0) + gbps
                elif other is None and self._is_switch(handle, link):
                    switched[gpu.index] = switched.get(gpu.index, 0.0) + gbps
        return tuple(
            self._link(a, b, direct.get((a.index, b.index), 0.0), switched, handles) for a, b in combinations(gpus, 2)
        )

    def _is_switch(self, handle: object, link: int) -> bool:
        return bool(self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, default=_SWITCH) == _SWITCH)

    def _link_gbps(self, handle: object, link: int) -> float:
        field = getattr(self._library, "NVML_FI_DEV_NVLINK_GET_SPEED", None)
        values = self.ask("nvmlDeviceGetFieldValues", handle, [(field, link)], default=()) if field else ()
        for value in values:
            if not value.nvmlReturn and value.value.uiVal:
                return float(value.value.uiVal) / 1000
        return NVLINK_GBPS

    def _link(self, a: Gpu, b: Gpu, direct: float, switched: dict[int, float], handles: Sequence[object]) -> GpuLink:
        kind, gbps = GpuLinkType.NVLINK, direct
        if not direct and a.index in switched and b.index in switched:
            kind, gbps = GpuLinkType.NVSWITCH, min(switched[a.index], switched[b.index])
        elif not direct:
            kind = GpuLinkType.PCIE
            gbps = min(self._pcie_gbps(handles[gpu.index]) for gpu in (a, b))
            way = self.ask("nvmlDeviceGetTopologyCommonAncestor", handles[a.index], handles[b.index], default=0)
            gbps = gbps / 2 if way >= _FAR else gbps
        return GpuLink(gpu_a=a.index, gpu_b=b.index, link_type=kind, bandwidth_gbps=round(gbps, 1))

    def _pcie_gbps(self, handle: object) -> float:
        generation = self.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle, default=0)
        width: int = self.ask("nvmlDeviceGetMaxPcieLinkWidth", handle, default=0)
        return _LANE_GBPS.get(generation, 0.0) * width


def probe(library: Any) -> FoundGpus:  # noqa: ANN401 - it has no types
    """All that the initialised library says."""
    asked = Library(library)
    handles, gpus = asked.gpus()
    driver = asked.ask("nvmlSystemGetDriverVersion", default="")
    return FoundGpus(
        gpus=tuple(gpus),
        links=asked.links(handles, gpus),
        drivers={"nvidia": driver} if driver else {},
        sources=("nvml",),
    )


def main(write: Callable[[str], object] = sys.stdout.write) -> int:
    """Report failures as a problem record: the caller reads nothing else."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        found = FoundGpus(problems=("nvidia-ml-py is not installed",))
    else:
        try:
            pynvml.nvmlInit()
            found = probe(pynvml)
        except pynvml.NVMLError as error:
            found = FoundGpus(problems=(str(error),))
    write(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
