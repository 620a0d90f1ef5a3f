"""Which process is whose child, as the kernel's process connector tells it: also of processes that live for a moment only."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_NETLINK_CONNECTOR = 11
_IDX_PROC, _LISTEN = 1, 1
_NLMSG_DONE = 3
_HEADER = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=IIIIHH")
_EVENT = struct.Struct("=IIQ")
_FORK, _EXEC, _EXIT = 0x1, 0x2, 0x80000000
_BUFFER = 4 << 20
_DATA_AT = _HEADER.size + _MESSAGE.size


class Born(NamedTuple):
    """A process began, as a child or by another program, or ended."""

    kind: str  # fork, exec, exit
    pid: int
    parent: int = 0


class Births:
    """Raises OSError where the kernel does not tell it, as outside the host's own network namespace."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_CONNECTOR)
        try:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, 33, _BUFFER)  # SO_RCVBUFFORCE
            self._socket.bind((0, _IDX_PROC))
            body = _MESSAGE.pack(_IDX_PROC, _IDX_PROC, 0, 0, 4, 0) + struct.pack("=I", _LISTEN)
            self._socket.send(_HEADER.pack(_HEADER.size + len(body), _NLMSG_DONE, 0, 0, os.getpid()) + body)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self.lost = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> Iterator[Born]:
        """What waits."""
        while True:
            try:
                data = self._socket.recv(4096)
            except BlockingIOError:
                return
            except OSError:  # more than the buffer holds: what was lost is found out another way
                self.lost += 1
                continue
            if len(data) >= _DATA_AT + _EVENT.size and (found := _born(data)) is not None:
                yield found


def _born(data: bytes) -> Born | None:
    what = _EVENT.unpack_from(data, _DATA_AT)[0]
    at = _DATA_AT + _EVENT.size
    if what == _FORK and len(data) >= at + 16:
        _, parent, _, child = struct.unpack_from("=iiii", data, at)
        thread = struct.unpack_from("=i", data, at + 8)[0]
        return Born("fork", child, parent) if thread == child else None
    if what in (_EXEC, _EXIT) and len(data) >= at + 8:
        thread, process = struct.unpack_from("=ii", data, at)
        if what == _EXIT and thread != process:
            return None
        return Born("exec" if what == _EXEC else "exit", process)
    return None
