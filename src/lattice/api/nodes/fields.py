"""Fields of a node's status: how each is read, compared and ordered; the only list there is."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from lattice.api.errors import ApiError
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.nodes.observations import Observation
from lattice.core.model.nodes.records import NodeRecord, Status, record_of, release_order, status_of
from lattice.core.model.nodes.specifications import MAX_PARTITION
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.wire.nodes.nodes import holding_of

Kind = Literal["text", "number", "list", "state"]
_PIECES = re.compile(r"(\d+)")
_LONGEST_NUMBER = 1_000  # digits; longer ones are ordered as words
_FILTER = re.compile(r"([A-Za-z]+)\s*+(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_MAX_FILTER = 1024
_MAX_NAMED = 20_000  # by all conditions of a query together


@dataclass
class Row:
    """One node with what was last heard of it. `now_ms` and `now_s` are the same moment on both clocks."""

    node: Node
    heard: Observation | None
    home: str
    now_ms: int
    now_s: float

    @cached_property
    def record(self) -> NodeRecord:
        return record_of(self.node)

    @cached_property
    def last_response(self) -> int:
        """Seconds since 1970; 0 = never heard by this server."""
        if self.heard is None or (not self.heard.seq and not self.heard.connected):
            return 0
        return int(self.now_ms / 1000 - (self.now_s - self.heard.last_heard))


@dataclass(frozen=True, kw_only=True)
class Field:
    name: str
    read: Callable[[Row], Any]
    help: str
    kind: Kind = "text"


def _reason(row: Row) -> str:
    return row.node.reason or row.node.shortfall or (row.node.down_cause or "")


FIELDS: dict[str, Field] = {
    field.name.lower(): field
    for field in (
        Field(name="Name", read=lambda row: row.node.id, help="name of the node"),
        Field(name="OS", read=lambda row: row.record.os, help="operating system and release"),
        Field(name="CPUs", read=lambda row: row.record.cpus, kind="number", help="number of processors"),
        Field(name="Speed", read=lambda row: row.record.speed, kind="number", help="their speed, MHz"),
        Field(name="RealMemory", read=lambda row: row.record.memory_mb, kind="number", help="memory, megabytes"),
        Field(
            name="VirtualMemory",
            read=lambda row: row.record.virtual_memory_mb,
            kind="number",
            help="memory and swap space, megabytes",
        ),
        Field(
            name="TmpDisk",
            read=lambda row: row.record.tmp_disk_mb,
            kind="number",
            help="temporary disk, megabytes",
        ),
        Field(
            name="Partition",
            read=lambda row: ",".join(map(str, row.record.partitions)),
            kind="list",
            help="numbers of its partitions",
        ),
        Field(
            name="LastResponse",
            read=lambda row: row.last_response,
            kind="number",
            help="when it was last heard, seconds since 1970; 0 = never",
        ),
        Field(
            name="State",
            read=lambda row: str(status_of(row.node)),
            kind="state",
            help="IDLE, BUSY, DRAINING, DRAINED, DOWN",
        ),
        Field(name="NodeState", read=lambda row: str(row.node.state), help="the state in Lattice's own words"),
        Field(name="Reason", read=_reason, help="why it is in that state, or not configured for work"),
        Field(
            name="Position",
            read=lambda row: row.node.specification.position if row.node.specification else 0,
            kind="number",
            help="its place in the imported file; 0 = in none",
        ),
        Field(name="vCluster", read=lambda row: row.home, help="for which vCluster it works"),
        Field(name="Group", read=lambda row: row.node.hardware.group, help="topology group"),
        Field(name="GPUs", read=lambda row: row.node.hardware.gpus, kind="number", help="number of GPUs"),
        Field(name="GPUType", read=lambda row: row.node.hardware.gpu_type, help="type of its GPUs"),
        Field(name="Features", read=lambda row: ",".join(row.node.hardware.features), kind="list", help="its features"),
        Field(name="Address", read=lambda row: row.node.address, help="where others reach it"),
        Field(name="Held", read=lambda row: holding_of(row.node), help="free, whole, shared or claimed"),
        Field(
            name="Allocations",
            read=lambda row: len(row.node.holders()),
            kind="number",
            help="how many allocations hold it",
        ),
        Field(
            name="Load",
            read=lambda row: 0.0 if row.heard is None else row.heard.load1,
            kind="number",
            help="its load as last heard",
        ),
    )
}
ITEMS = tuple(FIELDS)[:10]


def choose_fields(text: str) -> list[Field]:
    """The fields of a list apart by commas; all ten items when it says nothing. Raises ApiError."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if any(name.lower() == "all" for name in names):
        return list(FIELDS.values())
    return list(dict.fromkeys(find_field(name) for name in names)) if names else [FIELDS[name] for name in ITEMS]


def find_field(name: str) -> Field:
    """Raises ApiError."""
    field = FIELDS.get(name.lower())
    if field is None:
        known = ", ".join(each.name for each in FIELDS.values())
        raise ApiError("invalid", f'unknown field "{name[:80]}"', hint=f"known: {known}")
    return field


Test = Callable[[Row], bool]


def parse_filters(texts: Iterable[str]) -> list[Test]:
    """Conditions `Field=Value` with =, !=, <, >, <=, >=; all must hold. Raises ApiError."""
    conditions = list(texts)
    # Each may name as many nodes as its share allows.
    most = _MAX_NAMED // max(1, len(conditions))
    return [_parse_filter(text, most) for text in conditions]


def _parse_filter(text: str, most: int) -> Test:
    match = _FILTER.fullmatch(text.strip()) if len(text) <= _MAX_FILTER else None
    if match is None:
        raise ApiError(
            "invalid", f'cannot read the filter "{text[:80]}"', hint="write Field=Value; also !=, <, >, <=, >="
        )
    field, sign, value = find_field(match[1]), match[2], match[3].strip()
    if sign in ("=", "!="):
        same = _equality(field, value, most)
        return same if sign == "=" else lambda row: not same(row)
    order = _orders(field)
    bound = order(_bound(field, value))
    read = field.read
    match sign:
        case "<":
            return lambda row: order(read(row)) < bound
        case ">":
            return lambda row: order(read(row)) > bound
        case "<=":
            return lambda row: order(read(row)) <= bound
        case _:
            return lambda row: order(read(row)) >= bound


def _equality(field: Field, value: str, most: int) -> Test:
    read = field.read
    if field.kind == "number":
        number = _bound(field, value)
        return lambda row: read(row) == number
    if field.name == "Partition":
        _check_partition(value)
    if field.kind == "list":
        return lambda row: value in read(row).split(",")
    if field.name == "Name":
        names = frozenset(_names(value, most))
        return lambda row: read(row) in names
    wanted = value.lower()
    if field.kind == "state":
        return _state_test(value)
    return lambda row: read(row).lower() == wanted


def _state_test(value: str) -> Test:
    """A name of 2001 or, where that does not know it, one of ours."""
    if value.upper() in Status.__members__:
        wanted = Status[value.upper()]
        return lambda row: status_of(row.node) is wanted
    own = {str(state).lower(): state for state in NodeState}.get(value.lower())
    if own is None:
        known = ", ".join((*Status, *(state for state in NodeState if state.upper() not in Status.__members__)))
        raise ApiError("invalid", f'unknown state "{value[:80]}"', hint=f"known: {known}")
    return lambda row: row.node.state is own


def _check_partition(value: str) -> None:
    if value and not (len(value) <= 2 and value.isascii() and value.isdigit() and int(value) <= MAX_PARTITION):
        hint = f"write Partition=2, or Partition= for those that are in none; numbers go from 0 to {MAX_PARTITION}"
        raise ApiError("invalid", f'no partition "{value[:40]}"', hint=hint)


def _names(value: str, most: int) -> list[str]:
    try:
        return expand(value, most)
    except BadHostlist as error:
        raise ApiError("invalid", f'cannot read "{value[:80]}" as names of nodes: {error}') from None


def _bound(field: Field, value: str) -> Any:  # noqa: ANN401 - what the field holds
    if field.kind != "number":
        return value
    try:
        return float(value)
    except ValueError:
        raise ApiError("invalid", f'{field.name} is a number, "{value[:40]}" is none') from None


def _orders(field: Field) -> Callable[[Any], Any]:
    if field.kind == "number":
        return lambda value: value
    return release_key if field.name == "OS" else natural_key


@lru_cache(maxsize=1 << 17)
def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Orders names as people do: n2 before n10."""
    return tuple(
        (0, int(piece), "") if piece.isdecimal() and len(piece) <= _LONGEST_NUMBER else (1, 0, piece)
        for piece in _PIECES.split(text.lower())
    )


def release_key(text: str) -> tuple[str, tuple[int, ...]]:
    """Orders systems by their release."""
    name, _, release = text.partition(".")
    return name.lower(), release_order(release)


def sort_rows(rows: list[Row], text: str) -> None:
    """By the fields named, apart by commas, `-` for descending; what is equal, and all without any, in the order of the file."""
    keys = [part.strip() for part in text.split(",") if part.strip()]
    rows.sort(key=_file_order)
    for key in reversed(keys):
        field = find_field(key.lstrip("+-"))
        order, read = _orders(field), field.read
        rows.sort(key=lambda row, order=order, read=read: order(read(row)), reverse=key.startswith("-"))  # type: ignore[misc]


def _file_order(row: Row) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    wanted = row.node.specification
    position = wanted.position if wanted is not None else 0
    return (position, ()) if position else (1 << 60, natural_key(row.node.id))


def passing(rows: Iterable[Row], tests: Sequence[Test]) -> list[Row]:
    return [row for row in rows if all(test(row) for test in tests)]
