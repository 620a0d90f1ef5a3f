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


def numbered(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_programs_of_a_directory_run_by_name_and_back(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        for name in ("20-b", "10-a"):
            numbered(folder, name, f"echo {folder.name} {name} >> {tmp_path}/seen")
        numbered(folder, "README", f"echo wrong >> {tmp_path}/seen")
        (folder / "30-not-executable").write_text("#!/bin/sh\nexit 1\n")
    single = program(tmp_path, f"echo single >> {tmp_path}/seen")
    hooks = [hook(prologue=single, prologue_dir=str(before), epilogue_dir=str(after))]
    runner = HookRunner(hooks, lambda key: tmp_path)
    asyncio.run(runner.prepare(ORDER, {}))
    assert asyncio.run(runner.undo(ORDER.key, "a17", has_started=True)) == ""
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen == ["before 10-a", "before 20-b", "single", "after 20-b", "after 10-a"]


def test_program_of_a_directory_that_fails_is_named_and_the_earlier_ones_are_undone(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
    numbered(before, "10-mount", "exit 0")
    numbered(before, "20-network", "echo no link; exit 4")
    numbered(before, "30-never", f"touch {tmp_path}/never")
    numbered(after, "10-mount", f"touch {tmp_path}/undone")
    runner = HookRunner([hook(prologue_dir=str(before), epilogue_dir=str(after))], lambda key: tmp_path)
    with pytest.raises(HookFailed, match="20-network ended with exit code 4: no link"):
        asyncio.run(runner.prepare(ORDER, {}))
    assert (tmp_path / "undone").exists()
    assert not (tmp_path / "never").exists()


def test_directory_that_is_gone_fails_the_hook(tmp_path: Path) -> None:
    runner = HookRunner([hook(prologue_dir=str(tmp_path / "gone"))], lambda key: tmp_path)
    with pytest.raises(HookFailed, match="cannot be read"):
        asyncio.run(runner.prepare(ORDER, {}))
