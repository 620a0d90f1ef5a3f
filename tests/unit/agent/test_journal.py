"""The journal of a step: records in order, whole, the oldest dropped; both ends agree on what a record is."""

from pathlib import Path

import pytest

from lattice.agent.shim import journal as shim_journal
from lattice.agent.shim.journal import PIECES, RECORD, Journal, read_journal
from lattice.wire.agents import journals


def records(data: bytes) -> list[tuple[int, int, bytes]]:
    found, place = [], 0
    while place < len(data):
        stream, rank, length = RECORD.unpack_from(data, place)
        place += RECORD.size + length
        found.append((stream, rank, data[place - length : place]))
    return found


def test_what_was_written_is_read_from_any_record_on(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 1 << 20)
    journal.write(1, 0, b"one")
    second = journal.end
    journal.write(2, 7, b"two")
    assert records(read_journal(str(tmp_path), 0, 1 << 20)[1]) == [(1, 0, b"one"), (2, 7, b"two")]
    assert read_journal(str(tmp_path), second, 1 << 20) == (second, RECORD.pack(2, 7, 3) + b"two")
    assert read_journal(str(tmp_path), journal.end, 10) == (journal.end, b"")


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_journal(str(tmp_path), 0, 10)


def test_the_oldest_part_goes_and_readers_learn_where_the_rest_begins(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), PIECES << 12)
    for number in range(200):
        journal.write(1, number, bytes(1000))
    assert len(list(tmp_path.iterdir())) == PIECES
    offset, read = 0, []
    start, _ = read_journal(str(tmp_path), 0, 1)
    assert start > 0
    while True:
        offset, data = read_journal(str(tmp_path), offset, 1 << 16)
        if not data:
            break
        read += records(data)
        offset += len(data)
    assert offset == journal.end
    ranks = [rank for _, rank, _ in read]
    assert ranks == list(range(ranks[0], 200))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= (PIECES << 12) + 8 * 1009


def test_a_disk_that_takes_nothing_costs_output_only(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "missing"), 1 << 20)
    journal.write(1, 0, b"lost")
    assert (journal.lost, journal.end) == (4, 0)


def test_both_ends_know_the_same_records() -> None:
    assert shim_journal.RECORD.format == journals.RECORD.format
    data = RECORD.pack(1, 3, 4) + b"abcd" + RECORD.pack(2, 1, 9) + b"half"
    assert journals.whole_records(data) == RECORD.size + 4
    assert journals.whole_records(b"") == journals.whole_records(data[:5]) == 0
