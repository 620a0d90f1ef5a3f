"""Results of a run, copied out of its scratch directory after its last process and before the directory goes.

The end of the run is reported when they are there, so they are in place when a wait for the work returns. They are copied by a program with the
rights of the user (`agent/results/copier.py`). An agent that dies meanwhile leaves its record, and the next one continues: what is at
its target stays there. Nothing is thrown away: what could not be copied is kept for a day, and the end of the work says where.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.scratch import image_of, scratch_folder
from lattice.agent.results import copier
from lattice.agent.results.kept import KeptScratch
from lattice.ports.nodes.agents import StartOrder

FEATURE = "stage_out"
NAME = "stage_out"
FILE = "file://"
TRIES_AFTER_S = (1.0, 5.0)  # between three tries
COPY_WITHIN_S = 7 * 24 * 3600.0
MAX_LINE = 1 << 20


class _Said(msgspec.Struct, kw_only=True):
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

    def __init__(self, root: Path, node: str, *, tries_after_s: Sequence[float] = TRIES_AFTER_S) -> None:
        self._root, self._node, self._tries_after_s = root, node, tries_after_s
        self._kept = KeptScratch(root, node)

    def applies(self, order: StartOrder) -> bool:
        return bool(order.stage_out)

    async def prepare(self, launch: Launch) -> None:
        names = {"{id}": launch.order.allocation_id, "{node}": self._node}
        orders = []
        for each in launch.order.stage_out:
            target = each.target.removeprefix(FILE)
            for word, value in names.items():
                target = target.replace(word, value)
            orders.append((each.source, target))
        uid, gid = launch.owner
        groups = launch.request.get("groups") or []
        asked = msgspec.json.encode({"uid": uid, "gid": gid, "groups": groups, "orders": orders})
        launch.leave({"asked": asked.decode()})

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
        why, missing = await self._copied(asked, finished.abandoned)
        if why:
            try:
                text = await asyncio.to_thread(self._kept.keep, folder, image, owner, f"stage-out: {why}")
            except OSError as error:
                text = f"stage-out: {why}; what is left could not be kept: {error.strerror}"
            raise HookFailed(text)
        if missing:
            names = ", ".join(each.removeprefix(f"{folder}/") for each in missing)
            raise HookFailed(f"stage-out: the work left no {names}")

    async def _copied(self, asked: dict[str, object], abandoned: asyncio.Event) -> tuple[str, list[str]]:
        """Why something was not copied, and what was not there."""
        for delay_s in (*self._tries_after_s, None):
            try:
                said = await self._run(asked, abandoned)
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

    async def _run(self, asked: dict[str, object], abandoned: asyncio.Event) -> _Said:
        """One try. Raises _Abandoned and TimeoutError."""
        if abandoned.is_set():
            raise _Abandoned
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            copier.__file__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            limit=MAX_LINE,
            start_new_session=True,
        )
        reading = asyncio.create_task(self._read(program, asked))
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
    async def _read(program: asyncio.subprocess.Process, asked: dict[str, object]) -> _Said:
        assert program.stdin is not None  # noqa: S101 - both were asked for
        assert program.stdout is not None  # noqa: S101
        said = _Said()
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            program.stdin.write(msgspec.json.encode(asked) + b"\n")
            await program.stdin.drain()
            while line := await program.stdout.readline():
                said = msgspec.json.decode(line, type=_Said)
        return said
