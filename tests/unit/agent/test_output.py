"""Readers of captured output."""

import asyncio
from pathlib import Path

import pytest

from lattice.agent.connection import OUTPUT_LIMIT, Outbox
from lattice.agent.messages import output_chunk
from lattice.agent.runs.output import MAX_READERS, Readers, Reading, send_output, tail_offset
from lattice.testing import scenario
from lattice.wire.pb import agent_pb2 as pb


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"a\nb\nc\n", 1, b"c\n"),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 1, b"c"),
        (b"a\nb\nc", 3, b"a\nb\nc"),
        (b"a\nb\nc", 9, b"a\nb\nc"),
        (b"", 3, b""),
        (b"\n", 1, b"\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"".join(b"%d\n" % n for n in range(40_000)), 20_000, b"".join(b"%d\n" % n for n in range(20_000, 40_000))),
    ],
)
def test_the_last_lines_are_found(tmp_path: Path, content: bytes, lines: int, expected: bytes) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(content)
    assert content[tail_offset(path, lines) :] == expected


def test_the_last_lines_count_from_what_was_ever_written(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"y\nz\n")
    (tmp_path / "stdout.base").write_text("1000\n")
    assert tail_offset(path, 1) == 1002
    assert tail_offset(path, 5) == 1000
    assert tail_offset(tmp_path / "nothing", 5) == 0


async def drained(outbox: Outbox) -> list[pb.OutputChunk]:
    chunks: list[pb.OutputChunk] = []
    while not chunks or not chunks[-1].eof:
        chunks.append((await asyncio.wait_for(outbox.take(), 5)).output_chunk)
    return chunks


@scenario
async def test_dropped_output_shows_in_the_first_offset(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"later")
    (tmp_path / "stdout.base").write_text("1000\n")
    outbox = Outbox()
    await send_output(Reading(reader=1, path=tmp_path / "stdout"), outbox, lambda: True)
    (chunk,) = await drained(outbox)
    assert (chunk.offset, chunk.data, chunk.eof) == (1000, b"later", True)


@scenario
async def test_a_reader_of_nothing_gets_its_end(tmp_path: Path) -> None:
    outbox = Outbox()
    await send_output(Reading(reader=1, path=tmp_path / "nothing"), outbox, lambda: False)
    (chunk,) = await drained(outbox)
    assert (chunk.data, chunk.eof, chunk.error) == (b"", True, "")


@scenario
async def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    outbox = Outbox()
    await send_output(Reading(reader=1, path=tmp_path), outbox, lambda: True)
    (chunk,) = await drained(outbox)
    assert "directory" in chunk.error


@scenario
async def test_a_slow_server_holds_its_readers_back_and_control_passes_them(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * (64 * 1024 * OUTPUT_LIMIT * 2))
    outbox = Outbox()
    reader = asyncio.create_task(send_output(Reading(reader=1, path=path), outbox, lambda: True))
    await asyncio.sleep(0)
    assert not reader.done()
    assert outbox.post(pb.AgentMessage(heartbeat=pb.Heartbeat(seq=1)))
    assert (await outbox.take()).HasField("heartbeat")
    chunks = await drained(outbox)
    assert sum(len(chunk.data) for chunk in chunks) == path.stat().st_size
    await reader


@scenario
async def test_control_messages_are_bounded() -> None:
    outbox = Outbox()
    while outbox.post(output_chunk(1, 0)):
        pass
    await outbox.take()
    assert outbox.post(output_chunk(1, 0))


@scenario
async def test_readers_beyond_the_limit_are_told_so(tmp_path: Path) -> None:
    outbox = Outbox()
    readers = Readers(outbox)
    for number in range(MAX_READERS + 1):
        readers.open(Reading(reader=number, path=tmp_path / "stdout", follow=True), lambda: False)
    (chunk,) = await drained(outbox)
    assert chunk.reader == MAX_READERS
    assert "readers" in chunk.error
    readers.close_all()
