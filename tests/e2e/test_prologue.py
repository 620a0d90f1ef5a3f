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


def test_every_node_is_prepared_before_the_work_runs_and_cleared_after_it(site: Site) -> None:
    site.break_nodes()
    look = f"for n in n1 n2 n3; do echo work $n $LATTICE_ALLOC_ID $LATTICE_RUN >> {site.registry}; done"
    done = site.cluster.run(["sh", "-c", look], resources={"nodes": 3})
    assert done["state"] == "Completed"
    entries = [entry.split()[0] for entry in site.entries(done["id"])]
    assert entries == ["prologue"] * 3 + ["work"] * 3 + ["epilogue"] * 3
    assert {entry.split()[1] for entry in site.entries(done["id"])[:3]} == {"n1", "n2", "n3"}


def test_a_prologue_that_fails_on_a_node_without_the_script_stops_the_others(site: Site) -> None:
    site.break_nodes("n2")
    resources = {"nodes": 2, "constraints": {"nodes": ["n1", "n2"]}}
    failed = site.cluster.run(["true"], resources=resources)
    assert (failed["state"], failed["cause"]) == ("Failed", "launch")
    assert "n2" in failed["message"] or "no scratch space" in failed["message"]
    kinds = [entry.split()[0] for entry in site.entries(failed["id"])]
    assert "work" not in kinds
    site.break_nodes()


def test_steps_run_inside_what_was_prepared(site: Site) -> None:
    site.break_nodes()
    run = site.cluster.submit("exec sleep 300", resources={"nodes": 3})
    site.cluster.wait_state(run["id"], "Running")
    step = site.cluster.cli("launch", "--alloc", run["id"], "-n", "3", "sh", "-c", "echo $LATTICE_NODE_ID")
    assert sorted(step.stdout.split()) == ["n1", "n2", "n3"]
    site.cluster.delete(f"/allocations/{run['id']}")
    assert site.cluster.wait_end(run["id"])["state"] == "Cancelled"
    assert sorted(site.entries(run["id"])) == sorted(
        f"{kind} n{n} 1" for kind in ("prologue", "epilogue") for n in (1, 2, 3)
    )


def test_an_agent_that_dies_beside_the_script_finds_its_node_prepared(site: Site) -> None:
    site.break_nodes()
    run = site.cluster.submit("exec sleep 300", resources={"nodes": 2, "constraints": {"nodes": ["n1", "n2"]}})
    site.cluster.wait_state(run["id"], "Running")
    site.cluster.wait_replaced(site.cluster.kill("agent", "n2"))
    site.cluster.wait_node("n2", "Ready")
    assert site.cluster.allocation(run["id"])["state"] == "Running"
    site.cluster.delete(f"/allocations/{run['id']}")
    site.cluster.wait_end(run["id"])
    # Where the machine is so slow that the node was given up meanwhile, it is cleared when it is back.
    eventually(lambda: site.entries(run["id"]).count("epilogue n2 1") == 1, "the epilogue of n2")
