"""Prometheus remote write 1.0: a WriteRequest in protobuf, inside a snappy block. Pure: series in, bytes out.

The block holds the message as literals, which every snappy reader takes: a batch is small, and the agent stays free of a compressor.
"""

import struct
from collections.abc import Iterable, Mapping

from msgspec import Struct

CONTENT = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_LITERAL_BYTES = 65_536


class Sample(Struct, frozen=True, gc=False):
    """One figure of one series at one moment."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    at_ms: int


def labelled(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """In the order that receivers demand, without those that say nothing."""
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def write_request(samples: Iterable[Sample]) -> bytes:
    """All samples of one request; each is a series of its own, by time."""
    return b"".join(_field(1, _series(sample)) for sample in samples)


def _series(sample: Sample) -> bytes:
    # `__name__` sorts before every other label.
    labels = (("__name__", sample.name), *sample.labels)
    message = b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)
    value = b"\x09" + struct.pack("<d", sample.value) + b"\x10" + _varint(sample.at_ms)
    return message + _field(2, value)


def _field(number: int, data: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def snappy_block(data: bytes) -> bytes:
    """The bytes as one block: their length, then literals of up to 64 KiB."""
    parts = [_varint(len(data))]
    for begin in range(0, len(data), _LITERAL_BYTES):
        piece = data[begin : begin + _LITERAL_BYTES]
        parts += [b"\xf4", struct.pack("<H", len(piece) - 1), piece]
    return b"".join(parts)
