"""Stored output: chunks of a stream, each an object of its own, compressed, with the times of what is in it.

An object is called `PREFIX/STREAM/NODE/OFFSET-LINE-TIME.log.zst`: the position of its first byte in all that was ever written,
the number of line breaks before it, and when that byte was written, in ms. So the names are the index, and an object that is
stored once more takes the place of the first. A position behind the end of the chunk before means that the bytes between are lost.

The object is a frame that decompressors skip, with the marks of time, and a frame of zstd: `zstdcat` prints the output.
"""

import re
import struct
from collections.abc import Sequence

import msgspec
import zstandard

CHUNK_BYTES = 4 << 20
PACKED_BYTES = 8 * CHUNK_BYTES  # more than any object of a chunk has, with its marks
# The same for every chunk, so that names are in order of their positions.
_DIGITS = 15
_LEVEL = 1  # a fast writer must not outrun it
_SKIPPED = struct.Struct("<II")
_SKIPPED_MAGIC = 0x184D2A50
_NAME = re.compile(rf"(\d{{{_DIGITS}}})-(\d{{1,15}})-(\d{{1,15}})\.log\.zst", re.ASCII)

Marks = Sequence[tuple[int, int]]
_marks_decoder = msgspec.msgpack.Decoder(list[int])


class BadChunk(Exception):
    """The object is not one that was written here."""


class Place(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Where a chunk begins."""

    offset: int = 0
    line: int = 0
    at_ms: int = 0

    @property
    def name(self) -> str:
        return f"{self.offset:0{_DIGITS}d}-{self.line}-{self.at_ms}.log.zst"


def run_prefix(tenant: str, project: str, allocation: str, run: int) -> str:
    """Below which all output of a run is stored."""
    return f"{logs_prefix(tenant, project, allocation)}/run-{run}"


def step_stream(step: int) -> str:
    """Below a run's prefix: the journals of a step, by node."""
    return f"step-{step}/journal"


def logs_prefix(tenant: str, project: str, allocation: str) -> str:
    """Below which all output of an allocation is stored."""
    return f"{tenant}/{project or '-'}/{allocation}/logs"


def deletion_mark(prefix: str) -> str:
    """The object that says that output below the prefix was deleted: nodes may still have some of it."""
    return f"{prefix}/deleted"


def place_of(name: str) -> Place | None:
    """What the last part of an object's name says; None for other objects."""
    match = _NAME.fullmatch(name.rpartition("/")[2])
    return None if match is None else Place(offset=int(match[1]), line=int(match[2]), at_ms=int(match[3]))


def pack(place: Place, data: bytes, marks: Marks) -> bytes:
    """The object of a chunk."""
    flat: list[int] = []
    offset, at_ms = place.offset, place.at_ms
    for position, time_ms in marks:
        flat += (max(0, position - offset), time_ms - at_ms)
        offset, at_ms = max(position, offset), time_ms
    coded = msgspec.msgpack.encode(flat)
    return _SKIPPED.pack(_SKIPPED_MAGIC, len(coded)) + coded + zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def unpack(place: Place, packed: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """The output, and its marks by position. Raises BadChunk."""
    try:
        magic, length = _SKIPPED.unpack_from(packed)
        if magic != _SKIPPED_MAGIC:
            raise BadChunk("it does not begin with its marks")
        start = _SKIPPED.size
        flat = _marks_decoder.decode(packed[start : start + length])
        frame = packed[start + length :]
        if zstandard.frame_content_size(frame) > CHUNK_BYTES:
            raise BadChunk("it is too large")
        data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=CHUNK_BYTES)
    except (struct.error, msgspec.DecodeError, zstandard.ZstdError) as error:
        raise BadChunk(str(error)) from error
    marks, offset, at_ms = [], place.offset, place.at_ms
    for further, later in zip(flat[::2], flat[1::2], strict=False):
        offset, at_ms = offset + further, at_ms + later
        marks.append((offset, at_ms))
    return data, marks
