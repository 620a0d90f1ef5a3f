"""Output of runs, as a server reads it through the agent, and as it is stored."""

import asyncio
import tempfile
from pathlib import Path

from lattice.wire.files.chunks import place_of, unpack
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import cluster, until

KEY = (7, 1)
PREFIX = "chem/-/a7/logs/run-1"


def test_output_is_read_from_an_offset_and_by_its_last_lines() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["sh", "-c", "seq 1 1000; printf unfinished"])
            await server.ended(KEY)
            whole = "".join(f"{number}\n" for number in range(1, 1001)).encode() + b"unfinished"
            assert await server.output(KEY) == whole
            assert await server.output(KEY, offset=100) == whole[100:]
            assert await server.output(KEY, offset=len(whole) + 5) == b""
            assert await server.output(KEY, tail_lines=3) == b"999\n1000\nunfinished"
            assert await server.output(KEY, tail_lines=100_000) == whole
            assert await server.output(KEY, stream=pb.OUTPUT_STREAM_STDERR) == b""

    asyncio.run(scenario())


def test_a_follower_sees_each_line_soon_and_ends_with_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            go = tmp_path / "go"
            script = f"echo one; while ! [ -e {go} ]; do sleep 0.02; done; echo two"
            server.start(KEY, ["sh", "-c", script])
            await server.running(KEY)
            reader = server.read(KEY, follow=True)
            await until(lambda: b"".join(c.data for c in server.chunks(reader)) == b"one\n", "the first line")
            assert not any(chunk.eof for chunk in server.chunks(reader))
            go.touch()
            await until(lambda: any(chunk.eof for chunk in server.chunks(reader)), "the end")
            assert b"".join(chunk.data for chunk in server.chunks(reader)) == b"one\ntwo\n"

    asyncio.run(scenario())


def test_large_output_arrives_whole_in_bounded_chunks() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"])
            reader = server.read(KEY, follow=True)
            await until(lambda: any(chunk.eof for chunk in server.chunks(reader)), "the end")
            chunks = server.chunks(reader)
            assert max(len(chunk.data) for chunk in chunks) <= 64 * 1024
            assert b"".join(chunk.data for chunk in chunks) == b"x" * 3_000_000
            position = 0
            for chunk in chunks:
                assert chunk.offset == position
                position += len(chunk.data)

    asyncio.run(scenario())


def test_a_reader_can_be_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            go = tmp_path / "go"
            server.start(KEY, ["sh", "-c", f"echo one; while ! [ -e {go} ]; do sleep 0.02; done; echo two"])
            reader = server.read(KEY, follow=True)
            await until(lambda: server.chunks(reader), "the first line")
            server.newest.send(stop_reading=pb.StopReading(reader=reader))
            # Requests are served in order, so after this answer the reader is gone.
            await server.output(KEY)
            go.touch()
            await server.ended(KEY)
            assert await server.output(KEY) == b"one\ntwo\n"
            assert b"".join(chunk.data for chunk in server.chunks(reader)) == b"one\n"

    asyncio.run(scenario())


def test_output_of_an_unknown_run_is_an_error() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            reader = server.read((99, 1))
            await until(lambda: server.chunks(reader), "the answer")
            (chunk,) = server.chunks(reader)
            assert chunk.eof
            assert "not known on this node" in chunk.error

    asyncio.run(scenario())


def test_output_beyond_the_limit_keeps_the_newest_part_and_its_true_offset() -> None:
    async def scenario() -> None:
        async with cluster("--output-limit", "4096") as (server, _):
            server.start(KEY, ["sh", "-c", "seq 1 5000"])
            await server.ended(KEY)
            whole = "".join(f"{number}\n" for number in range(1, 5001)).encode()
            reader = server.read(KEY)
            await until(lambda: any(chunk.eof for chunk in server.chunks(reader)), "the end")
            chunks = server.chunks(reader)
            kept = b"".join(chunk.data for chunk in chunks)
            assert 0 < len(kept) <= 4096
            assert whole[chunks[0].offset :] == kept
            assert await server.output(KEY, tail_lines=2) == b"4999\n5000\n"

    asyncio.run(scenario())


def test_final_output_is_in_the_object_store_before_the_end_is_reported() -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as store:
            async with cluster("--object-store", store) as (server, agent):
                server.start(KEY, ["sh", "-c", "echo out; echo err >&2"])
                server.start((8, 1), ["true"])
                await server.ended(KEY)
                assert Path(store, "logs/7/1/n1.stdout").read_bytes() == b"out\n"
                assert Path(store, "logs/7/1/n1.stderr").read_bytes() == b"err\n"
                await server.ended((8, 1))
                assert not Path(store, "logs/8").exists()
                agent.kill()
                agent.start()
                await server.session(2)
                assert await server.output(KEY) == b"out\n"

    asyncio.run(scenario())


def stored(store: str, stream: str = "stdout") -> bytes:
    """All chunks of a stream, one behind the other without a gap."""
    whole = b""
    folder = Path(store, PREFIX, stream, "n1")
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        place = place_of(path.name)
        if place is not None:
            assert (place.offset, place.line) == (len(whole), whole.count(b"\n"))
            whole += unpack(place, path.read_bytes())[0]
    return whole


def test_output_is_stored_while_the_run_writes_and_every_byte_once_though_the_agent_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as store:
            async with cluster("--object-store", store) as (server, agent):
                go = tmp_path / "go"
                wait = f"while ! [ -e {go} ]; do sleep 0.02; done"
                script = f"seq 1 1500000; echo oops >&2; {wait}; seq 1 1500000"
                server.start(KEY, ["sh", "-c", script], output_prefix=PREFIX)
                await until(lambda: len(stored(store)) >= 4 << 20, "the first chunk")
                agent.kill()
                go.touch()
                agent.start()
                await server.session(2)
                await server.ended(KEY)
                half = b"".join(b"%d\n" % number for number in range(1, 1_500_001))
                assert stored(store) == half + half
                assert stored(store, "stderr") == b"oops\n"

    asyncio.run(scenario())


def test_what_was_dropped_before_the_output_was_stored_is_stored_with_it() -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as store:
            async with cluster("--object-store", store, "--output-limit", "4096") as (server, _):
                server.start(KEY, ["sh", "-c", "seq 1 5000"])
                await server.ended(KEY)
                whole = "".join(f"{number}\n" for number in range(1, 5001)).encode()
                dropped = int(Path(store, "logs/7/1/n1.stdout.base").read_text())
                assert dropped > 0
                assert Path(store, "logs/7/1/n1.stdout").read_bytes() == whole[dropped:]

    asyncio.run(scenario())


def test_a_store_that_fails_does_not_hide_the_end() -> None:
    async def scenario() -> None:
        with tempfile.NamedTemporaryFile() as no_directory:
            async with cluster("--object-store", no_directory.name) as (server, _):
                server.start(KEY, ["echo", "out"])
                ended = await server.ended(KEY)
                assert ended.cause == pb.END_CAUSE_EXIT
                assert "output was not stored" in ended.message

    asyncio.run(scenario())
