"""How long a text and how many entries a request may have: declared beside the field, or the default for every other one.

A declared bound is a `Meta(max_length=...)` in the annotation; decoding enforces it, and the published schema shows it. Texts, lists
and tables that declare none are held to the defaults here, by a check that is made once for each kind of request from its annotations:
no field can be without a bound. Nothing reads a text before this has passed.
"""

from collections.abc import Callable, Sized
from functools import cache
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct
from msgspec import inspect as i

from lattice.wire.text.problems import BadField

MAX_TEXT = 4096
MAX_ITEMS = 10_000
MAX_NODE_SET = 256 << 10
MAX_TASK_LIST = 128 << 10
MAX_WHOLE_TEXT = 4 << 20
# Longer than the kernel lets a single argument be; the check of arguments counts bytes and says so.
MAX_ARGUMENT = 131_072

Short = Annotated[str, Meta(max_length=64)]
"""A duration, a size, a moment, a state, a number that is written out."""
Condition = Annotated[str, Meta(max_length=1024)]
"""A filter, a list of fields, an expression."""
Conditions = Annotated[list[Condition], Meta(max_length=64)]
"""Filters that must all hold: each is tried on every record."""
TagFilters = Annotated[list[str], Meta(max_length=64)]
"""`KEY=VALUE`, as many as there can be tags."""
NodeSet = Annotated[str, Meta(max_length=MAX_NODE_SET)]
"""Names of nodes, folded or not."""
TaskList = Annotated[str, Meta(max_length=MAX_TASK_LIST)]
"""Indices of tasks, folded or not."""
TaskSet = Annotated[str, Meta(max_length=16 << 10)]
"""An allocation, or tasks of a group: `a17_[3-7,9]`."""
Argument = Annotated[str, Meta(max_length=MAX_ARGUMENT)]
"""One word of a command line, or the value of one variable."""
WholeText = Annotated[str, Meta(max_length=MAX_WHOLE_TEXT)]
"""A script or a file."""

Check = Callable[[Any, str], None]


def check_bounds(record: Struct, size: int) -> None:
    """Raises BadField for a text, list or table that is longer than it may be.

    `size` is that of the request in bytes: one that is smaller than every default bound holds nothing that is longer.
    """
    if size > MAX_TEXT:
        _record_check(type(record))(record, "")


@cache
def _record_check(record: type[Struct]) -> Check:
    described = i.type_info(record)
    if not isinstance(described, i.StructType):
        raise TypeError(f"{record} is not a record")
    checks = [(field.name, field.encode_name, _check_of(field.type)) for field in described.fields]
    wanted = [(name, shown, check) for name, shown, check in checks if check is not None]

    def check_record(value: Any, where: str) -> None:  # noqa: ANN401 - whatever the record is
        prefix = f"{where}." if where else ""
        for name, shown, check in wanted:
            given = getattr(value, name)
            if given is not UNSET:
                check(given, prefix + shown)

    return check_record


def _check_of(described: i.Type) -> Check | None:
    """What checks a value of this type; None for numbers, words of a list, and texts that decoding has checked."""
    match described:
        case i.StrType(max_length=None):
            return _check_text
        case i.BytesType(max_length=None):
            return _check_bytes
        case i.ListType() | i.VarTupleType() | i.SetType() | i.FrozenSetType():
            return _collection_check(_check_of(described.item_type), described.max_length)
        case i.DictType():
            return _table_check(_check_of(described.key_type), _check_of(described.value_type), described.max_length)
        case i.UnionType():
            return _union_check(described)
        case i.StructType():
            return _later(described.cls)
        case _:
            return None


def _later(record: type[Struct]) -> Check:
    """A record may hold records of its own kind."""
    return lambda value, where: _record_check(record)(value, where)


def _check_text(value: Any, where: str) -> None:  # noqa: ANN401 - a text
    if len(value) > MAX_TEXT:
        raise too_long(where, len(value), MAX_TEXT)


def _check_bytes(value: Any, where: str) -> None:  # noqa: ANN401 - bytes
    if len(value) > MAX_WHOLE_TEXT:
        raise BadField(where, "is too long", current=f"{len(value):,} bytes", limit=f"{MAX_WHOLE_TEXT:,} bytes")


def _check_count(value: Sized, where: str, declared: int | None) -> None:
    most = MAX_ITEMS if declared is None else declared
    if len(value) > most:
        raise BadField(where, "has too many entries", current=f"{len(value):,}", limit=f"{most:,}")


def _collection_check(item: Check | None, declared: int | None) -> Check:
    def check(value: Any, where: str) -> None:  # noqa: ANN401 - a list of whatever
        _check_count(value, where, declared)
        if item is not None:
            for place, each in enumerate(value):
                item(each, f"{where}[{place}]")

    return check


def _table_check(key: Check | None, entry: Check | None, declared: int | None) -> Check:
    def check(value: Any, where: str) -> None:  # noqa: ANN401 - a table of whatever
        _check_count(value, where, declared)
        for name, each in value.items():
            if key is not None:
                key(name, where)
            if entry is not None:
                entry(each, f"{where}.{name[:60]}")

    return check


def _union_check(described: i.UnionType) -> Check | None:
    """By the kind of the value: it distinguishes the members of a union."""
    checks = [(_kinds(member), _check_of(member)) for member in described.types]
    wanted = [(kinds, check) for kinds, check in checks if check is not None]
    if not wanted:
        return None

    def check_member(value: Any, where: str) -> None:  # noqa: ANN401 - any member
        for kinds, check in wanted:
            if isinstance(value, kinds):
                check(value, where)
                return

    return check_member


def _kinds(described: i.Type) -> tuple[type, ...]:
    match described:
        case i.StrType():
            return (str,)
        case i.BytesType():
            return (bytes,)
        case i.ListType() | i.VarTupleType() | i.SetType() | i.FrozenSetType():
            return (list, tuple, set, frozenset)
        case i.DictType():
            return (dict,)
        case i.StructType():
            return (described.cls,)
        case _:
            return ()


def too_long(where: str, length: int, most: int) -> BadField:
    return BadField(where, "is too long", current=f"{length:,} characters", limit=f"{most:,} characters")
