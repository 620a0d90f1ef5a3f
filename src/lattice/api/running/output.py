"""Where the output of a run lies, and how it is read: stored objects for what has ended, the node's agent for what runs."""

from collections.abc import AsyncIterator

from lattice.api.errors import ApiError
from lattice.api.limits import OUTPUT_PIECE_BYTES
from lattice.api.services import Services
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, PartPhase
from lattice.ports.nodes.agents import (
    AgentUnreachable,
    OutputName,
    OutputPiece,
    OutputUnavailable,
)
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStore, ObjectStoreError

_TAIL_BLOCK = 64 << 10


class Source:
    """One output file of one run on one node."""

    def __init__(self, services: Services, number: int, run: int, node: str, stream: OutputName) -> None:
        self._links = services.links
        self._objects = services.objects
        self.number, self.run, self.node, self.stream = number, run, node, stream

    @property
    def object_name(self) -> str:
        return f"logs/{self.number}/{self.run}/{self.node}.{self.stream}"

    def live(self, *, offset: int = 0, tail_lines: int = 0, follow: bool = False) -> AsyncIterator[OutputPiece]:
        """What the agent has. Raises AgentUnreachable or OutputUnavailable."""
        return self._links.read_output(
            self.node,
            self.number,
            self.run,
            self.stream,
            offset=offset,
            tail_lines=tail_lines,
            follow=follow,
        )

    async def stored(self, *, offset: int = 0, tail_lines: int = 0) -> AsyncIterator[OutputPiece]:
        """What the object store has. Raises ObjectMissing when it has nothing."""
        if self._objects is None:
            raise ObjectMissing("no object store is configured")
        size = await self._objects.size(self.object_name)
        dropped = await self._dropped(self._objects)
        place = max(0, offset - dropped)
        if tail_lines:
            place = await _tail_offset(self._objects, self.object_name, size, tail_lines)
        while place < size:
            data = await self._objects.get(self.object_name, offset=place, length=OUTPUT_PIECE_BYTES)
            if not data:
                return
            yield OutputPiece(offset=dropped + place, data=data)
            place += len(data)

    async def _dropped(self, objects: ObjectStore) -> int:
        """How many bytes the node had dropped from the beginning before it stored the rest."""
        try:
            return int(await objects.get(f"{self.object_name}.base"))
        except (ObjectMissing, ValueError):
            return 0

    async def finished(self, *, is_whole: bool, offset: int = 0, tail_lines: int = 0) -> AsyncIterator[OutputPiece]:
        """The output of a part that has ended: stored, else from the agent.

        With `is_whole` the node had stored all there was, so that nothing anywhere means that nothing was written;
        otherwise raises AgentUnreachable.
        """
        try:
            async for piece in self.stored(offset=offset, tail_lines=tail_lines):
                yield piece
            return
        except ObjectStoreError:
            pass
        try:
            async for piece in self.live(offset=offset, tail_lines=tail_lines):
                yield piece
        except OutputUnavailable:
            return
        except AgentUnreachable:
            if not is_whole or self._objects is None:
                raise


def is_part_over(record: Allocation, run: int, node: str) -> bool:
    """Whether nothing more can come from this node for this run."""
    if record.is_terminal or record.run != run or record.state is AllocationState.PENDING:
        return True
    return any(part.node == node and part.phase is PartPhase.ENDED for part in record.parts)


def is_part_whole(record: Allocation, run: int, node: str) -> bool:
    """Whether the node reported the end itself, after it had stored the output."""
    if record.run != run:
        return True
    return any(
        part.node == node and part.phase is PartPhase.ENDED and part.cause is not Cause.NODE for part in record.parts
    )


async def launch_nodes(services: Services, record: Allocation, run: int, stream: OutputName) -> list[str]:
    """The nodes where this run was launched, in their order; for an older run those that left output behind."""
    if run == record.run and record.parts:
        return [part.node for part in record.parts]
    if services.objects is None:
        return []
    prefix, suffix = f"logs/{record.number}/{run}/", f".{stream}"
    names = [name async for name in services.objects.names(prefix)]
    return [name[len(prefix) : -len(suffix)] for name in names if name.endswith(suffix)]


def chosen_nodes(nodes: list[str], wanted: str) -> list[str]:
    """All nodes, or the one that is wanted. Raises ApiError when it is not among them."""
    if not wanted:
        return nodes
    if wanted not in nodes:
        raise ApiError(
            "not_found",
            f'nothing was launched on node "{wanted[:80]}"',
            hint=f"launched on: {', '.join(nodes) or 'no node yet'}",
        )
    return [wanted]


async def _tail_offset(objects: ObjectStore, name: str, size: int, lines: int) -> int:
    """Where the last `lines` lines begin; a last line without a line break counts."""
    end, missing = size, lines
    if size and await objects.get(name, offset=size - 1, length=1) == b"\n":
        missing += 1
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        block = await objects.get(name, offset=start, length=end - start)
        place = len(block)
        while missing and (found := block.rfind(b"\n", 0, place)) >= 0:
            place = found
            missing -= 1
        if not missing:
            return start + place + 1
        end = start
    return 0


def whole_characters(data: bytes) -> int:
    """How many bytes make whole UTF-8 characters: a character cut off at the end is left for the next piece."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
    return len(data)
