"""What `lattice up`, `down` and `env` say when their folder is not what they need: one error with a hint, no log lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require_program, require_root

LATTICE = Path(sys.executable).with_name("lattice")
NOBODY = 65534
# Root who has to respect modes; another user might not reach the interpreter.
POWERLESS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--")


def lattice(*words: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*wrapper, LATTICE, *words], capture_output=True, text=True, timeout=60, check=False)


def told(outcome: subprocess.CompletedProcess[str]) -> str:
    """The error, after checking that it is one and nothing but one."""
    assert outcome.returncode != 0
    assert outcome.stderr.startswith("error: "), outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "timestamp" not in outcome.stderr
    assert "hint: " in outcome.stderr
    return outcome.stderr


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of somebody else."""
    require_root()  # nobody else can give a folder away
    require_program("setpriv")
    folder = tmp_path / "cluster"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    return folder


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    assert "it is not a directory" in told(lattice("up", "--detach", "--dir", str(path)))
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--nodes", "x"), "--nodes: 'x' is not a number from 0 to 1000"),
        (("--rest-port", "99999"), "--rest-port: '99999' is not a number from 0 to 65535"),
        (("--hardware-dir", "/nowhere/at/all"), "--hardware-dir: '/nowhere/at/all' is not a directory"),
        (("--node-memory", "much"), "--node-memory"),
    ],
)
def test_a_wrong_figure_is_told_like_every_other_error(tmp_path: Path, flags: tuple[str, ...], problem: str) -> None:
    outcome = lattice("up", "--detach", "--dir", str(tmp_path / "cluster"), *flags)
    assert problem in told(outcome)
    assert "`lattice up --help`" in outcome.stderr
    assert outcome.returncode == 2
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize("words", [("up", "--detach"), ("down",), ("env",)], ids=["up", "down", "env"])
def test_a_folder_of_somebody_else_is_told_from_one_without_a_cluster(foreign: Path, words: tuple[str, ...]) -> None:
    said = told(lattice(*words, "--dir", str(foreign), wrapper=POWERLESS))
    assert words[0] == "up" or "ermission denied" in said
    assert "belongs to another user" in said
