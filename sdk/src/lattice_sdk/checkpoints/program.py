"""For programs that write checkpoints: whether one is asked for, where it goes, where to continue. Standard library only.

    from lattice_sdk.checkpoints.program import Checkpoints

    checkpoints = Checkpoints()
    state = load(checkpoints.resume_from / "state") if checkpoints.resume_from else begin()
    while not state.is_finished:
        state.compute()
        if request := checkpoints.requested():
            save(state, request.path / "state")
            request.done()

It works with all protocols, and outside of Lattice, where nothing is ever asked for. The file stands by itself: it may be copied beside a
program whose environment has no lattice_sdk. The protocol `grpc` needs grpcio, and `registered.py` beside it.
"""

import contextlib
import json
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lattice_sdk.checkpoints.registered import Registered

_MAGIC = 0x504B434C
_VERSION = 1
_SIZE = 64
_MAX_TEXT = 400
_REQUEST_AT, _DONE_AT, _FAILED_AT, _PER_MILLE_AT = 8, 12, 16, 20


class CheckpointRequest:
    """One checkpoint that is asked for. Write into `path`, then call `done` or `failed`."""

    def __init__(
        self, owner: "Checkpoints", n: int, path: Path, deadline: float, reason: str, may_defer_s: float = 0.0
    ) -> None:
        self._owner = owner
        self.n = n
        self.path = path  # a directory of its own, which exists
        self.deadline = deadline  # seconds since 1970: what is not done by then has failed
        self.reason = reason  # user, broker, requeue, drain, preemption or walltime
        self._defer_until = time.monotonic() + may_defer_s

    def progress(self, per_mille: int) -> None:
        """How far it is. What takes long may take half as long again while it makes progress."""
        self._owner._progress(self, max(0, min(1000, per_mille)))

    def estimate(self, seconds: float) -> None:
        """How much longer it takes (protocol grpc). What cannot be done by its deadline is given up at once, not only then."""
        self._owner._say(self, estimate_s=seconds)

    @property
    def may_defer_s(self) -> float:
        """How long it may be put off; 0 where it has to be written now, and with the protocols signal and shmem."""
        return max(0.0, self._defer_until - time.monotonic())

    def defer(self, seconds: float) -> bool:
        """Puts it off: `requested` gives it out again by then. False where that is not possible: write it now."""
        if seconds <= 0 or not self.may_defer_s:
            return False
        self._owner._say(self, defer_s=seconds)
        return True

    def done(self) -> None:
        """Everything is written, and durable where that matters."""
        self._owner._answer(self, _DONE_AT, ".done", "")

    def failed(self, why: str = "") -> None:
        """It cannot be written; the text is for the user."""
        self._owner._answer(self, _FAILED_AT, ".failed", why)


class Checkpoints:
    """Make one of them, in the main thread and before the first step of the work: from then on the program can be asked."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        resume = variables.get("LATTICE_RESUME_FROM", "")
        self.resume_from = Path(resume) if resume else None
        self.protocol = variables.get("LATTICE_CHECKPOINT_PROTOCOL", "")
        self._request = variables.get("LATTICE_CHECKPOINT_REQUEST", "")
        self._seen = 0
        self._hinted = threading.Event()
        self._region: mmap.mmap | None = None
        self._registered: Registered | None = None
        if self.protocol == "shmem":
            self._region = _mapped(variables["LATTICE_CHECKPOINT_SHM"])
            self._seen = max(self._get(_DONE_AT), self._get(_FAILED_AT))
        elif self.protocol == "signal":
            signal.signal(int(variables["LATTICE_CHECKPOINT_SIGNAL"]), self._hint)
        elif self.protocol == "grpc" and "LATTICE_CHECKPOINT_SOCKET" in variables:
            self._registered = _registered(variables["LATTICE_CHECKPOINT_SOCKET"])

    def requested(self) -> CheckpointRequest | None:
        """The checkpoint that is asked for and was not given out before; costs a read of memory, so ask in every step."""
        if self._registered is not None:
            asked = self._registered.newest()
            if asked is None:
                return None
            return CheckpointRequest(
                self, asked.n, Path(asked.path), asked.deadline, asked.reason, may_defer_s=asked.may_defer_s
            )
        if self._region is not None:
            if self._get(_REQUEST_AT) == self._seen:
                return None
        elif not self._hinted.is_set():
            return None
        self._hinted.clear()
        try:
            with open(self._request, encoding="utf-8") as file:
                found = json.load(file)
            n = int(found["n"])
        except (OSError, ValueError, KeyError):
            return None
        if n <= self._seen:
            return None
        self._seen = n
        return CheckpointRequest(self, n, Path(found["path"]), float(found["deadline"]), str(found["reason"]))

    def _hint(self, _number: int, _frame: FrameType | None) -> None:
        self._hinted.set()

    def _answer(self, request: CheckpointRequest, place: int, name: str, text: str) -> None:
        if self._registered is not None:
            self._say(request, done=place == _DONE_AT, failed=place == _FAILED_AT, message=text[:_MAX_TEXT])
            return
        if text or self._region is None:
            draft = request.path / f"{name}.new"
            draft.write_text(text, encoding="utf-8")
            draft.replace(request.path / name)
        self._put(place, request.n)

    def _progress(self, request: CheckpointRequest, per_mille: int) -> None:
        self._put(_PER_MILLE_AT, per_mille)
        self._say(request, per_mille=per_mille)

    def _say(
        self,
        request: CheckpointRequest,
        *,
        estimate_s: float = 0.0,
        per_mille: int = 0,
        defer_s: float = 0.0,
        done: bool = False,
        failed: bool = False,
        message: str = "",
    ) -> None:
        if self._registered is not None:
            answer = (request.n, float(estimate_s), per_mille, float(defer_s), done, failed, message)
            self._registered.say(*answer)

    def _get(self, place: int) -> int:
        return 0 if self._region is None else int(struct.unpack_from("<I", self._region, place)[0])

    def _put(self, place: int, value: int) -> None:
        if self._region is not None:
            struct.pack_into("<I", self._region, place, value)


def _registered(socket: str) -> "Registered":
    """Imported only here: no other protocol needs more than this file."""
    try:
        from lattice_sdk.checkpoints.registered import Registered
    except ImportError:  # copied beside the program
        from registered import Registered  # type: ignore[import-not-found,no-redef]
    return Registered(socket)


def _mapped(path: str) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, fd)
        region = mmap.mmap(fd, _SIZE)
    if struct.unpack_from("<II", region, 0) != (_MAGIC, _VERSION):
        raise OSError(f"{path} is no region of checkpoints that this version knows")
    return region
