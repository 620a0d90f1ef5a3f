"""The site's prologue and epilogue around real runs: where they run, what they know, and what a failure leads to."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

PROLOGUE = """#!/bin/sh
echo "prologue $LATTICE_NODE_ID $LATTICE_ALLOC_ID $LATTICE_RUN" >> {registry}
if test -e {folder}/broken-$LATTICE_NODE_ID; then echo "no scratch space"; exit 7; fi
"""
EPILOGUE = """#!/bin/sh
echo "epilogue $LATTICE_NODE_ID $LATTICE_ALLOC_ID $LATTICE_RUN" >> {registry}
"""


class Site:
    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.registry = folder / "registry"

    def entries(self, allocation_id: str) -> list[str]:
        lines = [line.split() for line in self.registry.read_text().splitlines()]
        return [f"{kind} {node} {run}" for kind, node, number, run in lines if number == allocation_id]

    def break_nodes(self, *nodes: str) -> None:
        for path in self.folder.glob("broken-*"):
            path.unlink()
        for node in nodes:
            (self.folder / f"broken-{node}").touch()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    hooks = []
    for name, text in (("prologue", PROLOGUE), ("epilogue", EPILOGUE)):
        path = folder / name
        path.write_text(text.format(registry=folder / "registry", folder=folder))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        hooks += [f"--{name}", str(path)]
    with LocalCluster(nodes=3, arguments=hooks) as cluster:
        yield Site(cluster, folder)


def test_both_run_around_the_work_and_know_what_it_is(site: Site) -> None:
    site.break_nodes()
    registry = site.registry
    done = site.cluster.run(
        f"echo work n1 $LATTICE_ALLOC_ID $LATTICE_RUN >> {registry}", lifecycle={"requeue": "never"}
    )
    node = done["nodes"][0]
    assert done["state"] == "Completed"
    assert site.entries(done["id"]) == [f"prologue {node} 1", "work n1 1", f"epilogue {node} 1"]


def test_a_failed_prologue_moves_the_work_to_another_node_and_counts_for_nothing(site: Site) -> None:
    site.break_nodes("n1", "n2")
    done = site.cluster.run(["true"], lifecycle={"requeue": "never"})
    assert done["state"] == "Completed"
    assert done["nodes"] == ["n3"]
    assert done["requeue_count"] == 0
    tried = site.entries(done["id"])
    assert tried[-1] == f"epilogue n3 {len(tried) - 1}"
    assert sorted(done.get("avoided", [])) == sorted({entry.split()[1] for entry in tried} - {"n3"})
    states = {name: node["state"] for name, node in site.cluster.nodes().items()}
    assert states == {"n1": "Ready", "n2": "Ready", "n3": "Ready"}


def test_a_prologue_that_fails_everywhere_ends_the_work_after_three_more_tries(site: Site) -> None:
    site.break_nodes("n1", "n2", "n3")
    done = site.cluster.run(["true"])
    assert (done["state"], done["cause"]) == ("Failed", "launch")
    assert "no scratch space" in done["message"]
    assert len(site.entries(done["id"])) == 4
    assert done["requeue_count"] == 0
    site.break_nodes()
    assert eventually(lambda: site.cluster.run(["true"])["state"] == "Completed", "work again")
