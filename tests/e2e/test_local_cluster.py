"""`lattice up`, `down`, `env`: a cluster in one command, and nothing left of it afterwards."""

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running, start_of

pytestmark = pytest.mark.e2e


def processes_naming(directory: Path) -> dict[int, str]:
    """Every living process whose arguments mention the folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(directory) in words and is_running(int(entry.name)):
                found[int(entry.name)] = words.replace("\0", " ")
    return found


def cgroups_of(pid: int) -> list[Path]:
    """The folders of the process's own cgroups, in whatever hierarchies there are."""
    paths = {line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
    mounts = [
        Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line
    ]
    return [folder for path in paths if "lattice" in path for mount in mounts if (folder := mount / path[1:]).is_dir()]


def begin_work(cluster: LocalCluster, scratch: Path) -> int:
    """Work with a process in a session of its own; the pid of that process."""
    cluster.submit(f"setsid sleep 300 & echo $! > {scratch}/pid; sleep 300")
    path = scratch / "pid"
    eventually(lambda: path.exists() and path.read_text(), "the work began")
    return int(path.read_text())


@pytest.fixture
def folder() -> Iterator[LocalCluster]:
    """A folder for a cluster of one node that is not started yet."""
    cluster = LocalCluster(nodes=1)
    yield cluster
    cluster.remove()


@pytest.mark.parametrize("named_by", ["--dir", "LATTICE_DIR"])
def test_up_prints_the_address_and_two_lines_that_work(folder: LocalCluster, named_by: str) -> None:
    environment = folder.environment()
    if named_by == "--dir":
        del environment["LATTICE_DIR"]

    def typed(line: str) -> str:
        words = ["sh", "-c", line]
        return subprocess.run(words, env=environment, cwd="/", stdout=subprocess.PIPE, text=True, check=True).stdout

    program = shlex.quote(str(Path(sys.executable).with_name("lattice")))
    where = f"--dir {folder.directory}" if named_by == "--dir" else ""
    said = typed(f"{program} up --detach --nodes 1 --rest-port 0 --grpc-port 0 {where}")
    assert folder.api_url in said
    first, second = said.splitlines()[-2:]
    typed(first)
    assert typed(second).strip() == socket.gethostname()


def test_cluster_json_names_every_process_and_follows_their_deaths(cluster: LocalCluster) -> None:
    def roles() -> list[tuple[str, str]]:
        return sorted((process.role, process.name) for process in cluster.file.processes)

    def is_not_named(pid: int) -> bool:
        return pid not in {process.pid for process in cluster.file.processes}

    nodes = sorted(cluster.nodes())
    whole = sorted(
        [("supervisor", "supervisor"), ("server", "server"), ("mover", "mover")]
        + [(role, node) for role in ("agent", "shim") for node in nodes]
    )
    eventually(lambda: roles() == whole, "all processes in cluster.json")
    for process in cluster.file.processes:
        assert start_of(process.pid) == process.started
    for role, name in (("agent", nodes[0]), ("shim", nodes[0]), ("server", "server"), ("mover", "mover")):
        dead = cluster.kill(role, name)
        eventually(partial(is_not_named, dead.pid), "cluster.json does not name the dead one")
        cluster.wait_replaced(dead)
    eventually(lambda: roles() == whole, "all processes in cluster.json again")
    assert stat.S_IMODE((cluster.directory / "cluster.json").stat().st_mode) == 0o600


def test_the_mover_gives_way_to_servers_and_nodes(cluster: LocalCluster) -> None:
    pids = {process.role: process.pid for process in cluster.file.processes}
    nice = {role: os.getpriority(os.PRIO_PROCESS, pid) for role, pid in pids.items()}
    assert nice["mover"] > max(nice["server"], nice["agent"])


def test_env_exports_addresses_and_paths_but_no_secret(cluster: LocalCluster) -> None:
    said = cluster.cli("env", "--dir", str(cluster.directory)).stdout
    variables = dict(word.split("=", 1) for line in said.splitlines() for word in shlex.split(line)[1:])
    assert variables["LATTICE_API_URL"] == cluster.api_url
    assert variables["LATTICE_AGENT_ENDPOINTS"] == cluster.file.grpc
    assert Path(variables["LATTICE_TOKEN_FILE"]).read_text().strip() == cluster.token
    assert Path(variables["LATTICE_AGENT_TOKEN_FILE"]).read_text().strip() == cluster.agent_token
    assert cluster.token not in said
    assert cluster.agent_token not in said
    script = f'eval "$({shlex.quote(str(Path(sys.executable).with_name("lattice")))} env)"; env'
    seen = subprocess.run(["sh", "-c", script], env=cluster.environment(), capture_output=True, text=True, check=True)
    assert f"LATTICE_API_URL={cluster.api_url}" in seen.stdout.splitlines()


def test_secrets_are_private_and_in_no_process_table(cluster: LocalCluster) -> None:
    secrets = {name: (cluster.directory / name).read_text().strip() for name in ("secret", "token", "agent-token")}
    for name in secrets:
        assert stat.S_IMODE((cluster.directory / name).stat().st_mode) == 0o600
    for process in cluster.file.processes:
        shown = b"".join(Path(f"/proc/{process.pid}/{file}").read_bytes() for file in ("cmdline", "environ"))
        assert not [name for name, secret in secrets.items() if secret.encode() in shown]


def test_the_user_who_ran_up_is_administrator(cluster: LocalCluster) -> None:
    me = cluster.get("/whoami")
    assert "SystemAdmin" in me["roles"]
    assert me["tenant"] == "default"


def test_a_second_up_in_the_same_folder_is_refused_and_changes_nothing(cluster: LocalCluster) -> None:
    before = cluster.file
    outcome = cluster.cli("up", "--detach", "--dir", str(cluster.directory), check=False)
    assert outcome.returncode == 3
    assert "already running" in outcome.stderr
    assert cluster.api_url in outcome.stderr
    assert cluster.file == before


def test_down_leaves_nothing_and_may_be_repeated(folder: LocalCluster, scratch: Path) -> None:
    folder.start()
    pid = begin_work(folder, scratch)
    groups = cgroups_of(pid)
    pids = [process.pid for process in folder.file.processes]
    assert "stopped" in folder.stop().stdout
    assert [one for one in [*pids, pid] if is_running(one)] == []
    assert processes_naming(folder.directory) == {}
    assert [group for group in groups if group.exists() or group.parent.exists()] == []
    assert list(folder.directory.rglob("*.sock")) == []
    assert "not running" in folder.stop().stdout


@pytest.mark.parametrize("killed", [["supervisor"], ["supervisor", "agent", "shim"], ["shim", "agent", "server"]])
def test_down_leaves_nothing_after_unclean_deaths(folder: LocalCluster, scratch: Path, killed: list[str]) -> None:
    folder.start()
    pid = begin_work(folder, scratch)
    groups = cgroups_of(pid)
    for role in killed:
        folder.kill(role)
    folder.stop()
    assert not is_running(pid)
    assert processes_naming(folder.directory) == {}
    assert [group for group in groups if group.exists() or group.parent.exists()] == []
    assert "not running" in folder.stop().stdout


def test_a_cluster_goes_on_without_its_supervisor(folder: LocalCluster) -> None:
    folder.start()
    folder.kill("supervisor")
    assert folder.run(["true"])["state"] == "Completed"


def test_up_after_an_unclean_death_cleans_up_and_remembers(folder: LocalCluster, scratch: Path) -> None:
    folder.start()
    kept = folder.run(["echo", "kept"])
    running = folder.submit(f"echo $$ > {scratch}/pid; exec sleep 300", lifecycle={"requeue": "never"})
    folder.wait_state(running["id"], "Running")
    written = scratch / "pid"
    pid = int(eventually(lambda: written.read_text().strip() if written.exists() else "", "the work began"))
    for role in ("supervisor", "agent", "shim", "server"):
        folder.kill(role)
    (folder.directory / "mine.txt").write_text("not Lattice's")
    folder.start()
    assert folder.allocation(kept["id"])["state"] == "Completed"
    assert folder.logs(kept["id"]) == "kept\n"
    lost = folder.wait_end(running["id"])
    assert (lost["state"], lost["cause"]) == ("Failed", "node")
    assert not is_running(pid)
    assert folder.run(["true"])["state"] == "Completed"
    assert (folder.directory / "mine.txt").read_text() == "not Lattice's"


def test_without_restart_a_dead_process_stays_dead_and_leaves_the_file() -> None:
    with LocalCluster(nodes=1, restart=False) as cluster:
        cluster.kill("agent", "n1")
        eventually(lambda: cluster.process("agent", "n1") is None, "the agent has left cluster.json")
        cluster.wait_node("n1", "Degraded", "Down")
        assert cluster.process("agent", "n1") is None
        cluster.kill("server")
        eventually(lambda: cluster.process("server") is None, "the server has left cluster.json")


def test_two_clusters_side_by_side_do_not_see_each_other(cluster: LocalCluster, scratch: Path) -> None:
    mine = cluster.submit(f"touch {scratch}/began; sleep 300")
    cluster.wait_state(mine["id"], "Running")
    with LocalCluster(nodes=1) as other:
        assert other.api_url != cluster.api_url
        assert other.get("/allocations")["items"] == []
        assert other.run(["true"])["state"] == "Completed"
    assert cluster.allocation(mine["id"])["state"] == "Running"


def test_a_cluster_may_have_no_nodes() -> None:
    with LocalCluster(nodes=0) as cluster:
        assert cluster.nodes() == {}
        assert cluster.file.of_role("agent") == ()


def test_a_port_in_use_is_an_error_that_names_it(folder: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for flag in ("--rest-port", "--grpc-port"):
            ports = {"--rest-port": "0", "--grpc-port": "0", flag: port}
            words = [word for pair in ports.items() for word in pair]
            outcome = folder.cli("up", "--detach", "--nodes", "0", "--dir", str(folder.directory), *words, check=False)
            assert outcome.returncode == 1
            assert f"port {port}" in outcome.stderr
            assert f"{flag} 0" in outcome.stderr
    assert processes_naming(folder.directory) == {}


def test_a_wrong_setting_is_told_with_the_end_of_the_log(folder: LocalCluster) -> None:
    words = ["--rest-port", "0", "--grpc-port", "0", "--set", "node_agent.hartbeat=1"]
    outcome = folder.cli("up", "--detach", "--nodes", "0", "--dir", str(folder.directory), *words, check=False)
    assert outcome.returncode == 1
    assert "hartbeat" in outcome.stderr
    assert processes_naming(folder.directory) == {}


@pytest.mark.parametrize(("servers", "why"), [("2", "use 1, 3 or 5"), ("7", "from 1 to 5"), ("x", "from 1 to 5")])
def test_a_number_of_servers_that_helps_nobody_is_refused(folder: LocalCluster, servers: str, why: str) -> None:
    outcome = folder.cli("up", "--servers", servers, "--dir", str(folder.directory), check=False)
    assert outcome.returncode == 2
    assert why in outcome.stderr


def test_in_the_foreground_ctrl_c_stops_everything(folder: LocalCluster) -> None:
    program = Path(sys.executable).with_name("lattice")
    words = ["up", "--nodes", "1", "--rest-port", "0", "--grpc-port", "0", "--dir", str(folder.directory)]
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True, env=folder.environment()) as shown:
        assert shown.stdout is not None
        assert any("Ctrl-C" in line for line in shown.stdout)
        assert json.loads((folder.directory / "cluster.json").read_text())["processes"]
        shown.send_signal(signal.SIGINT)
        assert shown.wait(30) == 0
    assert processes_naming(folder.directory) == {}


def test_a_foreground_cluster_ends_with_its_terminal(folder: LocalCluster) -> None:
    program = Path(sys.executable).with_name("lattice")
    words = ["up", "--nodes", "1", "--rest-port", "0", "--grpc-port", "0", "--dir", str(folder.directory)]
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True, env=folder.environment()) as shown:
        assert shown.stdout is not None
        assert any("Ctrl-C" in line for line in shown.stdout)
        shown.kill()
    eventually(lambda: processes_naming(folder.directory) == {}, "the cluster has ended", within_s=30)
