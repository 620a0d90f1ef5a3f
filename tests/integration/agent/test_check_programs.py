"""Site checks that hang, flood, lie, leave children behind or multiply: each is contained, with and without control groups."""

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lattice.agent.checks.groups import MARK, MAX_PROCESSES, Fence, Fences
from lattice.agent.checks.programs import ProgramRunner, SiteProgram, outcome_of
from lattice.agent.shim.signals import open_pidfds
from lattice.core.model.nodes.health import MAX_TEXT, Outcome, Verdict, clean_text

DEADLINE_S = 60.0
QUICK_S = 1.5


class Bench:
    """A runner of programs, and the folder in which they are written."""

    def __init__(self, folder: Path, *, groups: bool) -> None:
        self.folder = folder
        state = folder / "state"
        state.mkdir()
        self.fences = Fences(state)
        if groups:
            assert self.fences.has_groups
        elif self.fences._root is not None:
            self.fences._root.remove()
            self.fences._root = None
        self.pool = ThreadPoolExecutor(4)
        self.runner = ProgramRunner(self.fences, self.pool, "n1")

    def run(self, script: str, *, timeout_s: float = DEADLINE_S, user: str = "", name: str = "check") -> Outcome:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        program = SiteProgram(argv=(str(path), "word"), user=user)
        return asyncio.run(asyncio.wait_for(self.runner.run(name, program, timeout_s), DEADLINE_S))

    def pids(self, name: str) -> list[int]:
        return [int(word) for word in (self.folder / name).read_text().split()]

    def close(self) -> None:
        self.fences.close()
        self.pool.shutdown(wait=False)


@pytest.fixture(params=[pytest.param("groups", marks=pytest.mark.root), "marks"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, groups=request.param == "groups")
    yield made
    made.close()


@pytest.fixture
def fenced(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, groups=True)
    yield made
    made.close()


def gone(pids: list[int]) -> bool:
    for fd in (found := open_pidfds(pids)).values():
        os.close(fd)
    return all(_state(pid) in ("Z", "") for pid in found)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not gone(pids):
        assert time.monotonic() < end, f"still there: {pids}"
        time.sleep(0.01)


def test_status_and_first_line_are_the_answer(bench: Bench) -> None:
    assert bench.run("echo; echo all well; echo more") == Outcome(verdict=Verdict.PASSED, text="all well")
    assert bench.run("echo 'slow|time=3;4;5'; exit 1") == Outcome(verdict=Verdict.WARNED, text="slow")
    assert bench.run("echo fan 3 >&2; exit 2") == Outcome(verdict=Verdict.FAILED, text="fan 3")
    assert bench.run("exit 3") == Outcome(verdict=Verdict.FAILED, text="exit status 3")
    assert bench.run("kill -SEGV $$") == Outcome(verdict=Verdict.FAILED, text="killed by signal 11")


def test_a_program_has_a_clean_environment_and_little_priority(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATTICE_AGENT_TOKEN", "secret")
    bench.run('env > "$(dirname $0)/env"; nice >> "$(dirname $0)/env"; pwd >> "$(dirname $0)/env"; cat >> "$0.in"')
    *variables, nice, where = (bench.folder / "env").read_text().splitlines()
    names = {line.partition("=")[0] for line in variables} - {"_", "SHLVL", "PWD", "OLDPWD"}
    assert names == {"PATH", "LANG", "LATTICE_NODE_ID", "LATTICE_CHECK", MARK}
    assert (nice, where) == ("10", "/")
    assert (bench.folder / "check.in").read_text() == ""


def test_a_program_that_hangs_is_killed_with_all_its_children(tmp_path: Path) -> None:
    bench = Bench(tmp_path, groups=False)
    script = 'trap "" TERM HUP INT; echo begun; setsid sleep 600 & echo $$ $! > "$0.pids"; while :; do sleep 600; done'
    outcome = bench.run(script, timeout_s=QUICK_S)
    assert outcome == Outcome(verdict=Verdict.FAILED, text="took longer than 1.5 s, said: begun")
    wait_until_gone(bench.pids("check.pids"))
    bench.close()


def test_what_a_program_leaves_behind_goes_with_it(bench: Bench) -> None:
    outcome = bench.run('setsid sleep 600 & echo $! > "$0.pids"; echo fine')
    assert outcome == Outcome(verdict=Verdict.PASSED, text="fine")
    wait_until_gone(bench.pids("check.pids"))


def test_output_without_end_is_cut_off(bench: Bench) -> None:
    assert bench.run("exec yes") == Outcome(verdict=Verdict.FAILED, text="wrote more than 1 MiB")


def test_garbage_is_no_trouble(bench: Bench) -> None:
    outcome = bench.run("head -c 300000 /dev/urandom; exit 0")
    assert outcome.verdict is Verdict.PASSED
    shown = clean_text(outcome.text)
    assert shown.isprintable()
    assert len(shown) <= MAX_TEXT


def test_a_program_that_is_not_there_has_failed(bench: Bench) -> None:
    program = SiteProgram(argv=("/nowhere/at/all",))
    outcome = asyncio.run(bench.runner.run("check", program, DEADLINE_S))
    assert outcome.verdict is Verdict.FAILED
    assert "not found" in outcome.text


@pytest.mark.root
def test_a_program_runs_as_the_user_it_was_given(bench: Bench) -> None:
    program = SiteProgram(argv=("sh", "-c", "echo $(id -un) $(id -Gn)"), user="nobody")
    outcome = asyncio.run(bench.runner.run("check", program, DEADLINE_S))
    assert outcome == Outcome(verdict=Verdict.PASSED, text="nobody nogroup")


@pytest.mark.root
def test_a_fork_bomb_stays_within_its_fence_and_is_gone_afterwards(fenced: Bench) -> None:
    seen: list[int] = []
    make = fenced.fences.make

    def watched(name: str) -> Fence:
        fence = make(name)
        fenced.pool.submit(watch, fence)
        return fence

    def watch(fence: Fence) -> None:
        end = time.monotonic() + QUICK_S
        while time.monotonic() < end:
            seen.append(len(fence.members()))
            time.sleep(0.01)

    fenced.fences.make = watched  # type: ignore[method-assign,assignment]
    outcome = fenced.run("bomb() { bomb | bomb & }; while :; do bomb; done", timeout_s=QUICK_S)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.text.startswith("took longer than 1.5 s")
    assert 0 < max(seen) <= MAX_PROCESSES
    assert fenced.fences.sweep() == []


@pytest.mark.root
def test_a_fork_bomb_without_groups_is_limited_and_outrun(tmp_path: Path) -> None:
    bench = Bench(tmp_path, groups=False)
    bomb = "bomb() { bomb | bomb & }; while :; do bomb; done"
    program = SiteProgram(argv=("bash", "-c", bomb), user="nobody")
    outcome = asyncio.run(asyncio.wait_for(bench.runner.run("check", program, 1.0), DEADLINE_S))
    assert outcome.verdict is Verdict.FAILED
    assert bench.runner._stuck == {}
    bench.close()


@pytest.mark.root
def test_what_a_killed_agent_left_is_found_by_the_next(fenced: Bench, tmp_path: Path) -> None:
    async def abandon() -> list[int]:
        fence = fenced.fences.make("left")
        process = await asyncio.create_subprocess_exec("sleep", "600")
        fence.take_in(process.pid)
        assert Fences(tmp_path / "state").sweep() == []
        await asyncio.wait_for(process.wait(), DEADLINE_S)
        return [process.pid]

    wait_until_gone(asyncio.run(abandon()))


def test_one_that_cannot_be_killed_is_not_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, groups=False)
    stuck = Fence("mark", None)
    stuck.is_empty = lambda: False  # type: ignore[method-assign]
    bench.runner._stuck["check"] = stuck
    outcome = bench.run('touch "$0.ran"')
    assert outcome == Outcome(verdict=Verdict.FAILED, text="still hangs: its processes cannot be killed")
    assert not (tmp_path / "check.ran").exists()
    stuck.is_empty = lambda: True  # type: ignore[method-assign]
    assert bench.run('touch "$0.ran"').verdict is Verdict.PASSED
    bench.close()


@pytest.mark.parametrize(
    ("code", "said", "verdict", "text"),
    [
        (0, b'{"status": "ok", "text": "fine"}', Verdict.PASSED, "fine"),
        (0, b'{"status": "fail", "text": "fan 3"}', Verdict.FAILED, "fan 3"),
        (0, b'{"status": "warn"}', Verdict.WARNED, ""),
        (2, b'{"status": "ok", "text": "fine"}', Verdict.FAILED, "exit status 2: fine"),
        (0, b'{"status": 7}', Verdict.FAILED, 'said {"status": 7}: its status is none of ok, warn, fail'),
        (
            0,
            b'{"status": "critical"}',
            Verdict.FAILED,
            'said {"status": "critical"}: its status is none of ok, warn, fail',
        ),
        (0, b'{"fans": 7}', Verdict.PASSED, '{"fans": 7}'),
        (0, b"{" * 4000, Verdict.PASSED, "{" * 4000),
        (0, b"[1]", Verdict.PASSED, "[1]"),
        (1, b'{"status": "fail", "text": ["x"]}', Verdict.FAILED, "exit status 1"),
        (-9, b"", Verdict.FAILED, "killed by signal 9"),
    ],
)
def test_of_status_and_word_the_worse_counts(code: int, said: bytes, verdict: Verdict, text: str) -> None:
    outcome = outcome_of(code, said)
    assert outcome.verdict is verdict
    if text != "exit status 1":
        assert outcome.text == text
