"""The integration and system tests of the machine status design, with the programs as people start them. Collectors have a file of
their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing.local_cluster import LocalCluster
from lattice.testing.waiting import eventually

WITHIN_S = 60.0
SCRIPT = """#!/bin/sh
cat >> {told}
echo >> {told}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("script") / "told"


@pytest.fixture(scope="module")
def cluster(told: Path) -> Iterator[LocalCluster]:
    script = told.with_name("script")
    script.write_text(SCRIPT.format(told=told))
    script.chmod(0o755)
    settings = {
        "node.event_script": f'["{script}"]',
        "node.event_script_per_minute": "600",
        "api.unix_socket": str(told.with_name("socket")),
    }
    with LocalCluster(nodes=3, settings=settings, restart=False) as cluster:
        for node in ("n1", "n2", "n3"):
            cluster.wait_node(node, "Ready", within_s=WITHIN_S)
        yield cluster


def site(folder: Path, nodes: str, partitions: str = "", **parameters: str) -> Path:
    """A SlurmConf with the files that it names."""
    (folder / "NodeSpecConf").write_text(nodes)
    (folder / "PartitionConf").write_text(partitions)
    conf = {"NodeSpecConf": folder / "NodeSpecConf", "PartitionConf": folder / "PartitionConf", **parameters}
    path = folder / "SlurmConf"
    path.write_text("# made by a test\n" + "".join(f"{name} = {value}\n" for name, value in conf.items()))
    return path


def server_log(cluster: LocalCluster) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted(cluster.directory.rglob("server*.log")))


def wait_log(cluster: LocalCluster, text: str) -> None:
    eventually(lambda: text in server_log(cluster), f"{text!r} in the server's log", within_s=WITHIN_S)


def told_of(told: Path) -> list[dict[str, Any]]:
    lines = told.read_text().splitlines() if told.exists() else []
    return [event for line in lines if line.strip() for event in json.loads(line)["events"]]


def _with_shortfall(cluster: LocalCluster) -> list[str]:
    """The lines of the table, once that of n1 says what it lacks and nothing else is the matter with it."""
    table = cluster.cli("nodes").stdout.splitlines()
    return table if "RealMemory 4096 below the specified 999999" in table[2] else []


def test_manager_with_various_node_specifications_with_and_without_defaults(
    cluster: LocalCluster, tmp_path: Path, told: Path
) -> None:
    nodes = "Name=DEFAULT CPUs=1 OS=Linux.2.4 TmpDisk=1\nName=n2\nName=n1 RealMemory=999999\nName=DEFAULT CPUs=2\nName=lx9\n"
    conf = site(tmp_path, nodes)
    done = cluster.cli("admin", "node", "import", str(conf))
    assert "node n1: not configured for work: RealMemory 4096 below the specified 999999" in done.stdout
    table = eventually(lambda: _with_shortfall(cluster), "the reason in the table", within_s=WITHIN_S)
    assert [line.split()[0] for line in table] == ["NODE", "n2", "n1", "lx9", "n3"]
    assert cluster.cli("nodes", "--fields", "Name,State,CPUs", "lx9").stdout.split()[3:] == ["lx9", "DOWN", "2"]
    wait_log(cluster, "node is not configured for work: RealMemory 4096 below the specified 999999")
    eventually(
        lambda: "unfit" in {event["trigger"] for event in told_of(told)}, "the script is told", within_s=WITHIN_S
    )
    events = json.loads(cluster.cli("node", "events", "n1", "-o", "json").stdout)
    assert any(event["trigger"] == "unfit" for event in events)
    refused = cluster.run(["true"], resources={"nodes": 1, "constraints": {"nodes": "n2"}}, within_s=WITHIN_S)
    assert refused["state"] == "Completed"
    waiting = cluster.submit(["true"], resources={"nodes": 1, "constraints": {"nodes": "n1"}})["id"]
    cluster.cli("admin", "node", "import", str(site(tmp_path, nodes.replace("999999", "1024"))))
    assert cluster.wait_end(waiting, within_s=WITHIN_S)["nodes"] == ["n1"]
    assert cluster.nodes()["n1"]["shortfall"] == ""


def test_agents_report_their_system_speed_memory_and_disk(cluster: LocalCluster) -> None:
    found = json.loads(cluster.cli("nodes", "n3", "--fields", "all", "-o", "json").stdout)[0]
    assert found["OS"].startswith("Linux.")
    assert (found["CPUs"], found["RealMemory"]) == (4, 4096)
    assert found["VirtualMemory"] > 0 and found["TmpDisk"] > 0 and found["LastResponse"] > 1_700_000_000  # noqa: PT018


def test_manager_from_various_file_location_names_including_invalid_names(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    cluster.cli("admin", "node", "import", "SlurmConf", "--dry-run", cwd=site(folder, "Name=n1\n").parent)
    missing = cluster.cli("admin", "node", "import", str(tmp_path / "nowhere"), check=False)
    assert (missing.returncode, "no such file or directory" in missing.stderr) == (4, True)
    conf = site(tmp_path, "Name=n1\n", NodeSpecConf="/nowhere/NodeSpecConf")
    named = cluster.cli("admin", "node", "import", str(conf), check=False)
    assert named.returncode == 1
    assert f"{conf}:2: NodeSpecConf /nowhere/NodeSpecConf: no such file or directory" in named.stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"Name=\xff\xfe\n")
    assert "no text: byte 0xff in line 1" in cluster.cli("admin", "node", "import", str(binary), check=False).stderr


def test_the_heartbeats_of_the_file_win_over_the_configuration(cluster: LocalCluster, tmp_path: Path) -> None:
    conf = site(tmp_path, "Name=n1\n", HeartBeatInterval="2", HeartBeatTimeout="60")
    cluster.cli("admin", "node", "import", str(conf))
    assert cluster.get("/settings/node.heartbeat_timeout_s")["value"] == "31.5"
    old = 1.5  # five times the interval of the configuration

    def is_slower() -> bool:
        return bool(cluster.nodes()["n1"]["last_heartbeat_s"] > old)

    eventually(is_slower, "a heartbeat every two seconds", within_s=WITHIN_S)
    cluster.wait_node("n1", "Ready", within_s=WITHIN_S)
    cluster.cli(
        "admin", "node", "import", str(site(tmp_path, "Name=n1\n", HeartBeatInterval="0.3", HeartBeatTimeout="4"))
    )


def test_manager_with_debug_options_including_invalid_values(cluster: LocalCluster, tmp_path: Path) -> None:
    conf = site(tmp_path, "Name=n1\n", MachStatusDebug="msg,sched,loud")
    done = cluster.cli("admin", "node", "import", str(conf))
    assert 'MachStatusDebug: unknown flag "loud" is not used' in done.stderr
    wait_log(cluster, "debug flags: msg,sched")
    for told in ("heard: heartbeat", "a cycle of "):
        wait_log(cluster, told)
    refused = cluster.cli("admin", "config", "set", "node.debug=loud", check=False)
    assert "it takes some of init, msg, node, sched, api, all" in refused.stderr
    cluster.cli("admin", "node", "import", str(site(tmp_path, "Name=n1\n", MachStatusDebug="")))
    wait_log(cluster, "debug flags: off")


def test_status_tool_all_options_in_various_combinations(cluster: LocalCluster) -> None:
    combined = [
        "nodes",
        "n[1-3]",
        "--fields",
        "Name,State",
        "--sort",
        "-Name",
        "--filter",
        "State=IDLE",
        "--limit",
        "2",
    ]

    def shown(*words: str) -> list[str]:
        return cluster.cli(*words).stdout.split()

    # On a busy machine a node may be Degraded for a moment.
    wanted = ["Name", "State", "n3", "IDLE", "n2", "IDLE"]
    eventually(lambda: shown(*combined) == wanted, "the table", within_s=WITHIN_S)
    eventually(lambda: shown(*combined, "-q") == ["n3", "n2"], "names alone", within_s=WITHIN_S)
    summary = ["nodes", "n[1-3]", "--summary", "--state", "ready"]
    eventually(lambda: shown(*summary)[-2:] == ["3", "n[1-3]"], "the summary", within_s=WITHIN_S)
    found = json.loads(cluster.cli("nodes", "n[1-2]", "--sort=-Name", "-o", "json").stdout)
    assert [node["id"] for node in found] == ["n2", "n1"]
    fields = json.loads(cluster.cli("nodes", "n1", "--fields", "Name,CPUs", "-o", "json").stdout)
    assert fields == [{"Name": "n1", "CPUs": 4}]
    wrong = cluster.cli("nodes", "--fields", "Colour", check=False)
    assert (wrong.returncode, "known: Name, OS, CPUs" in wrong.stderr) == (1, True)
    assert cluster.cli("nodes", "--filter", "State=asleep", check=False).returncode == 1


def test_manager_interface_for_a_local_user_without_a_token(cluster: LocalCluster, told: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def local(*words: str) -> "subprocess.CompletedProcess[str]":
        line = [
            str(Path(sys.executable).with_name("lattice")),
            "--api-url",
            f"unix://{told.with_name('socket')}",
            "--retry-for",
            "0",
            *words,
        ]
        return subprocess.run(line, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    assert local("nodes", "n[1-2]", "--fields", "Name,CPUs").stdout.split() == ["Name", "CPUs", "n1", "4", "n2", "4"]
    assert local("nodes", "--summary").returncode == 0
    assert local("nodes", "n1").returncode == 0
    for words in (["node", "drain", "n1"], ["status"], ["submit", "--", "true"], ["admin", "config", "list"]):
        refused = local(*words)
        assert (refused.returncode, "a token is needed" in refused.stderr) == (5, True), refused


def test_manager_with_nodes_being_dropped(cluster: LocalCluster, told: Path) -> None:
    cluster.kill("agent", "n3")
    cluster.wait_node("n3", "Down", within_s=WITHIN_S)
    dropped = ["nodes", "--filter", "State=DOWN", "--filter", "Name=n[1-3]", "-q"]
    eventually(lambda: cluster.cli(*dropped).stdout.split() == ["n3"], "only n3 is down", within_s=WITHIN_S)

    def is_told() -> bool:
        return any(event["node"] == "n3" and event["state"] == "Down" for event in told_of(told))

    eventually(is_told, "the script is told", within_s=WITHIN_S)
