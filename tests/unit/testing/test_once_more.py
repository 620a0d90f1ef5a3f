"""The second run of failed tests under CI=true."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
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
        [sys.executable, "-m", "pytest", "-p", "tests.once_more", "-p", "no:cacheprovider", "-ra", *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "CI": ci},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
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
