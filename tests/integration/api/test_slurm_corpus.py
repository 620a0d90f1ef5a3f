"""Batch scripts as people write them: each is accepted with exactly the warnings that it earns, or refused in Slurm's words.

LATTICE_RECORD=1 writes what is said now to expected.json, to be read before it is committed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lattice.core.machine.commands import ConfirmNode, RegisterNode, SetTenant, SetVcluster
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.tenants import Tenant, Vcluster
from tests.integration.api.world import World, in_world

CORPUS = Path(__file__).resolve().parents[2] / "slurm" / "corpus"
SCRIPTS = sorted(CORPUS.glob("*.sh"))
EXPECTED = CORPUS / "expected.json"
LEAST = 60
SHOWN = "%j|%a|%P|%q|%l|%D|%m|%b|%f|%K|%r|%Z"


async def add(world: World, node: str, hardware: Hardware) -> None:
    await world.do(RegisterNode(node=node, hardware=hardware))
    await world.do(ConfirmNode(node=node))


async def furnish(world: World) -> str:
    """A site with nodes of two kinds, three partitions and a project; the token of somebody in it."""
    for number in range(1, 9):
        features = ("haswell",) if number < 5 else ("skylake", "ib")
        await add(world, f"c{number}", Hardware(cpus=64, memory_mb=256_000, features=features))
    gpu = Hardware(cpus=96, memory_mb=512_000, gpus=8, gpu_type="a100", features=("a100", "ib"))
    for number in range(1, 3):
        await add(world, f"g{number}", gpu)
    computing = tuple(f"c{number}" for number in range(1, 9))
    for vcluster in (
        Vcluster(name="normal", nodes=computing),
        Vcluster(name="debug", nodes=computing, max_walltime_s=1800),
        Vcluster(name="gpu", nodes=("g1", "g2")),
    ):
        await world.do(SetVcluster(vcluster=vcluster, create=True))
    await world.do(SetTenant(tenant=Tenant(name="chem"), create=True))
    return world.token("ada", tenants=("default", "chem"))


async def submitted(world: World, path: Path, token: str) -> dict[str, Any]:
    body = {
        "program": "sbatch",
        "argv": [path.name],
        "cwd": "/tmp",
        "environment": {"PATH": "/usr/bin:/bin"},
        "script": path.read_bytes().decode(),
        "script_path": f"/tmp/{path.name}",
    }
    response = await world.call("POST", "/slurm/commands", body, token=token)
    assert response.status == 200, response.body
    answer: dict[str, Any] = {"stdout": "", "stderr": "", "code": 0} | response.json()
    said = answer["stderr"].splitlines()
    is_named = bool(answer["stdout"].strip().rpartition(" ")[2].isdigit())
    assert is_named == (answer["code"] == 0 and "quiet" not in path.name), answer
    if answer["code"]:
        return {"code": answer["code"], "stderr": said}
    number = str(max({*world.state.allocations, *world.state.groups}))
    listed = {"program": "squeue", "argv": ["-h", "-j", number, "-o", SHOWN]}
    line = (await world.call("POST", "/slurm/commands", listed, token=token)).json()["stdout"].strip()
    return {"warnings": said, "squeue": line}


@in_world
async def test_each_script_is_judged_as_expected(world: World) -> None:
    token = await furnish(world)
    found = {path.stem: await submitted(world, path, token) for path in SCRIPTS}
    if os.environ.get("LATTICE_RECORD"):
        EXPECTED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    expected = json.loads(EXPECTED.read_text())
    assert found.keys() == expected.keys()
    assert {name: said for name, said in found.items() if said != expected[name]} == {}


def test_the_corpus_is_varied() -> None:
    accepted = [path for path in SCRIPTS if not path.stem.startswith("refused")]
    assert len(accepted) >= LEAST
    assert all(
        ("code" in said) == name.startswith("refused") for name, said in json.loads(EXPECTED.read_text()).items()
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_no_script_is_there_twice(path: Path) -> None:
    assert [other.stem for other in SCRIPTS if other.read_bytes() == path.read_bytes()] == [path.stem]


@in_world
async def test_a_trial_tells_the_warnings_and_submits_nothing(world: World) -> None:
    token = await furnish(world)
    body = {"program": "sbatch", "argv": ["--test-only", "-L", "x", "--wrap", "true"], "cwd": "/tmp"}
    answer = (await world.call("POST", "/slurm/commands", body, token=token)).json()
    assert answer["stderr"].startswith("sbatch: warning: --licenses has no effect: licences are not counted\nsbatch: ")
    assert not world.state.allocations
