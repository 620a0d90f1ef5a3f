"""Results of a run, copied out of its scratch directory after its last process and before the directory goes.

The end of the run is reported when they are there, so they are in place when a wait for the work returns. They are copied by a program with the
rights of the user (`agent/results/copier.py`, to buckets `uploader.py`). An agent that dies meanwhile leaves its record, and the next one continues: what is at
its target stays there. Nothing is thrown away: what could not be copied is kept for a day, and the end of the work says where.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.scratch import scratch_folder
from lattice.agent.hooks.scratch_files import image_of
from lattice.agent.results.kept import KeptScratch
from lattice.agent.results.running import COPIER, COPY_WITHIN_S, UPLOADER, Abandoned, ResultSigning, run_program
from lattice.agent.runs.signed_store import SignedStore
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.data import BUCKET, ID, NODE

FEATURE = "stage_out"
UPLOAD_FEATURE = "stage_out_s3"
NAME = "stage_out"
FILE = "file://"
TRIES_AFTER_S = (1.0, 5.0)  # between three tries
TELL_EVERY_S = 5.0


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
        why, missing = await self._copied(COPIER, asked, abandoned) if asked["orders"] else ("", [])
        if not why and uploads:
            asked["sources"] = [source for source, _, _ in uploads]
            signing = ResultSigning(self._signed(), [(target, grant) for _, target, grant in uploads])
            why, more = await self._copied(UPLOADER, asked, abandoned, signing)
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
                said = await run_program(program, asked, abandoned, signing)
            except Abandoned:
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


async def _keep_telling(tell: Callable[[], None]) -> None:
    """Once is not enough: there may be no server that hears it."""
    while True:
        tell()
        await asyncio.sleep(TELL_EVERY_S)
