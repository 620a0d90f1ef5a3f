"""Traces on nodes."""

import json
from pathlib import Path

import msgspec
import pytest

from lattice.core.model.nodes.nodes import Hardware
from lattice.replay.cluster import Moves
from lattice.replay.inventory import Site, made_up, on_nodes, read_inventory, simulate_full
from lattice.replay.outcomes import measure
from lattice.replay.report import as_json, moves_text
from lattice.replay.traces.entries import Entry, Trace, TraceError

INVENTORY = """
nodes:
  - names: n[08-11]
    cpus: 64
    group_size: 2
  - {names: big, cpus: 8, gpus: 4, gpu_type: GH200, group: far, features: [fat]}
"""


def entry(number: int, submit: int, run: int, *, nodes: int = -1, procs: int = -1, estimate: int = -1) -> Entry:
    user = f"u{number}"
    return Entry(id=str(number), submit=submit, run=run, user=user, nodes=nodes, procs=procs, estimate=estimate)


def test_an_inventory_names_nodes_and_their_groups(tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(INVENTORY)
    machine = read_inventory(file).nodes
    assert {name: hardware.group for name, hardware in machine.items()} == {
        "n08": "g0",
        "n09": "g0",
        "n10": "g1",
        "n11": "g1",
        "big": "far",
    }
    assert machine["big"] == Hardware(cpus=8, memory_mb=0, gpus=4, gpu_type="GH200", group="far", features=("fat",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: [{names: a}, {names: 'b,a'}]", '"a" is there twice'),
        ("nodes: [{names: 'n[', cpus: 2}]", "names"),
        ("nodes: [{name: a}]", "unknown field"),
        ("nodes: []", "names no nodes"),
        ("{nodes: [{names: a}], vclusters: [{name: v}, {name: v}]}", '"v" is there twice'),
        ("{nodes: [{names: a}], vclusters: [{name: v, nodes: b}]}", 'node "b", which is not in nodes'),
        ("{nodes: [{names: a}], vclusters: [{name: v, lends: all}]}", "Invalid enum value"),
        ("{nodes: [{names: a}], preemption: {speed: 1}}", "unknown setting preemption.speed; known: patience_s"),
        ("{", "expected"),
        ("", "Expected"),
    ],
)
def test_what_is_wrong_with_an_inventory_is_said(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(text)
    with pytest.raises(TraceError, match=problem) as refused:
        read_inventory(file)
    assert str(file) in str(refused.value)


def test_processors_become_whole_nodes_and_what_does_not_fit_is_left_out() -> None:
    trace = Trace(
        name="t", entries=[entry(1, 0, 5, procs=65), entry(2, 0, 5, nodes=3, procs=1), entry(3, 0, 5, nodes=9)]
    )
    work = on_nodes(trace, Site(nodes=made_up(4, cpus=64)))
    assert (work.procs, work.procs_total, work.dropped) == ([2, 3], 4, 1)


def test_starts_are_those_of_the_trace_s_clock_and_small_work_flows_past() -> None:
    entries = [
        entry(1, 1000, 100, nodes=3, estimate=200),
        entry(2, 1010, 50, nodes=4, estimate=60),
        entry(3, 1020, 30, nodes=1, estimate=40),  # ends before 2 could start
        entry(4, 1030, 0, nodes=1, estimate=500),
    ]
    site = Site(nodes=made_up(4))
    work = on_nodes(Trace(name="t", entries=entries), site)
    found = simulate_full(work, site)
    assert found.starts == [1000, 1100, 1020, 1150]
    assert found.ends == [1100, 1150, 1050, 1150]
    assert (found.moves, found.vclusters) == (None, ["default"] * 4)
    assert found == simulate_full(work, site)


def queued(number: int, submit: int, run: int, queue: str, *, nodes: int = 1) -> Entry:
    return msgspec.structs.replace(entry(number, submit, run, nodes=nodes), queue=queue)


def site_of(tmp_path: Path, text: str) -> Site:
    file = tmp_path / "machine.yaml"
    file.write_text(text)
    return read_inventory(file)


LENDING = """
nodes: [{names: "n[1-4]"}]
vclusters:
  - {name: home, nodes: "n[1-2]", queues: [1], lends: idle, return_grace_s: 60}
  - {name: guest, nodes: "n[3-4]", queues: ["2"], partitions: [7], borrows: true, checkpoint: true}
checkpoints: {write_s: 10, restart_s: 5}
"""


def test_nodes_are_lent_and_come_back_after_a_checkpoint(tmp_path: Path) -> None:
    entries = [
        queued(1, 0, 1000, "2", nodes=2),
        queued(2, 0, 1000, "2"),
        msgspec.structs.replace(queued(3, 0, 1000, "9"), partition="7"),
        queued(4, 500, 100, "1", nodes=2),
        queued(5, 0, 10, "5"),  # of no vCluster
        queued(6, 0, 10, "1", nodes=3),  # larger than its vCluster
    ]
    site = site_of(tmp_path, LENDING)
    work = on_nodes(Trace(name="t", entries=entries), site)
    assert (len(work), work.dropped) == (4, 2)
    found = simulate_full(work, site)
    assert found.vclusters == ["guest", "guest", "guest", "home"]
    assert found.starts == [0, 0, 0, 510], "borrowed nodes come back when the checkpoints are written"
    assert found.ends == [1000, 1115, 1115, 610], "half of the work was saved, and a restart takes five seconds"
    assert found.moves == Moves(
        returned=2,
        lost_s=20.0,
        used_s=2000 + 200 + 2 * 510 + 2 * 505,
        borrowed_s=2 * 510 + 2 * 505,
        checkpoints=2,
    )
    assert "borrowed: 1; allocations that gave nodes back: 2" in moves_text(work, found)
    told = json.loads(as_json(measure(work, found.starts, found.ends), work, found))
    assert (told["returned"], told["vclusters"]["home"]["avg_wait_s"]) == (2, 10.0)
    assert measure(work, found.starts, found.ends).makespan_s == 1115


def test_without_lending_each_has_its_own_nodes(tmp_path: Path) -> None:
    site = site_of(tmp_path, LENDING.replace("lends: idle, ", ""))
    work = on_nodes(Trace(name="t", entries=[queued(n, 0, 100, "2", nodes=2) for n in (1, 2)]), site)
    found = simulate_full(work, site)
    assert (found.starts, found.moves) == ([0, 100], Moves(used_s=400))


def test_work_without_a_checkpoint_begins_again_when_it_is_preempted(tmp_path: Path) -> None:
    site = site_of(
        tmp_path,
        """
nodes: [{names: "n[1-2]"}]
vclusters:
  - {name: low, queues: [1], preemption_class: 2}
  - {name: high, queues: [2], preemption_class: 9}
preemption: {min_runtime_s: 0}
""",
    )
    work = on_nodes(Trace(name="t", entries=[queued(1, 0, 5000, "1", nodes=2), queued(2, 600, 500, "2")]), site)
    found = simulate_full(work, site)
    assert (found.starts, found.ends) == ([0, 600], [6100, 1100])
    assert found.moves is not None
    assert (found.moves.preemptions, found.moves.lost_s, found.moves.checkpoints) == (1, 1200.0, 0)
