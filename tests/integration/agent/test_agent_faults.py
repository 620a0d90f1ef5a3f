"""Agents and shims that die at random moments: every run is started at most once and comes to one end."""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import AgentProcess, Key, TestServer, cluster, key_of, until

RUNS = 60
KILLS = 6


def open_runs(server: TestServer) -> set[Key]:
    ended = {
        key_of(report.key)
        for session in server.sessions
        for report in session.of_kind("run_report")
        if report.phase == pb.PHASE_ENDED
    }
    return {(number, 1) for number in range(1, RUNS + 1)} - ended


async def keep_asking(server: TestServer, marks: Path) -> None:
    """What a server does: every run that did not end is asked for again, whoever may know of it already."""
    while True:
        if server.newest.is_open and server.newest.of_kind("confirmed"):
            for key in sorted(open_runs(server)):
                server.start(key, ["sh", "-c", f"echo {key[0]} >> {marks}; sleep 0.0{key[0] % 10}; exit {key[0] % 7}"])
        await asyncio.sleep(0.1)


async def kill_at_random(server: TestServer, agent: AgentProcess, victims: list[str], seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(KILLS):
        await asyncio.sleep(dice.uniform(0.0, 0.15))
        victim = dice.choice(victims)
        if victim in ("shim", "both"):
            with contextlib.suppress(ProcessLookupError):  # the last one is dead, and its successor has not begun
                os.kill(agent.shim_pid(), signal.SIGKILL)
        if victim in ("agent", "both"):
            agent.kill()
            agent.start()
            number = len(server.sessions) + 1
            await server.session(number)


@pytest.mark.parametrize(
    ("victims", "seed"), [(["agent"], 1), (["agent"], 2), (["agent", "shim", "both"], 3), (["both", "shim"], 4)]
)
def test_random_deaths_lose_nothing_and_repeat_nothing(tmp_path: Path, victims: list[str], seed: int) -> None:
    marks = tmp_path / "marks"
    marks.touch()

    async def scenario() -> None:
        async with cluster() as (server, agent):
            asking = asyncio.create_task(keep_asking(server, marks))
            await until(
                lambda: marks.stat().st_size, "the first run"
            )  # on a busy machine all shims would die before it
            await kill_at_random(server, agent, victims, seed)
            await until(lambda: not open_runs(server), f"the end of {sorted(open_runs(server))}")
            asking.cancel()
            check(server, marks, deaths_of_shims=victims != ["agent"])

    asyncio.run(scenario())


def check(server: TestServer, marks: Path, *, deaths_of_shims: bool) -> None:
    started = Counter(map(int, marks.read_text().split()))
    assert max(started.values()) == 1, "a run was started twice"
    for number in range(1, RUNS + 1):
        ends = [report for report in server.all_reports((number, 1)) if report.phase == pb.PHASE_ENDED]
        outcomes = {(report.cause, report.exit_code) for report in ends}
        assert len(outcomes) == 1, f"run {number} has several ends: {outcomes}"
        cause, exit_code = outcomes.pop()
        if cause == pb.END_CAUSE_EXIT:
            assert exit_code == number % 7
            assert started[number] == 1
        else:
            assert deaths_of_shims, f"run {number} was lost: {ends[0]}"
            assert cause == pb.END_CAUSE_NODE
