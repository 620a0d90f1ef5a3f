"""Logs that go to a file do not fill its disk."""

import logging
from pathlib import Path

from lattice.observe.logging import LINES_UNCHECKED, BoundedHandler


def test_a_log_in_a_plain_file_stays_below_its_limit_and_keeps_what_was_last(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    with path.open("a") as stream, path.open("a") as other:
        handler = BoundedHandler(stream, limit_bytes=100_000)
        log = logging.Logger("test")
        log.addHandler(handler)
        for number in range(20 * LINES_UNCHECKED):
            log.info("line %06d %s", number, "x" * 100)
            assert path.stat().st_size < 100_000 + LINES_UNCHECKED * 200
        other.write("another process\n")
        other.flush()
    lines = [*(tmp_path / "agent.log.1").read_text().splitlines(), *path.read_text().splitlines()]
    assert lines[-1] == "another process"
    numbers = [int(line.split()[1]) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 20 * LINES_UNCHECKED))
