"""Where the output of a run lies, and how it is read: what is stored already, then what the node's agent has besides."""

import asyncio
from collections.abc import AsyncIterator

from lattice.api.errors import ApiError
from lattice.api.running.stored_output import StoredOutput
from lattice.api.services import Services
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase
from lattice.ports.nodes.agents import (
    AgentUnreachable,
    OutputName,
    OutputPiece,
    OutputUnavailable,
)
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStoreError
from lattice.wire.files.chunks import run_prefix

# A store that does not answer must not keep a reader from what the node has.
_STORE_WITHIN_S = 5.0


class Source:
    """One output file of one run on one node."""

    def __init__(self, services: Services, record: Allocation, run: int, node: str, stream: OutputName) -> None:
        self._links = services.links
        self.number, self.run, self.node, self.stream = record.number, run, node, stream
        self._stored = None
        if services.objects is not None:
            prefix, file = f"{_prefix(record, run)}/{stream}/{node}", f"logs/{record.number}/{run}/{node}.{stream}"
            self._stored = StoredOutput(services.objects, prefix, file)

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

    async def running(
        self, *, offset: int = 0, tail_lines: int = 0, follow: bool = False, since_ms: int | None = None
    ) -> AsyncIterator[OutputPiece]:
        """The output of a part that still writes: what is stored already, then what the agent has.

        Raises AgentUnreachable or OutputUnavailable.
        """
        if not tail_lines and await self._has_chunks():
            async for piece in self.stored(offset=offset, since_ms=since_ms):
                yield piece
                offset = piece.offset + len(piece.data)
        async for piece in self.live(offset=offset, tail_lines=tail_lines, follow=follow):
            yield piece

    async def _has_chunks(self) -> bool:
        if self._stored is None:
            return False
        try:
            async with asyncio.timeout(_STORE_WITHIN_S):
                return bool(await self._stored.places())
        except (ObjectStoreError, TimeoutError):
            return False

    def stored(
        self, *, offset: int = 0, tail_lines: int = 0, since_ms: int | None = None
    ) -> AsyncIterator[OutputPiece]:
        """What the object store has. Raises ObjectMissing when it has nothing."""
        if self._stored is None:
            raise ObjectMissing("no object store is configured")
        return self._stored.pieces(offset=offset, tail_lines=tail_lines, since_ms=since_ms)

    async def finished(
        self, *, is_whole: bool, offset: int = 0, tail_lines: int = 0, since_ms: int | None = None
    ) -> AsyncIterator[OutputPiece]:
        """The output of a part that has ended: stored, and from the agent what could not be stored.

        With `is_whole` the node had stored all there was, so that nothing anywhere means that nothing was written;
        otherwise raises AgentUnreachable.
        """
        trouble = ""
        try:
            async for piece in self.stored(offset=offset, tail_lines=tail_lines, since_ms=since_ms):
                yield piece
                offset, tail_lines = piece.offset + len(piece.data), 0
        except ObjectMissing:
            if self._stored is not None and await self._stored.is_deleted():
                return
        except ObjectStoreError as error:
            trouble = str(error)
        try:
            async for piece in self.live(offset=offset, tail_lines=tail_lines):
                yield piece
        except (AgentUnreachable, OutputUnavailable) as error:
            if trouble:
                raise AgentUnreachable(f"{trouble}; {error}") from error
            if isinstance(error, AgentUnreachable) and (not is_whole or self._stored is None):
                raise


def _prefix(record: Allocation, run: int) -> str:
    return run_prefix(record.tenant, record.project, allocation_id(record.number), run)


def is_part_over(record: Allocation, run: int, node: str) -> bool:
    """Whether nothing more can come from this node for this run."""
    if record.is_terminal or record.run != run or record.is_waiting:
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
        return [part.node for part in record.launched]
    if services.objects is None:
        return []
    prefix = f"{_prefix(record, run)}/{stream}/"
    if nodes := {name[len(prefix) :].partition("/")[0] async for name in services.objects.names(prefix)}:
        return sorted(nodes)
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
