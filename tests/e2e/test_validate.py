"""deploy/validate against a real cluster, with nothing but the standard library of another interpreter."""

import os
import subprocess
import sys
from pathlib import Path

from lattice.testing import LocalCluster

VALIDATE = Path(__file__).parents[2] / "deploy" / "validate"


def validate(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    # Isolated and without the packages of this environment, as on a machine that has only Python.
    line = [sys.executable, "-I", "-S", str(VALIDATE), *words]
    plain = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(line, capture_output=True, text=True, env=plain, timeout=300, check=False)


def test_a_cluster_passes_fifteen_checks_and_one_that_is_gone_none() -> None:
    with LocalCluster(nodes=2) as cluster:
        url, token = cluster.api_url, str(cluster.directory / "token")
        done = validate(url, "n1,n2", LATTICE_TOKEN_FILE=token)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "15 of 15 passed"), done.stdout + done.stderr
        assert {node["state"] for node in cluster.get("/nodes")["items"]} == {"Ready"}

        stranger = validate(url, "n1,n9", LATTICE_TOKEN_FILE=token)
        assert stranger.returncode == 1
        assert "FAILED   3 health: every node is ready: GET /nodes/n9: 404" in stranger.stdout

        drained = cluster.cli("node", "drain", "n2", "--reason", "fan")
        assert drained.returncode == 0
        fails = validate(url, "n2", LATTICE_TOKEN_FILE=token)
        assert "FAILED   3 health: every node is ready: state of n2 is 'Drained', not 'Ready'" in fails.stdout
        assert cluster.get("/nodes/n2")["state"] == "Drained"  # as the operator left it
    gone = validate(url, "n1", LATTICE_TOKEN="any")
    assert (gone.returncode, gone.stdout.splitlines()[-1]) == (1, "0 of 15 passed")


def test_wrong_usage_is_told() -> None:
    for words, environment in (((), {}), (("n1", "n2"), {}), (("http://127.0.0.1:1", "n1"), {})):
        done = validate(*words, **environment)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr


def test_a_python_that_is_too_old_is_told() -> None:
    pretend = (
        f"import runpy, sys; sys.version_info = (3, 9, 18); runpy.run_path({str(VALIDATE)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", pretend], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "validate: Python 3.11 or newer is needed, and this is 3.9; start it with python3.11\n"
