"""What a launch hook is: one concern of starting a run on a node, and of clearing up after it (docs/architecture/launch-hooks.md).

A hook prepares something before the first process of a run starts and undoes it after the last one has ended. What it makes it
first leaves behind in the run's record, so that an agent that dies at any moment, and the agent that follows it, undo exactly that.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import msgspec

from lattice.ports.nodes.agents import RunKey, StartOrder

Left = Mapping[str, str]
NOTHING_LEFT: Left = {}


class HookFailed(Exception):
    """A hook could not prepare the run: the node's trouble, so the work goes elsewhere. The text is for the user."""


class RunImpossible(Exception):
    """What the run asks for is available on no node: it ends, with this text for the user."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is about to start.

    `request` is what the shim will be asked for; hooks add to it (variables in `env`, mounts, devices). `leave` records what the
    calling hook has made or is about to make, durably and before it returns; a second call replaces the first.
    """

    order: StartOrder
    request: dict[str, object]
    leave: Callable[[Left], None]
    # Tells the servers how far a slow hook is, so that the start is not given up; False when it is not wanted any more.
    say: Callable[[str], bool] = lambda _: True
    can_mount: Callable[[], bool] = lambda: False  # whether the shim of this node mounts for a run

    @property
    def owner(self) -> tuple[int, int]:
        """The uid and gid of the run's processes."""
        return cast("int", self.request["uid"]), cast("int", self.request["gid"])

    def set_variable(self, name: str, value: str) -> None:
        cast("dict[str, str]", self.request["env"])[name] = value

    def add_mount(
        self, kind: str, target: str, source: str = "", *, rights: Mapping[str, object] | None = None
    ) -> None:
        """Something that the run sees and the host does not; later ones may lie on earlier ones.

        With `rights` (uid, gid, groups) the source is opened with these, and not with those of the shim.
        """
        mounts = cast("list[dict[str, object]]", self.request.setdefault("mounts", []))
        mounts.append({"kind": kind, "target": target, "source": source, **({"rights": rights} if rights else {})})


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run of which nothing is alive, as its hooks clear it up. `left` is what the hook recorded, empty if nothing."""

    key: RunKey
    allocation_id: str
    left: Left = NOTHING_LEFT
    abandoned: asyncio.Event = msgspec.field(default_factory=asyncio.Event)  # set when nothing more is to be saved
    # Tells the servers that only results are left to copy: the other nodes of the run are not needed any more.
    copies: Callable[[], None] = lambda: None


class LaunchHook(Protocol):
    @property
    def name(self) -> str:
        """Stands in the record and in failures; never changes, since records outlive upgrades."""
        ...

    @property
    def timeout_s(self) -> float:
        """How long `prepare` or `undo` may take; it is cancelled then and counts as failed."""
        ...

    @property
    def undoes_unrecorded(self) -> bool:
        """Whether a run that started without a record is undone too: one of an agent from before there were records."""
        ...

    def applies(self, order: StartOrder) -> bool:
        """Whether this run needs the hook; no record is kept and nothing is called for a run that does not."""
        ...

    async def prepare(self, launch: Launch) -> None:
        """Raises HookFailed or RunImpossible. What was left is undone then, by this hook's own `undo`."""
        ...

    async def undo(self, finished: Finished) -> None:
        """May be called again after a crash, with the same `left`. Raises HookFailed; the run's end stands all the same."""
        ...
