"""What a run may take of its node, and the files of each generation of control groups that hold it to that.

Each controller is one row of a table: which files to write, in which order, for a group of v1 and for one of v2. A limit that
is not asked for is not written, so that a run without limits costs no group in a v1 hierarchy.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import errno
import os

from lattice.agent.shim.confinement.devices import Rule, write_v1
from lattice.agent.shim.confinement.storage import block_devices
from lattice.agent.shim.hierarchies import read_bytes, write_text

CPU_PERIOD_US = 100_000
MIN_QUOTA_US = 1_000  # the kernel refuses less
MAX_PIDS = 4 << 20
MAX_MEMORY_MB = 1 << 30
MAX_CPUS = 1 << 16
# Files that a kernel has which can slow reading and writing down: v1 one for each, v2 one for both.
IO_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
IO_V2 = "io.max"


class Limits:
    """0 or empty means: not limited. `cpus` is the share of CPU time, in CPUs; `cpuset` are the CPUs it may use at all;
    `io` is what it may read and write per second, in bytes, on each disk."""

    __slots__ = ("cpus", "cpuset", "devices", "io", "memory_mb", "pids")

    def __init__(
        self,
        memory_mb: int = 0,
        cpus: float = 0.0,
        pids: int = 0,
        cpuset: tuple[int, ...] = (),
        devices: tuple[Rule, ...] | None = None,
        io: tuple[int, int] = (0, 0),
    ) -> None:
        self.memory_mb = memory_mb
        self.cpus = cpus
        self.pids = pids
        self.cpuset = cpuset
        self.devices = devices  # None: all of them
        self.io = io

    def controllers(self) -> tuple[str, ...]:
        """Which controllers have to hold this run."""
        asked = {
            "memory": self.memory_mb,
            "cpu": self.cpus,
            "pids": self.pids,
            "cpuset": self.cpuset,
            "devices": self.devices is not None,
            "io": any(self.io),
        }
        return tuple(name for name, value in asked.items() if value)

    def write_v1(self, controller: str, folder: str) -> None:
        """OSError when the kernel refuses."""
        _V1[controller](self, folder)

    def write_v2(self, controller: str, folder: str) -> None:
        """OSError when the kernel refuses."""
        _V2[controller](self, folder)

    @property
    def memory_bytes(self) -> int:
        return self.memory_mb << 20

    @property
    def quota_us(self) -> int:
        return max(MIN_QUOTA_US, round(self.cpus * CPU_PERIOD_US))

    @property
    def cpu_list(self) -> str:
        return ",".join(map(str, self.cpuset))


def _memory_v1(limits: Limits, folder: str) -> None:
    # The limit of memory plus swap may never be below that of memory alone.
    write_text(f"{folder}/memory.limit_in_bytes", str(limits.memory_bytes))
    _write_if_there(f"{folder}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))


def _memory_v2(limits: Limits, folder: str) -> None:
    write_text(f"{folder}/memory.max", str(limits.memory_bytes))
    _write_if_there(f"{folder}/memory.swap.max", "0")


def _write_if_there(path: str, text: str) -> None:
    """For files that a kernel without accounting of swap does not have."""
    try:
        write_text(path, text)
    except FileNotFoundError:
        return


def _cpu_v1(limits: Limits, folder: str) -> None:
    write_text(f"{folder}/cpu.cfs_period_us", str(CPU_PERIOD_US))
    write_text(f"{folder}/cpu.cfs_quota_us", str(limits.quota_us))


def _cpu_v2(limits: Limits, folder: str) -> None:
    write_text(f"{folder}/cpu.max", f"{limits.quota_us} {CPU_PERIOD_US}")


def _pids(limits: Limits, folder: str) -> None:
    write_text(f"{folder}/pids.max", str(limits.pids))


def _cpuset_v1(limits: Limits, folder: str) -> None:
    # A group without memory nodes takes no process; the parents' are those of the machine.
    write_text(f"{folder}/cpuset.mems", read_bytes(f"{os.path.dirname(folder)}/cpuset.mems").decode())
    write_text(f"{folder}/cpuset.cpus", limits.cpu_list)


def _cpuset_v2(limits: Limits, folder: str) -> None:
    write_text(f"{folder}/cpuset.cpus", limits.cpu_list)


def _devices_v1(limits: Limits, folder: str) -> None:
    write_v1(folder, limits.devices or ())


def _io_v1(limits: Limits, folder: str) -> None:
    for name, most in zip(IO_V1, limits.io, strict=True):
        for device in block_devices() if most else ():
            _write_to_device(f"{folder}/{name}", f"{device} {most}")


def _io_v2(limits: Limits, folder: str) -> None:
    rates = " ".join(f"{name}={most}" for name, most in zip(("rbps", "wbps"), limits.io, strict=True) if most)
    for device in block_devices():
        _write_to_device(f"{folder}/{IO_V2}", f"{device} {rates}")


def _write_to_device(path: str, text: str) -> None:
    """For a disk that may have been taken away meanwhile, or counts nothing."""
    try:
        write_text(path, text)
    except OSError as error:
        if error.errno not in {errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL}:
            raise


_V1 = {
    "memory": _memory_v1,
    "cpu": _cpu_v1,
    "pids": _pids,
    "cpuset": _cpuset_v1,
    "devices": _devices_v1,
    "io": _io_v1,
}
_V2 = {"memory": _memory_v2, "cpu": _cpu_v2, "pids": _pids, "cpuset": _cpuset_v2, "io": _io_v2}


def fill_parent_v1(controller: str, folder: str) -> None:
    """Makes a folder above the runs' fit to hold them: in the v1 cpuset hierarchy a new group is empty and holds nothing."""
    if controller != "cpuset":
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not read_bytes(f"{folder}/{name}").strip():
            write_text(f"{folder}/{name}", read_bytes(f"{os.path.dirname(folder)}/{name}").decode())
