"""A run that can be asked for checkpoints: its directory below the site's root, and the place where it finds requests.

Checkpoints stay when the run ends; only what belongs to the run on this node is removed.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import cast

from lattice.agent.checkpoints.control import GRPC, RESUME_FROM, control_folder, make_control, remove_control
from lattice.agent.checkpoints.directories import is_complete, make_base
from lattice.agent.checkpoints.doors import Doors
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.results.checkpoints import CheckpointStore, NotFetched
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.checkpoints import CheckpointSetup

CHECKPOINT_TIMEOUT_S = 60.0  # a file system that does not answer
FETCH_WITHIN_S = 24 * 3600.0  # a copy in the object store
AWAIT_S = 600.0  # a copy that is on its way there
LOOK_S = 1.0  # for such a copy


class CheckpointHook:
    """`state_dir` is the agent's own; `doors` is where work registers that is asked by gRPC; `store` has copies of checkpoints."""

    name = "checkpoint"
    timeout_s = FETCH_WITHIN_S
    undoes_unrecorded = False

    def __init__(self, state_dir: Path, doors: Doors, store: CheckpointStore) -> None:
        self._state_dir = state_dir
        self._doors = doors
        self._store = store

    def applies(self, order: StartOrder) -> bool:
        return order.checkpoint is not None

    async def prepare(self, launch: Launch) -> None:
        setup = launch.order.checkpoint
        if setup is None:
            return
        if setup.resume_from:
            await self._resume(launch, setup)
        if not setup.strategy:
            return
        launch.leave({"run": str(launch.order.key)})
        try:
            async with asyncio.timeout(CHECKPOINT_TIMEOUT_S):
                await asyncio.to_thread(make_base, setup.root, setup.directory, launch.owner[1])
        except TimeoutError:
            raise HookFailed(f"checkpoint: {setup.root} does not answer") from None
        except OSError as error:
            raise HookFailed(f"checkpoint: cannot make {setup.directory}: {error.strerror or error}") from error
        try:
            await asyncio.to_thread(make_control, launch.order, self._state_dir, launch.owner)
            if setup.protocol == GRPC and not setup.port:
                await self._doors.open(launch.order.key, launch.owner)
        except OSError as error:
            raise HookFailed(f"checkpoint: {error.strerror or error}") from error
        if launch.order.container is not None:
            folder = str(control_folder(self._state_dir, launch.order.key))
            for each in (setup.directory, folder):
                launch.add_mount("bind", each, each)

    async def _resume(self, launch: Launch, setup: CheckpointSetup) -> None:
        """A checkpoint of its own that is gone costs the work its progress, not its life; one that was asked for must be there."""
        path = setup.resume_from
        if await self._is_there(path) or await self._fetched(launch, setup):
            if launch.order.container is not None:
                launch.add_mount("bind", path, path)
            return
        if setup.must_resume:
            raise RunImpossible(f"checkpoint: there is no complete checkpoint in {path} on this node")
        cast("dict[str, str]", launch.request["env"]).pop(RESUME_FROM, None)
        await asyncio.to_thread(
            _say, str(launch.request["dir"]), f"lattice: checkpoint {path} is gone, starting from the beginning\n"
        )

    @staticmethod
    async def _is_there(path: str) -> bool:
        try:
            async with asyncio.timeout(CHECKPOINT_TIMEOUT_S):
                return await asyncio.to_thread(is_complete, path)
        except TimeoutError:
            raise HookFailed(f"checkpoint: {path} does not answer") from None

    async def _fetched(self, launch: Launch, setup: CheckpointSetup) -> bool:
        """A store that is away is no answer: the run fails, and the next one tries again."""
        until_s = time.monotonic() + (AWAIT_S if setup.is_awaited else 0.0)
        while True:
            if not launch.say(f"fetching the checkpoint {setup.resume_from} from the object store"):
                raise HookFailed("checkpoint: the run is not wanted any more")
            try:
                if await self._store.get(setup, launch.owner):
                    return True
            except NotFetched as error:
                text = f"checkpoint: cannot fetch {setup.resume_from} from the object store: {error}"
                raise HookFailed(text) from None
            if time.monotonic() >= until_s or await self._is_there(setup.resume_from):
                return await self._is_there(setup.resume_from)
            await asyncio.sleep(LOOK_S)

    async def undo(self, finished: Finished) -> None:
        if finished.left.get("run") == str(finished.key):
            await self._doors.close(finished.key)
            await asyncio.to_thread(remove_control, self._state_dir, finished.key)


def _say(folder: str, text: str) -> None:
    fd = os.open(f"{folder}/stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
