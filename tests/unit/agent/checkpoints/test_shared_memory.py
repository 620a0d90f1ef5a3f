"""The 64 bytes: what the agent writes the helper reads, and the other way round; a damaged region harms no agent."""

import os
import threading
from pathlib import Path

import pytest

from lattice.agent.checkpoints import shared_memory
from lattice.agent.checkpoints.control import Request, write_request
from lattice_sdk.checkpoints.program import Checkpoints

OWNER = (os.getuid(), os.getgid())


def helper(folder: Path) -> Checkpoints:
    return Checkpoints(
        {
            "LATTICE_CHECKPOINT_PROTOCOL": "shmem",
            "LATTICE_CHECKPOINT_SHM": str(folder / "shm"),
            "LATTICE_CHECKPOINT_REQUEST": str(folder / "request.json"),
        }
    )


def ask(folder: Path, n: int) -> None:
    path = folder / str(n)
    path.mkdir()
    request = Request(n=n, path=str(path), deadline=2e9, reason="user", asked=1e9)
    write_request(folder, request, OWNER[1])
    shared_memory.ask(folder / "shm", n, 2_000_000_000_000)


def test_a_request_is_seen_once_and_answered(tmp_path: Path) -> None:
    shared_memory.make(tmp_path / "shm", OWNER)
    program = helper(tmp_path)
    assert program.requested() is None
    ask(tmp_path, 1)
    request = program.requested()
    assert request is not None
    assert (request.n, request.path, request.reason) == (1, tmp_path / "1", "user")
    assert program.requested() is None
    request.progress(450)
    standing = shared_memory.read(tmp_path / "shm")
    assert standing is not None
    assert (standing.request, standing.done, standing.per_mille) == (1, 0, 450)
    request.done()
    assert shared_memory.read(tmp_path / "shm").done == 1  # type: ignore[union-attr]
    ask(tmp_path, 2)
    second = program.requested()
    assert second is not None
    second.failed("disk full")
    assert shared_memory.read(tmp_path / "shm").failed == 2  # type: ignore[union-attr]
    assert (tmp_path / "2" / ".failed").read_text() == "disk full"


def test_a_program_that_starts_again_does_not_answer_twice(tmp_path: Path) -> None:
    shared_memory.make(tmp_path / "shm", OWNER)
    ask(tmp_path, 1)
    first = helper(tmp_path).requested()
    assert first is not None
    first.done()
    assert helper(tmp_path).requested() is None


def test_a_region_that_its_user_destroyed_is_noticed(tmp_path: Path) -> None:
    region = tmp_path / "shm"
    shared_memory.make(region, OWNER)
    os.truncate(region, 10)
    assert shared_memory.read(region) is None
    with pytest.raises(OSError, match="cut short"):
        shared_memory.ask(region, 1, 0)
    region.write_bytes(b"\xff" * 64)
    assert shared_memory.read(region) is None
    region.unlink()
    region.symlink_to("/etc/passwd")
    with pytest.raises(OSError):  # noqa: PT011 - as the kernel says it
        shared_memory.ask(region, 1, 0)


def test_who_waits_for_a_request_is_woken(tmp_path: Path) -> None:
    import ctypes
    import mmap

    region = tmp_path / "shm"
    shared_memory.make(region, OWNER)
    woken = threading.Event()
    number = shared_memory._SYS_FUTEX.get(os.uname().machine)
    if number is None:
        pytest.skip("no number of the system call is known for this machine")

    def wait() -> None:
        with open(region, "r+b") as file, mmap.mmap(file.fileno(), 64) as mapped:
            holder = ctypes.c_char.from_buffer(mapped)
            address = ctypes.addressof(holder) + 8
            call = ctypes.CDLL(None, use_errno=True).syscall
            call(ctypes.c_long(number), ctypes.c_void_p(address), 0, 0, None, None, 0)
            woken.set()
            del holder

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    shared_memory.ask(region, 1, 0)  # either it waits by now, or it finds another number than 0
    assert woken.wait(10)
