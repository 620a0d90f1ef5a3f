"""What is read of groups of both generations, of processes and of the node: every figure that is there, and none that is not."""

import os
from pathlib import Path

from lattice.agent.telemetry.sources.fabric import add_congestion
from lattice.agent.telemetry.sources.groups import GroupPlace, group_pids, read_group
from lattice.agent.telemetry.sources.node import NodeSource
from lattice.agent.telemetry.sources.numa import add_of_group, add_of_node
from lattice.agent.telemetry.sources.processes import MAX_PROCESSES, read_processes
from lattice.core.model.telemetry.rates import Reading, figures


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


def congestion(root: Path, at_s: float) -> Reading:
    reading = Reading(at_s=at_s, counters={}, gauges={})
    add_congestion(reading, str(root))
    return reading


def test_waits_of_infiniband_ports_are_a_share_of_what_they_wanted_to_send(tmp_path: Path) -> None:
    counters = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters"
    write(counters, port_xmit_wait="1000\n", port_xmit_data="5000\n")
    before = congestion(tmp_path, 1.0)
    write(counters, port_xmit_wait="2000\n", port_xmit_data="8000\n")
    assert figures(before, congestion(tmp_path, 3.0), 0.0) == {("network_congestion", "mlx5_0"): 25.0}


def test_pauses_of_slingshot_interfaces_are_a_share_of_the_time(tmp_path: Path) -> None:
    telemetry = tmp_path / "sys/class/cxi/cxi0/device/telemetry"
    write(telemetry, hni_tx_paused_0="0@1.5", hni_tx_paused_4="1000000000@1.5")
    before = congestion(tmp_path, 10.0)
    write(telemetry, hni_tx_paused_0="100@3.5", hni_tx_paused_4="1600000000@3.5")
    found = figures(before, congestion(tmp_path, 12.0), 0.0)
    assert round(found["network_congestion", "cxi0"], 6) == 30.0
    assert len(found) == 1


def test_nothing_is_known_of_congestion_without_such_an_interface(tmp_path: Path) -> None:
    assert congestion(tmp_path, 1.0).counters == {}
    write(tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters", port_xmit_wait="no\n")
    assert congestion(tmp_path, 1.0).counters == {}


def test_memory_by_numa_node_is_there_where_there_are_several(tmp_path: Path) -> None:
    reading = Reading(at_s=1.0, counters={}, gauges={})
    group = write(tmp_path / "v2", memory__numa_stat="anon N0=4096 N1=8192\nfile N0=1 N1=1\n")
    add_of_group(reading, str(group), is_old=False)
    assert reading.gauges == {("numa_memory", "0"): 4096.0, ("numa_memory", "1"): 8192.0}
    old = write(tmp_path / "v1", memory__numa_stat="anon=3 N0=1 N1=2\nhierarchical_anon=5 N0=2 N1=3\n")
    add_of_group(reading, str(old), is_old=True)
    page = os.sysconf("SC_PAGE_SIZE")
    assert reading.gauges == {("numa_memory", "0"): 2.0 * page, ("numa_memory", "1"): 3.0 * page}
    single = Reading(at_s=1.0, counters={}, gauges={})
    add_of_group(single, str(write(tmp_path / "one", memory__numa_stat="anon N0=4096\n")), is_old=False)
    write(tmp_path / "sys/devices/system/node/node0", meminfo="Node 0 MemUsed: 10 kB\n")
    add_of_node(single, str(tmp_path))
    assert single.gauges == {}
    write(tmp_path / "sys/devices/system/node/node1", meminfo="Node 1 MemUsed: 30 kB\n", numastat="numa_miss 7\n")
    add_of_node(single, str(tmp_path))
    assert single.gauges == {("numa_memory", "0"): 10240.0, ("numa_memory", "1"): 30720.0}
    assert single.counters == {("numa_misses", "1"): 7.0}
