"""Containers of a node: which runtime makes them, and how a request to the shim becomes one for a process inside."""

import asyncio
import pwd
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.containers.bundle import container_environment, make_bundle
from lattice.agent.containers.commands import Commands, make_commands
from lattice.agent.containers.holder import Base, CannotHold, Held, SourceRefused, hold, keep
from lattice.agent.containers.oci_hooks import Hooks
from lattice.agent.images.cache import CacheFull, FetchStopped, SourceFailed, WrongDigest
from lattice.agent.images.fetching import ImageFetcher, Say
from lattice.agent.images.layouts import Unpacked
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable
from lattice.agent.images.node import NodeImages
from lattice.agent.images.sources import Reader
from lattice.agent.runs.launch import Account
from lattice.agent.shim_client import ShimMessage
from lattice.images.containers import OCI
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable
from lattice.ports.nodes.images import ContainerOrder

FEATURE = "container"
STEP_FEATURE = "step_container"  # steps may have one of their own
FEATURES = {FEATURE, STEP_FEATURE}
NAMESPACE = "namespace"  # the shim's word for a file system that was made elsewhere
KNOWN_RUNTIMES = ("crun", "runc")
NEEDED = ("unshare", "nsenter", "setpriv", "mount")
FOLDER = "container"
NOT_ROOT = "containers need an agent that runs as root"
SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
NO_RUNTIME = "none"
KEPT = "containers"  # where files that are kept under a name lie, each in a namespace of its own


class ContainerSettings(msgspec.Struct, frozen=True, kw_only=True):
    runtime: str = ""  # absolute path of an OCI runtime; empty = this node runs no containers
    hooks: Hooks = Hooks()


class Inside(msgspec.Struct, frozen=True):
    """What an image says of itself, and who is inside."""

    about: Unpacked
    person: Account


def find_runtime(wanted: str) -> str:
    """The path of the runtime that was asked for, or of the first known one; empty where there is none."""
    if wanted == NO_RUNTIME:
        return ""
    for name in (wanted,) if wanted else KNOWN_RUNTIMES:
        if found := shutil.which(name, path=SEARCHED):
            return found
    return ""


class NodeContainers:
    """`fetcher` is None on a node that mounts no images. `_held` are those that the shim has not taken over yet, by the folder."""

    def __init__(self, settings: ContainerSettings, images: NodeImages, state_dir: Path, programs: str) -> None:
        self._settings = settings
        self.fetcher = images.fetcher
        self._images = images
        self._state_dir = state_dir
        self._programs = programs
        self._held: dict[str, list[Held]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._commands: Commands | None = None  # once a container needed them

    def features(self, shim: ShimMessage) -> set[str]:
        """What the node can offer, given what its shim understands."""
        has_tools = all(shutil.which(name, path=SEARCHED) for name in NEEDED)
        is_there = self.fetcher is not None and self._settings.runtime and NAMESPACE in shim.mount_kinds and has_tools
        return set() if not is_there else FEATURES if shim.step_views else {FEATURE}

    @property
    def has_hooks(self) -> bool:
        """Whether programs of the site run as root while a container is made."""
        return bool(self._settings.hooks.config)

    def why_not(self) -> str:
        """Why there are no containers here, as far as it is not for the shim."""
        lacking = [name for name in NEEDED if not shutil.which(name, path=SEARCHED)]
        if not self._images.is_root:
            return NOT_ROOT
        if self.fetcher is None:
            return self._images.why_not()
        if not self._settings.runtime:
            return f"no runtime is installed: {' or '.join(KNOWN_RUNTIMES)}"
        return f"programs are not installed: {', '.join(lacking)}" if lacking else ""

    async def enter(
        self, order: StartOrder, request: dict[str, object], *, make: bool = True, say: Say = lambda _: True
    ) -> None:
        """Lets what is requested happen inside. Without `make` the container is there already: only the environment is prepared.

        Raises ImageRefused and ImageUnavailable. What was made is held until `release`.
        """
        container = order.container
        if container is None:
            return
        path, inside = await self.obtain(container, order.user, request, say)
        mounts = cast("list[Mapping[str, object]]", request.get("mounts") or [])
        cwd = self.let_in(container, inside, request)
        if make:
            namespace = await self.make(order, container, request, path, inside, cwd, mounts)
            request["mounts"] = [{"kind": NAMESPACE, "target": "/", "source": namespace}]

    def let_in(self, container: ContainerOrder, inside: Inside, request: dict[str, object]) -> str:
        """Variables and directory of a process inside; the directory that it would have had outside."""
        environment = cast("dict[str, str]", request["env"])
        request["env"] = container_environment(environment, inside.about, self._programs)
        request["sealed"] = True
        cwd = str(request["cwd"])
        if container.workdir:
            request["cwd"] = container.workdir
        return cwd

    async def make(
        self,
        order: StartOrder,
        container: ContainerOrder,
        request: Mapping[str, object],
        image: Path | Base,
        inside: Inside,
        cwd: str,
        mounts: Sequence[Mapping[str, object]],
    ) -> str:
        """The namespace of a new one, held until `release`; `mounts` are what the run sees. Raises ImageRefused and ImageUnavailable."""
        folder = Path(str(request["dir"])) / FOLDER
        name = f"{order.key}.{request.get('step', '')}".rstrip(".")
        if self._commands is None:
            self._commands = await asyncio.to_thread(make_commands, self._state_dir, self._programs)
        hooks, commands, person = self._settings.hooks, self._commands, inside.person
        bundle = await asyncio.to_thread(
            make_bundle, folder, container, inside.about, person, cwd, self._state_dir, mounts, hooks, name, commands
        )
        await asyncio.to_thread(_write, folder, bundle.config, bundle.files)
        rights = (person.uid, person.gid, person.groups)
        try:
            runtime, owner = self._settings.runtime, _owner(container, person) if container.writable else None
            held = await hold(folder, image, runtime, f"lattice-{name}", rights, bundle.sources, bundle.disk, owner)
        except SourceRefused as refusal:
            source = bundle.sources[refusal.number].path
            raise ImageRefused(f"container: cannot read {source} as {person.name} on this node: {refusal}") from refusal
        except CannotHold as failure:
            raise ImageUnavailable(f"container: {failure}") from failure
        self._held.setdefault(str(request["dir"]), []).append(held)
        return held.namespace

    async def keep(
        self,
        container: ContainerOrder,
        request: Mapping[str, object],
        image: Path,
        inside: Inside,
        mark: str,
        memory_mb: int,
        within: str = "",
    ) -> Base:
        """Files of the image that steps can change and find again, held until `release`; `within` as `keep` of the holder has it.

        They are full before the memory of the run is: a run without any left could start no step to clear them.
        Raises ImageUnavailable.
        """
        base = self.base("", mark)
        try:
            await asyncio.to_thread(base.place.mkdir, mode=0o700, exist_ok=True)
            owner = _owner(container, inside.person)
            held = await keep(image, base.place, mark, memory_mb // 2, within, owner)
        except (CannotHold, OSError) as failure:
            raise ImageUnavailable(f"container: {failure}") from failure
        self._held.setdefault(str(request["dir"]), []).append(held)
        return self.base(held.namespace, mark)

    def base(self, namespace: str, mark: str) -> Base:
        """Files that are kept under this mark."""
        return Base(namespace, self._state_dir / KEPT, mark)

    def release(self, request: Mapping[str, object]) -> None:
        """The shim has the container, or never will."""
        for held in reversed(self._held.pop(str(request.get("dir")), [])):
            task = asyncio.get_running_loop().create_task(held.let_go())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def release_all(self) -> None:
        """Another shim answers: what the one before was asked for and did not answer never will be."""
        for folder in list(self._held):
            self.release({"dir": folder})

    async def obtain(
        self, container: ContainerOrder, user: str, request: Mapping[str, object], say: Say = lambda _: True
    ) -> tuple[Path, Inside]:
        """The image's file, and what it says of itself. Raises ImageRefused and ImageUnavailable."""
        fetcher = self._ready()
        uid, gid = cast("int", request["uid"]), cast("int", request["gid"])
        groups = tuple(cast("list[int]", request.get("groups") or []))
        reader = Reader(name=user, uid=uid, gid=gid, groups=groups)
        try:
            path = await fetcher.obtain(container.image, reader, say)
        except (WrongDigest, SourceFailed, BlobRefused, BadImage) as error:
            raise ImageRefused(f"container: {error}") from error
        except (CacheFull, BlobUnavailable, OSError) as error:
            raise ImageUnavailable(f"container: {error}") from error
        except FetchStopped:
            raise ImageUnavailable("container: the fetch was stopped") from None
        return path, await self.inside(container.image.digest, user, request)

    async def inside(self, digest: str, user: str, request: Mapping[str, object]) -> Inside:
        """Of an image that is in the cache. Raises ImageUnavailable."""
        fetcher = self._ready()
        uid, gid = cast("int", request["uid"]), cast("int", request["gid"])
        groups = tuple(cast("list[int]", request.get("groups") or []))
        about = await asyncio.to_thread(fetcher.cache.unpacked, digest)
        return Inside(about, await asyncio.to_thread(_person, user, uid, gid, groups))

    def _ready(self) -> ImageFetcher:
        if self.fetcher is None or not self._settings.runtime:
            raise ImageUnavailable("container: this node has no container runtime")
        return self.fetcher


def _owner(container: ContainerOrder, person: Account) -> tuple[int, int] | None:
    """Whose root's files are to be; those of images that were not unpacked here may belong to several."""
    return (person.uid, person.gid) if container.image.kind == OCI else None


def _person(user: str, uid: int, gid: int, groups: tuple[int, ...]) -> Account:
    try:
        known = pwd.getpwuid(uid)
        home, shell, name = known.pw_dir, known.pw_shell, known.pw_name
    except KeyError:
        home, shell, name = "", "/bin/sh", user
    return Account(name=name, uid=uid, gid=gid, groups=groups, home=home, shell=shell)


def _write(folder: Path, config: Mapping[str, object], files: Mapping[str, str]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, errors="surrogateescape")
        (folder / name).chmod(0o755 if text.startswith("#!") else 0o644)
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
