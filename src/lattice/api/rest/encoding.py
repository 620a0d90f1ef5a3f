"""Answers as JSON. Long ones are made piece by piece, because the encoder keeps the interpreter for as long as one call lasts."""

import msgspec

from lattice.wire.slurm.commands import SlurmAnswer

PIECE_BYTES = 256 << 10
_RECORDS = 100
encode = msgspec.json.Encoder().encode


def encode_long(answer: object) -> bytes:
    """The same as `encode`, for an answer with many items or a long text."""
    if isinstance(answer, SlurmAnswer):
        return encode(msgspec.structs.replace(answer, stdout=_text(answer.stdout)))
    items = getattr(answer, "items", None)
    if isinstance(answer, msgspec.Struct) and isinstance(items, list):
        return encode(msgspec.structs.replace(answer, items=_list(items)))
    return encode(answer)


def _list(items: list[object]) -> list[msgspec.Raw]:
    """Several items each, without the brackets around them: a list of these reads like a list of the items."""
    return [msgspec.Raw(encode(items[place : place + _RECORDS])[1:-1]) for place in range(0, len(items), _RECORDS)]


def _text(text: str) -> msgspec.Raw:
    pieces = [encode(text[place : place + PIECE_BYTES])[1:-1] for place in range(0, len(text), PIECE_BYTES)]
    return msgspec.Raw(b'"%b"' % b"".join(pieces))
