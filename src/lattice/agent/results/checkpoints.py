"""Copies of complete checkpoints in the object store: made after they are sealed, fetched where a run begins that has none.

Bytes are read and written by programs with the rights of the user, so a link in a checkpoint leads nowhere that its user may not go.
With a bucket they go by requests that servers sign (`transfer.py`); with a directory they are copied (`results/copier.py`).
See docs/architecture/checkpoints.md.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from lattice.agent.checkpoints import directories
from lattice.agent.removal import remove_tree
from lattice.agent.results.running import CHECKPOINTS, COPIER, ResultSigning, Said, run_program
from lattice.agent.runs.signed_store import SignedStore
from lattice.ports.nodes.checkpoints import READS, WRITES, CheckpointOrder, CheckpointSetup

FILES = "files"
WHOLE = "contents.json"  # stored last: a copy without it is none
NO_STORE = "the servers sign no requests to the object store, and the agent of this node has none (--object-store)"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Owner = tuple[int, int]


class NotFetched(Exception):
    """The store may have it, but it could not be read; the text says why."""


class CheckpointStore:
    """`directory` is the store where it is one that this node sees; `signed` asks servers for signatures otherwise."""

    def __init__(self, directory: Path | None, signed: Callable[[], SignedStore]) -> None:
        self._directory, self._signed = directory, signed

    async def put(self, order: CheckpointOrder, owner: Owner) -> str:
        """Why the checkpoint could not be copied; empty when the store has it."""
        if not await asyncio.to_thread(directories.is_complete, order.path):
            return f"there is no complete checkpoint in {order.path} on this node"
        if order.apart and (missing := await asyncio.to_thread(directories.parts_elsewhere, order.path)):
            return f"what node {missing[0]} wrote is not in {order.path} here: nodes do not share that directory"
        if not order.grant and self._directory is None:
            return NO_STORE
        try:
            if order.grant:
                said = await self._transfer(order.path, WRITES + order.objects, order.grant, owner, put=True)
            else:
                said = await self._copied_in(order, owner)
        except (OSError, TimeoutError) as error:
            return str(error) or "it took too long"
        return _why(said)

    async def get(self, setup: CheckpointSetup, owner: Owner) -> bool:
        """Puts the checkpoint to continue from where it is expected; False when the store does not have it. Raises NotFetched."""
        if not setup.objects or not (setup.grant or self._directory is not None):
            return False
        try:
            return await self._get(setup, owner)
        except (OSError, TimeoutError) as error:
            raise NotFetched(str(error) or "it took too long") from None

    async def _get(self, setup: CheckpointSetup, owner: Owner) -> bool:
        if not setup.grant and not await asyncio.to_thread(self._has, setup.objects):
            return False
        draft = await asyncio.to_thread(directories.make_draft, setup.root, setup.resume_from, owner)
        try:
            if setup.grant:
                said = await self._transfer(draft, READS + setup.objects, setup.grant, owner, put=False)
            else:
                said = await self._copied_out(setup, draft, owner)
            if said.absent:
                return False
            if why := _why(said):
                raise NotFetched(why)
            await asyncio.to_thread(directories.place_draft, setup.root, setup.resume_from, draft)
        finally:
            await asyncio.to_thread(directories.remove_draft, setup.root, setup.resume_from, draft)
        return True

    async def _transfer(self, folder: str, prefix: str, grant: str, owner: Owner, *, put: bool) -> Said:
        asked: dict[str, object] = {"uid": owner[0], "gid": owner[1], "groups": [], "folder": folder, "put": put}
        return await run_program(CHECKPOINTS, asked, asyncio.Event(), ResultSigning(self._signed(), [(prefix, grant)]))

    # a store that is a directory

    def _place(self, objects: str) -> Path:
        assert self._directory is not None  # noqa: S101 - asked before
        return self._directory.joinpath(*objects.split("/"))

    def _has(self, objects: str) -> bool:
        return (self._place(objects) / WHOLE).is_file()

    async def _copied_in(self, order: CheckpointOrder, owner: Owner) -> Said:
        place = self._place(order.objects)
        await asyncio.to_thread(_make_room, place, owner)
        said = await self._copied([order.path, "."], place, owner)
        if not _why(said):
            await asyncio.to_thread((place / WHOLE).write_bytes, b"{}\n")
        return said

    async def _copied_out(self, setup: CheckpointSetup, draft: str, owner: Owner) -> Said:
        return await self._copied([".", draft], self._place(setup.objects), owner)

    async def _copied(self, way: list[str], place: Path, owner: Owner) -> Said:
        asked: dict[str, object] = {"uid": owner[0], "gid": owner[1], "groups": [], "folder": "", "orders": [way]}
        return await run_program(COPIER, asked | {"enter": str(place / FILES)}, asyncio.Event(), None)


def _make_room(place: Path, owner: Owner) -> None:
    """An empty directory of the user's in one that is closed to them."""
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place / WHOLE)
    fd = os.open(place, _FLAGS)
    try:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(FILES, dir_fd=fd)
        os.mkdir(FILES, 0o700, dir_fd=fd)
        if os.geteuid() == 0:
            os.chown(FILES, *owner, dir_fd=fd, follow_symlinks=False)
    finally:
        os.close(fd)


def _why(said: Said) -> str:
    if not said.done:
        return "the program that copies was killed"
    if said.missing:
        return f"{said.missing[0]} is gone"
    return "; ".join(said.failed) if said.failures else ""
