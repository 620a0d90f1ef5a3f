"""What the README says a person can type works as it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def shell(cluster: LocalCluster, text: str) -> "subprocess.CompletedProcess[str]":
    environment = {**cluster.environment(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return subprocess.run(
        ["bash", "-ec", text], cwd=cluster.directory, env=environment, capture_output=True, text=True, check=False
    )


def test_the_first_five_minutes_go_as_the_readme_says() -> None:
    with LocalCluster(nodes=4) as cluster:
        typed = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
        commands = [
            line.replace(".venv/bin/lattice", "lattice") for line in typed if re.match(r"(\.venv/bin/)?lattice ", line)
        ]
        assert len(commands) >= 8
        for command in commands:
            if "train.sh" in command:
                continue
            done = shell(cluster, command)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert cluster.allocation("a1")["state"] == "Completed"
        assert cluster.wait_end("a2")["state"] == "Cancelled"
        assert cluster.nodes()["n1"]["state"] == "Drained"


def test_the_script_and_the_program_of_the_readme_run() -> None:
    with LocalCluster(nodes=2) as cluster:
        (script,) = (block for block in blocks("sh") if "train.sh" in block)
        done = shell(cluster, script)
        assert done.returncode == 0, done.stderr
        ended = cluster.wait_end("a1")
        assert (ended["state"], ended["name"], ended["node_count"]) == ("Completed", "train", 2)
        assert cluster.logs("a1") == f"run 1 of a1 on {','.join(ended['nodes'])}\n"
        (program,) = blocks("python")
        (cluster.directory / "example.py").write_text(program)
        shown = shell(cluster, 'eval "$(lattice env)"; python example.py')
        assert shown.returncode == 0, shown.stderr
        assert "Completed" in shown.stdout
        assert "42" in shown.stdout
