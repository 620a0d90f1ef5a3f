"""Which files runs in mode audit touch: asks the reader process, and hands its lines to what stores them.

The reader runs while such a run lives or is about to start. Each time it begins, the records of its runs say so: what happened while
there was none, as between two agents, is missing there, and seen to be. docs/architecture/telemetry.md.
"""

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.shim.shim import default_cgroup_root
from lattice.agent.telemetry.access import fanotify
from lattice.agent.telemetry.collector import Collector, Target
from lattice.agent.telemetry.traces import StoredLines
from lattice.core.model.telemetry.modes import ACCESS_FEATURE, Mode
from lattice.ports.nodes.agents import RunKey, StartOrder

FEATURE = ACCESS_FEATURE
SOURCE = "fanotify"
READY_WITHIN_S = 10.0
AGAIN_S = (0.2, 30.0)
MAX_LINE = 1 << 20
KEPT_BYTES = 64 << 20  # of a run, while the store is away

_log = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder(dict[str, object])
_encoder = msgspec.json.Encoder()


class Whose(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of such a file: where the lines go, and whose they are."""

    prefix: str
    grant: str
    user: str


def why_not() -> str:
    """Why this agent cannot watch files; empty where it can."""
    return "needs an agent that runs as root" if os.geteuid() != 0 else fanotify.why_not()


class AccessRecords(StoredLines):
    """Lines about what runs touched, each with who did it; in a file of each run until they are stored, so that no agent takes them along."""

    of_access = True
    kept_bytes = KEPT_BYTES

    def __init__(self, collector: Collector, sink: ChunkSink, node: str, folder: Path) -> None:
        super().__init__(collector, sink, node)
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(folder.glob("*.jsonl")):
            self._recall(path)

    def note(self, key: RunKey, order: StartOrder, line: dict[str, object]) -> None:
        at_ms = line.get("at_ms")
        at_ms = at_ms if isinstance(at_ms, int) else self._collector.now_ms()
        text = _encoder.encode({"at_ms": at_ms, "user": order.user, **line}) + b"\n"
        if lost := self.add(key, order, at_ms, text):
            _log.error("%d lines about what run %s touched are lost: the object store is away", lost, key)
            self.add(key, order, at_ms, _encoder.encode({"at_ms": at_ms, "dropped": lost}) + b"\n")
        self._append(key, order, [text])

    def left(self, key: RunKey, order: StartOrder, lines: list[bytes]) -> None:
        self._path(key).unlink(missing_ok=True)
        if lines:
            self._append(key, order, lines)

    def _path(self, key: RunKey) -> Path:
        return self._folder / f"{key}.jsonl"

    def _append(self, key: RunKey, order: StartOrder, lines: list[bytes]) -> None:
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "ab") as file:
                if not file.tell():
                    whose = Whose(prefix=order.output_prefix, grant=order.upload_grant, user=order.user)
                    file.write(_encoder.encode(whose) + b"\n")
                file.write(b"".join(lines))
        except OSError as error:
            _log.warning("cannot keep what run %s touched until it is stored: %s", key, error)

    def _recall(self, path: Path) -> None:
        """What an agent before this one did not store any more."""
        number, _, run = path.stem.partition(".")
        try:
            head, *lines = path.read_bytes().splitlines(keepends=True)
            whose = msgspec.json.decode(head, type=Whose)
            key = RunKey(int(number), int(run))
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            _log.error("what a run touched cannot be read from %s: %s", path, error)
            return
        order = StartOrder(key=key, output_prefix=whose.prefix, upload_grant=whose.grant, user=whose.user)
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):  # the last line may be cut short
                at_ms = _decoder.decode(line).get("at_ms")
                self.add(key, order, at_ms if isinstance(at_ms, int) else 0, line)
        if (trace := self._traces.get(key)) is not None:
            trace.is_over = True  # it is stored at once, and continues if the run does


class AccessWatch:
    """`run` for good. `expect` before a run starts; `watched` are those that are read about now."""

    def __init__(self, collector: Collector, state_dir: Path, program: Sequence[str] = ()) -> None:
        self._collector = collector
        self._state_dir = state_dir
        self._program = tuple(program)
        self._orders: dict[RunKey, StartOrder] = {}
        self._expected: dict[RunKey, StartOrder] = {}
        self._process: Process | None = None
        self._ready = asyncio.Event()
        self._wanted = asyncio.Event()
        self._told: frozenset[str] = frozenset()
        self.problem = ""
        self.is_off = False
        self.records: AccessRecords | None = None
        collector.ticks.append(self.follow)
        collector.ended.append(self._ended)

    @property
    def why_not(self) -> str:
        """Why no run can be in mode audit here; empty where it can."""
        return "switched off by --telemetry-without" if self.is_off else why_not()

    @property
    def is_reading(self) -> bool:
        return self._ready.is_set()

    def keep_at(self, sink: ChunkSink, node: str) -> None:
        """Before `run`: where the records go."""
        self.records = AccessRecords(self._collector, sink, node, self._state_dir / "access")

    async def expect(self, order: StartOrder) -> str:
        """Everything that this run will touch is read from now on; otherwise why not."""
        if why := self.why_not:
            return why
        if self.records is None or not self.records.may_store(order):
            return "there is no object store for the record"
        self._expected[order.key] = order
        is_new = self.is_reading  # otherwise the reader's beginning is noted
        self.follow()
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await self._ready.wait()
        except TimeoutError:
            self._expected.pop(order.key, None)
            return self.problem or "the reader of file events does not answer"
        if is_new:
            self._say_begun(order.key, order)
        return ""

    async def asked(self, order: StartOrder) -> str:
        """The same of a run in whatever mode, for the user."""
        if not is_audited(order) or order.key in self._orders:
            return ""
        why = await self.expect(order)
        return f"mode audit: the node cannot say which files work touches: {why}" if why else ""

    def forget(self, key: RunKey) -> None:
        """It did not start, or has ended."""
        self._expected.pop(key, None)
        self.follow()

    def follow(self) -> None:
        """Which runs are read about now."""
        found = dict(self._expected)
        for key, target in self._collector.targets.items():
            if key is not None and target.mode is Mode.AUDIT and target.order is not None:
                found[key] = target.order
        fresh = [key for key in found if key not in self._orders and key not in self._expected]
        self._orders = found
        if found and not self.is_off:
            self._wanted.set()
        else:
            self._wanted.clear()
        self._tell()
        if self.is_reading:
            for key in fresh:
                self._say_begun(key, found[key])

    def _tell(self) -> None:
        names = frozenset(str(key) for key in self._orders)
        process = self._process
        if process is None or process.stdin is None or names == self._told:
            return
        self._told = names
        if not names:
            process.stdin.close()  # it ends
            return
        with contextlib.suppress(OSError):
            process.stdin.write(_encoder.encode(sorted(names)) + b"\n")

    def _ended(self, target: Target) -> None:
        if target.key is not None:
            self._expected.pop(target.key, None)

    def _say_begun(self, key: RunKey, order: StartOrder) -> None:
        if self.records is not None:
            self.records.note(key, order, {"begun": True})

    async def run(self) -> None:
        """Never returns."""
        storing = asyncio.create_task(self.records.run()) if self.records is not None else None
        delay_s, longest_s = AGAIN_S
        try:
            while True:
                await self._wanted.wait()
                began_s = asyncio.get_running_loop().time()
                await self._read()
                if self._wanted.is_set():
                    self._say_gap()
                    is_old = asyncio.get_running_loop().time() - began_s > longest_s
                    delay_s = AGAIN_S[0] if is_old else min(longest_s, 2 * delay_s)
                    await asyncio.sleep(delay_s)
        finally:
            if storing is not None:
                storing.cancel()

    def _say_gap(self) -> None:
        _log.error("what runs touch is not read now: %s", self.problem)
        if self.records is not None:
            for key, order in self._orders.items():
                self.records.note(key, order, {"gap": self.problem})

    async def _read(self) -> None:
        """One reader from its start to its end."""
        root = default_cgroup_root(str(self._state_dir))
        program = self._program or (sys.executable, "-m", "lattice.agent.telemetry.access.reader", root)
        try:
            process = await asyncio.create_subprocess_exec(
                *program, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MAX_LINE
            )
        except OSError as error:
            self.problem = str(error)
            return
        self._process, self._told = process, frozenset()
        self.problem = "the reader of file events ended"
        self._tell()
        try:
            if process.stdout is not None:
                with contextlib.suppress(ValueError):  # a line that is too long
                    while line := await process.stdout.readline():
                        self._take(line)
        finally:
            self._process = None
            self._ready.clear()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _take(self, text: bytes) -> None:
        try:
            line = _decoder.decode(text)
        except msgspec.MsgspecError:
            return
        if "problem" in line:
            self.problem = str(line["problem"])
        elif "ready" in line:
            self._ready.set()
            _log.info(
                "files that runs touch are read; children are %sfollowed",
                "" if line.get("follows_children") else "not ",
            )
            for key, order in self._orders.items():
                self._say_begun(key, order)
        elif self.records is not None:
            run = line.pop("run", None)
            for key, order in self._orders.items():
                if run is None or str(key) == run:
                    self.records.note(key, order, line)


def is_audited(order: StartOrder) -> bool:
    return order.telemetry is not None and order.telemetry.mode is Mode.AUDIT
