"""Results of a run, copied out of its scratch directory after its last process and before the directory goes.

The end of the run is reported when they are there, so they are in place when a wait for the work returns. They are copied by a program with the
rights of the user (`agent/results/copier.py`, to buckets `uploader.py`). An agent that dies meanwhile leaves its record, and the next one continues: what is at
its target stays there. Nothing is thrown away: what could not be copied is kept for a day, and the end of the work says where.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import lattice.agent
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.scratch import image_of, scratch_folder
from lattice.agent.results import copier
from lattice.agent.results.kept import KeptScratch
from lattice.agent.runs.signed_store import NoServer, SignedStore, Unsigned
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.data import BUCKET, ID, NODE

FEATURE = "stage_out"
UPLOAD_FEATURE = "stage_out_s3"
NAME = "stage_out"
FILE = "file://"
TRIES_AFTER_S = (1.0, 5.0)  # between three tries
COPY_WITHIN_S = 7 * 24 * 3600.0
MAX_LINE = 1 << 20
SIGN_AGAIN_S = 0.5
TELL_EVERY_S = 5.0
# Read as root, before the program becomes the user: only the standard library and this package.
_RUN_UPLOADER = (
    "import sys; sys.path.insert(0, sys.argv[1]); from lattice.agent.results.uploader import main; sys.exit(main())"
)
_COPIER = (copier.__file__,)
_UPLOADER = ("-c", _RUN_UPLOADER, str(Path(lattice.agent.__file__).parents[2]))

_log = logging.getLogger(__name__)


class _Sign(msgspec.Struct, kw_only=True):
    """A request that the program which uploads wants signed."""

    ticket: int
    order: int
    name: str
    method: str = ""
    query: str = ""


class _Said(msgspec.Struct, kw_only=True):
    sign: _Sign | None = None
    bytes: int = 0
    files: int = 0
    failed: list[str] = []
    failures: int = 0
    is_final: bool = False
    missing: list[str] = []
    done: bool = False


class _Abandoned(Exception):
    """Nothing more is wanted."""


class StageOutHook:
    """`root` is the site's scratch directory."""

    name = NAME
    timeout_s = COPY_WITHIN_S + 3600.0
    undoes_unrecorded = False

    def __init__(
        self,
        root: Path,
        node: str,
        signed: Callable[[], SignedStore] = SignedStore,
        *,
        tries_after_s: Sequence[float] = TRIES_AFTER_S,
    ) -> None:
        self._root, self._node, self._tries_after_s = root, node, tries_after_s
        self._signed = signed  # asks a server to sign uploads to buckets
        self._kept = KeptScratch(root, node)

    def applies(self, order: StartOrder) -> bool:
        return bool(order.stage_out)

    async def prepare(self, launch: Launch) -> None:
        names = {ID: launch.order.allocation_id, NODE: self._node}
        orders, uploads = [], []
        for each in launch.order.stage_out:
            if each.target.startswith(BUCKET):
                uploads.append((each.source, each.target, each.grant))
                continue
            target = each.target.removeprefix(FILE)
            for word, value in names.items():
                target = target.replace(word, value)
            orders.append((each.source, target))
        uid, gid = launch.owner
        groups = launch.request.get("groups") or []
        asked = {"uid": uid, "gid": gid, "groups": groups, "orders": orders, "uploads": uploads}
        launch.leave({"asked": msgspec.json.encode(asked).decode()})

    async def undo(self, finished: Finished) -> None:
        folder = scratch_folder(self._root, finished.key)
        said = await asyncio.to_thread(self._kept.message_of, folder.name)
        image = image_of(folder)
        asked = msgspec.json.decode(finished.left["asked"].encode())
        owner = (asked["uid"], asked["gid"])
        if said is not None:
            # An agent that died between the note and the move left it where the next hook removes it.
            try:
                await asyncio.to_thread(self._kept.move, folder, image, owner)
            except OSError as error:
                said = f"{said}; it could not be moved there: {error.strerror}"
            raise HookFailed(said)
        if not await asyncio.to_thread(os.path.lexists, folder):
            return
        asked |= {"folder": str(folder), "image": str(image) if image.exists() else ""}
        telling = asyncio.create_task(_keep_telling(finished.copies))
        try:
            await self._save(asked, folder, image, finished.abandoned)
        finally:
            telling.cancel()

    async def _save(self, asked: dict[str, Any], folder: Path, image: Path, abandoned: asyncio.Event) -> None:
        """Raises HookFailed for what was not there, and for what was not copied, which is kept."""
        owner = (asked["uid"], asked["gid"])
        uploads = asked.pop("uploads", [])
        why, missing = await self._copied(_COPIER, asked, abandoned) if asked["orders"] else ("", [])
        if not why and uploads:
            asked["sources"] = [source for source, _, _ in uploads]
            signing = ResultSigning(self._signed(), [(target, grant) for _, target, grant in uploads])
            why, more = await self._copied(_UPLOADER, asked, abandoned, signing)
            missing = [*missing, *more]
        if why:
            try:
                text = await asyncio.to_thread(self._kept.keep, folder, image, owner, f"stage-out: {why}")
            except OSError as error:
                text = f"stage-out: {why}; what is left could not be kept: {error.strerror}"
            raise HookFailed(text)
        if missing:
            names = ", ".join(each.removeprefix(f"{folder}/") for each in missing)
            raise HookFailed(f"stage-out: the work left no {names}")

    async def _copied(
        self,
        program: Sequence[str],
        asked: dict[str, object],
        abandoned: asyncio.Event,
        signing: "ResultSigning | None" = None,
    ) -> tuple[str, list[str]]:
        """Why something was not copied, and what was not there."""
        for delay_s in (*self._tries_after_s, None):
            try:
                said = await self._run(program, asked, abandoned, signing)
            except _Abandoned:
                return "it was given up before all was copied", []
            except TimeoutError:
                return f"it took longer than {COPY_WITHIN_S / 86400:g} days", []
            if said.done and not said.failures:
                return "", said.missing
            why = "; ".join(said.failed) if said.done else "the program that copies was killed"
            if said.failures > len(said.failed):
                why += f"; and {said.failures - len(said.failed)} more"
            if said.is_final or delay_s is None:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(abandoned.wait(), delay_s)
        return why, []

    async def _run(
        self,
        words: Sequence[str],
        asked: dict[str, object],
        abandoned: asyncio.Event,
        signing: "ResultSigning | None",
    ) -> _Said:
        """One try. Raises _Abandoned and TimeoutError."""
        if abandoned.is_set():
            raise _Abandoned
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
        reading = asyncio.create_task(self._read(program, asked, signing))
        stopping = asyncio.create_task(abandoned.wait())
        try:
            done, _ = await asyncio.wait(
                {reading, stopping}, timeout=COPY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise TimeoutError
            if reading not in done:
                raise _Abandoned
            return reading.result()
        finally:
            reading.cancel()
            stopping.cancel()
            with contextlib.suppress(ProcessLookupError):
                program.send_signal(signal.SIGKILL)
            await program.wait()

    @staticmethod
    async def _read(
        program: asyncio.subprocess.Process, asked: dict[str, object], signing: "ResultSigning | None"
    ) -> _Said:
        assert program.stdin is not None  # noqa: S101 - both were asked for
        assert program.stdout is not None  # noqa: S101
        said = _Said()
        answering: set[asyncio.Task[None]] = set()
        try:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                program.stdin.write(msgspec.json.encode(asked) + b"\n")
                await program.stdin.drain()
                while line := await program.stdout.readline():
                    told = msgspec.json.decode(line, type=_Said)
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


async def _keep_telling(tell: Callable[[], None]) -> None:
    """Once is not enough: there may be no server that hears it."""
    while True:
        tell()
        await asyncio.sleep(TELL_EVERY_S)


class ResultSigning:
    """Has requests for results signed, as long as it takes until a server does. `places`: target and grant of each order."""

    def __init__(self, signed: SignedStore, places: Sequence[tuple[str, str]]) -> None:
        self._signed, self._places = signed, places

    async def answer(self, asked: "_Sign", to: asyncio.StreamWriter) -> None:
        said = await self._ask(asked)
        with contextlib.suppress(OSError):
            to.write(msgspec.json.encode({"ticket": asked.ticket, **said}) + b"\n")
            await to.drain()

    async def _ask(self, asked: "_Sign") -> dict[str, str]:
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
