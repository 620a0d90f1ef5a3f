"""What the kernel counts of processes: all there is where a run has no control group, and what groups do not count elsewhere.

Counters of processes that have ended are in those of the parent that waited for them. A process that no other one of the run waited for
takes its counters along; the sum goes back then, and that moment says nothing.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

from lattice.agent.shim.hierarchies import read_bytes
from lattice.core.model.telemetry.rates import Name

MAX_PROCESSES = 512  # beyond these, reading them would cost more than it says
MAX_THREADS = 128
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KB = 1024


class ProcessSums(Struct, kw_only=True):
    """None = not measured."""

    cpu_s: float | None = None
    faults: int | None = None
    switches: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    memory: int | None = None
    threads: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None

    def counters(self, *, has_storage: bool = False) -> dict[Name, float]:
        pairs = {
            "cpus_used": self.cpu_s,
            "page_faults": self.faults,
            "context_switches": self.switches,
            "network_tx_bytes": self.sent_bytes,
            "network_rx_bytes": self.received_bytes,
        }
        if not has_storage:
            pairs |= {"io_read_bytes": self.read_bytes, "io_write_bytes": self.written_bytes}
        return {(name, ""): float(value) for name, value in pairs.items() if value is not None}

    def gauges(self) -> dict[Name, float]:
        pairs = {"memory_used": self.memory, "processes": self.threads}
        return {(name, ""): float(value) for name, value in pairs.items() if value is not None}


def read_processes(pids: Sequence[int]) -> ProcessSums:
    """Sums over those that still live; nothing at all of very many."""
    sums = ProcessSums()
    if not pids or len(pids) > MAX_PROCESSES:
        return sums
    _add_network(sums, pids[0])
    sums.switches = 0
    for pid in pids:
        _add_stat(sums, pid)
        _add_storage(sums, pid)
        _add_memory(sums, pid)
    if sums.threads is None or sums.threads > MAX_THREADS:
        sums.switches = None
    else:
        sums.switches = sum(_switches(pid) for pid in pids)
    return sums


def _add_stat(sums: ProcessSums, pid: int) -> None:
    try:
        fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return
    # From field 3 on: 10 and 11 are its own faults and those of children it waited for, as are 14 to 17 of its CPU time.
    sums.faults = (sums.faults or 0) + sum(map(int, fields[7:11]))
    sums.cpu_s = (sums.cpu_s or 0.0) + sum(map(int, fields[11:15])) / _TICKS_PER_S
    sums.threads = (sums.threads or 0) + int(fields[17])


def _add_storage(sums: ProcessSums, pid: int) -> None:
    try:
        words = read_bytes(f"/proc/{pid}/io").split()
    except OSError:
        return
    found = dict(zip(words[::2], words[1::2], strict=False))
    sums.read_bytes = (sums.read_bytes or 0) + int(found.get(b"read_bytes:", 0))
    sums.written_bytes = (sums.written_bytes or 0) + int(found.get(b"write_bytes:", 0))


def _add_memory(sums: ProcessSums, pid: int) -> None:
    """Anonymous and shared memory; what processes share counts for each."""
    try:
        text = read_bytes(f"/proc/{pid}/status")
    except OSError:
        return
    for line in text.splitlines():
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            sums.memory = (sums.memory or 0) + int(line.split()[1]) * _KB


def _switches(pid: int) -> int:
    count = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    for thread in threads:
        try:
            text = read_bytes(f"/proc/{pid}/task/{thread}/status")
        except OSError:
            continue
        place = text.rfind(b"voluntary_ctxt_switches:", 0, text.rfind(b"nonvoluntary_ctxt_switches:"))
        words = text[place:].split()
        if len(words) >= 4 and words[1].isdigit() and words[3].isdigit():
            count += int(words[1]) + int(words[3])
    return count


def _add_network(sums: ProcessSums, pid: int) -> None:
    """Of a run that has a network of its own; in the node's network the kernel does not say whose bytes they are."""
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            return
        lines = read_bytes(f"/proc/{pid}/net/dev").splitlines()[2:]
    except OSError:
        return
    sums.sent_bytes = sums.received_bytes = 0
    for line in lines:
        name, _, figures = line.partition(b":")
        words = figures.split()
        if name.strip() != b"lo" and len(words) >= 9:
            sums.received_bytes += int(words[0])
            sums.sent_bytes += int(words[8])
