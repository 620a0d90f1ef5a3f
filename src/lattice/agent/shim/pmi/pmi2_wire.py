"""PMI-2 after its first line: frames of a length in six characters and `name=value;` fields. Bytes in, requests out. No I/O.

A semicolon inside a value is doubled.
"""

from __future__ import annotations

from lattice.agent.shim.pmi.requests import MAX_FIELDS, MAX_MESSAGE, BadRank, Fields, Request, decoded, shown

HEAD = 6


class Pmi2Wire:
    """One rank's stream, from the byte after its first line on."""

    __slots__ = ("_buffer",)

    kind = "pmi2"

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, data: bytes) -> list[Request]:
        """The requests that are complete now. Raises BadRank."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD:
            length = _length(bytes(self._buffer[:HEAD]))
            if len(self._buffer) < HEAD + length:
                break
            found.append(read_frame(decoded(bytes(self._buffer[HEAD : HEAD + length]))))
            del self._buffer[: HEAD + length]
        return found

    @staticmethod
    def answer(name: str, fields: Fields) -> bytes:
        pairs = [("cmd", name), *fields.items()]
        body = "".join(f"{key}={value.replace(';', ';;')};" for key, value in pairs).encode("ascii", "replace")
        return b"%6d" % len(body) + body


def _length(head: bytes) -> int:
    text = head.strip()
    if not text.isdigit():
        raise BadRank("sent bytes that are not PMI-2")
    length = int(text)
    if not 0 < length <= MAX_MESSAGE:
        raise BadRank(f"sent a frame of {length:,} bytes; the limit is {MAX_MESSAGE:,}")
    return length


def read_frame(body: str) -> Request:
    """The fields of one frame. Raises BadRank."""
    fields: Fields = {}
    place = 0
    while place < len(body):
        key, place = _until(body, place, "=")
        value, place = _until(body, place, ";")
        if not key or key in fields or len(fields) >= MAX_FIELDS:
            raise BadRank(f'sent "{shown(body)}", which is not PMI-2')
        fields[key] = value
    name = fields.pop("cmd", "")
    if not name:
        raise BadRank(f'sent "{shown(body)}", which is not PMI-2')
    return Request(name, fields)


def _until(body: str, place: int, stop: str) -> tuple[str, int]:
    """The text up to `stop`, of which a double one is no end, and the place behind it."""
    parts = []
    while True:
        end = body.find(stop, place)
        if end < 0:
            raise BadRank(f'sent "{shown(body)}", which is not PMI-2')
        parts.append(body[place:end])
        if stop != ";" or body[end + 1 : end + 2] != ";":
            return "".join(parts), end + 1
        parts.append(";")
        place = end + 2
