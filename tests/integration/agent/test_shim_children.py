"""What a shim forks does not become a second shim when the first one is killed before the child is done."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lattice.agent.shim
from tests.integration.agent.shim_process import ShimProcess, alive, wait_for

SOURCES = Path(lattice.agent.shim.__file__).parents[3]
# A shim whose children wait, and tell who they are, at one place of what they do before they execute anything.
PROGRAM = """
import errno, os, sys, time

sys.path.insert(0, {sources!r})
from lattice.agent.shim import namespace, shim, spawn


def wait(*_):
    with open({folder!r} + "/child.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename({folder!r} + "/child.new", {folder!r} + "/child")
    while not os.path.exists({folder!r} + "/go"):
        time.sleep(0.005)
    {then}


{place} = wait
sys.exit(shim.main(sys.argv[1:]))
"""

MOUNTING = ("namespace.Mount.make", "return None")
ENTERING = ("spawn._bind", "raise OSError(errno.EPERM, 'refused')")

pytestmark = pytest.mark.root


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Callable[[str, str], ShimProcess]]:
    made: list[ShimProcess] = []

    def make(place: str, then: str) -> ShimProcess:
        program = tmp_path / "shim_that_waits.py"
        program.write_text(PROGRAM.format(sources=str(SOURCES), folder=str(tmp_path), place=place, then=then))
        made.append(ShimProcess(program=program))
        return made[0]

    yield make
    (tmp_path / "go").touch()
    for shim in made:
        shim.close()


@pytest.mark.parametrize(("place", "then"), [MOUNTING, ENTERING])
def test_a_child_that_outlives_its_shim_ends(
    waiting: Callable[[str, str], ShimProcess], tmp_path: Path, place: str, then: str
) -> None:
    shim = waiting(place, then)
    agent = shim.connect()
    mounts = [{"kind": "tmpfs", "target": "/dev/shm"}]
    agent.send("start", **shim.request(1, "true"), mounts=mounts if place == MOUNTING[0] else [])
    wait_for((tmp_path / "child").exists, "the child to be there")
    pid = int((tmp_path / "child").read_text())
    assert pid != shim.process.pid
    shim.kill()
    (tmp_path / "go").touch()
    wait_for(lambda: not alive(pid), "the child to end")
    assert not (shim.run_dir(1) / "status.json").exists(), "nobody but the shim says how a run ended"


def test_a_mount_that_hangs_does_not_hide_the_death_of_the_shim(
    waiting: Callable[[str, str], ShimProcess], tmp_path: Path
) -> None:
    shim = waiting(*MOUNTING)
    agent = shim.connect()
    agent.send("start", **shim.request(1, "true"), mounts=[{"kind": "tmpfs", "target": "/dev/shm"}])
    wait_for((tmp_path / "child").exists, "the child to be there")
    shim.kill()
    with pytest.raises(ConnectionError):
        agent.receive()
    assert alive(int((tmp_path / "child").read_text()))
