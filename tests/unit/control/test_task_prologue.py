"""A task with a prologue: what its lines say reaches the task, and nothing else does."""

import os
import subprocess
from pathlib import Path

import pytest

from lattice.control.steps.prologue import with_prologue

SHOW = ("sh", "-c", 'echo "$A|$B|${C-unset}|$#|$1"', "task", "an argument")


def run(tmp_path: Path, text: str, argv: tuple[str, ...] = SHOW) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "prologue"
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "C": "inherited", "GIVEN": "x y"}
    words = with_prologue(argv, str(program))
    return subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_exports_reach_the_task_as_they_are_written(tmp_path: Path) -> None:
    done = run(
        tmp_path, """echo 'export A=a $(id) "b" = c'; echo "export B=$GIVEN"; echo 'unset C'; echo 'print ready'\n"""
    )
    plain = run(tmp_path, "", ("sh", "-c", 'echo "$said $line $code"'))
    assert plain.stdout == "  \n"
    assert (done.stdout, done.stderr) == ('ready\na $(id) "b" = c|x y|unset|1|an argument\n', "")


@pytest.mark.parametrize(
    "line", ["export A-B=1", "export A", "export 1A=2", "unset A B", "A=1", "exit 3", "export `id`=1"]
)
def test_other_lines_mean_nothing(line: str, tmp_path: Path) -> None:
    done = run(tmp_path, f"printf '%s\\n' '{line}'\n")
    assert (done.stdout, done.stderr, done.returncode) == ("||inherited|1|an argument\n", "", 0)


def test_a_prologue_that_fails_ends_the_task_with_its_code(tmp_path: Path) -> None:
    done = run(tmp_path, "echo export A=1\nexit 7\n")
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr == f"task prologue {tmp_path}/prologue ended with exit code 7\n"
    missing = subprocess.run(with_prologue(SHOW, "/no/such"), capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stdout) == (127, "")


def test_the_code_of_the_task_is_its_own(tmp_path: Path) -> None:
    assert run(tmp_path, "", ("sh", "-c", "exit 5")).returncode == 5
    assert with_prologue(("true",), "") == ("true",)
    assert with_prologue((), "/x") == ()
