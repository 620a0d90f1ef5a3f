"""A folder of a run's own for temporary files, and a /tmp and /dev/shm that no other run of the node sees.

The folder lies under the site's scratch directory and is removed with everything in it when the run has ended. /tmp of the run is a
folder in it, and /dev/shm is empty and counts as memory of the run, so neither can be read, filled or left behind for others.

A run that asks for a size has a file system of that size in a file beside the folder, mounted over it: it is full when its own size is
used, whatever else is on the disk, and goes with the file. Where scratch lies in memory, each folder is a file system of its own, of
the size that was asked for or else of all the memory that the run may use (`agent/hooks/scratch_files.py`).
"""

import asyncio
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.hooks.scratch_files import DISK, clear, image_of, make_disk, mount_memory
from lattice.ports.nodes.agents import RunKey, StartOrder

PRIVATE_TMP = "tmp"
OUTPUT = "output"  # what work leaves here goes to `data.output`
SCRATCH_VARIABLE, OUTPUT_VARIABLE, TMP_VARIABLE = "LATTICE_SCRATCH", "LATTICE_OUTPUT", "TMPDIR"
TMP = "/tmp"  # noqa: S108 - the run's own
LOCAL = Path("/scratch/local")  # where work finds its scratch directory under the name of the allocation
SCRATCH_TIMEOUT_S = 300.0  # removing a million files takes a while
FEATURE = "scratch"  # of a node where scratch can have a size
NVME_FEATURE = "nvme_scratch"  # of a node whose scratch lies on NVMe
DISK_FEATURE = "disk_scratch"  # of a node where scratch of a size takes no memory
MEMORY_FEATURE = "memory_scratch"  # of a node where it does, of the run's own
BLOCK_DEVICES = Path("/sys/dev/block")


class ScratchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` is the site's directory; None = runs have none of their own, and share /tmp. `problem` says why scratch cannot have a size."""

    folder: Path | None = None
    in_memory: bool = False
    problem: str = ""

    def why_not(self) -> dict[str, str]:
        """Why this node has no scratch of a size, as far as it is not for the shim."""
        return {
            FEATURE: self.problem if self.folder is not None else "the agent has no scratch directory (--scratch-dir)"
        }


NO_SCRATCH = ScratchSettings()


def scratch_features(scratch: ScratchSettings, mount_kinds: Collection[str], devices: Path = BLOCK_DEVICES) -> set[str]:
    """What a node offers for scratch, given what its shim mounts: a size, and of what kind it is."""
    if scratch.folder is None:
        return set()
    if scratch.in_memory:
        return {FEATURE, MEMORY_FEATURE}
    found = {NVME_FEATURE} if is_on_nvme(scratch.folder, devices) else set()
    return found | ({FEATURE, DISK_FEATURE} if DISK in mount_kinds and not scratch.problem else set())


def is_on_nvme(root: Path, devices: Path = BLOCK_DEVICES) -> bool:
    """Whether the directory lies on NVMe devices alone, be it through partitions, RAID or volumes of them."""
    place = next((path for path in (root, *root.parents) if path.exists()), root)
    number = os.stat(place).st_dev
    return _is_nvme((devices / f"{os.major(number)}:{os.minor(number)}").resolve())


def _is_nvme(device: Path) -> bool:
    """`device` is its folder in /sys."""
    if device.name.startswith("nvme"):
        return True
    below = list((device / "slaves").glob("*"))
    return bool(below) and all(_is_nvme(each.resolve()) for each in below)


def scratch_folder(root: Path, key: RunKey) -> Path:
    return root / f"{key.number}.{key.run}"


def step_variables(scratch: ScratchSettings, key: RunKey, given: Mapping[str, str]) -> dict[str, str]:
    """Of a step of a run that has a directory on this node. Variables that were given inside the run say where that is on another node,
    and where its script wants temporary files."""
    if scratch.folder is None or not (folder := scratch_folder(scratch.folder, key)).is_dir():
        return {}
    found = {SCRATCH_VARIABLE: str(folder)}
    if OUTPUT_VARIABLE in given:
        found[OUTPUT_VARIABLE] = str(folder / OUTPUT)
    return found if SCRATCH_VARIABLE in given else found | {TMP_VARIABLE: TMP}


class ScratchHook:
    name = "scratch"
    timeout_s = SCRATCH_TIMEOUT_S
    undoes_unrecorded = False

    def __init__(self, root: Path, *, in_memory: bool = False) -> None:
        self._root = root
        self._in_memory = in_memory

    def applies(self, order: StartOrder) -> bool:
        return True

    async def prepare(self, launch: Launch) -> None:
        order, folder = launch.order, self._folder(launch.order.key)
        cwd = str(launch.request.get("cwd"))
        if cwd.startswith(f"{TMP}/") and order.container is None:
            raise RunImpossible(
                f"cannot run in {cwd}: each run has a {TMP} of its own on this node; submit from elsewhere"
            )
        launch.leave({"folder": str(folder)})
        memory_mb = self._memory_mb(launch)
        try:
            has_output = any(out.made for out in order.stage_out)
            await asyncio.to_thread(_make, folder, launch.owner, memory_mb, with_output=has_output)
        except OSError as error:
            raise HookFailed(f"scratch: cannot make {folder}: {error.strerror}") from error
        if order.scratch_mb and not self._in_memory:
            await asyncio.to_thread(make_disk, folder, launch.owner, order.scratch_mb)
            launch.add_mount(DISK, str(folder), str(image_of(folder)))
        else:  # for containers, also those of steps
            launch.add_mount("bind", str(folder), str(folder))
        await asyncio.to_thread(self._add_defaults, launch, folder)
        launch.set_variable(SCRATCH_VARIABLE, str(folder))
        launch.set_variable(TMP_VARIABLE, TMP)
        launch.add_mount("bind", TMP, str(folder / PRIVATE_TMP))
        launch.add_mount("tmpfs", "/dev/shm")  # noqa: S108

    def _memory_mb(self, launch: Launch) -> int | None:
        """What a folder in memory may hold (0 = half of the machine's), None for one on a disk. Raises HookFailed."""
        if not self._in_memory:
            return None
        wanted, most = launch.order.scratch_mb, cast("int", launch.request.get("memory_mb") or 0)
        if wanted > most > 0:
            raise HookFailed(
                f"scratch: {wanted:,} MB were asked for; scratch of this node lies in memory, of which the run has {most:,} MB"
            )
        return wanted or most

    def _add_defaults(self, launch: Launch, folder: Path) -> None:
        """The directory under the name that work may rely on, where the node has nothing else there; and that of its output."""
        order = launch.order
        if any(out.made for out in order.stage_out):
            launch.set_variable(OUTPUT_VARIABLE, str(folder / OUTPUT))
        if not order.no_defaults and launch.can_mount() and _is_free(LOCAL, self._root):
            launch.add_mount("empty", str(LOCAL))
            launch.add_mount("bind", f"{LOCAL}/{order.allocation_id}", str(folder))

    async def undo(self, finished: Finished) -> None:
        # Never what the record says alone: the folder must be the one that this run has.
        folder = self._folder(finished.key)
        if finished.left.get("folder") != str(folder):
            raise HookFailed(f"scratch: {finished.left.get('folder')} is not the directory of run {finished.key}")
        try:
            await asyncio.to_thread(clear, folder)
        except OSError as error:
            raise HookFailed(f"scratch: cannot remove {folder}: {error.strerror}") from error

    def _folder(self, key: RunKey) -> Path:
        return scratch_folder(self._root, key)


def _is_free(local: Path, root: Path) -> bool:
    """Whether the node has nothing of its own there that an empty folder would hide."""
    try:
        local.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = os.lstat(local)
        is_roots = stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022
        return is_roots and local not in (root, *root.parents) and not os.listdir(local)
    except OSError:
        return False


def _make(folder: Path, owner: tuple[int, int], memory_mb: int | None, *, with_output: bool) -> None:
    clear(folder)  # of an agent that died before it could
    folder.mkdir(0o700, parents=True)
    if memory_mb is not None:
        mount_memory(folder, memory_mb)
    # While the folder is root's: no user can have put a link here.
    (folder / PRIVATE_TMP).mkdir()
    (folder / PRIVATE_TMP).chmod(0o1777)
    if with_output:
        (folder / OUTPUT).mkdir(mode=0o755)
        os.chown(folder / OUTPUT, *owner)
    os.chown(folder, *owner)
