"""The protocol `grpc` for `lattice_sdk.checkpoints.program`: a stream to the agent of the node, kept open by a thread of its own.

Needs grpcio and nothing else: the few messages (proto/lattice/v1/checkpoints.proto) are written here by hand, so that no generated
module has to match a version of protobuf. A copy of program.py needs a copy of this file beside it, for this protocol.
"""

import queue
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

_REGISTER = "/lattice.v1.CheckpointRegistry/Register"
_AGAIN_S = (0.1, 2.0)  # pauses between two attempts to reach the agent


class Asked(NamedTuple):
    """One request, as the agent sends it."""

    n: int = 0
    path: str = ""
    deadline: float = 0.0
    reason: str = ""
    may_defer_s: float = 0.0


class Answer(NamedTuple):
    """One answer, as the agent reads it."""

    n: int = 0
    estimate_s: float = 0.0
    per_mille: int = 0
    defer_s: float = 0.0
    done: bool = False
    failed: bool = False
    message: str = ""


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def encoded(answer: Answer) -> bytes:
    data = b""
    values: tuple[int | float | str, ...] = answer
    for number, value in enumerate(values, start=1):
        if not value:
            continue
        if isinstance(value, float):
            data += bytes((number << 3 | 1,)) + struct.pack("<d", value)
        elif isinstance(value, str):
            text = value.encode()
            data += bytes((number << 3 | 2,)) + _varint(len(text)) + text
        else:
            data += bytes((number << 3,)) + _varint(int(value))
    return data


def decoded(data: bytes) -> Asked:
    """Fields that a later version added are skipped."""
    found, at = dict[int, Any](), 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            found[number] = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            piece, at = data[at : at + size], at + size
            found[number] = struct.unpack("<d", piece)[0] if kind == 1 else piece
    text = {number: bytes(found.get(number, b"")).decode() for number in (2, 4)}
    return Asked(found.get(1, 0), text[2], found.get(3, 0.0), text[4], found.get(5, 0.0))


class Registered:
    """Registers with the agent, again whenever that went away, and holds the newest request."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        self._newest: Asked | None = None  # not given out yet
        self._given: int = 0  # number of the one that was given out
        self._last: Answer | None = None  # about that one
        self._out: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        threading.Thread(target=self._stay, name="lattice-checkpoints", daemon=True).start()

    def newest(self) -> Asked | None:
        """The request that is to be carried out now, once."""
        if self._newest is None:
            return None
        with self._lock:
            asked, self._newest = self._newest, None
            if asked is not None:
                self._given, self._last = asked.n, None
            return asked

    def say(  # one of these at a time, in the order of the message
        self, n: int, estimate_s: float, per_mille: int, defer_s: float, done: bool, failed: bool, message: str
    ) -> None:
        answer = Answer(n, estimate_s, per_mille, defer_s, done, failed, message)
        with self._lock:
            self._last = answer
            self._out.put(answer)

    def _heard(self, asked: Asked) -> None:
        """Again the same: it was put off, or the agent is another one by now, which has to hear what was said."""
        with self._lock:
            if asked.n != self._given or (self._last is not None and self._last.defer_s):
                self._newest = asked
            elif self._last is not None:
                self._out.put(self._last)

    def _stay(self) -> None:
        import grpc

        pause_s = _AGAIN_S[0]
        options = (("grpc.enable_http_proxy", 0),)
        while True:
            out: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
            with self._lock:
                self._out = out
            with grpc.insecure_channel(f"unix:{self._socket}", options=options) as channel:
                call = channel.stream_stream(_REGISTER, None, None)(_words(out))
                try:
                    for data in call:
                        pause_s = _AGAIN_S[0]
                        self._heard(decoded(data))
                except grpc.RpcError:
                    pass
                finally:
                    out.put(None)
            time.sleep(pause_s)
            pause_s = min(_AGAIN_S[1], pause_s * 2)


def _words(out: "queue.SimpleQueue[Answer | None]") -> Iterator[bytes]:
    yield encoded(Answer())
    while (answer := out.get()) is not None:
        yield encoded(answer)
