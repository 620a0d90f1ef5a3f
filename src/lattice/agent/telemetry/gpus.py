"""Figures of GPUs, from helper processes that print a line of JSON each second. No line for a while = nothing is known.

Each kind of GPU has a helper: NVML, AMD's tools, and DCGM for what NVML cannot say. A helper that finds nothing to ask ends at once.
"""

import asyncio
import contextlib
import logging
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence

import msgspec

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.sources.nvml_stream import NO_LIBRARY
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.telemetry.rates import Name

_SOURCES = "lattice.agent.telemetry.sources"
# What an earlier one says counts.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "nvml": (sys.executable, "-m", f"{_SOURCES}.nvml_stream"),
    "dcgm": (sys.executable, "-m", f"{_SOURCES}.gpu_tools", "dcgm"),
    "rocm": (sys.executable, "-m", f"{_SOURCES}.gpu_tools", "rocm"),
}
STALE_S = 5.0
HUNG_S = 120.0
AGAIN_S = (5.0, 300.0)
MAX_LINE = 1 << 20
MAX_GPUS = 64

_log = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder(dict[str, dict[str, float]])


class Helper:
    """One helper process and what it said last."""

    def __init__(self, name: str, program: Sequence[str], now_s: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._program = tuple(program)
        self._now_s = now_s
        self._newest: dict[str, dict[str, float]] = {}
        self._at_s = -STALE_S * 2
        self.problem = ""

    @property
    def is_answering(self) -> bool:
        return self._now_s() - self._at_s <= STALE_S

    @property
    def newest(self) -> dict[str, dict[str, float]]:
        """By GPU; nothing of a helper that has been silent for a while."""
        return self._newest if self.is_answering else {}

    def take(self, line: bytes) -> None:
        """What the helper says; what makes no sense is left out."""
        try:
            said = _decoder.decode(line)
        except msgspec.MsgspecError:
            return
        self._newest = {
            gpu: {metric: value for metric, value in found.items() if metric in METRICS}
            for gpu, found in list(said.items())[:MAX_GPUS]
        }
        self._at_s = self._now_s()
        self.problem = ""

    async def run(self) -> None:
        """Returns when there is nothing to ask here; otherwise starts the helper again when it ends, further and further apart."""
        delay_s, longest_s = AGAIN_S
        while True:
            began_s = self._now_s()
            code, why = await self._follow()
            if code == NO_LIBRARY:
                self.problem = why or "there is nothing to ask"
                return
            self.problem = why or f"the helper ended with exit code {code}"
            delay_s = AGAIN_S[0] if self._now_s() - began_s > longest_s else min(longest_s, delay_s * 2)
            await asyncio.sleep(delay_s)

    async def _follow(self) -> tuple[int, str]:
        """One helper from its start to its end: its exit code, and what it complained of."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=MAX_LINE
            )
        except OSError as error:
            return 1, str(error)
        try:
            return await self._read(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    async def _line(self, output: asyncio.StreamReader) -> bytes:
        """The next line; nothing when the helper is gone, or hangs for so long that another one is worth a try."""
        try:
            async with asyncio.timeout(HUNG_S):
                return await output.readline()
        except TimeoutError:
            return b""

    async def _read(self, process: Process) -> tuple[int, str]:
        if process.stdout is None or process.stderr is None:
            return 1, "no pipe"
        with contextlib.suppress(ValueError):  # a line that is too long
            while line := await self._line(process.stdout):
                self.take(line)
        with contextlib.suppress(ProcessLookupError):
            if not process.stdout.at_eof():
                process.kill()
        why = (await process.stderr.read(4096)).decode("utf-8", "replace").strip()
        return await process.wait(), why.splitlines()[-1] if why else ""


class GpuSource:
    """`run` for good where the node has GPUs; `figures` is what is known now of a run's or of the node's."""

    def __init__(self, count: int, helpers: Sequence[Helper] | None = None) -> None:
        self._count = count
        self.helpers = tuple(helpers or (Helper(name, program) for name, program in PROGRAMS.items()))

    def leave_out(self, names: frozenset[str]) -> None:
        """These are not started; before `run`."""
        self.helpers = tuple(helper for helper in self.helpers if helper.name not in names)

    @property
    def sources(self) -> tuple[str, ...]:
        """Those that answer."""
        return tuple(helper.name for helper in self.helpers if helper.is_answering)

    def problems(self) -> dict[str, str]:
        """Why GPUs are not measured, by source: nothing where one of them answers, or the node has none."""
        if not self._count or self.sources:
            return {}
        return {helper.name: helper.problem for helper in self.helpers if helper.problem}

    def figures(self, target: Target) -> dict[Name, float]:
        """Of all GPUs of the node, or of those that the run has."""
        own = None if target.key is None else {str(gpu) for gpu in target.gpus}
        found: dict[Name, float] = {}
        for helper in reversed(self.helpers):
            for gpu, said in helper.newest.items():
                if own is None or gpu in own:
                    found |= {(metric, gpu): value for metric, value in said.items()}
        return found

    async def run(self) -> None:
        """Never returns."""
        if self._count:
            await asyncio.gather(*(helper.run() for helper in self.helpers))
            _log.warning("GPUs are not measured: %s", "; ".join(f"{k}: {v}" for k, v in self.problems().items()))
        await asyncio.Event().wait()
