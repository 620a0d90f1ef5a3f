"""A folder of a run's own for temporary files, and a /tmp and /dev/shm that no other run of the node sees.

The folder lies under the site's scratch directory and is removed with everything in it when the run has ended. Where a node is shared,
/tmp of the run is a folder in it, and /dev/shm is empty and counts as memory of the run, so neither can be read, filled or left behind
for others.
"""

import asyncio
import os
import shutil
from pathlib import Path

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.ports.nodes.agents import RunKey, StartOrder

PRIVATE_TMP = "tmp"
SCRATCH_TIMEOUT_S = 300.0  # removing a million files takes a while


class ScratchHook:
    """`root` is the site's directory, on a file system of the node; `node_cpus` tells a share from the whole node."""

    name = "scratch"
    timeout_s = SCRATCH_TIMEOUT_S
    undoes_unrecorded = False

    def __init__(self, root: Path, node_cpus: int) -> None:
        self._root = root
        self._node_cpus = node_cpus

    def applies(self, order: StartOrder) -> bool:
        return True

    async def prepare(self, launch: Launch) -> None:
        folder = self._folder(launch.order.key)
        launch.leave({"folder": str(folder)})
        is_shared = 0 < launch.order.cpus < self._node_cpus
        try:
            await asyncio.to_thread(_make, folder, launch.owner, with_tmp=is_shared)
        except OSError as error:
            raise HookFailed(f"scratch: cannot make {folder}: {error.strerror}") from error
        launch.set_variable("LATTICE_SCRATCH", str(folder))
        launch.set_variable("TMPDIR", "/tmp" if is_shared else str(folder))  # noqa: S108 - the run's own
        if is_shared:
            launch.add_mount("bind", "/tmp", str(folder / PRIVATE_TMP))  # noqa: S108
            launch.add_mount("tmpfs", "/dev/shm")  # noqa: S108

    async def undo(self, finished: Finished) -> None:
        # Never what the record says alone: the folder must be the one that this run has.
        folder = self._folder(finished.key)
        if finished.left.get("folder") != str(folder):
            raise HookFailed(f"scratch: {finished.left.get('folder')} is not the directory of run {finished.key}")
        try:
            await asyncio.to_thread(_remove, folder)
        except OSError as error:
            raise HookFailed(f"scratch: cannot remove {folder}: {error.strerror}") from error

    def _folder(self, key: RunKey) -> Path:
        return self._root / f"{key.number}.{key.run}"


def _make(folder: Path, owner: tuple[int, int], *, with_tmp: bool) -> None:
    _remove(folder)  # of an agent that died before it could
    folder.mkdir(0o700, parents=True)
    if with_tmp:
        # While the folder is root's: no user can have put a link here.
        (folder / PRIVATE_TMP).mkdir()
        (folder / PRIVATE_TMP).chmod(0o1777)
    os.chown(folder, *owner)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
