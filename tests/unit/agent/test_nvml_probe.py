"""What is made of the answers of NVIDIA's management library."""

import sys
from types import SimpleNamespace as Answer

import msgspec
import pytest

from lattice.agent.discovery import nvml_probe
from lattice.agent.discovery.found import FoundGpus
from lattice.core.model.nodes.gpus import GpuLinkType


class NVMLError(Exception):
    pass


class Machine:
    """Four GPUs: two pairs joined directly, or all of them over switches. Questions that it does not know fail as the library's do."""

    NVMLError = NVMLError
    NVML_FI_DEV_NVLINK_GET_SPEED = 164

    def __init__(self, *, has_switches: bool = False, links: int = 4, is_split: bool = False) -> None:
        self._has_switches = has_switches
        self._links = links
        self._is_split = is_split

    def nvmlDeviceGetCount(self) -> int:
        return 4

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"550.54.14"

    def nvmlDeviceGetName(self, handle: object) -> str:
        return "NVIDIA H100 80GB HBM3 MIG 3g.40gb" if isinstance(handle, tuple) else "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, handle: object) -> str:
        return f"MIG-{handle[1]}" if isinstance(handle, tuple) else f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> Answer:
        return Answer(total=40 if isinstance(handle, tuple) else 80)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Answer:
        return Answer(busId=f"00000000:{handle + 1:02X}:00.0".encode())

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [int(self._is_split and handle == 0), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, index: int) -> tuple[str, int]:
        if index > 1:
            raise NVMLError("Not Found")
        return ("mig", index)

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= self._links:
            raise NVMLError("Invalid Argument")
        return 1

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Answer:
        other = 0x50 if self._has_switches else (handle ^ 1) + 1
        return Answer(busId=f"00000000:{other:02X}:00.0")

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        return 2 if self._has_switches else 0

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[tuple[int, int]]) -> list[Answer]:
        return [Answer(nvmlReturn=0, value=Answer(uiVal=26562))]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return 16

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return 50 if {one, other} == {0, 3} else 40


def pairs(found: FoundGpus) -> dict[tuple[int, int], tuple[str, float]]:
    return {(link.gpu_a, link.gpu_b): (link.link_type.value, link.bandwidth_gbps) for link in found.links}


def test_pairs_are_joined_directly_and_the_rest_by_pcie() -> None:
    found = nvml_probe.probe(Machine())
    assert found.drivers == {"nvidia": "550.54.14"}
    assert [(gpu.model, gpu.uuid, gpu.pci_address) for gpu in found.gpus[:2]] == [
        ("H100", "GPU-0", "0000:01:00.0"),
        ("H100", "GPU-1", "0000:02:00.0"),
    ]
    assert pairs(found) == {
        (0, 1): ("nvlink", 106.2),
        (2, 3): ("nvlink", 106.2),
        (0, 2): ("pcie", 63.0),
        (1, 2): ("pcie", 63.0),
        (1, 3): ("pcie", 63.0),
        (0, 3): ("pcie", 31.5),
    }


def test_switches_join_all_with_all() -> None:
    found = nvml_probe.probe(Machine(has_switches=True, links=18))
    assert set(pairs(found).values()) == {(GpuLinkType.NVSWITCH.value, 478.1)}
    assert len(found.links) == 6


def test_instances_of_a_split_gpu() -> None:
    split, whole, *_ = nvml_probe.probe(Machine(is_split=True)).gpus
    assert [(part.profile, part.uuid, part.memory_bytes) for part in split.partitions] == [
        ("3g.40gb", "MIG-0", 40),
        ("3g.40gb", "MIG-1", 40),
    ]
    assert whole.partitions == ()


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    said: list[str] = []
    assert nvml_probe.main(said.append) == 0
    assert msgspec.json.decode(said[0], type=FoundGpus).problems == ("nvidia-ml-py is not installed",)
