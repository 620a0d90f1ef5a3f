"""The command lines of the systemd units, under a service manager that is played by a socket."""

import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from lattice.api.auth.tokens import sign_token
from lattice.testing import eventually
from lattice_sdk import Client, Submission
from tests.integration.quorum.etcd_world import free_address

pytestmark = pytest.mark.e2e

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
PROGRAMS = Path(sys.executable).parent
MOST_EXPOSED = 5.0  # of the server, on the scale of `systemd-analyze security`
SECRET = b"0123456789abcdef" * 2
HEARD_WITHIN_S = 60


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # keys keep their case
    parser.read(UNITS / f"{name}.service")
    return parser


def command_line(name: str, etc: Path) -> list[str]:
    """As the unit has it, with the programs of this checkout and another folder instead of /etc/lattice."""
    words = unit(name)["Service"]["ExecStart"].split()
    return [word.replace("/opt/lattice/bin", str(PROGRAMS)).replace("/etc/lattice", str(etc)) for word in words]


@contextmanager
def service(name: str, etc: Path) -> Iterator[socket.socket]:
    """Yields what hears the process; it is asked to stop at the end, and must end well."""
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(str(etc / f"{name}.notify"))
    heard.settimeout(HEARD_WITHIN_S)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LATTICE_")}
    environment |= {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "300000"}
    with (etc / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command_line(name, etc), env=environment, stdout=log, stderr=log)
    try:
        assert heard.recv(200).startswith(b"READY=1\nSTATUS="), (etc / f"{name}.log").read_text()
        yield heard
        process.send_signal(signal.SIGTERM)
        while heard.recv(200) != b"STOPPING=1":
            pass
        assert process.wait(HEARD_WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()
        heard.close()


def test_server_and_agent_run_by_their_units_and_say_how_they_are(tmp_path: Path) -> None:
    rest, grpc = free_address(), free_address()
    secret, token = tmp_path / "secret", tmp_path / "agent.token"
    for path, content in ((secret, SECRET), (token, b"")):
        path.write_bytes(content)
        path.chmod(0o600)
    api = {"rest_listen": rest, "grpc_listen": grpc, "hmac_secret": f"file://{secret}"}
    server = {"name": "s1", "mode": "dev", "data_dir": str(tmp_path / "data"), "api": api}
    (tmp_path / "server.yaml").write_text(yaml.safe_dump(server))
    state = tmp_path / "state"
    agent = {"node_id": "n1", "state_dir": str(state), "servers": [grpc], "token_file": str(token), "cpus": 2}
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(agent | {"allow_user": ["root"]}))
    say = [str(PROGRAMS / "lattice-server"), "--config", str(tmp_path / "server.yaml")]
    token.write_bytes(subprocess.run([*say, "--agent-token", "n1"], check=True, capture_output=True).stdout)
    checked = subprocess.run([*say, "--check-config"], check=True, capture_output=True, text=True).stdout
    assert checked == "the configuration of server s1 is valid\n"
    admin = sign_token(SECRET, user="root", scope="admin", issued_at_s=int(time.time()), lifetime_s=600)
    try:
        with service("lattice-server", tmp_path) as server_heard, service("lattice-agent", tmp_path) as agent_heard:
            with Client(f"http://{rest}", token=admin) as client:
                eventually(lambda: [node.state for node in client.list_nodes()] == ["Ready"], "the node is ready")
                done = client.submit(Submission(entrypoint="true"))
                assert client.wait(done.id).state == "Completed"
            for heard in (server_heard, agent_heard):
                assert heard.recv(200) == b"WATCHDOG=1"
    finally:
        if (state / "shim.pid").exists():
            os.kill(int((state / "shim.pid").read_text()), signal.SIGKILL)


def test_the_units_use_flags_that_exist_and_spare_the_work() -> None:
    from lattice.daemons.programs import agent, server

    for name, parser in (("lattice-server", server.build_parser()), ("lattice-agent", agent.build_parser())):
        flags = re.findall(r"--[a-z-]+", unit(name)["Service"]["ExecStart"])
        assert flags
        assert set(flags) <= {flag for action in parser._actions for flag in action.option_strings}
    ends = unit("lattice-agent")["Service"]
    assert (ends["KillMode"], ends["Delegate"], ends["Type"]) == ("process", "yes", "notify")
    assert ends["RestartPreventExitStatus"] == str(agent.EXIT_USAGE)
    assert unit("lattice-server")["Service"]["RestartPreventExitStatus"] == f"{server.EXIT_USAGE} {server.EXIT_REMOVED}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_server_is_well_confined() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / "lattice-server.service")],
        capture_output=True,
        text=True,
        check=True,
    )
    exposure = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert exposure is not None, done.stdout[-500:]
    assert float(exposure[1]) < MOST_EXPOSED
