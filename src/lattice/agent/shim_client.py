"""The agent's end of the shim's socket: finds or starts the shim, sends requests, delivers events in order."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.machine.state import End
from lattice.agent.machine.step_status import StepStatus, usage_of
from lattice.core.model.site.protocols import OURS, Border, NoCommonVersion, negotiate, offer_of
from lattice.ports.nodes.agents import EndCause, RunKey, StepKey

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_WITHIN_S = 30.0
# Not imported from the shim: its modules have no business in this process.
SHIM_PROGRAM = Path(__file__).parent / "shim" / "shim.py"
SHIM_SOCKET = "shim.sock"
SHIM_ALREADY_RUNNING = 3


class ShimUnavailable(Exception):
    """No shim answers and none could be started; the text says why."""


class ShimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the shim tells it: in its list, in status.json, in an event."""

    number: int = 0
    run: int = 0
    phase: str = ""
    started_boot_s: float = 0.0
    cause: str = ""
    exit_code: int = 0
    signal: int = 0
    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0
    elapsed_s: float = 0.0
    why: str = ""
    error: str = ""
    throttled_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    peak_pids: int = 0

    @property
    def key(self) -> RunKey:
        return RunKey(self.number, self.run)

    def end(self) -> End:
        message = self.error or (self._why() if self.why else "")
        try:
            cause = EndCause(self.cause)
        except ValueError:
            cause, message = EndCause.NODE, f"the shim gave an unknown cause, {self.cause!r}"
        return End(
            cause=cause,
            exit_code=self.exit_code,
            signal=self.signal,
            message=message,
            cpu_s=self.cpu_s,
            peak_memory_mb=round(self.peak_memory_mb),
            elapsed_s=self.elapsed_s,
            usage=usage_of(self),
        )

    def _why(self) -> str:
        if self.cause in (EndCause.EXIT.value, EndCause.SIGNAL.value):
            return self.why
        return f"out of memory, {self.why}" if self.cause == EndCause.OOM.value else f"stopped: {self.why}"


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the shim measured of a living run, or of one of its steps."""

    number: int
    run: int
    step: int | None = None
    cpu_s: float = 0.0
    throttled_s: float = 0.0
    memory_mb: float = 0.0
    peak_memory_mb: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    pids: int = 0
    peak_pids: int = 0


class GroupPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the kernel counts what a living run or one of its steps uses: folders or, without cgroups, processes."""

    number: int
    run: int
    step: int | None = None
    path: str = ""  # in the v2 hierarchy
    twins: dict[str, str] = {}  # in v1, by controller
    pids: tuple[int, ...] = ()


class ShimMessage(ShimRecord, frozen=True, kw_only=True):
    """A line from the shim: an answer (with `id`) or an event."""

    id: int | None = None
    ok: bool = False
    event: str = ""
    runs: tuple[ShimRecord, ...] = ()
    steps: tuple[StepStatus, ...] = ()
    groups: tuple[GroupFigures, ...] = ()  # what was measured
    places: tuple[GroupPlace, ...] = ()  # where it is counted
    pids: tuple[int, ...] = ()  # of a run
    members: int | None = (
        None  # how many processes it has, besides those that caught a signal; None from a shim that cannot say it
    )
    cgroup: bool = False
    mounts: bool = False  # whether it gives runs a file system of their own; an older one would ignore that
    pmix_service: bool = False  # the same of PMIx
    terminals: bool = False  # the same of terminals that clients come and go at
    hints: bool = False  # the same of signals for those who catch them
    memory_policies: bool = False  # the same of policies of memory, and whether the kernel has them
    holds: bool = False  # the same of runs without a process of their own
    task_cpus: bool = False  # whether it binds single tasks of a step
    step_views: bool = False  # whether it lets single steps see a container of their own
    containers: tuple[tuple[int, int], ...] = ()  # numbers and runs of which it keeps some
    kept: dict[str, tuple[int, str]] = {}  # of a run, by name: where it has them open, and what they were made of
    running: dict[
        str, tuple[bool, str]
    ] = {}  # of a run, by name: those with a step, whether it can write there, and the same
    pmi_service: bool = False  # whether it starts PMI services; an older one would ignore that a step asks for one
    limits: tuple[str, ...] | None = None  # controllers that hold runs here; None from a shim of release 0.1.0
    mount_kinds: tuple[str, ...] = ()  # what it can mount there
    mount_problem: str = ""  # why it, not being root, cannot mount images
    output: str = ""  # the beginning of what a probe wrote
    pid: int = 0
    view: int = -1  # where the shim has the file system of a run open; -1 = it sees that of the node
    step: int = 0
    upto: int = 0  # input that a step has taken
    protocol: tuple[int, int] = (0, 0)  # oldest and newest version; a shim of release 0.1.0 does not say them
    errno: int = 0  # why the node itself could not start a run


OnAnswer = Callable[[ShimMessage], None]
# A step as it stands now, or the key of one whose journal has grown.
OnStep = Callable[[StepStatus | StepKey], None]

_decoder = msgspec.json.Decoder(ShimMessage)
_encoder = msgspec.json.Encoder()
_step_decoder = msgspec.json.Decoder(StepStatus)
_status_decoder = msgspec.json.Decoder(ShimRecord)


def read_status(folder: Path) -> ShimRecord | None:
    """The shim's last word on a run, from its folder; None when there is none or it is damaged."""
    try:
        return _status_decoder.decode((folder / "status.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


class ShimClient(asyncio.Protocol):
    """One connection. Callbacks are called in the order in which the shim spoke, never from `request`."""

    def __init__(
        self, on_ended: Callable[[ShimMessage], None], on_lost: Callable[[], None], on_step: OnStep | None = None
    ) -> None:
        self._on_ended = on_ended
        self._on_lost = on_lost
        self._on_step = on_step or _ignore_step
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: dict[int, OnAnswer] = {}
        self._last_id = 0
        self._listed: asyncio.Future[ShimMessage] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if b"\n" not in data:
            return
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            message = _decoder.decode(line)
            if message.event == "ended":
                self._on_ended(message)
            elif message.event == "step":
                self._on_step(_step_decoder.decode(line))
            elif message.event == "journal":
                self._on_step(StepKey(message.number, message.run, message.step))
            elif message.id is not None:
                self._waiting.pop(message.id, _ignore)(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.clear()
        if self._listed is not None and not self._listed.done():
            self._listed.set_exception(ShimUnavailable("the shim closed the connection"))
        if self._transport is not None:
            self._transport = None
            self._on_lost()

    @property
    def is_lost(self) -> bool:
        """Whether there is no connection any more. `on_lost` was called then, maybe before anybody minded."""
        return self._transport is None

    def request(self, body: dict[str, object], on_answer: OnAnswer | None = None) -> None:
        """Send a request; without a connection it is dropped, as `on_lost` told or will tell."""
        if self._transport is None:
            return
        self._last_id += 1
        if on_answer is not None:
            self._waiting[self._last_id] = on_answer
        self._transport.write(_encoder.encode({"id": self._last_id, **body}) + b"\n")

    async def list(self) -> ShimMessage:
        """All runs that the shim knows; raises ShimUnavailable when there is no answer."""
        listed = self._listed = asyncio.get_running_loop().create_future()

        def answer(message: ShimMessage) -> None:
            if not listed.done():
                listed.set_result(message)

        self.request({"op": "list"}, answer)
        try:
            listing: ShimMessage = await asyncio.wait_for(listed, START_WITHIN_S)
            negotiate(OURS[Border.SHIM], offer_of(*listing.protocol), us="this agent", them="the shim that runs here")
        except TimeoutError:
            self.close()
            raise ShimUnavailable("the shim does not answer") from None
        except (NoCommonVersion, ValueError) as error:
            self.close()
            raise ShimUnavailable(str(error)) from error
        return listing

    def close(self) -> None:
        """End the connection without telling `on_lost`."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()


def _ignore(_message: ShimMessage) -> None:
    return


def _ignore_step(_about: StepStatus | StepKey) -> None:
    return


async def connect(
    state_dir: Path,
    on_ended: Callable[[ShimMessage], None],
    on_lost: Callable[[], None],
    on_step: OnStep | None = None,
) -> ShimClient:
    """A connection to the running shim; OSError when there is none."""
    loop = asyncio.get_running_loop()
    # By way of a descriptor, because a socket's path may not be longer than 107 bytes.
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        path = f"/proc/self/fd/{folder}/{SHIM_SOCKET}"
        _, client = await loop.create_unix_connection(lambda: ShimClient(on_ended, on_lost, on_step), path)
    finally:
        os.close(folder)
    return client


def identity(state_dir: Path, listing: ShimMessage) -> str:
    """A name for this one shim process; its successor's is another."""
    try:
        made_ns = (state_dir / SHIM_SOCKET).lstat().st_mtime_ns
    except FileNotFoundError:  # it has answered, and shuts down meanwhile: its loss comes next
        made_ns = 0
    return f"{listing.pid}-{made_ns}"


async def start(state_dir: Path, output_limit: int, pool: Executor) -> None:
    """Start a shim that outlives this process; returns when it listens, raises ShimUnavailable."""
    command = [sys.executable, "-S", "-E", str(SHIM_PROGRAM), "--state-dir", str(state_dir)]
    command += ["--output-limit", str(output_limit), "--detach"]
    # Nothing of the agent's environment: it may hold a token, and workloads' neighbours can read it.
    environment = {"PATH": STANDARD_PATH}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=START_WITHIN_S,
        )

    try:
        done = await asyncio.get_running_loop().run_in_executor(pool, run)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ShimUnavailable(f"cannot start the shim: {error}") from error
    if done.returncode not in (0, SHIM_ALREADY_RUNNING):
        raise ShimUnavailable(f"cannot start the shim: {done.stderr.strip() or done.returncode}")
