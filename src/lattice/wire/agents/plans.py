"""Between the records of the agents' port and the messages of `agent.proto`, by plans that are made once for each record.

A field of a record travels in the message's field of the same name. What one side has and the other has not must be named with the
reason when the plan is made; otherwise it is not made, and nothing that imports it starts. So a field cannot be forgotten on its way.
How the fields travel is worked out by the first message: a process that starts need not wait for all plans.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from msgspec import Struct
from msgspec import inspect as i

R = TypeVar("R", bound=Struct)
M = TypeVar("M", bound=Message)
Convert = Callable[[Any], Any]

NOTHING: Mapping[str, str] = {}
NO_MEMBERS: Mapping[str, Enum] = {}
_LISTS = (i.VarTupleType, i.ListType)


class PlanError(Exception):
    """A record and its message do not fit together; the text names the field."""


def fields_of(record: type[Struct]) -> tuple[i.Field, ...]:
    described = i.type_info(record)
    return described.fields if isinstance(described, i.StructType) else ()


class Plan(Generic[R, M]):
    """How one record travels.

    `apart` names the fields, of either side, that the other does not have, with the reason. `renamed` leads from the record's name of a
    field to the message's, where the record is not ours to name. `inner` are the plans of records inside it; `unknown` is what an enum of
    a later release is read as, where the record's field cannot be None.
    """

    def __init__(
        self,
        record: type[R],
        message: type[M],
        *inner: "Plan[Any, Any]",
        apart: Mapping[str, str] = NOTHING,
        renamed: Mapping[str, str] = NOTHING,
        unknown: Mapping[str, Enum] = NO_MEMBERS,
    ) -> None:
        self.record = record
        self.message = message
        self.apart = apart
        self._inner = inner
        self._unknown = unknown
        self.names = {name: renamed.get(name, name) for name in record.__struct_fields__ if name not in apart}
        self._check({field.name for field in message.DESCRIPTOR.fields})

    @cached_property
    def write(self) -> Callable[[R], M]:
        return self._writer()

    @cached_property
    def read(self) -> Callable[[M], R]:
        return self.reader()

    @cached_property
    def _fields(self) -> "list[_Field]":
        wire = {field.name: cast("FieldDescriptor", field) for field in self.message.DESCRIPTOR.fields}
        plans = {plan.record: plan for plan in self._inner}
        return [
            _Field(self.record, field, wire[self.names[field.name]], plans, self._unknown.get(field.name))
            for field in fields_of(self.record)
            if field.name in self.names
        ]

    def _check(self, wire_names: set[str]) -> None:
        own = set(self.record.__struct_fields__)
        pair = f"{self.record.__name__} and {self.message.DESCRIPTOR.name}"
        for name in sorted(self.apart.keys() - own - wire_names):
            raise PlanError(f"{pair}: neither has a field {name}")
        for name in sorted(set(self.names.values()) - wire_names):
            raise PlanError(
                f"{pair}: the message has no field {name}; add it, or say in `apart` why it does not travel"
            )
        for name in sorted(wire_names - set(self.names.values()) - self.apart.keys()):
            raise PlanError(f"{pair}: the record has no field {name}; add it, or say in `apart` who reads it")

    def _writer(self) -> Callable[[R], M]:
        known: dict[str, object] = {"_message": self.message}
        parts = [f"{field.wire_name}={field.written(known)}" for field in self._fields]
        return _compiled(f"lambda _: _message({', '.join(parts)})", known)

    def reader(
        self, *, texts: Convert | None = None, seconds: Convert | None = None, **fields: Convert
    ) -> Callable[[M], R]:
        """A way to read messages of somebody who is not trusted.

        `texts` and `seconds` make every text and every floating-point number of the message sensible. What is given for a field by name
        takes its value from the message, one by one where there are several, instead of what the plan would do.
        """
        known: dict[str, object] = {"_record": self.record}
        parts = [
            f"{field.name}={field.read(known, fields.get(field.name) or field.cleaned(texts, seconds))}"
            for field in self._fields
        ]
        return _compiled(f"lambda _: _record({', '.join(parts)})", known)


def _compiled(source: str, known: dict[str, object]) -> Callable[[Any], Any]:
    """As dataclasses make their methods: what is done a hundred thousand times a second must not look fields up by name.

    The source consists of names of fields that were written down in our own records, and of nothing else.
    """
    made: Callable[[Any], Any] = eval(source, known)  # noqa: S307 - see above
    return made


class _Field:
    """One field on its way, as parts of the sources above: `_` is what is converted."""

    def __init__(
        self,
        record: type[Struct],
        field: i.Field,
        wire: FieldDescriptor,
        plans: Mapping[type[Struct], Plan[Any, Any]],
        unknown: Enum | None,
    ) -> None:
        where = f"{record.__name__}.{field.name}"
        members = list(field.type.types) if isinstance(field.type, i.UnionType) else [field.type]
        (described,) = [each for each in members if not isinstance(each, i.NoneType)]
        self.name = field.name
        self.wire_name: str = wire.name
        self._kind = wire.type
        self._may_be_none = len(members) > 1
        self._is_map = isinstance(described, i.DictType)
        self._is_many = isinstance(described, _LISTS)
        # A field with presence that is missing gets the record's default; any other missing field is zero.
        self._may_be_absent = wire.has_presence and not field.required
        self._default = field.default
        item = described.item_type if isinstance(described, _LISTS) else described
        self._write: Convert | None = None
        self._read: Convert | None = None
        if isinstance(item, i.StructType):
            if item.cls not in plans:
                raise PlanError(f"{where}: there is no plan for {item.cls.__name__}")
            self._write, self._read = plans[item.cls].write, plans[item.cls].read
        elif isinstance(item, i.EnumType):
            if unknown is None and not self._may_be_none:
                raise PlanError(f"{where}: say in `unknown` what a member of a later release is read as")
            numbers = enum_numbers(item.cls, wire.enum_type)
            found = {number: member for member, number in numbers.items()}
            self._write, self._read = numbers.__getitem__, lambda number: found.get(number, unknown)

    def written(self, known: dict[str, object]) -> str:
        value = f"_.{self.name}"
        if self._write is None:
            return value
        convert = f"write_{self.name}"
        known[convert] = self._write
        if self._is_many:
            return f"[{convert}(each) for each in {value}]"
        return f"(None if {value} is None else {convert}({value}))" if self._may_be_none else f"{convert}({value})"

    def cleaned(self, texts: Convert | None, seconds: Convert | None) -> Convert | None:
        """What makes the value sensible, where that follows from its type."""
        if self._read is not None or self._is_map:
            return None
        if self._kind == FieldDescriptor.TYPE_STRING:
            return texts
        return seconds if self._kind in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT) else None

    def read(self, known: dict[str, object], convert: Convert | None) -> str:
        value, name = f"_.{self.wire_name}", f"read_{self.name}"
        convert = convert or self._read
        known[name] = convert
        if self._is_map:
            return f"dict({value})"
        if self._is_many:
            return f"tuple({value})" if convert is None else f"tuple([{name}(each) for each in {value}])"
        text = value if convert is None else f"{name}({value})"
        if not self._may_be_absent:
            return text
        known[f"default_{self.name}"] = self._default
        return f"({text} if _.HasField({self.wire_name!r}) else default_{self.name})"


def enum_numbers(kind: type[Enum], described: EnumDescriptor | None) -> dict[Enum, int]:
    """The number of each member: RUNNING of Phase is PHASE_RUNNING. Raises PlanError unless both have the same members."""
    if described is None:
        raise PlanError(f"{kind.__name__}: the message's field is no enum")
    prefix = described.values[0].name.removesuffix("UNSPECIFIED")
    numbers = {value.name.removeprefix(prefix): value.number for value in described.values if value.number}
    if numbers.keys() != {member.name for member in kind}:
        odd = ", ".join(sorted(numbers.keys() ^ {member.name for member in kind}))
        raise PlanError(f"{kind.__name__} and {described.name}: only one of them has {odd}")
    return {member: numbers[member.name] for member in kind}
