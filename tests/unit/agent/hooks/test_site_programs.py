"""Prologue and epilogue: what they are told, and what counts as their failure."""

import asyncio
import stat
from pathlib import Path

import pytest

from lattice.agent.hooks.protocol import HookFailed
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.hooks.site_programs import SiteHooks, SiteProgramsHook, hook_environment, run_hook
from lattice.ports.nodes.agents import RunKey, StartOrder

ORDER = StartOrder(key=RunKey(17, 2), allocation_id="a17", name="train", user="ada", nodes=("n1", "n2"))


def program(folder: Path, text: str) -> str:
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_hook_knows_the_run_and_nothing_of_the_agent(tmp_path: Path) -> None:
    path = program(tmp_path, f"env | sort > {tmp_path}/seen")
    asyncio.run(run_hook(path, hook_environment(ORDER, "n1"), 10))
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert seen["LATTICE_ALLOC_ID"] == "a17"
    assert (seen["LATTICE_RUN"], seen["LATTICE_NODE_ID"], seen["LATTICE_USER"]) == ("2", "n1", "ada")
    assert seen["LATTICE_NODELIST"] == "n1,n2"
    assert not any("TOKEN" in name for name in seen)


@pytest.mark.parametrize(
    ("text", "said"),
    [("echo no room; exit 3", "exit code 3: no room"), ("kill -9 $$", "signal 9"), ("sleep 60", "longer than")],
)
def test_a_hook_that_fails_says_how(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(HookFailed, match=said):
        asyncio.run(run_hook(program(tmp_path, text), {}, 0.5))


def test_a_hook_that_is_not_there_fails(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match="cannot be run"):
        asyncio.run(run_hook(str(tmp_path / "none"), {}, 1))


def hook(**programs: str) -> SiteProgramsHook:
    return SiteProgramsHook(SiteHooks(timeout_s=10, **programs), "n1")


def test_without_programs_the_hook_does_not_apply() -> None:
    assert not hook().applies(ORDER)
    assert hook(prologue="/x").applies(ORDER)
    assert hook(epilogue="/x").applies(ORDER)


def test_the_epilogue_knows_the_run_again(tmp_path: Path) -> None:
    path = program(tmp_path, 'test "$LATTICE_ALLOC_ID$LATTICE_USER" = a17ada')
    runner = HookRunner([hook(epilogue=path)], lambda key: tmp_path)
    asyncio.run(runner.prepare(ORDER, {}))
    # Another agent, which has nothing but the record.
    later = HookRunner([hook(epilogue=path)], lambda key: tmp_path)
    assert asyncio.run(later.undo(ORDER.key, "a17", has_started=True)) == ""


def test_the_epilogue_runs_for_work_of_an_agent_that_kept_no_record(tmp_path: Path) -> None:
    path = program(tmp_path, 'echo "user: $LATTICE_USER"; exit 1')
    runner = HookRunner([hook(epilogue=path)], lambda key: tmp_path)
    assert "the epilogue failed" in asyncio.run(runner.undo(ORDER.key, "a17", has_started=True))
    assert asyncio.run(runner.undo(ORDER.key, "a17", has_started=False)) == ""
