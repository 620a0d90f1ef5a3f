"""The second run of failed tests under CI=true."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGINS = [word for plugin in ("xdist", "pytest_timeout", "tests.once_more") for word in ("-p", plugin)]
FAILS_ONCE = """
from pathlib import Path
mark = Path(__file__).with_suffix(".ran")

def test_first():
    ran = mark.exists()
    mark.touch()
    assert ran

def test_second(): pass
"""


def run_pytest(folder: Path, *words: str, ci: str = "true") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "-p", "no:cacheprovider", "-ra", *words],
        cwd=folder,
        # Only the plugins that are needed: the others take a second to load.
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def written(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_a_file_that_passes_alone_is_told_and_counted_as_rerun(tmp_path: Path, words: tuple[str, ...]) -> None:
    written(tmp_path, "e2e/test_race.py", FAILS_ONCE)
    ended = run_pytest(tmp_path, *words)
    assert ended.returncode == 0, ended.stdout
    assert "assert ran" in ended.stdout  # why it failed the first time
    assert "RERUN e2e/test_race.py::test_first" in ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert ("1 passed" in last, "1 rerun" in last, "failed" in last) == (True, True, False), last


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    written(tmp_path, "e2e/test_race.py", FAILS_ONCE)
    written(tmp_path, "slurm/test_wrong.py", "def test_wrong(): assert False\n")
    ended = run_pytest(tmp_path)
    assert ended.returncode == 1
    assert "2 failed" in ended.stdout.splitlines()[-1]


def test_a_wrong_decision_keeps_the_run_failed_and_the_report_has_only_true_failures(tmp_path: Path) -> None:
    written(tmp_path, "e2e/test_race.py", FAILS_ONCE)
    written(tmp_path, "unit/test_wrong.py", "def test_wrong(): assert False\n")
    ended = run_pytest(tmp_path)
    assert ended.returncode == 1
    assert "RERUN e2e/test_race.py::test_first" in ended.stdout
    summary = ended.stdout.rpartition("short test summary info")[2]
    assert ("FAILED unit/test_wrong.py" in summary, "FAILED e2e" in summary) == (True, False), summary
    last = ended.stdout.splitlines()[-1]
    assert ("1 failed" in last, "1 rerun" in last) == (True, True), last


KILLS_ITS_WORKER = """
import os
from pathlib import Path
mark = Path(__file__).with_suffix(".ran")

def test_first():
    if not mark.exists():
        mark.touch()
        os._exit(1)

def test_second(): pass
"""

HANGS_ONCE = """
import asyncio
import time
from pathlib import Path
import pytest
mark = Path(__file__).with_suffix(".ran")
ran = mark.exists()

async def stubborn():
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass

async def hang():
    task = asyncio.create_task(stubborn())
    await task

@pytest.fixture
def slow():
    if not ran and mark.exists():
        time.sleep(1000)

@pytest.mark.timeout(2)
def test_first():
    mark.touch()
    if not ran:
        asyncio.run(hang())

@pytest.mark.timeout(2)
def test_second(slow): pass
"""


def test_tests_that_a_dead_worker_left_out_are_missed(tmp_path: Path) -> None:
    written(tmp_path, "e2e/test_deadly.py", KILLS_ITS_WORKER)
    ended = run_pytest(tmp_path, "-n", "1", "--dist=loadfile", "--max-worker-restart=0")
    assert (ended.returncode, "1 tests did not run" in ended.stdout) == (1, True), ended.stdout


def test_a_test_that_hangs_is_a_failed_one(tmp_path: Path) -> None:
    """Also if it resists the first alarm, and if its set-up is what hangs."""
    written(tmp_path, "e2e/test_hang.py", HANGS_ONCE)
    ended = run_pytest(tmp_path, "-p", "tests.repeated_alarm", "-n", "2", "--dist=loadfile", "--max-worker-restart=0")
    assert ended.returncode == 0, ended.stdout
    assert "2 rerun" in ended.stdout.splitlines()[-1]


@pytest.mark.parametrize(("folder", "ci"), [("unit", "true"), ("e2e", "")])
def test_decisions_get_no_second_run_and_nothing_does_outside_ci(tmp_path: Path, folder: str, ci: str) -> None:
    written(tmp_path, f"{folder}/test_race.py", FAILS_ONCE)
    ended = run_pytest(tmp_path, ci=ci)
    assert (ended.returncode, "once more" in ended.stdout) == (1, False)


def test_a_change_that_breaks_many_files_gets_no_second_run(tmp_path: Path) -> None:
    for number in range(7):
        written(tmp_path, f"e2e/test_{number}.py", FAILS_ONCE)
    ended = run_pytest(tmp_path)
    assert (ended.returncode, "once more" in ended.stdout) == (1, False)
