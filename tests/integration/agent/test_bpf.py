"""The kernel programs count what runs really do: tasks that wait, blocks that are written, bytes that are sent. Nothing is left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lattice.agent.shim_client import GroupPlace
from lattice.agent.telemetry.bpf.source import BpfSource
from lattice.core.model.telemetry.rates import Reading
from lattice.ports.nodes.agents import RunKey
from lattice.testing import eventually
from tests.conftest import require_program

KEY = RunKey(7, 1)
MB = 1 << 20
HOSTS = f"lattice-bpf-{os.getpid()}"
PEER = "10.213.77.2"


@pytest.fixture(scope="module")
def source() -> Iterator[BpfSource]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    source = BpfSource()
    source.open()
    if not source.is_answering:
        pytest.skip(source.problem)
    yield source
    source.close()


@pytest.fixture
def group() -> Iterator[Path]:
    root = Path("/sys/fs/cgroup/unified")
    root = root if root.is_dir() else Path("/sys/fs/cgroup")
    if not (root / "cgroup.procs").exists():
        pytest.skip("needs a cgroup v2 hierarchy")
    path = root / f"lattice-bpf-{os.getpid()}"
    path.mkdir()
    (path / "step").mkdir()  # a run's processes may be in groups below its own
    yield path
    (path / "cgroup.kill").write_text("1")

    def is_gone() -> bool:
        try:
            (path / "step").rmdir()
            path.rmdir()
        except OSError:
            return not path.exists()
        return True

    eventually(is_gone, "the group is empty")


def followed(source: BpfSource, group: Path) -> Callable[[], Reading]:
    places = {KEY: [GroupPlace(number=7, run=1, path=str(group))]}

    def read() -> Reading:
        source.follow(places)
        reading = Reading(at_s=time.monotonic(), counters={}, gauges={})
        source.add(KEY, reading, with_peers=True)
        return reading

    source.follow({})  # the group of the test before is gone
    read()
    return read


def run_in(group: Path, program: str, *words: str) -> "subprocess.Popen[bytes]":
    join = f"open({str(group / 'step' / 'cgroup.procs')!r}, 'w').write('0')\n"
    return subprocess.Popen([sys.executable, "-S", "-c", join + textwrap.dedent(program), *words])


def test_tasks_that_share_a_cpu_wait_for_it(source: BpfSource, group: Path) -> None:
    read = followed(source, group)
    burn = (
        "import os, time\nos.sched_setaffinity(0, {0})\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    )
    for process in [run_in(group, burn) for _ in range(3)]:
        assert process.wait() == 0
    found = read().gauges
    assert found["run_queue_latency", ""] > 100, "three tasks took turns"
    # Each waited for two thirds of three seconds: tasks that lose their CPU on the way to user space count, too.
    owner = source._runs[KEY].waits
    assert owner is not None
    assert owner[1] > 0.5e9
    assert found["run_queue_latency_p99", ""] >= found["run_queue_latency", ""] / 4


def test_blocks_are_counted_for_the_run_that_writes_them(source: BpfSource, group: Path, tmp_path: Path) -> None:
    read = followed(source, group)
    write = f"""
        import mmap, os, sys
        block = mmap.mmap(-1, {MB})
        try:
            file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
        except OSError:
            sys.exit(3)
        for _ in range(20):
            os.write(file, block)
        os.fsync(file)
    """
    code = run_in(group, write, str(tmp_path / "file")).wait()
    if code == 3:
        pytest.skip("the file system has no direct writes")
    assert code == 0
    reading = read()
    written = sum(value for (metric, _), value in reading.counters.items() if metric == "block_write_bytes")
    assert written == pytest.approx(20 * MB, rel=0.05)
    assert reading.gauges["io_latency_p99", ""] > 0
    disks = {disk for metric, disk in reading.counters if metric == "block_write_bytes"}
    assert all(Path(f"/sys/class/block/{disk}").exists() for disk in disks)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A host of its own, in a network namespace, that takes everything."""
    ip = require_program("ip")

    def do(*words: str) -> None:
        subprocess.run([ip, *words], check=True, capture_output=True)

    do("netns", "add", HOSTS)
    try:
        link = f"bpf{os.getpid() % 100_000}"
        do("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", HOSTS)
        do("addr", "add", "10.213.77.1/30", "dev", link)
        do("link", "set", link, "up")
        for words in (("addr", "add", f"{PEER}/30", "dev", "eth0"), ("link", "set", "eth0", "up")):
            do("-n", HOSTS, *words)
        sink = tmp_path_factory.mktemp("peer") / "port"
        take = f"""
            import socket
            server = socket.create_server(({PEER!r}, 0))
            open({str(sink)!r}, "w").write(str(server.getsockname()[1]))
            while True:
                taken, _ = server.accept()
                while taken.recv(65536): pass
        """
        program = [ip, "netns", "exec", HOSTS, sys.executable, "-S", "-c", textwrap.dedent(take)]
        process = subprocess.Popen(program)
        try:
            eventually(lambda: sink.exists() and sink.read_text(), "the peer listens")
            yield sink.read_text()
        finally:
            process.kill()
            process.wait()
    finally:
        do("netns", "del", HOSTS)


def test_bytes_are_counted_for_the_run_and_by_peer_and_not_on_the_machine_itself(
    source: BpfSource, group: Path, peer: str
) -> None:
    if source.problem:
        pytest.skip(source.problem)
    read = followed(source, group)
    send = f"""
        import socket, sys
        link = socket.create_connection(({PEER!r}, int(sys.argv[1])))
        for _ in range(10): link.sendall(bytes({MB}))
        link.close()
        server = socket.create_server(("127.0.0.1", 0))
        inner = socket.create_connection(server.getsockname())
        inner.sendall(bytes(50_000))
    """
    assert run_in(group, send, peer).wait() == 0
    found = read().counters
    assert found["network_tx_bytes", ""] == 10 * MB
    assert found["network_rx_bytes", ""] == 0
    assert {name: value for name, value in found.items() if name[0] == "peer_tx_bytes"} == {
        ("peer_tx_bytes", PEER): 10 * MB
    }


def test_what_others_do_is_not_counted_and_a_run_that_is_gone_is_forgotten(
    source: BpfSource, group: Path, tmp_path: Path
) -> None:
    read = followed(source, group)
    subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(0.01)"], check=True)
    assert "run_queue_latency" not in {metric for metric, _ in read().gauges}
    source.follow({})
    reading = Reading(at_s=0.0, counters={}, gauges={})
    source.add(KEY, reading, with_peers=True)
    assert (reading.counters, reading.gauges) == ({}, {})
    assert list(source._block_map.items()) == []


LOAD = """
import sys
import ctypes, time
from lattice.agent.telemetry.bpf.source import BpfSource
source = BpfSource()
source.open()
assert source.is_answering, source.problem
programs = source._programs
for program in programs._programs():
    info, size = ctypes.create_string_buffer(256), ctypes.c_uint32(256)
    programs._library.bpf_obj_get_info_by_fd(programs._library.bpf_program__fd(ctypes.c_void_p(program)), info, ctypes.byref(size))
    print(int.from_bytes(info.raw[4:8], sys.byteorder), end=" ")
print(flush=True)
time.sleep(60)
"""


def test_nothing_of_it_outlives_an_agent_that_is_killed(source: BpfSource) -> None:
    library = ctypes.CDLL("libbpf.so.1", use_errno=True)

    def lives(number: int) -> bool:
        found = library.bpf_prog_get_fd_by_id(number)
        if found >= 0:
            os.close(found)
        return bool(found >= 0)

    with subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        numbers = [int(word) for word in process.stdout.readline().split()]
        assert len(numbers) == 7
        assert all(map(lives, numbers))
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not any(map(lives, numbers)), "the kernel has dropped the programs")
