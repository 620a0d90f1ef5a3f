"""Runs the programs that copy for a user: one JSON object on their standard input, lines of JSON from them, signatures in between.

They end with their standard input, so none outlives the agent that started it.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import lattice.agent
from lattice.agent.results import copier
from lattice.agent.runs.signed_store import NoServer, SignedStore, Unsigned

COPY_WITHIN_S = 7 * 24 * 3600.0
MAX_LINE = 1 << 20
SIGN_AGAIN_S = 0.5
# Read as root, before the program becomes the user: only the standard library and this package.
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from lattice.agent.{} import main; sys.exit(main())"
_PACKAGES = str(Path(lattice.agent.__file__).parents[2])
COPIER = (copier.__file__,)
UPLOADER = ("-c", _RUN.format("results.uploader"), _PACKAGES)
CHECKPOINTS = ("-c", _RUN.format("results.transfer"), _PACKAGES)

_log = logging.getLogger(__name__)


class Sign(msgspec.Struct, kw_only=True):
    """A request that the program which uploads wants signed."""

    ticket: int
    order: int
    name: str
    method: str = ""
    query: str = ""


class Said(msgspec.Struct, kw_only=True):
    sign: Sign | None = None
    bytes: int = 0
    files: int = 0
    failed: list[str] = []
    failures: int = 0
    is_final: bool = False
    missing: list[str] = []
    absent: bool = False  # there is nothing to fetch
    done: bool = False


class Abandoned(Exception):
    """Nothing more is wanted."""


async def run_program(
    words: Sequence[str],
    asked: dict[str, object],
    abandoned: asyncio.Event,
    signing: "ResultSigning | None",
) -> Said:
    """One try. Raises Abandoned and TimeoutError."""
    if abandoned.is_set():
        raise Abandoned
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8"},
        limit=MAX_LINE,
        start_new_session=True,
    )
    reading = asyncio.create_task(_read(program, asked, signing))
    stopping = asyncio.create_task(abandoned.wait())
    try:
        done, _ = await asyncio.wait({reading, stopping}, timeout=COPY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise TimeoutError
        if reading not in done:
            raise Abandoned
        return reading.result()
    finally:
        reading.cancel()
        stopping.cancel()
        with contextlib.suppress(ProcessLookupError):
            program.send_signal(signal.SIGKILL)
        await program.wait()


async def _read(program: asyncio.subprocess.Process, asked: dict[str, object], signing: "ResultSigning | None") -> Said:
    assert program.stdin is not None  # noqa: S101 - both were asked for
    assert program.stdout is not None  # noqa: S101
    said = Said()
    answering: set[asyncio.Task[None]] = set()
    try:
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            program.stdin.write(msgspec.json.encode(asked) + b"\n")
            await program.stdin.drain()
            while line := await program.stdout.readline():
                told = msgspec.json.decode(line, type=Said)
                if told.sign is None:
                    said = told
                elif signing is not None:
                    task = asyncio.create_task(signing.answer(told.sign, program.stdin))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
    finally:
        for task in list(answering):
            task.cancel()
    return said


class ResultSigning:
    """Has requests for results signed, as long as it takes until a server does. `places`: target and grant of each order."""

    def __init__(self, signed: SignedStore, places: Sequence[tuple[str, str]]) -> None:
        self._signed, self._places = signed, places

    async def answer(self, asked: Sign, to: asyncio.StreamWriter) -> None:
        said = await self._ask(asked)
        with contextlib.suppress(OSError):
            to.write(msgspec.json.encode({"ticket": asked.ticket, **said}) + b"\n")
            await to.drain()

    async def _ask(self, asked: Sign) -> dict[str, str]:
        if not 0 <= asked.order < len(self._places):
            return {"error": "no such order"}
        target, grant = self._places[asked.order]
        while True:
            try:
                got = await self._signed.sign(target, asked.name, grant, asked.method, asked.query)
            except NoServer:
                await self._signed.connected()
            except Unsigned:
                _log.warning("no server signed a request for a result in time; it is asked again")
            else:
                return {"url": got.url, "authorities": got.authorities, "error": got.error}
            await asyncio.sleep(SIGN_AGAIN_S)
