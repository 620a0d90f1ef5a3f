"""The shim's side of a step's service: forks it, hears it, and sees to its end.

The service is a fork without exec: it starts in a millisecond, and because it changed its user without exec the kernel lets no process
of that user trace it or read what it has of the shim's memory.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
from collections.abc import Callable

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.launch import Launch
from lattice.agent.shim.loop import Loop
from lattice.agent.shim.pmi.plan import PmiPlan, PmixPlan, plan_of
from lattice.agent.shim.pmi.pmix import listen
from lattice.agent.shim.pmi.service import Service
from lattice.agent.shim.spawn import Inheritance, block_signals, fork_into, keep_only, unblock_signals

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
READ_BYTES = 1 << 16
# A rank that called abort ends by itself; after this it is ended.
ABORT_S = 1.0

_libc = ctypes.CDLL(None, use_errno=True)


class PmiService:
    """One step's service as the shim knows it. `pid` is 0 when it is gone."""

    __slots__ = ("_listener", "_ours", "_theirs", "_variables", "abort", "control", "failure", "inbox", "news", "pid")

    def __init__(self, ranks: list[int]) -> None:
        self.pid = 0
        self.control = -1
        self.inbox = bytearray()
        self.news: dict[str, object] = {}
        self.failure = ""
        self.abort: tuple[int, int] | None = None  # rank and code
        self._ours: dict[int, int] = {}  # the service's ends, until it has them
        self._theirs: dict[int, int] = {}  # the ranks' ends, until they are forked
        self._listener: socket.socket | None = None  # for ranks that speak PMIx, until the service has it
        self._variables: dict[str, str] = {}  # of these
        try:
            for rank in ranks:
                ours, theirs = socket.socketpair()
                self._ours[rank], self._theirs[rank] = ours.detach(), theirs.detach()
        except OSError:
            self.close()
            raise

    def offer_pmix(self, pmix: PmixPlan) -> None:
        self._listener = listen()
        port = str(self._listener.getsockname()[1])
        self._variables = {name: value.replace("{port}", port) for name, value in pmix.variables.items()}

    def add_variables(self, rank: int, env: dict[bytes, bytes]) -> None:
        """What a rank that speaks PMIx reads."""
        for name, value in self._variables.items():
            env[name.encode()] = value.replace("{rank}", str(rank)).encode()

    def take_end(self, rank: int) -> int:
        """The end that the rank inherits; the caller closes it. -1 when there is none."""
        return self._theirs.pop(rank, -1)

    def start(self, plan: PmiPlan, launch: Launch, group: Cgroup | None, inheritance: Inheritance) -> None:
        """Fork the service. OSError leaves nothing open."""
        try:
            ours, theirs = socket.socketpair()
            self.control, inner = ours.detach(), theirs.detach()
            os.set_blocking(self.control, False)
            self.pid = _fork(plan, launch, group, inheritance, self._ours, inner, self._listener)
            os.close(inner)
        except OSError:
            self.close()
            raise
        for fd in self._ours.values():
            os.close(fd)
        self._ours = {}
        self._close_listener()

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def tell_ended(self, places: object) -> None:
        """All tasks of these nodes of the step have ended."""
        try:
            os.write(self.control, json.dumps({"ended": places}).encode() + b"\n")
        except OSError:
            return  # it is ending, or does not read

    def hear(self) -> bool:
        """Read what the service says; False at its end."""
        try:
            data = os.read(self.control, READ_BYTES) if self.control >= 0 else b""
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self.inbox += data
        while (end := self.inbox.find(b"\n")) >= 0:
            self._note(bytes(self.inbox[:end]))
            del self.inbox[: end + 1]
        return bool(data) and len(self.inbox) <= READ_BYTES

    def _note(self, line: bytes) -> None:
        """The service is the user's: what it says is only believed about its own step."""
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                return
            if isinstance(said.get("news"), dict):
                self.news = _checked(said["news"])
            if said.get("failed"):
                self.failure = self.failure or str(said["failed"])[:4096]
            if "abort" in said and self.abort is None:
                self.abort = int(said["rank"]), int(said["abort"]) & 0xFF
        except (ValueError, TypeError, KeyError):
            return

    @property
    def verdict(self) -> tuple[str, float]:
        """Why the step has to end, and how long its tasks have for that; empty while it need not."""
        if self.failure:
            return self.failure, 0.0
        if self.abort is not None:
            return f"rank {self.abort[0]} called MPI_Abort with code {self.abort[1]}", ABORT_S
        return "", 0.0

    def was_missed(self, *, are_tasks_gone: bool) -> bool:
        """The service was reaped: whether tasks counted on it."""
        self.pid = 0
        return bool(self.news.get("met")) and not are_tasks_gone and not self.failure

    def finish(self, loop: Loop) -> None:
        """Read what it said last, and close."""
        while self.control >= 0 and self.hear():
            if not select.select([self.control], [], [], 0)[0]:
                break
        loop.unwatch(self.control)
        self.close()

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)  # not reaped, so the pid is still its own

    def close(self) -> None:
        """Harmless when repeated."""
        self._close_listener()
        fds = [*self._ours.values(), *self._theirs.values(), self.control]
        self._ours, self._theirs, self.control = {}, {}, -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def watch(self, loop: Loop, heard: Callable[[], None]) -> None:
        def ready(_mask: int) -> None:
            if not self.hear():
                loop.unwatch(self.control)
            heard()

        loop.watch(self.control, select.EPOLLIN, ready)


def start_service(
    request: dict[str, object], ranks: list[int], group: Cgroup | None, inheritance: Inheritance
) -> tuple[PmiService | None, str]:
    """The service that the step asks for, or why there is none; neither when it asks for none."""
    try:
        plan = plan_of(request)
        if plan is None:
            return None, ""
        launch = Launch({**request, "argv": request.get("argv") or ["-"]})
        service = PmiService(ranks)
        if plan.pmix is not None:
            service.offer_pmix(plan.pmix)
        service.start(plan, launch, group, inheritance)
    except (OSError, ValueError) as error:
        return None, f"cannot start the PMI service: {error}"
    return service, ""


def _checked(news: dict[str, object]) -> dict[str, object]:
    kind = str(news.get("kind") or "")[:16]
    counts = {name: max(0, min(int(str(news.get(name) or 0)), 1 << 62)) for name in ("met", "fences", "bytes")}
    slowest_s = float(str(news.get("slowest_s") or 0.0))
    library = str(news.get("library") or "")[:64]
    return {"kind": kind, **counts, "slowest_s": slowest_s if 0 <= slowest_s < 1e9 else 0.0, "library": library}


def _fork(
    plan: PmiPlan,
    launch: Launch,
    group: Cgroup | None,
    inheritance: Inheritance,
    sockets: dict[int, int],
    control: int,
    listener: socket.socket | None,
) -> int:
    block_signals()
    try:
        pid = fork_into(group.folder) if group is not None else None
        join_files = group.join_files if group is not None else ()
        if pid is None:
            join_files = group.all_join_files if group is not None else ()
            pid = os.fork()
        if pid == 0:
            _be_service(plan, launch, group, join_files, inheritance, sockets, control, listener)
        return pid
    finally:
        unblock_signals()


def _be_service(
    plan: PmiPlan,
    launch: Launch,
    group: Cgroup | None,
    join_files: tuple[str, ...],
    inheritance: Inheritance,
    sockets: dict[int, int],
    control: int,
    listener: socket.socket | None,
) -> None:
    """Never returns. Signals stay blocked: what is sent to the tasks of the step is not meant for it."""
    try:
        os.setsid()
        for path in join_files:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)
        keep_only({control, *sockets.values()} | ({listener.fileno()} if listener is not None else set()))
        inheritance.restore()
        if plan.pmix is not None:
            os.mkdir(plan.pmix.directory, 0o700)
            os.chown(plan.pmix.directory, launch.uid, launch.gid)
        if os.geteuid() == 0:
            os.setgroups(launch.groups)
            os.setresgid(launch.gid, launch.gid, launch.gid)
            os.setresuid(launch.uid, launch.uid, launch.uid)
        _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        _libc.prctl(PR_SET_NAME, b"lattice-pmi", 0, 0, 0)
        os.chdir("/")
        Service(plan, sockets, control, group.folder if group is not None else "", listener).run()
    except BaseException as error:  # noqa: BLE001 - the end of a process: the shim learns it, and nothing is above
        os.write(control, json.dumps({"failed": f"the PMI service failed: {error}"}).encode() + b"\n")
    finally:
        os._exit(0)
