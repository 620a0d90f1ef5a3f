"""What the kernel counts of the whole node: CPUs, memory, pressure, network interfaces, disks, file systems."""

import os
import time
from pathlib import Path

from lattice.agent.shim.hierarchies import read_bytes
from lattice.agent.telemetry.sources.fabric import add_congestion
from lattice.agent.telemetry.sources.groups import keyed, pressure_us
from lattice.agent.telemetry.sources.numa import add_of_node
from lattice.agent.telemetry.sources.power import add_power
from lattice.core.model.telemetry.rates import Reading

MAX_DEVICES = 32  # of a kind
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SECTOR = 512
_REAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "bcachefs"})
# A statfs of a network file system may hang for good, and so this does without.
_MOUNTS_EVERY = 30


class NodeSource:
    """One per agent; `read` is called from one thread at a time."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")
        self._mounts: dict[tuple[str, str], float] = {}
        self._turn = 0

    def read(self) -> Reading:
        reading = Reading(at_s=time.monotonic(), counters={}, gauges={})
        self._add_stat(reading)
        self._add_memory(reading)
        for name in ("cpu", "memory", "io"):
            waited_us = pressure_us(f"{self._root}/proc/pressure/{name}")
            if waited_us is not None:
                reading.counters[f"{name}_pressure", ""] = waited_us * 1e-4
        self._add_interfaces(reading)
        self._add_disks(reading)
        add_power(reading, self._root)
        add_congestion(reading, self._root)
        add_of_node(reading, self._root)
        if self._turn % _MOUNTS_EVERY == 0:
            self._mounts = self._measure_mounts()
        self._turn += 1
        reading.gauges.update(self._mounts)
        return reading

    def _text(self, path: str) -> bytes:
        try:
            return read_bytes(f"{self._root}/{path}")
        except OSError:
            return b""

    def _add_stat(self, reading: Reading) -> None:
        for line in self._text("proc/stat").splitlines():
            words = line.split()
            if words[:1] == [b"cpu"] and len(words) >= 9:
                busy = [int(word) for word in words[1:9]]
                # All but idle and the time in which it only waited for storage.
                reading.counters["cpus_used", ""] = (sum(busy) - busy[3] - busy[4]) / _TICKS_PER_S
            elif words[:1] == [b"ctxt"]:
                reading.counters["context_switches", ""] = float(int(words[1]))
        load = self._text("proc/loadavg").split()
        if len(load) >= 4:
            reading.gauges["load1", ""] = float(load[0])
            reading.gauges["processes", ""] = float(load[3].rpartition(b"/")[2])
        faults = keyed(f"{self._root}/proc/vmstat")
        if faults is not None and b"pgfault" in faults:
            reading.counters["page_faults", ""] = float(faults[b"pgfault"])

    def _add_memory(self, reading: Reading) -> None:
        found: dict[bytes, int] = {}
        for line in self._text("proc/meminfo").splitlines():
            name, _, rest = line.partition(b":")
            words = rest.split()
            if words and words[0].isdigit():
                found[name] = int(words[0]) * 1024
        total, available = found.get(b"MemTotal"), found.get(b"MemAvailable")
        if total is not None and available is not None:
            reading.gauges["memory_total", ""] = float(total)
            reading.gauges["memory_used", ""] = float(total - available)
        if b"Cached" in found:
            reading.gauges["memory_cache", ""] = float(found[b"Cached"])

    def _add_interfaces(self, reading: Reading) -> None:
        sums = {"network_tx_bytes": 0, "network_rx_bytes": 0, "_packets": 0, "_packet_errors": 0}
        lines = self._text("proc/net/dev").splitlines()[2:]
        for line in lines[:MAX_DEVICES]:
            name, _, figures = line.decode("utf-8", "replace").partition(":")
            words, nic = figures.split(), name.strip()
            if nic == "lo" or len(words) < 12 or not int(words[1]) + int(words[9]):
                continue
            received, sent = int(words[0]), int(words[8])
            errors = sum(int(words[at]) for at in (2, 3, 10, 11))
            reading.counters["nic_rx_bytes", nic] = float(received)
            reading.counters["nic_tx_bytes", nic] = float(sent)
            reading.counters["nic_errors", nic] = float(errors)
            sums["network_rx_bytes"] += received
            sums["network_tx_bytes"] += sent
            sums["_packets"] += int(words[1]) + int(words[9])
            sums["_packet_errors"] += errors
        if lines:
            reading.counters.update({(name, ""): float(value) for name, value in sums.items()})

    def _add_disks(self, reading: Reading) -> None:
        read = written = 0
        disks = [line.split() for line in self._text("proc/diskstats").splitlines()]
        whole = [words for words in disks if len(words) >= 14 and self._is_disk(words[2].decode("utf-8", "replace"))]
        for words in whole[:MAX_DEVICES]:
            disk = words[2].decode("utf-8", "replace")
            figures = [int(word) for word in words[3:14]]
            reads, sectors_read, ms_reading = figures[0], figures[2], figures[3]
            writes, sectors_written, ms_writing = figures[4], figures[6], figures[7]
            if not reads + writes:
                continue
            reading.counters["disk_read_bytes", disk] = float(sectors_read * _SECTOR)
            reading.counters["disk_write_bytes", disk] = float(sectors_written * _SECTOR)
            reading.counters["disk_busy", disk] = figures[9] / 10.0  # ms per second, in percent
            reading.counters["_disk_requests", disk] = float(reads + writes)
            reading.counters["_disk_waited_ms", disk] = float(ms_reading + ms_writing)
            read += sectors_read * _SECTOR
            written += sectors_written * _SECTOR
        if whole:
            reading.counters["io_read_bytes", ""] = float(read)
            reading.counters["io_write_bytes", ""] = float(written)

    def _is_disk(self, name: str) -> bool:
        """Whether it is a whole device: no partition, and none that stands for a file or for memory."""
        return not name.startswith(("loop", "ram", "zram", "dm-")) and os.path.isdir(
            f"{self._root}/sys/block/{name.replace('/', '!')}"
        )

    def _measure_mounts(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for line in self._text("proc/mounts").decode("utf-8", "replace").splitlines():
            words = line.split()
            if len(words) < 3 or words[2] not in _REAL or len(found) >= MAX_DEVICES:
                continue
            try:
                room = os.statvfs(words[1])
            except OSError:
                continue
            if room.f_blocks:
                found["mount_used", words[1]] = 100.0 * (1 - room.f_bavail / room.f_blocks)
        return found
