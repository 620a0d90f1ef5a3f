"""What the kernel counted becomes figures; where it counts nothing, the reason is known."""

import errno
import os
import struct
from pathlib import Path

import pytest

from lattice.agent.shim_client import GroupPlace
from lattice.agent.telemetry.bpf import library
from lattice.agent.telemetry.bpf.histograms import BUCKETS, middle_us, percentile_us, since
from lattice.agent.telemetry.bpf.library import BpfUnavailable, Programs
from lattice.agent.telemetry.bpf.source import BpfSource, Overhead, io_is_unified, peer_text
from lattice.core.model.telemetry.rates import Reading
from lattice.ports.nodes.agents import RunKey

KEY = RunKey(7, 1)


def bucket_of(us: int) -> int:
    """As the program in the kernel finds it."""
    if us < 4:
        return us
    power = us.bit_length() - 1
    return min(BUCKETS - 1, power * 4 + ((us >> (power - 2)) & 3) - 4)


@pytest.mark.parametrize("us", [0, 1, 3, 4, 5, 7, 8, 100, 999, 1000, 65_535, 10_000_000])
def test_a_bucket_stands_for_its_durations(us: int) -> None:
    assert middle_us(bucket_of(us)) == pytest.approx(us, rel=0.13, abs=0.5)


def test_percentiles_of_buckets() -> None:
    counts = [0] * BUCKETS
    assert percentile_us(counts, 0.99) is None
    counts[bucket_of(100)], counts[bucket_of(10_000)] = 98, 2
    assert percentile_us(counts, 0.5) == pytest.approx(100, rel=0.13)
    assert percentile_us(counts, 0.99) == pytest.approx(10_000, rel=0.13)
    assert since(None, counts) == [0] * BUCKETS
    assert since(counts, [0] * BUCKETS) == [0] * BUCKETS, "what went back says nothing"


class FakeMap(dict[bytes, bytes]):
    def set(self, key: bytes, value: bytes) -> bool:
        self[key] = value
        return True

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


class FakePrograms:
    """Two CPUs, and maps that a test fills."""

    def __init__(self, missing: tuple[str, ...] = ()) -> None:
        self.cpus = 2
        self.missing = list(missing)
        self.maps: dict[str, FakeMap] = {}
        self.spent_ns = 0
        self.is_closed = False

    def map(self, name: str, key: int, value: int, entries: int) -> FakeMap:
        return self.maps.setdefault(name, FakeMap())

    def clock(self) -> int:
        return -1

    def run_time_ns(self) -> int:
        return self.spent_ns

    def close(self) -> None:
        self.is_closed = True


def waits(count: int, ns: int, sent: int, received: int, *us: int) -> bytes:
    buckets = [0] * BUCKETS
    for each in us:
        buckets[bucket_of(each)] += 1
    return struct.pack(f"={4 + BUCKETS}Q", count, ns, sent, received, *buckets)


def opened(programs: FakePrograms, tmp_path: Path) -> BpfSource:
    source = BpfSource(load=lambda path: programs)  # type: ignore[arg-type, return-value]
    source.open()
    source.follow({KEY: [GroupPlace(number=7, run=1, path=str(tmp_path))]})
    return source


def read(source: BpfSource, *, with_peers: bool = False) -> Reading:
    reading = Reading(at_s=0.0, counters={}, gauges={})
    source.add(KEY, reading, with_peers=with_peers)
    return reading


def test_counts_of_all_cpus_are_put_together(tmp_path: Path) -> None:
    programs = FakePrograms()
    source = opened(programs, tmp_path)
    (owner,) = programs.maps["watched"].values()
    read(source)
    programs.maps["runs"][owner] = waits(2, 30_000, 100, 7, 10, 20) + waits(1, 60_000, 1, 0, 60)
    found = read(source)
    assert found.counters["network_tx_bytes", ""] == 101
    assert found.counters["network_rx_bytes", ""] == 7
    assert found.gauges["run_queue_latency", ""] == 30.0
    assert found.gauges["run_queue_latency_p99", ""] == pytest.approx(60, rel=0.13)
    assert read(source).gauges == {}, "nothing waited since"


def test_without_the_tracepoints_of_sockets_bytes_are_left_to_others(tmp_path: Path) -> None:
    programs = FakePrograms(missing=("sock_send_length", "sock_recv_length"))
    source = opened(programs, tmp_path)
    (owner,) = programs.maps["watched"].values()
    programs.maps["runs"][owner] = waits(0, 0, 5, 5) * 2
    assert read(source, with_peers=True).counters == {}
    assert source.problem == "this kernel lacks sock_send_length, sock_recv_length"
    source.close()
    assert programs.is_closed
    assert not source.is_answering


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bytes(10) + b"\xff\xff\x0a\x00\x00\x02", "10.0.0.2"),
        (bytes.fromhex("20010db8000000000000000000000001"), "2001:db8::1"),
    ],
)
def test_peers_are_written_as_people_write_them(text: bytes, expected: str) -> None:
    assert peer_text(text) == expected


def test_the_hierarchy_of_block_requests_is_known(tmp_path: Path) -> None:
    file = tmp_path / "cgroups"
    file.write_text("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t9\t1\nblkio\t5\t9\t1\n")
    assert not io_is_unified(str(file))
    file.write_text("#subsys_name\thierarchy\tnum_cgroups\tenabled\nblkio\t0\t9\t1\n")
    assert io_is_unified(str(file))
    assert io_is_unified(str(tmp_path / "none"))


def test_a_node_without_programs_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(path: Path) -> Programs:
        raise BpfUnavailable("the kernel has no BTF")

    source = BpfSource(load=refuse)
    source.open()
    source.follow({KEY: [GroupPlace(number=7, run=1, path=str(tmp_path))]})
    assert (source.is_answering, source.problem) == (False, "the kernel has no BTF")
    assert read(source).counters == {}
    monkeypatch.setattr(library, "LIBRARIES", ("libnothing.so.1",))
    source = BpfSource()
    source.open()
    assert "libbpf is not installed" in source.problem or "no BTF" in source.problem
    broken = tmp_path / "broken.o"
    broken.write_bytes(b"not an object")
    monkeypatch.undo()
    source = BpfSource(broken)
    source.open()
    assert not source.is_answering
    assert source.problem


def test_what_the_programs_cost_is_measured_for_a_moment_in_each_minute() -> None:
    now = [0.0]
    clocks: list[int] = []

    class Clocked(FakePrograms):
        def clock(self) -> int:
            clocks.append(os.open("/dev/null", os.O_RDONLY))
            return clocks[-1]

    programs = Clocked()
    overhead = Overhead(lambda: now[0])

    def step(at_s: float, spent_ns: int) -> float | None:
        now[0], programs.spent_ns = at_s, spent_ns
        overhead.step(programs)  # type: ignore[arg-type]
        return overhead.percent

    assert step(0.0, 0) is None
    assert step(1.0, 10_000_000) == 1.0
    step(30.0, 0)
    assert len(clocks) == 1
    step(61.0, 0)
    assert len(clocks) == 2
    overhead.end()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(clocks[1])


def test_requests_that_end_after_their_run_do_not_fill_the_map_of_disks(tmp_path: Path) -> None:
    programs = FakePrograms()
    source = opened(programs, tmp_path)
    (owner,) = programs.maps["watched"].values()
    sums = struct.pack(f"={5 + BUCKETS}Q", 1, 0, 512, 0, 1000, *[0] * BUCKETS)
    own, gone = owner + struct.pack("=II", 8, 0), struct.pack("=QII", 1 << 60, 8, 0)
    programs.maps["blocks"] |= {own: sums, gone: sums}
    source.follow({KEY: [GroupPlace(number=7, run=1, path=str(tmp_path))]})
    assert list(programs.maps["blocks"]) == [own]


def test_errors_of_old_and_new_libbpf_are_told_from_pointers() -> None:
    assert library.opened(0x7F00_0000_1000) == (0x7F00_0000_1000, 0)
    assert library.opened((1 << 64) - errno.EPERM) == (None, errno.EPERM)
    assert library.opened(None)[0] is None
    assert library.opened(None)[1] > 0
