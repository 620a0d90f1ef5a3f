"""Prologue and epilogue: what they are told, and what counts as their failure."""

import asyncio
import stat
from pathlib import Path

import pytest

from lattice.agent.machine.state import RunKey, RunOrder
from lattice.agent.runs.site_hooks import Hooked, HookFailed, SiteHooks, hook_environment, run_hook

ORDER = RunOrder(key=RunKey(17, 2), allocation_id="a17", name="train", user="ada", nodes=("n1", "n2"))


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


def test_without_programs_nothing_is_run() -> None:
    hooked = Hooked(SiteHooks(), "n1")
    asyncio.run(hooked.before(ORDER))
    assert asyncio.run(hooked.after(ORDER.key, "a17")) == ""


def test_the_epilogue_knows_the_run_again_and_its_failure_is_told(tmp_path: Path) -> None:
    path = program(tmp_path, 'test "$LATTICE_ALLOC_ID$LATTICE_USER" = a17ada')
    hooked = Hooked(SiteHooks(epilogue=path), "n1")
    asyncio.run(hooked.before(ORDER))
    assert asyncio.run(hooked.after(ORDER.key, "a17")) == ""
    # After a restart of the agent it knows less.
    assert "the epilogue failed" in asyncio.run(hooked.after(ORDER.key, "a17"))
