"""What every wiper has to do: say when a node is clean, fail in words, keep its time, and leave nothing behind."""

import asyncio
import json
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lattice.integrations.wiper.program import ProgramWiper
from lattice.ports.nodes.wiper import WipeFailed, WipeOrder, Wiper

ORDER = WipeOrder(node="n1", address="10.0.0.1:5000", why="sensitive work a7 has left it", since=1_772_700_000_000)
Maker = Callable[[str], Wiper]


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """A wiper that does what a shell script says."""

    def made(script: str) -> Wiper:
        path = tmp_path / "wiper"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ProgramWiper([str(path), "--secure"], at_once=1)

    return made


def test_a_clean_node_is_confirmed_with_what_the_wiper_says(make: Maker, tmp_path: Path) -> None:
    wiper = make(f'echo "$1" > {tmp_path}/arguments; cat > {tmp_path}/order; echo 3 disks erased')
    assert asyncio.run(wiper.wipe(ORDER, 60)) == "3 disks erased"
    assert (tmp_path / "arguments").read_text() == "--secure\n"
    assert json.loads((tmp_path / "order").read_text()) == {
        "node": "n1",
        "address": "10.0.0.1:5000",
        "why": "sensitive work a7 has left it",
        "since": 1_772_700_000_000,
        "tries": 1,
    }


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo the disk does not answer >&2; exit 3", "ended with exit code 3: the disk does not answer"),
        ("exit 1", "exit code 1: it said nothing"),
        ("kill -9 $$", "ended with signal 9"),
    ],
)
def test_a_wiper_that_fails_says_why(make: Maker, script: str, says: str) -> None:
    with pytest.raises(WipeFailed, match=says):
        asyncio.run(make(script).wipe(ORDER, 60))


def test_a_wiper_that_cannot_be_started_has_failed() -> None:
    with pytest.raises(WipeFailed, match="cannot be started: No such file"):
        asyncio.run(ProgramWiper(["/nowhere/wiper"]).wipe(ORDER, 60))


def is_gone(pid: int) -> bool:
    """Also a dead one that nobody has reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


HANGING = "sleep 600 & echo $! > {0}/child.new; mv {0}/child.new {0}/child; wait"


def test_one_that_takes_too_long_is_killed_with_its_children(make: Maker, tmp_path: Path) -> None:
    wiper = make(HANGING.format(tmp_path))
    for limit_s in (1, 10, 40):  # a busy machine may need longer to begin
        with pytest.raises(WipeFailed, match=f"did not end within {limit_s} s"):
            asyncio.run(wiper.wipe(ORDER, limit_s))
        if (tmp_path / "child").exists():
            break
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: is_gone(child))


def test_one_that_nobody_waits_for_any_more_is_killed_and_the_next_is_not_begun(make: Maker, tmp_path: Path) -> None:
    wiper = make(HANGING.format(tmp_path))

    async def scenario() -> None:
        first = asyncio.create_task(wiper.wipe(ORDER, 60))
        second = asyncio.create_task(wiper.wipe(ORDER, 60))
        await asyncio.to_thread(wait_for, (tmp_path / "child").exists)
        (tmp_path / "child").rename(tmp_path / "first")
        for task in (second, first):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(scenario())
    child = int((tmp_path / "first").read_text())
    wait_for(lambda: is_gone(child))
    assert not (tmp_path / "child").exists()
