"""The programs of the guide to the client library where others run them: alone in an environment, and in a Jupyter kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.testing import LocalCluster
from tests.architecture.tree import ROOT
from tests.e2e.test_sdk_guide import PROGRAMS, SAYS, is_cell
from tests.slurm.environments import tool_python

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

# Runs the cells of argv[1] one after the other in a kernel of their own and prints what each of them said.
KERNEL = """
import json, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
for cell in json.load(open(sys.argv[1])):
    said = []
    def keep(message):
        content = message["content"]
        said.append(content.get("text") or "\\n".join(content.get("traceback", [])) or str(content.get("data", "")))
    answer = client.execute_interactive(cell, output_hook=keep, timeout=90)
    print(json.dumps({"status": answer["content"]["status"], "text": "".join(said)}), flush=True)
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of the client library and what it needs, and nothing else of Lattice."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT / "sdk", check=True, capture_output=True)
    found = tool_python("notebook")
    uv = str(Path(sys.executable).with_name("uv"))
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--reinstall", "--python", str(found)]
    subprocess.run([*install, *map(str, folder.glob("*.whl"))], check=True, capture_output=True)
    missing = subprocess.run([found, "-c", "import lattice"], capture_output=True, check=False)
    assert missing.returncode == 1
    return found


def program(cluster: LocalCluster, place: int) -> str:
    host, port = cluster.api_url.removeprefix("http://").split(":")
    text = PROGRAMS[place].replace('"lattice-api.example.com", 8080', f'"{host}", {port}')
    return str(text.replace("eyJ...", cluster.token))


def variables(cluster: LocalCluster, folder: Path) -> dict[str, str]:
    """Nothing but where the cluster is."""
    token = folder / "token"
    token.write_text(cluster.token)
    return {"LATTICE_API_URL": cluster.api_url, "LATTICE_TOKEN_FILE": str(token), "HOME": str(folder)}


def assert_says(text: str, place: int) -> None:
    rest = text
    for words in SAYS[place]:
        assert words in rest, text
        rest = rest[rest.index(words) :]


def test_in_an_empty_environment(cluster: LocalCluster, python: Path, tmp_path: Path) -> None:
    for place in range(len(PROGRAMS)):
        if is_cell(program(cluster, place)):
            continue
        file = tmp_path / f"program{place}.py"
        file.write_text(program(cluster, place))
        done = subprocess.run(
            [python, file], env=variables(cluster, tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert_says(done.stdout, place)


@pytest.mark.timeout(300)
def test_in_a_kernel(cluster: LocalCluster, python: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.json"
    # A program that runs an event loop of its own is none for a notebook, which has one already.
    places = [place for place in range(len(PROGRAMS)) if "asyncio.run(" not in PROGRAMS[place]]
    cells.write_text(json.dumps([program(cluster, place) for place in places]))
    shown = "from lattice_sdk import Client\nwith Client.from_environment() as c:\n    a = c.list_allocations(limit=1).items[0]\na"
    cells.write_text(json.dumps([*(program(cluster, place) for place in places), shown]))
    done = subprocess.run(
        [python, "-c", KERNEL, cells],
        env={**variables(cluster, tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(places) + 1, done.stderr[-3000:]
    for place, answer in zip(places, answers, strict=False):
        assert answer["status"] == "ok", answer["text"]
        assert_says(answer["text"], place)
    assert "text/html" in answers[-1]["text"]
