"""PMI-1 as MPICH speaks it: lines of `name=value` words. Bytes in, requests out; requests in, bytes out. No I/O.

`cmd=put kvsname=K key=A value=B` is a request. Only a spawn takes several lines, from `mcmd=spawn` to `endcmd`.
"""

from __future__ import annotations

from lattice.agent.shim.pmi.requests import MAX_FIELDS, MAX_MESSAGE, BadRank, Fields, Request, decoded, shown

MAX_SPAWN_LINES = 10_000
# The only field whose value may have spaces; it is the last one.
_MESSAGE = " message="


class Pmi1Wire:
    """One rank's stream."""

    __slots__ = ("_buffer", "_spawn_lines")

    kind = "pmi1"

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._spawn_lines = 0

    def take(self, data: bytes) -> list[Request]:
        """The requests that are complete now. Raises BadRank."""
        self._buffer += data
        found = []
        while (end := self._buffer.find(b"\n")) >= 0:
            if end > MAX_MESSAGE:
                break
            line = decoded(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
            request = self._read(line)
            if request is not None:
                found.append(request)
        if len(self._buffer) > MAX_MESSAGE:
            raise BadRank(f"sent a line of more than {MAX_MESSAGE:,} bytes")
        return found

    def _read(self, line: str) -> Request | None:
        if self._spawn_lines:
            self._spawn_lines += 1
            if self._spawn_lines > MAX_SPAWN_LINES:
                raise BadRank(f"sent a spawn request of more than {MAX_SPAWN_LINES:,} lines")
            # Several spawns follow each other without an answer in between: the last one ends the request.
            if line.strip() != "endcmd":
                return None
            self._spawn_lines = 0
            return Request("spawn", {})
        if line.startswith("mcmd="):
            self._spawn_lines = 1
            return None
        return read_line(line)

    @staticmethod
    def answer(name: str, fields: Fields) -> bytes:
        words = [f"cmd={name}", *(f"{key}={value}" for key, value in fields.items())]
        return (" ".join(words) + "\n").encode("ascii", "replace")


def read_line(line: str) -> Request:
    """One line without its end. Raises BadRank."""
    line, separator, message = line.partition(_MESSAGE)
    words = line.split()
    if len(words) > MAX_FIELDS:
        raise BadRank(f"sent a line of more than {MAX_FIELDS} words")
    fields: Fields = {"message": message} if separator else {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise BadRank(f'sent "{shown(line)}", which is not PMI')
        fields[key] = value
    name = fields.pop("cmd", "")
    if not name:
        raise BadRank(f'sent "{shown(line)}", which is not PMI')
    return Request(name, fields)
