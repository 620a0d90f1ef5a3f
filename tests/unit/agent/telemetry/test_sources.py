"""What is read of groups of both generations, of processes and of the node: every figure that is there, and none that is not."""

import os
from pathlib import Path

from lattice.agent.telemetry.sources.groups import GroupPlace, group_pids, read_group
from lattice.agent.telemetry.sources.node import NodeSource
from lattice.agent.telemetry.sources.processes import MAX_PROCESSES, read_processes


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"


def test_a_group_of_v2_has_all_of_its_figures(tmp_path: Path) -> None:
    group = write(
        tmp_path / "alloc-7.1",
        cpu__stat="usage_usec 1500000\nuser_usec 1\nnr_throttled 2\nthrottled_usec 250000\n",
        memory__stat="anon 1000\nfile 500\nshmem 100\npgfault 42\n",
        io__stat="8:0 rbytes=10 wbytes=20 rios=1 wios=1\n8:16 rbytes=1 wbytes=2 rios=1 wios=1\n",
        pids__current="5\n",
        cpu__pressure=PRESSURE,
        io__pressure=PRESSURE,
        cgroup__procs="",
    )
    reading = read_group(GroupPlace(path=str(group)))
    assert reading.counters == {
        ("cpus_used", ""): 1.5,
        ("cpu_throttled", ""): 25.0,
        ("page_faults", ""): 42.0,
        ("cpu_pressure", ""): 200.0,
        ("io_pressure", ""): 200.0,
        ("io_read_bytes", ""): 11.0,
        ("io_write_bytes", ""): 22.0,
    }
    assert reading.gauges == {("memory_used", ""): 1100.0, ("memory_cache", ""): 400.0, ("processes", ""): 5.0}


def test_a_group_of_a_hybrid_machine_is_read_where_its_limits_are(tmp_path: Path) -> None:
    group = write(tmp_path / "unified", cpu__stat="usage_usec 3000000\n", cgroup__procs="")
    memory = write(
        tmp_path / "memory",
        memory__stat="rss 1\ntotal_rss 2000\ntotal_cache 700\ntotal_shmem 200\ntotal_pgfault 9\n",
    )
    cpu = write(tmp_path / "cpu", cpu__stat="nr_periods 1\nnr_throttled 1\nthrottled_time 100000000\n")
    pids = write(tmp_path / "pids", pids__current="3\n")
    twins = {"memory": str(memory), "cpu": str(cpu), "pids": str(pids)}
    reading = read_group(GroupPlace(path=str(group), twins=twins))
    assert reading.counters == {("cpus_used", ""): 3.0, ("cpu_throttled", ""): 10.0, ("page_faults", ""): 9.0}
    assert reading.gauges == {("memory_used", ""): 2200.0, ("memory_cache", ""): 500.0, ("processes", ""): 3.0}


def test_a_group_that_is_gone_has_no_figures(tmp_path: Path) -> None:
    reading = read_group(GroupPlace(path=str(tmp_path / "gone")))
    assert (reading.counters, reading.gauges) == ({}, {})


def test_what_a_group_does_not_count_comes_from_its_processes(tmp_path: Path) -> None:
    own = os.getpid()
    group = write(tmp_path / "g", cpu__stat="usage_usec 1000000\n", cgroup__procs="")
    write(group / "main", cgroup__procs=f"{own}\n")
    assert group_pids(str(group)) == [own]
    reading = read_group(GroupPlace(path=str(group)))
    assert reading.counters["cpus_used", ""] == 1.0
    assert reading.counters["page_faults", ""] > 0
    assert reading.counters["context_switches", ""] > 0
    assert reading.counters["io_write_bytes", ""] >= 0
    assert reading.gauges["memory_used", ""] > 1 << 20
    assert reading.gauges["processes", ""] >= 1


def test_processes_that_are_gone_or_too_many_say_nothing() -> None:
    assert read_processes([1 << 30]).gauges() == {}
    assert read_processes([]).counters() == {}
    assert read_processes([os.getpid()] * (MAX_PROCESSES + 1)).counters() == {}


def test_this_machine_says_what_it_uses() -> None:
    reading = NodeSource().read()
    assert reading.counters["cpus_used", ""] > 0
    assert 0 < reading.gauges["memory_used", ""] < reading.gauges["memory_total", ""]


def test_a_node_is_read_from_the_files_of_its_kernel(tmp_path: Path) -> None:
    proc = write(
        tmp_path / "proc",
        stat="cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nctxt 77\n",
        loadavg="0.50 0.40 0.30 1/222 4711\n",
        vmstat="pgfault 5\npgmajfault 1\n",
        meminfo="MemTotal: 100 kB\nMemAvailable: 60 kB\nCached: 10 kB\n",
        diskstats="8 0 sda 4 0 8 10 6 0 16 30 0 50 40\n8 1 sda1 4 0 8 10 6 0 16 30 0 50 40\n7 0 loop0 1 0 1 1 1 0 1 1 0 1 1\n",
        mounts="",
    )
    write(
        proc / "net",
        dev="Inter-|\n face |\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  hsn0: 100 10 1 0 0 0 0 0 200 20 0 1 0 0 0 0\n",
    )
    write(proc / "pressure", cpu=PRESSURE)
    (tmp_path / "sys/block/sda").mkdir(parents=True)
    write(tmp_path / "sys/class/powercap/intel-rapl:0", energy_uj="5000000\n")
    write(tmp_path / "sys/class/powercap/intel-rapl:0:0", energy_uj="4000000\n")
    reading = NodeSource(tmp_path).read()
    ticks = os.sysconf("SC_CLK_TCK")
    assert reading.counters == {
        ("cpus_used", ""): 200 / ticks,
        ("context_switches", ""): 77.0,
        ("page_faults", ""): 5.0,
        ("cpu_pressure", ""): 200.0,
        ("nic_rx_bytes", "hsn0"): 100.0,
        ("nic_tx_bytes", "hsn0"): 200.0,
        ("nic_errors", "hsn0"): 2.0,
        ("network_rx_bytes", ""): 100.0,
        ("network_tx_bytes", ""): 200.0,
        ("_packets", ""): 30.0,
        ("_packet_errors", ""): 2.0,
        ("disk_read_bytes", "sda"): 8 * 512.0,
        ("disk_write_bytes", "sda"): 16 * 512.0,
        ("disk_busy", "sda"): 5.0,
        ("_disk_requests", "sda"): 10.0,
        ("_disk_waited_ms", "sda"): 40.0,
        ("io_read_bytes", ""): 8 * 512.0,
        ("io_write_bytes", ""): 16 * 512.0,
        ("power_draw", ""): 5.0,
    }
    assert reading.gauges == {
        ("load1", ""): 0.5,
        ("processes", ""): 222.0,
        ("memory_total", ""): 102400.0,
        ("memory_used", ""): 40960.0,
        ("memory_cache", ""): 10240.0,
    }


def test_sensors_of_the_board_say_the_power_where_the_processors_do_not(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/hwmon/hwmon0", power1_average="250000000\n")
    write(tmp_path / "sys/class/hwmon/hwmon1", power1_input="50000000\n")
    assert NodeSource(tmp_path).read().gauges["power_draw", ""] == 300.0


def test_a_node_without_any_file_says_nothing(tmp_path: Path) -> None:
    reading = NodeSource(tmp_path).read()
    assert (reading.counters, reading.gauges) == ({}, {})
