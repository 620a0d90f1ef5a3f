"""Log files of our own: bounded, reopened, without repeats."""

import logging
import os
import signal
from pathlib import Path

import pytest

from lattice.observe.log_files import Folding, LogFile, LogFileHandler


def logger(handler: logging.Handler) -> logging.Logger:
    log = logging.Logger("test")
    log.addHandler(handler)
    return log


@pytest.mark.parametrize("count", [1, 3])
def test_so_many_files_of_so_many_bytes_are_kept(tmp_path: Path, count: int) -> None:
    handler = LogFileHandler(LogFile(str(tmp_path / "server.log"), 1000, count))
    log = logger(handler)
    for number in range(100):
        log.info("line %04d %s", number, "x" * 90)
    handler.close()
    names = [tmp_path / "server.log", *(tmp_path / f"server.log.{number}" for number in range(1, count))]
    assert sorted(tmp_path.iterdir()) == sorted(names)
    assert all(0 < path.stat().st_size <= 1000 for path in names)
    numbers = [int(line.split()[1]) for path in reversed(names) for line in path.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 100))
    assert (tmp_path / "server.log").stat().st_mode & 0o007 == 0


def test_a_file_that_was_moved_away_is_begun_again_after_the_signal(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    handler = LogFileHandler(LogFile(str(path)))
    log = logger(handler)
    before = signal.getsignal(signal.SIGHUP)
    handler.reopen_on(signal.SIGHUP)
    try:
        log.info("one")
        path.rename(tmp_path / "moved")
        log.info("two")
        os.kill(os.getpid(), signal.SIGHUP)
        log.info("three")
    finally:
        signal.signal(signal.SIGHUP, before)
        handler.close()
    assert ((tmp_path / "moved").read_text(), path.read_text()) == ("one\ntwo\n", "three\n")


def test_lines_behind_those_of_an_earlier_process_count(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 990 + "\n")
    handler = LogFileHandler(LogFile(str(tmp_path / "log"), 1000, 2))
    logger(handler).info("more than nine")
    handler.close()
    assert (tmp_path / "log").read_text() == "more than nine\n"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        LogFileHandler(LogFile(str(tmp_path / "none" / "log")))


def test_repeats_are_counted_and_told_once_a_minute() -> None:
    folding = Folding(every_s=60.0)

    def passed(message: str, at: float) -> dict[str, object] | None:
        record = logging.makeLogRecord({"msg": message, "created": at})
        if not folding.filter(record):
            return None
        return {name: value for name, value in vars(record).items() if "repeated" in name}

    assert passed("a", 0.0) == {}
    assert [passed("a", 1.0), passed("a", 59.0)] == [None, None]
    assert passed("a", 60.0) == {"repeated": 2}
    assert passed("a", 61.0) is None
    assert passed("b", 62.0) == {"last_message_repeated": 1}
    assert passed("a", 63.0) == {}
