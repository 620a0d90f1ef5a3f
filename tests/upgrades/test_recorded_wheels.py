"""The wheels that each release left, for tests that run its programs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.upgrades.wheels import WHEELS, record_wheels, unpack_wheels

HERE = Path(__file__).parent
RECORDED = sorted({path.name.partition("-")[0] for path in HERE.glob("[0-9]*.*.*")})
FOLDERS = sorted(path.parent.name for path in HERE.glob(f"*/{WHEELS}"))
PROGRAM = """\
import importlib.metadata, sys
sys.path[:0] = [sys.argv[1]]
import lattice, lattice_sdk
about = [each for each in importlib.metadata.distributions(path=[sys.argv[1]])]
print(*sorted({f"{each.metadata['Name']} {each.version}" for each in about}), lattice.__path__[0], lattice_sdk.__file__, sep="\\n")
"""


def test_every_release_left_its_wheels() -> None:
    assert {folder.partition("-")[0] for folder in FOLDERS} >= set(RECORDED)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_wheels_of_a_release_are_importable_and_say_which_it_is(folder: str, tmp_path: Path) -> None:
    unpack_wheels(HERE / folder, tmp_path)
    told = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) == 4
    assert all(line.endswith(f" {folder.partition('-')[0]}") for line in told[:2])
    assert all(line.startswith(str(tmp_path)) for line in told[2:])


def test_this_release_would_leave_both(tmp_path: Path) -> None:
    record_wheels(tmp_path)
    assert len(list((tmp_path / WHEELS).glob("*.whl"))) == 2
