"""Records as protobuf messages: which fields a message has, derived from the record's annotations.

Every single field has presence, so that "not given" and "given as zero" stay two things, as in JSON. What JSON says in several
ways becomes several fields: a text beside a list is `NAME_text`, an object beside a number is `NAME_object`; numbers that may be
written as text are text. Names in `cleared` stand for null, or for an empty list or table.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_origin

import msgspec
from msgspec import Struct
from msgspec import inspect as i

CLEARED = "cleared"

Kind = Literal["string", "int64", "double", "bool", "bytes", "message"]
Label = Literal["optional", "repeated", "map"]
_SCALARS: tuple[tuple[type[i.Type], Kind], ...] = (
    (i.StrType, "string"),
    (i.BoolType, "bool"),
    (i.IntType, "int64"),
    (i.FloatType, "double"),
    (i.BytesType, "bytes"),
)
_LISTS = (i.ListType, i.VarTupleType, i.SetType, i.FrozenSetType)


class NoShape(Exception):
    """A record has a field that protobuf cannot say."""


@dataclass(frozen=True, slots=True)
class FieldShape:
    """`attribute` is the record's name for it. Of a message, `record` is what it stands for."""

    name: str
    attribute: str
    kind: Kind
    label: Label
    record: type[Struct] | None = None
    is_clearable: bool = False

    @property
    def type_name(self) -> str:
        return message_name(self.record) if self.record is not None else self.kind

    @property
    def declaration(self) -> str:
        """As it stands in a .proto file, without the number."""
        match self.label:
            case "map":
                return f"map<string, {self.type_name}> {self.name}"
            case "optional" if self.kind == "message":
                return f"{self.type_name} {self.name}"
            case _:
                return f"{self.label} {self.type_name} {self.name}"


@dataclass(frozen=True, slots=True)
class Shape:
    record: type[Struct]
    fields: tuple[FieldShape, ...]

    @property
    def is_clearable(self) -> bool:
        return any(field.is_clearable for field in self.fields)

    @property
    def declarations(self) -> tuple[str, ...]:
        own = tuple(field.declaration for field in self.fields)
        return (*own, f"repeated string {CLEARED}") if self.is_clearable else own


def message_name(record: type[Struct]) -> str:
    return record.__name__


@cache
def shape_of(record: type[Struct]) -> Shape:
    """The message for a record, which may be a generic one with its argument. Raises NoShape."""
    described = i.type_info(record)
    if not isinstance(described, i.StructType):
        raise NoShape(f"{record} is not a record")
    fields = [shape for field in described.fields for shape in _field_shapes(record, field)]
    names = [field.name for field in fields]
    if len(set(names)) != len(names) or CLEARED in names:
        raise NoShape(f"{record.__name__}: two fields of its message would have the same name")
    return Shape(record=record, fields=tuple(fields))


def _field_shapes(record: type[Struct], field: i.Field) -> list[FieldShape]:
    may_be_unset = (
        not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    )
    described = field.type
    types = list(described.types) if isinstance(described, i.UnionType) else [described]
    may_be_null = any(isinstance(each, i.NoneType) for each in types)
    members = [each for each in types if not isinstance(each, i.NoneType)]
    where = f"{record.__name__}.{field.name}"
    if not members:
        raise NoShape(f"{where} says nothing")
    return [
        _one(field.encode_name, suffix, member, where, may_be_unset=may_be_unset, may_be_null=may_be_null)
        for suffix, member in _variants(members, where)
    ]


def _variants(members: list[i.Type], where: str) -> list[tuple[str, i.Type]]:
    """The members of a union that need a field each, with the ends of their names."""
    scalars = [each for each in members if _scalar_kind(each) is not None]
    others = [each for each in members if _scalar_kind(each) is None]
    variants: list[tuple[str, i.Type]] = []
    for each in others:
        is_record = isinstance(each, i.StructType)
        variants.append(("_object" if is_record and scalars else "", each))
    if len([suffix for suffix, _ in variants if not suffix]) > 1:
        raise NoShape(f"{where} may be too many things")
    if scalars:
        takes_plain_name = all(suffix for suffix, _ in variants)
        variants.insert(0, ("" if takes_plain_name else "_text", _merged(scalars)))
    return variants


def _merged(scalars: list[i.Type]) -> i.Type:
    """One scalar that can say what any of these can: text where one of them is text."""
    kinds = {_scalar_kind(each) for each in scalars}
    if len(kinds) == 1:
        return scalars[0]
    return i.FloatType() if kinds == {"int64", "double"} else i.StrType()


def _scalar_kind(described: i.Type) -> Kind | None:
    if isinstance(described, i.EnumType | i.LiteralType):
        return "string"
    return next((kind for known, kind in _SCALARS if isinstance(described, known)), None)


def _one(name: str, suffix: str, described: i.Type, where: str, *, may_be_unset: bool, may_be_null: bool) -> FieldShape:
    label: Label = "optional"
    item = described
    values_may_be_null = False
    if isinstance(described, _LISTS):
        label, item = "repeated", described.item_type
    elif isinstance(described, i.DictType):
        label, item = "map", described.value_type
        if isinstance(item, i.UnionType):
            values_may_be_null = True
            item = _merged([each for each in item.types if not isinstance(each, i.NoneType)])
    if isinstance(item, i.UnionType):
        item = _merged([each for each in item.types if _scalar_kind(each)])
    kind = _scalar_kind(item)
    record = None
    if kind is None:
        if not isinstance(item, i.StructType):
            raise NoShape(f"{where} cannot be said in protobuf")
        kind, record = "message", item.cls
        if get_origin(record) is not None:
            raise NoShape(f"{where} is a generic record inside another one")
    many = label != "optional"
    is_clearable = values_may_be_null or (may_be_unset and (may_be_null or many))
    return FieldShape(name + suffix, name, kind, label, record, is_clearable)


def records_of(shape: Shape) -> tuple[type[Struct], ...]:
    """The records that its fields stand for, in order, each once."""
    return tuple(dict.fromkeys(field.record for field in shape.fields if field.record is not None))
