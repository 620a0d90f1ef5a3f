"""What the kernel programs of `bpf/lattice.bpf.c` count of runs, by control group.

Where they cannot be loaded `problem` says why, and figures come from files alone. `add` runs in the collector's thread.
"""

import contextlib
import ipaddress
import logging
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from lattice.agent.shim_client import GroupPlace
from lattice.agent.telemetry.bpf.histograms import BUCKETS, percentile_us, since
from lattice.agent.telemetry.bpf.library import BpfUnavailable, Programs
from lattice.core.model.telemetry.rates import Reading
from lattice.ports.nodes.agents import RunKey

OBJECT = Path(__file__).parent / "lattice.bpf.o"
MAX_GROUPS = 2048
MEASURE_EVERY_S, MEASURE_FOR_S = 60.0, 0.9
MAX_PEERS = 64  # of one run that are listed
_ID = struct.Struct("=Q")
_WAITS = struct.Struct(f"={4 + BUCKETS}Q")
_BLOCK_KEY = struct.Struct("=QII")
_BLOCK = struct.Struct(f"={5 + BUCKETS}Q")
_PEER_KEY = struct.Struct("=Q16s")
_PEER = struct.Struct("=QQ")
NETWORK = frozenset({"sock_send_length", "sock_recv_length"})

_log = logging.getLogger(__name__)


class _Block(Struct, kw_only=True):
    """The sums of one disk."""

    requests: int
    read_bytes: int
    written_bytes: int
    ns: int
    buckets: tuple[int, ...]


class _Watched(Struct, kw_only=True):
    """A run whose groups are counted, and what was counted when it was read last."""

    owner: int
    groups: list[int]
    io_groups: list[int]
    waits: tuple[int, int] | None = None
    buckets: Sequence[int] | None = None
    blocks: dict[str, _Block] = {}


class BpfSource:
    """One per agent; `open` first."""

    def __init__(self, path: Path = OBJECT, load: Callable[[Path], Programs] = Programs) -> None:
        self._path = path
        self._load = load
        self._programs: Programs | None = None
        self._runs: dict[RunKey, _Watched] = {}
        self._disks: dict[tuple[int, int], str] = {}
        self._blocks: dict[int, dict[str, _Block]] = {}
        self._peers: dict[int, dict[str, tuple[int, int]]] = {}
        self._overhead = Overhead()
        self.is_opened = False
        self.problem = ""

    @property
    def is_answering(self) -> bool:
        return self._programs is not None

    def open(self) -> None:
        """Loads and attaches; on failure there is a `problem` and nothing else."""
        self.is_opened = True
        try:
            programs = self._load(self._path)
            self._watched = programs.map("watched", _ID.size, _ID.size, 8192)
            self._watched_io = programs.map("watched_io", _ID.size, _ID.size, 8192)
            self._waits = programs.map("runs", _ID.size, _WAITS.size * programs.cpus, MAX_GROUPS)
            self._block_map = programs.map("blocks", _BLOCK_KEY.size, _BLOCK.size, 1024)
            self._peer_map = programs.map("peers", _PEER_KEY.size, _PEER.size, 8192)
        except BpfUnavailable as error:
            self.problem = str(error)
            return
        self._programs, self._cpus = programs, programs.cpus
        self._has_network = not NETWORK & set(programs.missing)
        self._io_is_unified = io_is_unified()
        self.problem = f"this kernel lacks {', '.join(programs.missing)}" if programs.missing else ""

    @property
    def overhead_percent(self) -> float | None:
        """CPU time of the programs, in percent of one CPU; None where it is not known."""
        return self._overhead.percent if self._programs is not None else None

    def close(self) -> None:
        self._overhead.end()
        if self._programs is not None:
            self._programs.close()
            self._programs = None
            self._runs.clear()

    def follow(self, places: Mapping[RunKey, Sequence[GroupPlace]]) -> None:
        """Counts these runs and no others from now on, and reads what is read for all at once."""
        if self._programs is None:
            return
        for key in self._runs.keys() - places.keys():
            self._forget(self._runs.pop(key))
        for key in places.keys() - self._runs.keys():
            if len(self._runs) < MAX_GROUPS:
                self._watch(key, places[key])
        if self._runs:
            self._read_blocks()
            self._overhead.step(self._programs)

    def _watch(self, key: RunKey, places: Sequence[GroupPlace]) -> None:
        groups, io_groups = [], []
        for place in places:
            with contextlib.suppress(OSError):
                if place.path:
                    groups.append(os.stat(place.path).st_ino)
                io = place.path if self._io_is_unified else place.twins.get("io", "")
                if io:
                    io_groups.append(os.stat(io).st_ino)
        if not groups:
            return
        owner = groups[0]
        self._waits.set(_ID.pack(owner), bytes(_WAITS.size * self._cpus))
        for group in groups:
            self._watched.set(_ID.pack(group), _ID.pack(owner))
        for group in io_groups:
            self._watched_io.set(_ID.pack(group), _ID.pack(owner))
        self._runs[key] = _Watched(owner=owner, groups=groups, io_groups=io_groups)

    def _forget(self, run: _Watched) -> None:
        for group in run.groups:
            self._watched.delete(_ID.pack(group))
        for group in run.io_groups:
            self._watched_io.delete(_ID.pack(group))
        self._waits.delete(_ID.pack(run.owner))
        for key, _ in self._block_map.items():
            if _BLOCK_KEY.unpack(key)[0] == run.owner:
                self._block_map.delete(key)
        for key, _ in self._peer_map.items():
            if _PEER_KEY.unpack(key)[0] == run.owner:
                self._peer_map.delete(key)

    def add(self, key: RunKey, reading: Reading, *, with_peers: bool) -> None:
        """Adds what was counted of a run since it was read last."""
        run = self._runs.get(key)
        if run is None or self._programs is None:
            return
        self._add_waits(run, reading)
        self._add_blocks(run, reading)
        if with_peers and self._has_network:
            self._add_peers(run, reading)

    def _add_waits(self, run: _Watched, reading: Reading) -> None:
        data = self._waits.get(_ID.pack(run.owner))
        if data is None:
            return
        figures = struct.unpack(f"={(4 + BUCKETS) * self._cpus}Q", data)
        # The same place of each CPU's part.
        sums = [sum(figures[at :: 4 + BUCKETS]) for at in range(4 + BUCKETS)]
        count, ns, sent, received = sums[:4]
        if self._has_network:
            reading.counters["network_tx_bytes", ""] = float(sent)
            reading.counters["network_rx_bytes", ""] = float(received)
        if run.waits is not None and count > run.waits[0]:
            reading.gauges["run_queue_latency", ""] = (ns - run.waits[1]) / (count - run.waits[0]) / 1000
            p99 = percentile_us(since(run.buckets, sums[4:]), 0.99)
            if p99 is not None:
                reading.gauges["run_queue_latency_p99", ""] = p99
        run.waits, run.buckets = (count, ns), sums[4:]

    def _add_blocks(self, run: _Watched, reading: Reading) -> None:
        added = [0] * BUCKETS
        now = self._blocks.get(run.owner, {})
        for disk, block in now.items():
            reading.counters["block_requests", disk] = float(block.requests)
            reading.counters["block_read_bytes", disk] = float(block.read_bytes)
            reading.counters["block_write_bytes", disk] = float(block.written_bytes)
            before = run.blocks.get(disk)
            # A disk that was not used before had counted nothing.
            requests, ns = (before.requests, before.ns) if before is not None else (0, 0)
            if block.requests > requests:
                reading.gauges["block_latency", disk] = (block.ns - ns) / (block.requests - requests) / 1000
            fresh = since(before.buckets if before is not None else [0] * BUCKETS, block.buckets)
            added = [earlier + later for earlier, later in zip(added, fresh, strict=True)]
        p99 = percentile_us(added, 0.99)
        if p99 is not None:
            reading.gauges["io_latency_p99", ""] = p99
        run.blocks = now

    def _read_blocks(self) -> None:
        self._blocks = {}
        owners = {run.owner for run in self._runs.values()}
        for key, value in list(self._block_map.items()):
            owner, major, minor = _BLOCK_KEY.unpack(key)
            if owner not in owners:
                # Its last requests were answered after it was forgotten; such entries would fill the map.
                self._block_map.delete(key)
                continue
            reads, writes, read_bytes, written_bytes, ns, *buckets = _BLOCK.unpack(value)
            self._blocks.setdefault(owner, {})[self._disk(major, minor)] = _Block(
                requests=reads + writes,
                read_bytes=read_bytes,
                written_bytes=written_bytes,
                ns=ns,
                buckets=tuple(buckets),
            )

    def _add_peers(self, run: _Watched, reading: Reading) -> None:
        found: dict[str, tuple[int, int]] = {}
        for key, value in self._peer_map.items():
            owner, address = _PEER_KEY.unpack(key)
            if owner == run.owner:
                found[peer_text(address)] = _PEER.unpack(value)
        heaviest = sorted(found, key=lambda peer: -sum(found[peer]))[:MAX_PEERS]
        for peer in heaviest:
            reading.counters["peer_tx_bytes", peer], reading.counters["peer_rx_bytes", peer] = map(float, found[peer])

    def _disk(self, major: int, minor: int) -> str:
        known = self._disks.get((major, minor))
        if known is None:
            try:
                known = os.path.basename(os.readlink(f"/sys/dev/block/{major}:{minor}"))
            except OSError:
                known = f"{major}:{minor}"
            self._disks[major, minor] = known
        return known


class Overhead:
    """What the programs cost, from about a second in each minute: measuring it costs something itself."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._clock = -1
        self._begun: tuple[float, int] = (0.0, 0)
        self._next_s = 0.0
        self.percent: float | None = None

    def step(self, programs: Programs) -> None:
        now_s = self._now_s()
        if self._clock < 0:
            if now_s >= self._next_s:
                self._next_s = now_s + MEASURE_EVERY_S
                self._clock = programs.clock()
                self._begun = (now_s, programs.run_time_ns())
            return
        elapsed_s = now_s - self._begun[0]
        if elapsed_s >= MEASURE_FOR_S:
            self.percent = (programs.run_time_ns() - self._begun[1]) / elapsed_s / 1e7
            self.end()

    def end(self) -> None:
        if self._clock >= 0:
            os.close(self._clock)
            self._clock = -1


def peer_text(address: bytes) -> str:
    """An address as people write it; those of IPv4 lie inside IPv6."""
    found = ipaddress.IPv6Address(address)
    return str(found.ipv4_mapped or found)


def io_is_unified(path: str = "/proc/cgroups") -> bool:
    """Whether block requests belong to groups of the v2 hierarchy."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return True
    return not any(words[0] == "blkio" and words[1] != "0" for words in map(str.split, lines) if len(words) > 1)
