"""Ended tasks of a group as rows of bytes: all that made them differ from the others, some forty bytes each.

Folding keeps everything but the figures of single parts: the one part of a task is made up again from the task's own end. Rows
are only ever added and leave together with their group, so their hashes are summed apart. See docs/architecture/core.md.
"""

from array import array
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import fields, replace

from lattice.core.machine.digest import record_hash
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Cause,
    GivenUp,
    Hold,
    Part,
    PartPhase,
    TaskGroup,
)
from lattice.core.model.work.endings import cancelled_by

# Rows hold places in these: new members come last.
_STATES = tuple(AllocationState)
_CAUSES = tuple(Cause)
# Causes by which tasks that never ran have failed; by all others they are cancelled.
GIVEN_UP_AS_FAILED = frozenset({Cause.DEADLINE, Cause.LAUNCH})
_LAST_REPORT = 2  # the number of an agent's report of an end
_LENGTH_BYTES = 4
_ROWS_PER_CHUNK = 5_000
_NAMES = tuple(field.name for field in fields(Allocation))

# Every field of a record, each of which may be missing: what a row keeps of a task that is not as the others are.
_Rest: type[Struct] = msgspec.defstruct(
    "_Rest",
    [(field.name, field.type | UnsetType, UNSET) for field in fields(Allocation)],
    kw_only=True,
    frozen=True,
    omit_defaults=True,
)


class _Row(Struct, frozen=True, array_like=True, gc=False):
    place: int  # in the table of shares
    run: int
    state: int  # in _STATES
    cause: int  # in _CAUSES
    exit_code: int | None
    signal: int
    started_at: int
    ended_at: int
    cpu_s: float
    peak_memory_mb: int
    held_cpus: int
    held_memory_mb: int
    rest: bytes = b""


class FoldedChunk(Struct, frozen=True, kw_only=True):
    """Some rows of one group, for snapshots and the archive."""

    number: int
    size: int
    base: Allocation
    places: tuple[tuple[Share, ...], ...]
    rows: tuple[tuple[int, bytes], ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Row).decode
_decode_rest = msgspec.msgpack.Decoder(_Rest).decode


class FoldedTasks:
    """The rows of one group, by position. `base` is the group's template as it was when the first row came."""

    __slots__ = ("_data", "_place_of", "_starts", "base", "count", "digest_sum", "number", "places")

    def __init__(self, number: int, size: int, base: Allocation) -> None:
        self.number = number
        self.base = base
        self.places: list[tuple[Share, ...]] = []
        self.count = 0
        self.digest_sum = record_hash(b"folded", (number, base))
        self._place_of: dict[tuple[Share, ...], int] = {}
        self._starts = array("q", bytes(8 * size))  # where a row begins, plus one; 0 = there is none
        self._data = bytearray()

    @property
    def size(self) -> int:
        """How many positions the group has."""
        return len(self._starts)

    def has(self, position: int) -> bool:
        return self._starts[position] > 0

    def fold(self, group: TaskGroup, record: Allocation) -> int:
        """Adds the row of an ended task; returns by how much the digest's sum grows."""
        row = _Row(
            place=self._place(record.shares),
            run=record.run,
            state=_STATES.index(record.state),
            cause=_CAUSES.index(record.cause or Cause.EXIT),
            exit_code=record.exit_code,
            signal=record.signal,
            started_at=record.started_at,
            ended_at=record.ended_at,
            cpu_s=record.cpu_s,
            peak_memory_mb=record.peak_memory_mb,
            held_cpus=record.held_cpus,
            held_memory_mb=record.held_memory_mb,
        )
        position = record.number - group.number - 1
        rest = _differences(self._unfolded(group, position, row), record)
        return self.add(position, _encode(replace(row, rest=_encode(_Rest(**rest))) if rest else row))

    def add(self, position: int, data: bytes) -> int:
        """Adds an encoded row; returns by how much the digest's sum grows."""
        self._put(position, data)
        summand = record_hash(b"task", (self.number, position, data))
        self.digest_sum += summand
        return summand

    def _put(self, position: int, data: bytes) -> None:
        self._starts[position] = len(self._data) + 1
        self._data += len(data).to_bytes(_LENGTH_BYTES, "little") + data
        self.count += 1

    def record(self, group: TaskGroup, position: int) -> Allocation:
        """The task as it ended."""
        row = _decode(self._encoded(position))
        record = self._unfolded(group, position, row)
        if not row.rest:
            return record
        rest = _decode_rest(row.rest)
        return replace(record, **{name: value for name in _NAMES if (value := getattr(rest, name)) is not UNSET})

    def positions(self, below: int) -> Iterator[int]:
        """Those below that have a row, highest first."""
        return (position for position in range(min(below, self.size) - 1, -1, -1) if self._starts[position])

    def copy(self) -> "FoldedTasks":
        """The same rows, safe from those that are added later."""
        twin = FoldedTasks(self.number, 0, self.base)
        twin.places, twin.count, twin.digest_sum = list(self.places), self.count, self.digest_sum
        twin._place_of, twin._starts, twin._data = dict(self._place_of), self._starts[:], self._data[:]
        return twin

    def chunks(self) -> Iterator[FoldedChunk]:
        """All rows, in pieces of bounded size; one without rows when there are none."""
        places = tuple(self.places)
        held = [position for position, start in enumerate(self._starts) if start]
        for begin in range(0, max(1, len(held)), _ROWS_PER_CHUNK):
            rows = tuple((position, self._encoded(position)) for position in held[begin : begin + _ROWS_PER_CHUNK])
            yield FoldedChunk(number=self.number, size=self.size, base=self.base, places=places, rows=rows)

    def load(self, chunk: FoldedChunk) -> int:
        """Adds the rows of a chunk; returns by how much the digest's sum grows."""
        self._take_places(chunk)
        return sum(self.add(position, data) for position, data in chunk.rows)

    def show(self, chunk: FoldedChunk) -> None:
        """Add the rows of a chunk for reading only: the digest is not needed."""
        self._take_places(chunk)
        for position, data in chunk.rows:
            self._put(position, data)

    def _take_places(self, chunk: FoldedChunk) -> None:
        self.places = list(chunk.places)
        self._place_of = {shares: place for place, shares in enumerate(self.places)}

    def _place(self, shares: tuple[Share, ...]) -> int:
        place = self._place_of.get(shares)
        if place is None:
            place = self._place_of[shares] = len(self.places)
            self.places.append(shares)
        return place

    def _encoded(self, position: int) -> bytes:
        start = self._starts[position] - 1
        begin = start + _LENGTH_BYTES
        return bytes(self._data[begin : begin + int.from_bytes(self._data[start:begin], "little")])

    def _unfolded(self, group: TaskGroup, position: int, row: _Row) -> Allocation:
        shares = self.places[row.place]
        return replace(
            self.base,
            number=group.number + 1 + position,
            group=group.number,
            task_index=group.index_at(position),
            state=_STATES[row.state],
            run=row.run,
            shares=shares,
            parts=_parts(shares, row),
            started_at=row.started_at,
            ended_at=row.ended_at,
            cause=_CAUSES[row.cause],
            exit_code=row.exit_code,
            signal=row.signal,
            cpu_s=row.cpu_s,
            peak_memory_mb=row.peak_memory_mb,
            held_cpus=row.held_cpus,
            held_memory_mb=row.held_memory_mb,
        )


def base_of(group: TaskGroup) -> Allocation:
    """What rows are compared with: the template of a task that is not held."""
    return replace(group.template, hold=Hold.NONE)


def _parts(shares: tuple[Share, ...], row: _Row) -> tuple[Part, ...]:
    """The part on the first node, which is the only one unless the task ran on each of several."""
    if not shares:
        return ()
    ran_ms = row.ended_at - row.started_at if row.started_at else 0
    return (
        Part(
            node=shares[0].node,
            phase=PartPhase.ENDED,
            seq=_LAST_REPORT,
            cause=_CAUSES[row.cause],
            exit_code=row.exit_code or 0,
            signal=row.signal,
            cpu_s=row.cpu_s,
            peak_memory_mb=row.peak_memory_mb,
            elapsed_s=ran_ms / 1000,
        ),
    )


def _differences(plain: Allocation, record: Allocation) -> dict[str, object]:
    """What must be kept besides the row; of a single part only what the task's own end says."""
    rest = {
        name: value for name in _NAMES if name != "parts" and (value := getattr(record, name)) != getattr(plain, name)
    }
    if len(record.parts) != len(plain.parts) or len(record.parts) > 1:
        rest["parts"] = record.parts
    return rest


def task_record(group: TaskGroup, position: int) -> Allocation:
    """The allocation record that a pending task of the group would start from."""
    return replace(
        group.template,
        number=group.number + 1 + position,
        group=group.number,
        task_index=group.index_at(position),
        hold=group.hold_at(position),
        waits_for=group.waits_at(position),
    )


def given_up_record(group: TaskGroup, position: int) -> Allocation | None:
    """A task that ended before it was more than a position; None when it is not one of those."""
    entry = group.given_up_at(position)
    return None if entry is None else _given_up(group, position, entry)


def _given_up(group: TaskGroup, position: int, entry: GivenUp) -> Allocation:
    ended = task_record(group, position)
    state = AllocationState.FAILED if entry.cause in GIVEN_UP_AS_FAILED else AllocationState.CANCELLED
    message = cancelled_by(group.cancelled_by) if entry.cause is Cause.CANCELLED else ""
    return replace(ended, hold=Hold.NONE, state=state, cause=entry.cause, ended_at=entry.at, message=message)


_Source = tuple[int, GivenUp | FoldedTasks]


def ended_tasks(group: TaskGroup, rows: FoldedTasks | None, below: int) -> Iterator[Allocation]:
    """Tasks that ended and are no records any more, at positions below that, highest first."""
    entries = sorted(group.given_up, key=lambda entry: entry.start, reverse=True)
    gone: Iterator[_Source] = (
        (position, entry) for entry in entries for position in range(min(entry.stop, below) - 1, entry.start - 1, -1)
    )
    folded: Iterator[_Source] = iter(())
    if rows is not None:
        folded = ((position, rows) for position in rows.positions(below))
    for position, source in merge(gone, folded, key=itemgetter(0), reverse=True):
        if isinstance(source, GivenUp):
            yield _given_up(group, position, source)
        else:
            yield source.record(group, position)
