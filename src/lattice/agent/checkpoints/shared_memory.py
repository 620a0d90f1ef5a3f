"""The 64 bytes through which a run is asked for checkpoints without a signal (share/lattice_checkpoint.h has the same in C).

The file is the user's, who may write anything into it or cut it short; so the agent reads and writes it by its descriptor and never
touches a mapping of it. The wake-up needs an address: the kernel alone looks there, and says EFAULT where nothing is left.
"""

import ctypes
import mmap
import os
import struct
from pathlib import Path

import msgspec

SIZE = 64
MAGIC = 0x504B434C  # "LCKP"
VERSION = 1
_FIELDS = struct.Struct("<IIIIIIQ")  # magic, version, request, done, failed, per mille, deadline in ms since 1970
_REQUEST_AT = 8
_DEADLINE_AT = 24
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE = 1
_ALL = 0x7FFFFFFF
MAX_PER_MILLE = 1000


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What the work wrote: the numbers of the newest checkpoint that is done, and that failed."""

    request: int
    done: int
    failed: int
    per_mille: int


def make(path: Path, owner: tuple[int, int]) -> None:
    """A region without a request. Raises OSError."""
    path.unlink(missing_ok=True)
    fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, _FIELDS.pack(MAGIC, VERSION, 0, 0, 0, 0, 0).ljust(SIZE, b"\0"))
        if os.geteuid() == 0:
            os.fchown(fd, *owner)
    finally:
        os.close(fd)


def read(path: Path) -> Standing | None:
    """None when it is no region any more. Raises OSError."""
    fd = os.open(path, _FLAGS)
    try:
        data = os.pread(fd, SIZE, 0)
    finally:
        os.close(fd)
    if len(data) < SIZE:
        return None
    magic, version, request, done, failed, per_mille, _ = _FIELDS.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        return None
    return Standing(request=request, done=done, failed=failed, per_mille=min(per_mille, MAX_PER_MILLE))


def ask(path: Path, n: int, deadline_ms: int) -> None:
    """Writes the request and wakes who waits for it. Raises OSError."""
    fd = os.open(path, _FLAGS)
    try:
        if os.fstat(fd).st_size < SIZE:
            raise OSError(f"{path.name} was cut short")
        os.pwrite(fd, struct.pack("<Q", deadline_ms), _DEADLINE_AT)
        os.pwrite(fd, struct.pack("<I", n), _REQUEST_AT)
        _wake(fd)
    finally:
        os.close(fd)


def _wake(fd: int) -> None:
    number = _SYS_FUTEX.get(os.uname().machine)
    if number is None:
        return  # who waits looks from time to time
    with mmap.mmap(fd, SIZE) as region:
        holder = ctypes.c_char.from_buffer(region)
        address = ctypes.addressof(holder) + _REQUEST_AT
        ctypes.CDLL(None, use_errno=True).syscall(
            ctypes.c_long(number),
            ctypes.c_void_p(address),
            ctypes.c_int(_FUTEX_WAKE),
            ctypes.c_int(_ALL),
            None,
            None,
            0,
        )
        del holder
