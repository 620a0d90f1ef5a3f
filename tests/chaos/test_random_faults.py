"""Servers, agents and shims die at random under load; an independent checker judges what a user could see.

A failure names its seed; LATTICE_CHAOS_SEED=N makes the same choices again."""

import contextlib
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, NotInTime, eventually
from tests.chaos.checker import check
from tests.chaos.generator import Generator, Observer
from tests.chaos.history import TERMINAL, History, read_journal, seen
from tests.chaos.nemesis import DEATHS, EVERYTHING, LOSSES, Kind, Nemesis

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

ARCHIVED_AFTER_S = 8.0
LEAST_FAULTS, LEAST_WORK = 5, 20
SOAK_S = float(os.environ.get("LATTICE_SOAK_S", "3600"))
SETTINGS = {"archive.after_s": f"{ARCHIVED_AFTER_S:g}", "snapshots.every_commands": "300"}
SEED = int(os.environ.get("LATTICE_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)


def everything(cluster: LocalCluster) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = cluster.get(f"/allocations?limit=1000&all=true{cursor and f'&cursor={cursor}'}")
        yield from page["items"]
        if not page["next_cursor"]:
            return
        cursor = page["next_cursor"]


def is_quiet(cluster: LocalCluster) -> bool:
    states = cluster.get("/allocations/count")["states"]
    return not [state for state, count in states.items() if count and state not in TERMINAL]


def come_to_rest(cluster: LocalCluster) -> None:
    """Everything that was acknowledged has ended; where it has not, the checker will say so."""
    cluster.wait_serving(within_s=30)
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready", within_s=60)
    try:
        eventually(lambda: is_quiet(cluster), "everything has ended", within_s=60, every_s=0.3)
    except NotInTime:
        return


def is_eventful(history: History) -> bool:
    answered = [submission for submission in history.submissions if submission.number is not None]
    return len(answered) >= 1.5 * LEAST_WORK and len(history.faults) >= LEAST_FAULTS


def torment(
    cluster: LocalCluster, journal: Path, kinds: tuple[Kind, ...], *, seconds: float, fault_every_s: float
) -> History:
    """Load and faults for so long, then peace; the whole history."""
    history = History(archived_after_s=ARCHIVED_AFTER_S)
    generator = Generator(cluster, history, journal, seed=SEED, pause_s=0.15)
    observer = Observer(cluster, history)
    nemesis = Nemesis(cluster, history, kinds, seed=SEED, every_s=fault_every_s)
    started = []
    try:
        for part in (observer, generator, nemesis):
            part.start()
            started.append(part)
        threading.Event().wait(seconds)
        # A busy machine needs longer for as much.
        with contextlib.suppress(NotInTime):
            eventually(lambda: is_eventful(history), "enough work and faults", within_s=4 * seconds, every_s=0.2)
        nemesis.stop()
        generator.stop()
        come_to_rest(cluster)
    finally:
        for part in started:
            part.stop()
    history.final = tuple(map(seen, everything(cluster)))
    history.executions = read_journal(journal)
    return history


def report(history: History, violations: list[str]) -> str:
    states = Counter(allocation.state for allocation in history.final)
    lines = [
        f"LATTICE_CHAOS_SEED={SEED}: {len(violations)} violations in {len(history.submissions)} submissions, "
        f"{len(history.executions)} executions, {dict(states)}",
        *violations[:50],
        *(f"  fault at {fault.at:.2f}: {fault.what}" for fault in history.faults),
    ]
    return "\n".join(lines)


def judge(history: History) -> None:
    violations = check(history)
    assert not violations, report(history, violations)
    # A test that did nothing proves nothing.
    assert len(history.faults) >= LEAST_FAULTS, history.faults
    assert len(history.final) >= LEAST_WORK
    assert any(allocation.state == "Completed" for allocation in history.final)


def test_deaths_of_servers_and_agents_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with LocalCluster(nodes=3, settings=SETTINGS) as cluster:
        judge(torment(cluster, tmp_path / "journal", DEATHS, seconds=14, fault_every_s=0.8))


def test_lost_nodes_and_shims_repeat_work_only_as_a_new_run(tmp_path: Path) -> None:
    with LocalCluster(nodes=3, settings=SETTINGS) as cluster:
        judge(torment(cluster, tmp_path / "journal", LOSSES, seconds=14, fault_every_s=1.2))


@pytest.mark.soak
@pytest.mark.timeout(2 * 3600)
def test_everything_for_long(tmp_path: Path) -> None:
    with LocalCluster(nodes=4, settings=SETTINGS) as cluster:
        judge(torment(cluster, tmp_path / "journal", EVERYTHING, seconds=SOAK_S, fault_every_s=2.0))
