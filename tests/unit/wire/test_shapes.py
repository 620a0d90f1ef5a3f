"""Which message a record becomes."""

from enum import StrEnum
from typing import Generic, Literal, TypeVar

import pytest
from msgspec import UNSET, Struct, UnsetType

from lattice.wire.shapes import NoShape, message_name, records_of, shape_of

T = TypeVar("T")


class Colour(StrEnum):
    RED = "red"


class Inner(Struct, frozen=True):
    x: int


class Everything(Struct, frozen=True, kw_only=True):
    text: str
    number: int = 3
    ratio: float = 0.5
    flag: bool = False
    raw: bytes = b""
    colour: Colour = Colour.RED
    word: Literal["a", "b"] = "a"
    maybe: str | None = None
    unset: int | UnsetType = UNSET
    limit: int | UnsetType | None = UNSET
    names: list[str] = []
    pair: tuple[int, ...] = ()
    given: list[str] | UnsetType = UNSET
    table: dict[str, int] = {}
    weights: dict[str, float | None] = {}
    inner: Inner | None = None
    many: list[Inner] = []
    by_name: dict[str, Inner] = {}
    either: str | int | None = None
    amount: int | float = 0
    range: int | Inner = 1
    listed: list[str] | str = []


class Page(Struct, Generic[T], frozen=True):
    items: list[T]


def test_every_kind_of_field_has_its_declaration() -> None:
    assert shape_of(Everything).declarations == (
        "optional string text",
        "optional int64 number",
        "optional double ratio",
        "optional bool flag",
        "optional bytes raw",
        "optional string colour",
        "optional string word",
        "optional string maybe",
        "optional int64 unset",
        "optional int64 limit",
        "repeated string names",
        "repeated int64 pair",
        "repeated string given",
        "map<string, int64> table",
        "map<string, double> weights",
        "Inner inner",
        "repeated Inner many",
        "map<string, Inner> by_name",
        "optional string either",
        "optional double amount",
        "optional int64 range",
        "Inner range_object",
        "optional string listed_text",
        "repeated string listed",
        "repeated string cleared",
    )


def test_what_can_be_null_or_empty_on_purpose_can_be_cleared() -> None:
    clearable = [field.name for field in shape_of(Everything).fields if field.is_clearable]
    assert clearable == ["limit", "given", "weights"]
    assert not shape_of(Inner).is_clearable


def test_a_generic_record_has_the_shape_of_its_argument() -> None:
    shape = shape_of(Page[Inner])
    assert [field.declaration for field in shape.fields] == ["repeated Inner items"]
    assert records_of(shape) == (Inner,)
    assert message_name(Inner) == "Inner"


class Nested(Struct, frozen=True):
    rows: list[list[str]]


class Anything(Struct, frozen=True):
    value: object


class Twice(Struct, frozen=True):
    a: list[str] | str
    a_text: str


class Deep(Struct, frozen=True):
    page: Page[Inner]


class Many(Struct, frozen=True):
    value: list[str] | dict[str, str]


class Nothing(Struct, frozen=True):
    value: None


@pytest.mark.parametrize("record", [Nested, Anything, Twice, Deep, Many, Nothing, Literal["x"]])
def test_what_protobuf_cannot_say_is_refused(record: type[Struct]) -> None:
    with pytest.raises(NoShape):
        shape_of(record)
