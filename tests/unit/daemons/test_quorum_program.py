"""lattice-quorum is another name: which program each of its lines means."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.daemons.programs.quorum import WrongUsage, translate

MEMBERS = ["lattice", "admin", "raft", "members"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("bootstrap --config f", ["lattice-server", "--bootstrap", "--config", "f"]),
        (
            "join --config f --join-token-file t",
            ["lattice-server", "--join", "--config", "f", "--join-token-file", "t"],
        ),
        (
            "--recover-from=b --bootstrap --config f",
            ["lattice-server", "--recover-from=b", "--bootstrap", "--config", "f"],
        ),
        ("membership list -o json", [*MEMBERS, "list", "-o", "json"]),
        ("membership add s2", [*MEMBERS, "add", "s2"]),
        ("membership remove --node-id=s2", [*MEMBERS, "remove", "s2"]),
        ("membership remove --node-id s2 --yes", [*MEMBERS, "remove", "s2", "--yes"]),
    ],
)
def test_what_a_line_means(line: str, meant: list[str]) -> None:
    assert translate(line.split()) == meant


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "a command is missing"),
        ("begin", "unknown command 'begin'"),
        ("--join=s1:4001 --config f", "--join takes no address"),
        ("--join --node-id=s2", "--node-id is name in the configuration file"),
        ("join --data-dir=/var/lib/lattice", "--data-dir is data_dir"),
        ("membership add s2 --addr=s2:4001", "a server tells its addresses itself"),
        ("membership add --node-id", "--node-id needs a name"),
    ],
)
def test_what_it_does_not_take_is_refused_with_what_to_write(line: str, why: str) -> None:
    with pytest.raises(WrongUsage, match=why):
        translate(line.split())


def test_the_program_becomes_the_other_one() -> None:
    program = Path(sys.executable).with_name("lattice-quorum")
    done = subprocess.run([program, "membership", "--help"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("usage: lattice admin raft members")
    wrong = subprocess.run([program, "join", "--listen=:1"], capture_output=True, text=True, check=False, timeout=60)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "quorum.peer_listen" in wrong.stderr
    assert os.access(program, os.X_OK)
