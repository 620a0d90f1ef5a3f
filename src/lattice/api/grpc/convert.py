"""Between protobuf messages and the operations' records, by plans that are made once for each message.

A request becomes plain values and goes through the same decoder as JSON, so that both wires refuse the same things in the same
words. An answer is written field by field.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, get_origin

import msgspec
from google.protobuf.message import DecodeError, Message
from msgspec import UNSET, Struct

from lattice.api.errors import ApiError
from lattice.api.grpc.contract import PACKAGE, choice_name, message_class
from lattice.api.interface import Response
from lattice.api.rest.explain import explain_field
from lattice.wire.bounds import MAX_ITEMS, check_bounds
from lattice.wire.shapes import CLEARED, FieldShape, Shape, message_name, shape_of
from lattice.wire.text.problems import BadField

Read = Callable[[Any], dict[str, Any]]
Write = Callable[[Any], Message]


def request_reader(shape: Shape, name: str) -> Callable[[bytes], Struct]:
    """From the bytes of a request to its record. What it returns raises ApiError."""
    parse = message_class(name).FromString
    record, read = shape.record, _reader(shape, message_class(name))

    def decode(data: bytes) -> Struct:
        try:
            given = read(parse(data))
        except (DecodeError, UnicodeDecodeError):
            raise ApiError("invalid", f"the request is not a {PACKAGE}.{name}") from None
        try:
            converted = msgspec.convert(given, record)
        except msgspec.ValidationError as error:
            raise explain_field(error, record) from None
        check_bounds(converted, len(data))
        return converted

    return decode


def _reader(shape: Shape, kind: type[Message]) -> Read:
    numbers = {field.name: field.number for field in kind.DESCRIPTOR.fields}
    plan = {numbers[field.name]: (field, _field_reader(field)) for field in shape.fields if field.name in numbers}
    clears = numbers.get(CLEARED)
    empty = {field.attribute: field.label for field in shape.fields}
    required = {field.encode_name for field in msgspec.structs.fields(shape.record) if field.required}
    # A message cannot tell a list that is empty from one that is missing.
    lists = [name for name, label in empty.items() if label == "repeated" and name in required]

    def read(message: Message) -> dict[str, Any]:
        given: dict[str, Any] = {}
        cleared: tuple[str, ...] = ()
        for descriptor, value in message.ListFields():
            number = descriptor.number
            if number == clears:
                cleared = tuple(value)
                continue
            field, convert = plan[number]
            if field.attribute in given:
                raise ApiError("invalid", f"{field.attribute}: is given twice", hint=f"leave {field.name} out")
            if field.label != "optional" and len(value) > MAX_ITEMS:
                raise BadField(field.name, "has too many entries", current=f"{len(value):,}", limit=f"{MAX_ITEMS:,}")
            given[field.attribute] = value if convert is None else convert(value)
        for name in cleared:
            _clear(given, name, empty)
        for name in lists:
            given.setdefault(name, [])
        return given

    return read


def _clear(given: dict[str, Any], name: str, labels: Mapping[str, str]) -> None:
    """Null for what is named; `weights.priority` is one entry of a table, a list becomes empty."""
    attribute, dot, entry = name.partition(".")
    if attribute not in labels or (dot and labels[attribute] != "map"):
        raise ApiError("invalid", f'{CLEARED}: there is no field "{name[:60]}"', hint=f"known: {', '.join(labels)}")
    if dot:
        given.setdefault(attribute, {})[entry] = None
    elif attribute in given:
        raise ApiError("invalid", f"{attribute}: is given, and cleared as well")
    else:
        given[attribute] = [] if labels[attribute] == "repeated" else None


def _field_reader(field: FieldShape) -> Callable[[Any], Any] | None:
    if field.record is None:
        return None if field.label == "optional" else (dict if field.label == "map" else list)
    inner = _record_reader(field.record)
    if field.label == "optional":
        return inner
    if field.label == "map":
        return lambda values: {key: inner(value) for key, value in values.items()}
    return lambda values: [inner(value) for value in values]


@cache
def _record_reader(record: type[Struct]) -> Read:
    return _reader(shape_of(record), message_class(message_name(record)))


def answer_writer(response: Response) -> Callable[[object], bytes]:
    """From an operation's answer to the bytes of its message."""
    kind = message_class(response.message)
    if response.kind == "record":
        write = _writer(shape_of(response.records[0]), kind)
        return lambda answer: write(answer).SerializeToString()
    fields = {record: (choice_name(record), record_writer(record)) for record in response.records}

    def choose(answer: object) -> bytes:
        name, inner = fields[type(answer)]  # type: ignore[index]
        return kind(**{name: inner(answer)}).SerializeToString()

    return choose


def event_writer(response: Response) -> Callable[[object, str, str], bytes]:
    """From an event of a stream, with its id and name, to the bytes of its message."""
    kind = message_class(response.message)
    fields = {record: (choice_name(record), record_writer(record)) for record in response.records}

    def encode(data: object, event_id: str, event: str) -> bytes:
        name, inner = fields[type(data)]  # type: ignore[index]
        return kind(event_id=event_id or None, event=event or None, **{name: inner(data)}).SerializeToString()

    return encode


@cache
def record_writer(record: type[Struct]) -> Write:
    return _writer(shape_of(record), message_class(message_name(record)))


def _writer(shape: Shape, kind: type[Message]) -> Write:
    known = {field.name for field in kind.DESCRIPTOR.fields}
    fields = [field for field in shape.fields if field.name in known]
    several = {field.attribute for field in fields if field.name != field.attribute}
    unset = {field.name for field in msgspec.structs.fields(shape.record) if field.default is UNSET}
    defaults = _omitted_defaults(shape.record)
    plain = [
        field.name
        for field in fields
        if field.record is None and field.attribute not in several | unset and not field.is_clearable
    ]
    special = [(field.name, field.attribute, _field_writer(field)) for field in fields if field.name not in plain]
    clearable = tuple({field.attribute: None for field in fields if field.is_clearable})
    values_of = _values_of(plain)

    def write(record: Struct) -> Message:
        values = {name: value for name, value in zip(plain, values_of(record), strict=True) if value is not None}
        for name, default in defaults:
            if values.get(name) == default:
                del values[name]
        for name, attribute, convert in special:
            value = getattr(record, attribute)
            if value is not UNSET and value is not None:
                values[name] = convert(value)
        if clearable:
            values[CLEARED] = _cleared(record, clearable)
        return kind(**values)

    return write


def _omitted_defaults(record: type[Struct]) -> list[tuple[str, Any]]:
    """Plain fields that are left out while they have their defaults, as JSON leaves them out."""
    kind = get_origin(record) or record
    if not kind.__struct_config__.omit_defaults:
        return []
    fields = msgspec.structs.fields(record)
    return [
        (field.encode_name, field.default) for field in fields if isinstance(field.default, str | int | float | bool)
    ]


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _cleared(record: Struct, clearable: tuple[str, ...]) -> list[str]:
    names = []
    for name in clearable:
        value = getattr(record, name)
        if value is None or (isinstance(value, list | tuple | dict) and not value):
            names.append(name)
        elif isinstance(value, dict):
            names += [f"{name}.{key}" for key, entry in value.items() if entry is None]
    return names


def _field_writer(field: FieldShape) -> Callable[[Any], Any]:
    """The value as the message takes it; None when another field of the same attribute says it."""
    if field.record is None:
        return _SCALARS[field.label]
    record = field.record

    def one(value: object) -> Message | None:
        return record_writer(record)(value) if isinstance(value, record) else None

    if field.label == "optional":
        return one
    if field.label == "map":
        return lambda values: {key: one(value) for key, value in values.items()}
    return lambda values: [one(value) for value in values]


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "optional": lambda value: value if not isinstance(value, list | tuple | dict | Struct) else None,
    "repeated": lambda value: value if isinstance(value, list | tuple) else None,
    "map": lambda value: {key: entry for key, entry in value.items() if entry is not None},
}
