"""Answers as JSON. Long ones are made piece by piece, because the encoder keeps the interpreter for as long as one call lasts."""

from collections.abc import Iterator

import msgspec

from lattice.wire.slurm.commands import SlurmAnswer

PIECE_BYTES = 256 << 10
_RECORDS = 100
_GAP = b"\0"  # is in no JSON
encode = msgspec.json.Encoder().encode


def encode_long(answer: object) -> list[bytes]:
    """The pieces of what `encode` makes of an answer with many items or a long text."""
    if isinstance(answer, SlurmAnswer):
        return [*_around(answer, "stdout", _text(answer.stdout))]
    items = getattr(answer, "items", None)
    if isinstance(answer, msgspec.Struct) and isinstance(items, list):
        return [*_around(answer, "items", _list(items))]
    return [encode(answer)]


def _around(answer: msgspec.Struct, field: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces in the place of the field."""
    head, _, tail = encode(msgspec.structs.replace(answer, **{field: msgspec.Raw(_GAP)})).partition(_GAP)
    yield head
    yield from pieces
    yield tail


def _list(items: list[object]) -> Iterator[bytes]:
    for place in range(0, len(items), _RECORDS):
        yield (b"," if place else b"[") + encode(items[place : place + _RECORDS])[1:-1]
    yield b"]"


def _text(text: str) -> Iterator[bytes]:
    yield b'"'
    for place in range(0, len(text), PIECE_BYTES):
        yield encode(text[place : place + PIECE_BYTES])[1:-1]
    yield b'"'
