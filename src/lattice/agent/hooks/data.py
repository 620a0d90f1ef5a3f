"""The data of a run: copies on the hot tier, and directories of the site, mounted in the run's own view of the file system.

A copy lies in a folder of the hot tier that only root can enter; who may have it was settled before the run was placed. It is whole
when its folder has its name: before that the run waits here. A source itself is opened by the shim with the rights of the user, and
what it got is mounted, so that no user sees what their own rights do not show.

The mounts go with the run's last process. What the node itself had to mount first, an export or a bucket, is undone.
"""

import asyncio
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from lattice.agent.hooks.node_mounts import NFS, S3, Export, NodeBucket, NodeMounts, can_mount_buckets
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.hooks.runner import DATA
from lattice.agent.hooks.scratch import DISK_FEATURE, MEMORY_FEATURE, NVME_FEATURE, ScratchSettings, scratch_features
from lattice.agent.hooks.scratch import FEATURE as SCRATCH_FEATURE
from lattice.agent.hooks.stage_out import FEATURE as STAGE_OUT_FEATURE
from lattice.agent.hooks.stage_out import UPLOAD_FEATURE
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.data import DataOrder

DATA_TIMEOUT_S = 24 * 3600.0
FEATURE = "data"
EXPORT_FEATURE, BUCKET_FEATURE = "data_nfs", "data_s3"
DIRECTORY_FEATURES = {
    EXPORT_FEATURE,
    BUCKET_FEATURE,
    SCRATCH_FEATURE,
    NVME_FEATURE,
    DISK_FEATURE,
    MEMORY_FEATURE,
    FEATURE,
    STAGE_OUT_FEATURE,
    UPLOAD_FEATURE,
}
READ_ONLY, BIND, EMPTY = "read_only", "bind", "empty"  # the shim's words
TARGETS = ("/data", "/datasets", "/input", "/mnt", "/workspace")
LOOK_EVERY_S = 0.25
SAY_EVERY_S = 5.0
FILE = "file://"
FAILED = "failed"  # folder of the hot tier: what could not be copied, and why


class DataSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`hot`: folder of the hot tier; None = this node has none. `targets`: folders below which data may be mounted."""

    hot: Path | None = None
    targets: tuple[str, ...] = TARGETS
    exports: Mapping[str, Export] = {}  # what is named nfs://NAME/path
    buckets: Mapping[str, NodeBucket] = {}  # what may be mounted itself


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a mover leaves of a copy that it could not make."""

    tries: int
    reason: str


MAX_TRIES = 3


def directory_features(
    scratch: ScratchSettings,
    mount_kinds: Collection[str],
    data: DataSettings = DataSettings(),  # noqa: B008 - cannot change
) -> set[str]:
    """What a node offers for the directories of runs, given what its shim mounts."""
    can_mount = {READ_ONLY, BIND, EMPTY} <= set(mount_kinds) and os.geteuid() == 0
    features = scratch_features(scratch, mount_kinds) | ({FEATURE} if can_mount else set())
    features |= {EXPORT_FEATURE} if can_mount and data.exports else set()
    features |= {BUCKET_FEATURE} if can_mount and data.buckets and can_mount_buckets() else set()
    return features | ({STAGE_OUT_FEATURE, UPLOAD_FEATURE} if scratch.folder is not None else set())


class DataHook:
    name = DATA
    timeout_s = DATA_TIMEOUT_S
    undoes_unrecorded = False

    def __init__(self, settings: DataSettings, state_dir: Path) -> None:
        self._settings = settings
        self._mounts = NodeMounts(state_dir / "mounts", settings.exports, settings.buckets)

    def applies(self, order: StartOrder) -> bool:
        return bool(order.data)

    async def prepare(self, launch: Launch) -> None:
        direct = [mount for mount in launch.order.data if not mount.hot and mount.source.startswith((NFS, S3))]
        if any(self._mounts.is_mounted_for_run(mount.source) for mount in direct):
            launch.leave({"folder": str(self._mounts.place(launch.order.key))})
        copies = {mount.target: await self._copy(launch, mount) for mount in launch.order.data if mount.hot}
        bases: dict[str, None] = {}
        for mount in launch.order.data:
            base = await asyncio.to_thread(self._base, mount.target)
            if base and base not in bases:
                bases[base] = None
                launch.add_mount(EMPTY, base)
            kind = BIND if mount.writable else READ_ONLY
            if copies.get(mount.target):
                launch.add_mount(kind, mount.target, copies[mount.target])
            elif mount.source.startswith(NFS):
                place = await self._mounts.export(launch.order.key, mount.source)
                launch.add_mount(kind, mount.target, place, rights=_rights(launch))
            elif mount.source.startswith(S3) and not mount.hot:
                place = await self._mounts.bucket(launch.order.key, mount.source, launch.owner)
                launch.add_mount(READ_ONLY, mount.target, place)
            elif mount.source.startswith(FILE):
                launch.add_mount(kind, mount.target, mount.source.removeprefix(FILE), rights=_rights(launch))
            else:
                why = mount.reason or "it has no copy on the hot tier"
                raise RunImpossible(f"{mount.source} cannot be mounted: {why}")

    async def undo(self, finished: Finished) -> None:
        await self._mounts.undo(finished.key)

    async def _copy(self, launch: Launch, mount: DataOrder) -> str:
        """Where the copy is, when it is whole; empty when there is none."""
        if not mount.folder:
            return ""
        hot = self._settings.hot
        if hot is None:
            raise HookFailed(f"data: this node has no hot tier for {mount.source}")
        folder = hot / mount.folder
        said = 0.0
        while not await asyncio.to_thread(folder.exists):
            failure = await asyncio.to_thread(_failure, hot / FAILED / mount.folder)
            if failure is not None and failure.tries >= MAX_TRIES:
                launch.say(f"data: {mount.source} could not be staged: {failure.reason}")
                return ""
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                if not launch.say(f"waiting for the rest of {mount.source}"):
                    raise HookFailed(f"data: {mount.source} is not wanted any more")
            await asyncio.sleep(LOOK_EVERY_S)
        return str(folder)

    def _base(self, target: str) -> str:
        """The folder that has to be emptied, in the run's own view, so that the target can be made in it; none if it is there.

        Raises RunImpossible for a target that this node does not let users choose.
        """
        base = next((each for each in self._settings.targets if target == each or target.startswith(f"{each}/")), "")
        if not base:
            raise RunImpossible(
                f"data cannot be mounted at {target} on this node: below {', '.join(self._settings.targets)} only"
            )
        try:
            os.makedirs(base, 0o755, exist_ok=True)
            if not _is_roots(base):
                raise RunImpossible(f"data cannot be mounted at {target}: {base} of this node belongs to a user")
            if target != base and not _is_there(base, target):
                if os.listdir(base):
                    raise RunImpossible(
                        f"data cannot be mounted at {target}: this node has other things in {base}, and no such directory"
                    )
                return base
        except OSError as error:
            raise HookFailed(f"data: cannot prepare {target}: {error.strerror}") from error
        return ""


def _failure(path: Path) -> Failure | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Failure)
    except (OSError, msgspec.MsgspecError):
        return None


def _is_roots(path: str) -> bool:
    found = os.lstat(path)
    return os.path.isdir(path) and not os.path.islink(path) and found.st_uid == 0 and not found.st_mode & 0o022


def _is_there(base: str, target: str) -> bool:
    """Whether the target is a folder whose way from the base only root can change."""
    path = base
    for part in target.removeprefix(f"{base}/").split("/"):
        path = f"{path}/{part}"
        if not os.path.lexists(path):
            return False
        if not _is_roots(path):
            raise RunImpossible(f"data cannot be mounted at {target}: {path} of this node belongs to a user")
    return True


def _rights(launch: Launch) -> dict[str, object]:
    """Whose rights count where the source itself is mounted."""
    uid, gid = launch.owner
    return {"uid": uid, "gid": gid, "groups": launch.request.get("groups") or []}
