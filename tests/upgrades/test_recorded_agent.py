"""An agent that was upgraded while work ran takes over what the agent of an earlier release left on the disk."""

import shutil
from pathlib import Path

import msgspec
import pytest

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import Connected, Retention, SendRegister
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.recovery import end_of, judge, recall
from lattice.agent.shim_client import read_status
from lattice.agent.steps.folders import StepFolders
from lattice.ports.nodes.agents import EndCause, KnownRun, Phase, StartOrder
from tests.upgrades.agent_folders import AGENT, DEVICES, ENDED, LIVE, SHIM, STEP, order, record_agent
from tests.upgrades.record import HERE

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{AGENT}"))


@pytest.fixture(params=[*RELEASES, "this one"])
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "this one":
        record_agent(tmp_path)
    else:
        shutil.copytree(HERE / request.param / AGENT, tmp_path / AGENT)
    return tmp_path / AGENT


def test_what_was_asked_of_a_run_is_still_known(left: Path) -> None:
    folders = RunFolders(left, reachable=False)
    for key in (LIVE, ENDED):
        assert folders.order(key) == order(key)
        assert folders.devices(key) == DEVICES
    filled = {
        field.name
        for field in msgspec.structs.fields(StartOrder)
        if field.required or getattr(order(LIVE), field.name) not in (field.default, (), {})
    }
    # Those are in files of their own, or newer than the first release.
    own_or_newer = {
        "script",
        "script_args",
        "token",
        "umask",
        "submission",
        "images",
        "views",
        "node_cpus",
        "container",
        "scratch_mb",
        "no_defaults",
        "exposes",
        "output_prefix",
        "upload_grant",
        "checkpoint",
        "data",
        "stage_out",
        "instance",
        "restart",
        "drain_s",
        "probes",
        "attempt",
        "failures",
        "streak",
        "telemetry",
        "vcluster",
        "holds",
        "awaits",
        "memory_policy",
        "same_numa",
        "read_mb_s",
        "write_mb_s",
    }
    assert set(StartOrder.__struct_fields__) - filled == own_or_newer


def test_a_run_that_lives_is_adopted_and_one_that_ended_is_reported(left: Path) -> None:
    folders = RunFolders(left, reachable=False)
    state = recall(folders, {LIVE}, SHIM, Retention())
    assert (state.runs[LIVE].fence, state.runs[LIVE].summary, state.runs[LIVE].epoch) == (True, True, 20)
    status, ended = read_status(folders.path(LIVE)), end_of(read_status(folders.path(ENDED)))
    assert status is not None
    assert ended is not None
    assert (ended.cause, ended.exit_code, ended.elapsed_s) == (EndCause.EXIT, 3, 60.0)
    step(state, judge(state, [status], {ENDED: ended}, "the shim died"))
    assert step(state, Connected()) == [
        SendRegister(
            runs=(
                KnownRun(key=LIVE, phase=Phase.RUNNING, epoch=20),
                KnownRun(key=ENDED, phase=Phase.ENDED, epoch=20),
            )
        )
    ]


def test_a_step_is_still_known(left: Path) -> None:
    (found,) = StepFolders(left, reachable=False).found()
    assert found.key == STEP
    assert (found.spec.launch_id, found.spec.plan, found.spec.ranks, found.spec.fence) == (
        "mine",
        b"plan",
        (0, 1),
        True,
    )
    assert found.status is not None
    assert not found.status.has_ended


def test_something_was_recorded() -> None:
    assert RELEASES
