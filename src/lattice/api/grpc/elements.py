"""How many values a protobuf message may hold, counted before it is parsed: an empty message takes two bytes on the wire and hundreds parsed.

The counterpart of `rest/elements.py`. Most messages are let through by a look at their bytes alone: every value has a tag, so fewer bytes
that could begin a tag than values allowed means fewer values. The others are walked by their description, which costs time by the number
of their values and not by their size, and ends at the limit.
"""

from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

MAX_MESSAGES = 20_000
MAX_VALUES = 200_000
# What a smaller one holds needs no count.
UNSEEN_BYTES = 16 << 10

_NUMBER, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES = 10


class Malformed(ValueError):
    """The bytes are no message, or none that any of our clients writes."""


class TooMany(ValueError):
    """`what` there is too much of, and how many of them there may be."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"the message has more than {most:,} {what}")
        self.what, self.most = what, most


class Elements:
    """The check of one kind of message."""

    def __init__(self, kind: type[Message], *, messages: int = MAX_MESSAGES, values: int = MAX_VALUES) -> None:
        self._plan = _plan_of(kind.DESCRIPTOR)
        self._beginnings = bytes(sorted(_beginnings(self._plan, set())))
        self._messages = messages
        self._values = values

    def is_suspect(self, data: bytes) -> bool:
        """Whether `check` is worth its time; False says that it would find nothing."""
        return len(data) > UNSEEN_BYTES and len(data) - len(data.translate(None, self._beginnings)) > self._messages

    def check(self, data: bytes) -> None:
        """Raises Malformed, TooMany."""
        _Walk(data, self._messages, self._values).over(self._plan, 0, len(data))


class _Plan:
    """The sized fields of one kind of message by number; those that are messages with their own plan."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[int, _Plan | None] = {}


@cache
def _plan_of(described: Descriptor) -> _Plan:
    plans: dict[str, _Plan] = {}

    def plan(message: Descriptor) -> _Plan:
        known = plans.get(message.full_name)
        if known is None:
            known = plans[message.full_name] = _Plan()
            known.fields = {each.number: inner(each) for each in message.fields if _is_sized(each)}
        return known

    def inner(field: FieldDescriptor) -> _Plan | None:
        message = field.message_type
        if message is None:
            return None
        # An entry of a table of plain values costs no more than a value.
        is_table = message.GetOptions().map_entry
        return None if is_table and message.fields_by_name["value"].message_type is None else plan(message)

    return plan(described)


def _is_sized(field: FieldDescriptor) -> bool:
    return field.is_repeated or field.type in (
        FieldDescriptor.TYPE_MESSAGE,
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
    )


def _beginnings(plan: _Plan, seen: set[_Plan]) -> set[int]:
    """First bytes of the tags of all sized fields, in their shortest form and in longer ones."""
    seen.add(plan)
    found: set[int] = set()
    for number, inner in plan.fields.items():
        low = (number << 3 | _SIZED) & 0x7F
        found |= {low, low | 0x80}
        if inner is not None and inner not in seen:
            found |= _beginnings(inner, seen)
    return found


class _Walk:
    """One message, from tag to tag."""

    def __init__(self, data: bytes, messages: int, values: int) -> None:
        self._data = data
        self._most = (messages, values)
        self._left = [messages, values]

    def over(self, plan: _Plan, at: int, end: int) -> None:
        fields = plan.fields
        while at < end:
            tag, at = self._number(at, end)
            kind = tag & 7
            if kind == _SIZED:
                size, at = self._number(at, end)
                if size > end - at:
                    raise Malformed
                self._count(fields.get((tag & 0xFFFFFFFF) >> 3), at, at + size)
                at += size
                continue
            self._count(None, at, at)
            if kind == _NUMBER:
                _, at = self._number(at, end)
            elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
                at += 8 if kind == _EIGHT_BYTES else 4
            else:
                raise Malformed

    def _count(self, plan: _Plan | None, at: int, end: int) -> None:
        which = int(plan is None)
        self._left[which] -= 1
        if self._left[which] < 0:
            raise TooMany(("messages", "values")[which], self._most[which])
        if plan is not None:
            self.over(plan, at, end)

    def _number(self, at: int, end: int) -> tuple[int, int]:
        """The number there, and where it ends."""
        value = shift = 0
        for place in range(at, min(at + _VARINT_BYTES, end)):
            byte = self._data[place]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place + 1
            shift += 7
        raise Malformed
