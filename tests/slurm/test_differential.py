"""The same commands against a real Slurm and against Lattice: the same codes, the same text.

Compared is with answers that were recorded; `make soak` takes them again where Slurm can be installed, and with LATTICE_RECORD=1 keeps them.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from lattice.cli.slurm.install import install
from lattice.testing import LocalCluster, eventually
from tests.slurm.differential import RECORDED, Answer, Case, answer, cases
from tests.slurm.live import Commands
from tests.slurm.reference import real_slurm

pytestmark = pytest.mark.e2e

CASES = cases()
LEAST = 150
# What Lattice adds to a refusal, and what it says of options without effect.
ADDED = re.compile(r"^\w+: error: known (partitions|accounts): |^\w+: warning: --[\w-]+ has no effect: ")


def recorded() -> dict[str, Answer]:
    return {line: Answer(**each) for line, each in json.loads(RECORDED.read_text()).items()}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A cluster of the same shape and names."""
    folder = tmp_path_factory.mktemp("programs")
    install(folder)
    settings = {"slurm.partitions": '{"main":"default","debug":"debug"}', "slurm.cluster_name": "ref"}
    shape = ["--node-cpus", "2", "--node-memory", "2000M"]
    with LocalCluster(nodes=4, arguments=shape, settings=settings) as cluster:
        cluster.post("/vclusters", {"name": "debug", "nodes": ["n1", "n2"], "max_walltime": "30m"})
        yield Commands(cluster, folder, tmp_path_factory.mktemp("home"))


def test_there_are_many_cases_and_each_is_recorded() -> None:
    lines = [case.line for case in CASES]
    assert len(set(lines)) == len(lines) >= LEAST
    assert recorded().keys() == set(lines)


def test_the_answers_are_those_of_slurm(commands: Commands) -> None:
    known = recorded()
    wrong = [text for case in CASES if (text := difference(case, known[case.line], commands))]
    assert wrong == [], "\n".join(wrong)


def difference(case: Case, theirs: Answer, commands: Commands) -> str:
    """What is wrong with the answer of Lattice; empty when it is as it should be."""

    def shell(words: list[str]) -> "subprocess.CompletedProcess[str]":
        return commands.run(words)

    eventually(lambda: _is_idle(commands.cluster), f"idle nodes before {case.line}")
    found = answer(case, shell)
    ours = found._replace(stderr=[line for line in found.stderr if not ADDED.match(line)])
    if (ours != theirs) == bool(case.differs):
        return ""
    if case.differs:
        return f"{case.line}\n  is said to differ ({case.differs}), and does not"
    return f"{case.line}\n  Slurm   {tuple(theirs)}\n  Lattice {tuple(ours)}"


def _is_idle(cluster: LocalCluster) -> bool:
    """What the case before left behind has ended: the next one gets the first node, as with Slurm."""
    items = cluster.get("/allocations")["items"]
    return not any(each["state"] in ("Starting", "Running", "Stopping") for each in items)


@pytest.mark.soak
@pytest.mark.root
def test_slurm_still_answers_as_recorded() -> None:
    with real_slurm() as shell:
        found = {case.line: answer(case, shell) for case in CASES}
    if os.environ.get("LATTICE_RECORD"):
        RECORDED.parent.mkdir(exist_ok=True)
        text = json.dumps({line: each._asdict() for line, each in found.items()}, indent=1, ensure_ascii=False)
        RECORDED.write_text(text + "\n")
    known = recorded()
    assert {line: each for line, each in found.items() if each != known.get(line)} == {}
