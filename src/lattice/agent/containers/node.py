"""Containers of a node: which runtime makes them, and how a request to the shim becomes one for a process inside."""

import asyncio
import pwd
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.containers.bundle import container_environment, make_bundle
from lattice.agent.containers.commands import Commands, make_commands
from lattice.agent.containers.holder import CannotHold, Held, SourceRefused, hold
from lattice.agent.containers.oci_hooks import Hooks
from lattice.agent.images.cache import CacheFull, FetchStopped, SourceFailed, WrongDigest
from lattice.agent.images.fetching import ImageFetcher, Say
from lattice.agent.images.layouts import Unpacked
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable
from lattice.agent.images.node import NodeImages
from lattice.agent.images.sources import Reader
from lattice.agent.runs.launch import Account
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable
from lattice.ports.nodes.images import ContainerOrder

FEATURE = "container"
NAMESPACE = "namespace"  # the shim's word for a file system that was made elsewhere
KNOWN_RUNTIMES = ("crun", "runc")
NEEDED = ("unshare", "setpriv", "mount")
FOLDER = "container"
NOT_ROOT = "containers need an agent that runs as root"
SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
NO_RUNTIME = "none"


class ContainerSettings(msgspec.Struct, frozen=True, kw_only=True):
    runtime: str = ""  # absolute path of an OCI runtime; empty = this node runs no containers
    hooks: Hooks = Hooks()


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
        self._held: dict[str, Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._commands: Commands | None = None  # once a container needed them

    def features(self, mount_kinds: Collection[str]) -> set[str]:
        """What the node can offer, given what its shim understands."""
        has_tools = all(shutil.which(name, path=SEARCHED) for name in NEEDED)
        is_there = self.fetcher is not None and self._settings.runtime and NAMESPACE in mount_kinds and has_tools
        return {FEATURE} if is_there else set()

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
        if self.fetcher is None or not self._settings.runtime:
            raise ImageUnavailable("container: this node has no container runtime")
        path, about, person = await self._obtain(self.fetcher, container, order.user, request, say)
        environment = cast("dict[str, str]", request["env"])
        request["env"] = container_environment(environment, about, self._programs)
        request["sealed"] = True
        cwd = str(request["cwd"])
        if container.workdir:
            request["cwd"] = container.workdir
        if not make:
            return
        folder = Path(str(request["dir"])) / FOLDER
        own = cast("list[Mapping[str, object]]", request.get("mounts") or [])
        name = f"{order.key}.{request.get('step', '')}".rstrip(".")
        if self._commands is None:
            self._commands = await asyncio.to_thread(make_commands, self._state_dir, self._programs)
        hooks, commands = self._settings.hooks, self._commands
        bundle = await asyncio.to_thread(
            make_bundle, folder, container, about, person, cwd, self._state_dir, own, hooks, name, commands
        )
        await asyncio.to_thread(_write, folder, bundle.config, bundle.files)
        rights = (person.uid, person.gid, person.groups)
        try:
            held = await hold(folder, path, self._settings.runtime, f"lattice-{name}", rights, bundle.sources)
        except SourceRefused as refusal:
            source = bundle.sources[refusal.number].path
            raise ImageRefused(f"container: cannot read {source} as {person.name} on this node: {refusal}") from refusal
        except CannotHold as failure:
            raise ImageUnavailable(f"container: {failure}") from failure
        self._held[str(request["dir"])] = held
        request["mounts"] = [{"kind": NAMESPACE, "target": "/", "source": held.namespace}]

    def release(self, request: Mapping[str, object]) -> None:
        """The shim has the container, or never will."""
        held = self._held.pop(str(request.get("dir")), None)
        if held is not None:
            task = asyncio.get_running_loop().create_task(held.let_go())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def release_all(self) -> None:
        """Another shim answers: what the one before was asked for and did not answer never will be."""
        for folder in list(self._held):
            self.release({"dir": folder})

    async def _obtain(
        self, fetcher: ImageFetcher, container: ContainerOrder, user: str, request: Mapping[str, object], say: Say
    ) -> tuple[Path, Unpacked, Account]:
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
        about = await asyncio.to_thread(fetcher.cache.unpacked, container.image.digest)
        person = await asyncio.to_thread(_person, user, uid, gid, groups)
        return path, about, person


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
