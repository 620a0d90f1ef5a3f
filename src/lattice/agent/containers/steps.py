"""Containers of single steps: one of their own, one that their name has already, or the one in which another step runs.

The files of a container with a name lie in a namespace that the shim keeps, so a further step, of another agent too, finds them as the
last one left them. Each step sees them in a namespace of its own, with its own mounts, unless it joins one that runs.
"""

import asyncio
import contextlib
import errno
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from lattice.agent.containers.bundle import DISK
from lattice.agent.containers.holder import Base
from lattice.agent.containers.node import NodeContainers
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable
from lattice.agent.shim_client import ShimMessage
from lattice.images.containers import AUTO, CREATE, EXEC
from lattice.ports.nodes.agents import RunKey, StepKey
from lattice.ports.nodes.images import ContainerOrder
from lattice.ports.nodes.steps import LaunchOrder

MOUNTS = "mounts.json"  # in the folder of a run: what it sees and the node does not
ANSWER_WITHIN_S = 60.0
REMEMBERED = 1000  # runs that are over, whose last step may still be on its way

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]


def note_mounts(request: Mapping[str, object]) -> None:
    """Leaves word of what a run sees, for steps that see something else."""
    if mounts := request.get("mounts"):
        with contextlib.suppress(OSError):
            (Path(str(request["dir"])) / MOUNTS).write_bytes(msgspec.json.encode(mounts))


def noted_mounts(run_folder: Path) -> list[dict[str, object]]:
    try:
        return msgspec.json.decode((run_folder / MOUNTS).read_bytes(), type=list[dict[str, object]])
    except (OSError, msgspec.DecodeError):
        return []


class StepContainers:
    """`ask` speaks to the shim. `kept` are the runs of which it keeps containers, as far as this agent has heard."""

    def __init__(self, containers: NodeContainers, ask: Ask) -> None:
        self._containers = containers
        self._ask = ask
        self._turns: dict[tuple[RunKey, str], asyncio.Lock] = {}
        self._over: deque[RunKey] = deque(maxlen=REMEMBERED)
        self.kept: set[RunKey] = set()

    def meet_shim(self, listing: ShimMessage) -> None:
        self.kept = {RunKey(*each) for each in listing.containers}

    def judge(self, held_by: Collection[RunKey]) -> None:
        for key in self.kept.difference(held_by):
            self.drop(key)

    def drop(self, key: RunKey) -> None:
        """The run is over."""
        self.kept.discard(key)
        self._turns = {about: lock for about, lock in self._turns.items() if about[0] != key or lock.locked()}
        if key not in self._over:
            self._over.append(key)
        self._ask({"op": "drop_containers", "number": key.number, "run": key.run}, None)

    async def launch(
        self, launch: LaunchOrder, request: dict[str, object], run_folder: Path, is_open: Callable[[StepKey], bool]
    ) -> ShimMessage | None:
        """The shim's answer to the request, made inside the step's container; None when the step is over or the shim is gone.

        Raises ImageRefused and ImageUnavailable.
        """
        container = launch.container
        if container is None:
            return None
        plain = dict(request)
        while True:
            async with self._turn(launch.key.of_run, container.name):
                request.update(plain)
                try:
                    mounts = await asyncio.to_thread(noted_mounts, run_folder)
                    await self._enter(launch, container, request, mounts, is_open)
                    answer = await self._answer(request) if is_open(launch.key) else None
                finally:
                    self._containers.release(request)
                if container.name and answer is not None and answer.ok:
                    self.kept.add(launch.key.of_run)
                if launch.key.of_run in self._over:
                    self.drop(launch.key.of_run)
            # What it was to join has ended meanwhile: its files are there all the same.
            if answer is None or answer.errno != errno.ESRCH or container.way == EXEC:
                return answer

    @contextlib.asynccontextmanager
    async def _turn(self, run: RunKey, name: str) -> AsyncIterator[None]:
        """Two steps do not begin the same container at a time."""
        if not name:
            yield
            return
        lock = self._turns.setdefault((run, name), asyncio.Lock())
        async with lock:
            yield

    async def _answer(self, request: dict[str, object]) -> ShimMessage | None:
        answered: asyncio.Future[ShimMessage] = asyncio.get_running_loop().create_future()
        self._ask(request, lambda answer: None if answered.done() else answered.set_result(answer))
        try:
            return await asyncio.wait_for(answered, ANSWER_WITHIN_S)
        except TimeoutError:
            return None

    async def _enter(
        self,
        launch: LaunchOrder,
        container: ContainerOrder,
        request: dict[str, object],
        mounts: Sequence[Mapping[str, object]],
        is_open: Callable[[StepKey], bool],
    ) -> None:
        """Says in the request what the step is to see. What was made for it is held until it is let go."""
        key, user, name = launch.key, launch.base.user, container.name
        kept: dict[str, tuple[int, str]] = {}
        running: dict[str, tuple[bool, str]] = {}
        pid, within = 0, ""
        has_disk = any(each.get("kind") == DISK for each in mounts)
        if name or has_disk:
            told = await self._answer({"op": "containers", "number": key.number, "run": key.run})
            if told is None or not told.ok:
                raise ImageUnavailable("container: the shim of this node does not answer")
            kept, running, pid = told.kept, told.running, told.pid
            if has_disk:
                within, mounts = _within(told), _on_its_disk(mounts)
        way = container.way or AUTO
        if way == EXEC or (way == AUTO and _is_joined(container, running)):
            if name not in running:
                raise ImageRefused(_not_running(name, kept))
            inside = await self._containers.inside(running[name][1], user, request)
            self._containers.let_in(container, inside, request)
            request["view"] = {"name": name, "join": True}
            return
        if name in kept and way == CREATE:
            raise ImageRefused(f'container: "{name}" exists on this node already; leave :{CREATE} out to use it')
        if name in kept and self._containers.has_hooks and running.get(name, (False, ""))[0]:
            raise ImageRefused(
                f'container: a step that writes runs in "{name}"; join it (:{EXEC}), or wait for its end'
            )
        view: dict[str, object] = {"name": name or f"{key.number}.{key.step}", "writable": container.writable}
        mark = f"{key.of_run} {name}"
        if name in kept:
            fd, digest = kept[name]
            base = self._containers.base(f"/proc/{pid}/fd/{fd}", mark)
            inside = await self._containers.inside(digest, user, request)
            cwd = self._containers.let_in(container, inside, request)
            view |= {
                "source": await self._containers.make(launch.base, container, request, base, inside, cwd, mounts),
                "about": digest,
            }
        else:
            if not container.image.digest:
                raise ImageRefused(_unknown(name, (*kept, *running)))
            view |= await self._begun(launch, container, request, mounts, within, lambda _: is_open(key))
        request["view"] = view

    async def _begun(
        self,
        launch: LaunchOrder,
        container: ContainerOrder,
        request: dict[str, object],
        mounts: Sequence[Mapping[str, object]],
        within: str,
        say: Callable[[str], bool],
    ) -> dict[str, object]:
        """The view of a new container, made of its image in the file system `within`. Raises ImageRefused and ImageUnavailable."""
        path, inside = await self._containers.obtain(container, launch.base.user, request, say)
        cwd = self._containers.let_in(container, inside, request)
        image: Path | Base = Base(within, path, "") if within else path
        if container.name:
            mark, memory_mb = f"{launch.key.of_run} {container.name}", launch.base.memory_mb
            image = await self._containers.keep(container, request, path, inside, mark, memory_mb, within)
        source = await self._containers.make(launch.base, container, request, image, inside, cwd, mounts)
        kept = {"keep": image.namespace} if container.name and isinstance(image, Base) else {}
        return {"source": source, "about": container.image.digest, **kept}


def _within(told: ShimMessage) -> str:
    """The file system of the run, in which its scratch is mounted: to mount it twice would destroy it. Raises ImageUnavailable."""
    if told.view < 0:
        raise ImageUnavailable("container: the shim of this node does not show where the scratch of the allocation is")
    return f"/proc/{told.pid}/fd/{told.view}"


def _on_its_disk(mounts: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """What is seen from there: the disk of the run is a folder."""
    return [
        {"kind": "bind", "target": each["target"], "source": each["target"]} if each.get("kind") == DISK else each
        for each in mounts
    ]


def _is_joined(container: ContainerOrder, running: Mapping[str, tuple[bool, str]]) -> bool:
    """Whether what runs under the name is what the step asks for: what it would have mounted itself is not there."""
    if container.name not in running or container.binds:
        return False
    return running[container.name][0] or not container.writable


def _unknown(name: str, known: Iterable[str]) -> str:
    others = ", ".join(sorted(set(known)))
    there = f"; there are: {others}" if others else ""
    return f'container: a container with name "{name}" does not exist on this node, and --container-image is not set{there}'


def _not_running(name: str, kept: Collection[str]) -> str:
    what = "is there, but no step runs in it" if name in kept else "does not exist"
    hint = f"; leave :{EXEC} out to begin a step in it" if name in kept else ""
    return f'container: a container with name "{name}" {what} on this node{hint}'
