"""Traces on nodes."""

from pathlib import Path

import pytest

from lattice.core.model.nodes.nodes import Hardware
from lattice.replay.inventory import made_up, on_nodes, read_inventory, simulate_full
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
    machine = read_inventory(file)
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
    work = on_nodes(trace, made_up(4, cpus=64))
    assert (work.procs, work.procs_total, work.dropped) == ([2, 3], 4, 1)


def test_starts_are_those_of_the_trace_s_clock_and_small_work_flows_past() -> None:
    entries = [
        entry(1, 1000, 100, nodes=3, estimate=200),
        entry(2, 1010, 50, nodes=4, estimate=60),
        entry(3, 1020, 30, nodes=1, estimate=40),  # ends before 2 could start
        entry(4, 1030, 0, nodes=1, estimate=500),
    ]
    machine = made_up(4)
    work = on_nodes(Trace(name="t", entries=entries), machine)
    starts = simulate_full(work, machine)
    assert starts == [1000, 1100, 1020, 1150]
    assert starts == simulate_full(work, machine)
