"""A folder of a run's own for temporary files, and a /tmp and /dev/shm that no other run of the node sees.

The folder lies under the site's scratch directory and is removed with everything in it when the run has ended. Where a node is shared,
/tmp of the run is a folder in it, and /dev/shm is empty and counts as memory of the run, so neither can be read, filled or left behind
for others.

A run that asks for a size has a file system of that size in a file beside the folder, mounted over it: it is full when its own size is
used, whatever else is on the disk, and goes with the file.
"""

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import Collection
from pathlib import Path

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.removal import remove_tree
from lattice.ports.nodes.agents import RunKey, StartOrder

PRIVATE_TMP = "tmp"
OUTPUT = "output"  # what work leaves here goes to `data.output`
LOCAL = Path("/scratch/local")  # where work finds its scratch directory under the name of the allocation
SCRATCH_TIMEOUT_S = 300.0  # removing a million files takes a while
FEATURE = "scratch"  # of a node where scratch can have a size
NVME_FEATURE = "nvme_scratch"  # of a node whose scratch lies on NVMe
BLOCK_DEVICES = Path("/sys/dev/block")
DISK = "disk"  # the shim's word for a file system in a file
MAKE_FS = "mke2fs"
SEARCHED = "/usr/sbin:/sbin:/usr/bin:/bin"
FILESYSTEMS = Path("/proc/filesystems")
MAKE_WITHIN_S = 120.0


def scratch_features(root: Path | None, mount_kinds: Collection[str], devices: Path = BLOCK_DEVICES) -> set[str]:
    """What a node offers for scratch, given what its shim mounts: a size, and NVMe below it."""
    if root is None:
        return set()
    found = {NVME_FEATURE} if is_on_nvme(root, devices) else set()
    if DISK not in mount_kinds or shutil.which(MAKE_FS, path=SEARCHED) is None:
        return found
    try:
        return found | ({FEATURE} if "ext4" in FILESYSTEMS.read_text().split() else set())
    except OSError:
        return found


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
            has_output = any(out.made for out in launch.order.stage_out)
            await asyncio.to_thread(_make, folder, launch.owner, with_tmp=is_shared, with_output=has_output)
        except OSError as error:
            raise HookFailed(f"scratch: cannot make {folder}: {error.strerror}") from error
        if launch.order.scratch_mb:
            await asyncio.to_thread(_make_disk, folder, launch.owner, launch.order.scratch_mb)
            launch.add_mount(DISK, str(folder), str(image_of(folder)))
        await asyncio.to_thread(self._add_defaults, launch, folder)
        launch.set_variable("LATTICE_SCRATCH", str(folder))
        launch.set_variable("TMPDIR", "/tmp" if is_shared else str(folder))  # noqa: S108 - the run's own
        if is_shared:
            launch.add_mount("bind", "/tmp", str(folder / PRIVATE_TMP))  # noqa: S108
            launch.add_mount("tmpfs", "/dev/shm")  # noqa: S108

    def _add_defaults(self, launch: Launch, folder: Path) -> None:
        """The directory under the name that work may rely on, where the node has nothing else there; and that of its output."""
        order = launch.order
        if any(out.made for out in order.stage_out):
            launch.set_variable("LATTICE_OUTPUT", str(folder / OUTPUT))
        if not order.no_defaults and launch.can_mount() and _is_free(LOCAL, self._root):
            launch.add_mount("empty", str(LOCAL))
            launch.add_mount("bind", f"{LOCAL}/{order.allocation_id}", str(folder))

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


def _make(folder: Path, owner: tuple[int, int], *, with_tmp: bool, with_output: bool) -> None:
    _remove(folder)  # of an agent that died before it could
    folder.mkdir(0o700, parents=True)
    if with_tmp:
        # While the folder is root's: no user can have put a link here.
        (folder / PRIVATE_TMP).mkdir()
        (folder / PRIVATE_TMP).chmod(0o1777)
    if with_output:
        (folder / OUTPUT).mkdir(mode=0o755)
        os.chown(folder / OUTPUT, *owner)
    os.chown(folder, *owner)


def image_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.img")


def _make_disk(folder: Path, owner: tuple[int, int], size_mb: int) -> None:
    """A file with a file system that holds what the folder holds. Raises HookFailed."""
    image, size = image_of(folder), size_mb << 20
    free = shutil.disk_usage(folder).free
    if size > free:
        raise HookFailed(f"scratch: {size_mb:,} MB were asked for, {free >> 20:,} MB are free on this node")
    program = shutil.which(MAKE_FS, path=SEARCHED) or MAKE_FS
    options = f"root_owner={owner[0]}:{owner[1]},lazy_itable_init=1,nodiscard"
    words = [program, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", options, "-d", str(folder)]
    try:
        with open(image, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
        made = subprocess.run(
            [*words, str(image)], stdin=subprocess.DEVNULL, capture_output=True, timeout=MAKE_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HookFailed(f"scratch: cannot make a file system of {size_mb:,} MB: {error}") from error
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip()[-400:]
        raise HookFailed(f"scratch: cannot make a file system of {size_mb:,} MB: {said}")


def _remove(folder: Path) -> None:
    image_of(folder).unlink(missing_ok=True)
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        remove_tree(folder)
