"""The shim's side of a step's service: opens what its ranks and other nodes reach it by, forks it when one of them is there, hears it, and
sees to its end.

The shim reads nothing of what comes: it only sees that something is there. A step whose tasks never speak PMI has no service unless
its processes run long enough to be looked at (`libraries.py`). The service is a fork without exec: it starts in a millisecond, and
because it changed its user without exec the kernel lets no process of that user trace it or read what it has of the shim's memory.
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
from lattice.agent.shim.loop import Loop, boot_now, keep_only
from lattice.agent.shim.pmi.exchange import listen_for_nodes
from lattice.agent.shim.pmi.plan import PmiPlan, plan_of
from lattice.agent.shim.pmi.pmix import listen
from lattice.agent.shim.pmi.service import Service
from lattice.agent.shim.spawn import Inheritance, block_signals, fork_into, unblock_signals

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
READ_BYTES = 1 << 16
# A rank that called abort ends by itself; after this it is ended.
ABORT_S = 1.0

_libc = ctypes.CDLL(None, use_errno=True)


class Doors:
    """What leads to the service: one end of a pair of sockets per rank, a port for ranks that speak PMIx, and one for other nodes."""

    __slots__ = ("nodes", "pmix", "ranks")

    def __init__(self) -> None:
        self.ranks: dict[int, int] = {}
        self.pmix: socket.socket | None = None
        self.nodes: socket.socket | None = None

    def numbers(self) -> list[int]:
        return [*self.ranks.values(), *(each.fileno() for each in (self.pmix, self.nodes) if each is not None)]

    def give_to(self, uid: int) -> None:
        """Lets the kernel count the ports as the user's, as the service behind them will be."""
        for listener in (self.pmix, self.nodes):
            if listener is not None and os.geteuid() == 0:
                os.fchown(listener.fileno(), uid, -1)

    def close(self) -> None:
        """Harmless when repeated."""
        for fd in self.ranks.values():
            os.close(fd)
        for listener in (self.pmix, self.nodes):
            if listener is not None:
                listener.close()
        self.ranks, self.pmix, self.nodes = {}, None, None


class PmiService:
    """One step's service as the shim knows it. `pid` is 0 while it has not begun, and when it is gone."""

    __slots__ = (
        "_doors",
        "_ended",
        "_fork",
        "_loop",
        "_poll",
        "_theirs",
        "_variables",
        "abort",
        "control",
        "failure",
        "inbox",
        "news",
        "pid",
        "since_s",
    )

    def __init__(
        self, plan: PmiPlan, ranks: list[int], fork: Callable[[Doors, int, float], int], uid: int = -1
    ) -> None:
        """`fork` makes the process, which will be `uid`'s. OSError leaves nothing open."""
        self.pid = 0
        self.control = -1
        self.inbox = bytearray()
        self.news: dict[str, object] = {}
        self.failure = ""
        self.abort: tuple[int, int] | None = None  # rank and code
        self.since_s = boot_now()
        self._fork = fork
        self._ended: list[object] = []  # what it learns when it begins
        self._doors = Doors()  # open until it has begun
        # The ranks' ends. Ours are open until the service begins, so that a rank that ends is no event for the shim.
        self._theirs: dict[int, int] = {}
        self._variables: dict[str, str] = {}  # of ranks that speak PMIx
        self._loop: Loop | None = None
        self._poll: select.epoll | None = None  # sees all doors
        try:
            self._open(plan, ranks)
            self._doors.give_to(uid)
        except OSError:
            self.close()
            raise

    def _open(self, plan: PmiPlan, ranks: list[int]) -> None:
        for rank in ranks:
            ours, theirs = socket.socketpair()
            self._doors.ranks[rank], self._theirs[rank] = ours.detach(), theirs.detach()
        if plan.pmix is not None:
            self._doors.pmix = listen()
            port = str(self._doors.pmix.getsockname()[1])
            self._variables = {name: value.replace("{port}", port) for name, value in plan.pmix.variables.items()}
        self._doors.nodes = listen_for_nodes(plan)
        self._poll = select.epoll()
        for fd in self._doors.numbers():
            self._poll.register(fd, select.EPOLLIN)

    def add_variables(self, rank: int, env: dict[bytes, bytes]) -> None:
        """What a rank that speaks PMIx reads."""
        for name, value in self._variables.items():
            env[name.encode()] = value.replace("{rank}", str(rank)).encode()

    def end_of(self, rank: int) -> int:
        """The end that the rank inherits, which stays this one's; -1 when there is none."""
        return self._theirs.get(rank, -1)

    @property
    def can_begin(self) -> bool:
        return self._poll is not None

    def watch(self, loop: Loop, called: Callable[[], None]) -> None:
        """`called` when there is a rank, or another node, that wants to speak."""
        if self._poll is not None:
            self._loop = loop
            loop.watch(self._poll.fileno(), select.EPOLLIN, lambda _mask: called())

    def begin(self, loop: Loop, heard: Callable[[], None]) -> None:
        """Fork the service; `heard` when it said something. OSError leaves nothing open."""
        try:
            ours, theirs = socket.socketpair()
            self.control, inner = ours.detach(), theirs.detach()
            os.set_blocking(self.control, False)
            try:
                self.pid = self._fork(self._doors, inner, self.since_s)
            finally:
                os.close(inner)
        except OSError:
            self.close()
            raise
        self._close_doors()

        def ready(_mask: int) -> None:
            if not self.hear():
                loop.unwatch(self.control)
            heard()

        loop.watch(self.control, select.EPOLLIN, ready)
        for places in self._ended:
            self.tell_ended(places)

    def _close_doors(self) -> None:
        if self._poll is not None:
            if self._loop is not None:
                self._loop.unwatch(self._poll.fileno())
            self._poll.close()
            self._poll = None
        self._doors.close()
        for fd in self._theirs.values():
            os.close(fd)
        self._theirs = {}

    def tell_ended(self, places: object) -> None:
        """All tasks of these nodes of the step have ended."""
        if self.can_begin:
            self._ended.append(places)
            return
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
        self._close_doors()
        if self.control >= 0:
            os.close(self.control)
            self.control = -1


def offer_service(
    request: dict[str, object], launch: Launch, ranks: list[int], group: Cgroup | None, inheritance: Inheritance
) -> tuple[PmiService | None, str]:
    """The service that the step asks for, or why there is none; neither when it asks for none."""
    try:
        plan = plan_of(request)
        if plan is None:
            return None, ""

        def fork(doors: Doors, control: int, since_s: float) -> int:
            return _fork(plan, launch, group, inheritance, doors, control, since_s)

        service = PmiService(plan, ranks, fork, launch.uid)
    except (OSError, ValueError) as error:
        return None, f"cannot start the PMI service: {error}"
    return service, ""


def _checked(news: dict[str, object]) -> dict[str, object]:
    kind = str(news.get("kind") or "")[:16]
    counts = {name: max(0, min(int(str(news.get(name) or 0)), 1 << 62)) for name in ("met", "fences", "bytes")}
    slowest_s = float(str(news.get("slowest_s") or 0.0))
    library = str(news.get("library") or "")[:64]
    checked: dict[str, object] = {"kind": kind, **counts, "library": library}
    checked["slowest_s"] = slowest_s if 0 <= slowest_s < 1e9 else 0.0
    checked["wanted_spawn"] = news.get("wanted_spawn") is True
    return checked


def _fork(
    plan: PmiPlan,
    launch: Launch,
    group: Cgroup | None,
    inheritance: Inheritance,
    doors: Doors,
    control: int,
    since_s: float,
) -> int:
    block_signals()
    try:
        pid = fork_into(group.folder) if group is not None else None
        join_files = group.join_files if group is not None else ()
        if pid is None:
            join_files = group.all_join_files if group is not None else ()
            pid = os.fork()
        if pid == 0:
            _be_service(plan, launch, group, join_files, inheritance, doors, control, since_s)
        return pid
    finally:
        unblock_signals()


def _be_service(
    plan: PmiPlan,
    launch: Launch,
    group: Cgroup | None,
    join_files: tuple[str, ...],
    inheritance: Inheritance,
    doors: Doors,
    control: int,
    since_s: float,
) -> None:
    """Never returns. Signals stay blocked: what is sent to the tasks of the step is not meant for it."""
    try:
        os.setsid()
        for path in join_files:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)
        keep_only({control, *doors.numbers()})
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
        folder = group.folder if group is not None else ""
        Service(plan, doors.ranks, control, folder, doors.pmix, doors.nodes, since_s=since_s).run()
    except BaseException as error:  # noqa: BLE001 - the end of a process: the shim learns it, and nothing is above
        os.write(control, json.dumps({"failed": f"the PMI service failed: {error}"}).encode() + b"\n")
    finally:
        os._exit(0)
