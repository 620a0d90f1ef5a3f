"""The embedded log against what happens to files: kill -9, a second process, no room, damage."""

import asyncio
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lattice.ports.quorum.log import LogCorrupt, LogFull, LogHeld
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.testing import scenario

WRITER = """
import asyncio, sys
from pathlib import Path
from lattice.quorum.logs.sqlite import SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    await log.open()
    _, last = await log.bounds()
    while True:
        last = await log.append(last, b"%d:" % (last + 1) + bytes(last * 7919 % 20000))
        sys.stdout.write(f"{last}\\n")
        sys.stdout.flush()

asyncio.run(main())
"""

FILLER = """
import asyncio, os, sys
from pathlib import Path
from lattice.ports.quorum.log import LogFull
from lattice.quorum.logs.sqlite import SqliteLog

async def main(folder):
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(4 << 20))
    log = SqliteLog(folder / "log.sqlite")
    await log.open()
    last = 0
    try:
        while True:
            last = await log.append(last, b"x" * 50_000)
    except LogFull:
        pass
    assert await log.bounds() == (1, last)
    assert len(await log.read(last, 1)) == 1
    ballast.unlink()
    last = await log.append(last, b"room again")
    await log.close()
    await log.open()
    assert await log.bounds() == (1, last), last
    assert [len(e.payload) for e in await log.read(1, last)] == [50_000] * (last - 1) + [10]
    print("recovered after", last)

asyncio.run(main(Path(sys.argv[1])))
"""


async def contents(path: Path) -> list[bytes]:
    log = SqliteLog(path)
    await log.open()
    try:
        first, last = await log.bounds()
        return [entry.payload for entry in await log.read(first, last - first + 1)]
    finally:
        await log.close()


async def filled(path: Path, count: int, size: int = 3000) -> None:
    log = SqliteLog(path)
    await log.open()
    for index in range(count):
        await log.append(index, b"%06d" % (index + 1) + b"p" * size)
    await log.close()


def acknowledged_until_killed(path: Path, after: int) -> int:
    """Starts a writer, kills it when `after` more entries were acknowledged, returns the last acknowledged index."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        for _ in range(after):
            writer.stdout.readline()
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    rest = writer.stdout.read().split(b"\n")
    writer.stdout.close()
    whole = [line for line in rest[:-1] if line]
    return int(whole[-1]) if whole else after


def test_kill_of_a_writer_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    choice = random.Random(7)
    for _ in range(6):
        acknowledged = acknowledged_until_killed(path, choice.randint(1, 150))
        kept = asyncio.run(contents(path))
        assert len(kept) >= acknowledged
        for index, payload in enumerate(kept, start=1):
            assert payload == b"%d:" % index + bytes((index - 1) * 7919 % 20000)


def test_a_second_process_is_refused_with_the_holder_named(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        writer.stdout.readline()
        with pytest.raises(LogHeld, match=f"process {writer.pid}"):
            asyncio.run(contents(path))
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert asyncio.run(contents(path))


@scenario
async def test_a_second_log_in_the_same_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    first, second = SqliteLog(path), SqliteLog(path)
    await first.open()
    with pytest.raises(LogHeld):
        await second.open()
    assert await first.append(0, b"still mine") == 1
    await first.close()
    await second.open()
    assert await second.bounds() == (1, 1)
    await second.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@scenario
async def test_a_refused_write_is_log_full_and_the_next_one_with_room_succeeds(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    await log.open()
    await log.append(0, b"first")
    with largest_file(200_000):
        with pytest.raises(LogFull):
            await log.append(1, bytes(400_000))
        assert await log.bounds() == (1, 1)
        assert await log.append(1, b"small enough") == 2
        with pytest.raises(LogFull):
            await log.append(2, bytes(400_000))
    assert await log.append(2, bytes(400_000)) == 3
    await log.close()
    assert [len(p) for p in await contents(tmp_path / "log.sqlite")] == [5, 12, 400_000]


@pytest.mark.root
def test_a_full_disk_is_survived_and_recovered_from(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=8m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*command, str(tmp_path), sys.executable, FILLER],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("recovered after")


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_file_is_told_with_a_hint(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "log.sqlite"
    asyncio.run(filled(path, 200))
    os.truncate(path, int(path.stat().st_size * keep))
    with pytest.raises(LogCorrupt, match="restore it from a backup"):
        asyncio.run(contents(path))


def test_a_file_that_is_no_log_is_told_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.write_bytes(b"not a database at all " * 1000)
    with pytest.raises(LogCorrupt, match="restore it from a backup"):
        asyncio.run(contents(path))


def test_a_changed_byte_in_an_entry_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    asyncio.run(filled(path, 50))
    data = bytearray(path.read_bytes())
    data[data.index(b"000033ppp") + 1000] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match="entry 33"):
        asyncio.run(contents(path))


def test_a_lost_entry_in_the_middle_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    asyncio.run(filled(path, 10))
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM entries WHERE number = 5")
    db.close()
    with pytest.raises(LogCorrupt, match="missing"):
        asyncio.run(contents(path))


def test_a_log_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    asyncio.run(filled(path, 2))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(LogCorrupt, match="format 99"):
        asyncio.run(contents(path))


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    asyncio.run(filled(path, 1))
    assert path.stat().st_mode & 0o777 == 0o600


@scenario
async def test_trimmed_room_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path)
    await log.open()
    for index in range(600):
        await log.append(index, bytes(20_000))
        if index % 50 == 49:
            await log.trim(index - 20)
    await log.close()
    assert path.stat().st_size < 5_000_000
