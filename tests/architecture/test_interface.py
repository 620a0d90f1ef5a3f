"""What was published stays: fields of messages with their numbers and types, routes, parameters, properties."""

import copy
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pool

from lattice.wire.pb import admin_pb2, allocations_pb2, nodes_pb2
from tools import interface, openapi

FILES = (allocations_pb2, nodes_pb2, admin_pb2)


def test_every_message_has_the_numbers_that_are_kept() -> None:
    pool = descriptor_pool.Default()
    for name, entries in interface.published().messages.items():
        found = {field.name: field.number for field in pool.FindMessageTypeByName(f"lattice.v1.{name}").fields}
        kept = {label: entry["number"] for label, entry in entries.items() if not entry.get("dropped")}
        assert found == kept, name


def built(**fields: str) -> interface.Interface:
    made = interface.Interface()
    made.add(interface.Message("Thing", fields), "a record")
    return made


def kept(**fields: str) -> interface.Numbers:
    old = interface.numbered(built(**fields), interface.Numbers({}, {}))
    return interface.Numbers(old.messages, {})


def test_a_new_field_gets_a_new_number_and_the_others_keep_theirs() -> None:
    old = kept(a="optional string", b="optional int64")
    new = interface.numbered(built(c="optional bool", a="optional string", b="optional int64"), old)
    assert {label: entry["number"] for label, entry in new.messages["Thing"].items()} == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    "fields",
    [{"a": "optional string"}, {"a": "optional string", "b": "optional string"}, {}],
    ids=["gone", "changed", "all"],
)
def test_a_field_that_vanished_or_changed_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(interface.Breaking, match=r"Thing\.b was `optional int64`"):
        interface.numbered(built(**fields), kept(a="optional string", b="optional int64"))


def test_a_number_that_was_given_up_on_purpose_is_never_given_again() -> None:
    old = kept(a="optional string", b="optional int64")
    new = interface.numbered(built(a="optional string"), old, drop=["Thing.b"])
    later = interface.numbered(built(a="optional string", b="optional bool"), interface.Numbers(new.messages, {}))
    assert later.messages["Thing"]["b"] == {"number": 3, "type": "optional bool"}
    text = interface.render(built(a="optional string", b="optional bool"), later)
    assert not any("Thing" in each for each in text.values())  # it belongs to no file here
    assert "  reserved 2;" in interface.message_lines(
        built(b="optional bool").messages["Thing"], later.messages["Thing"]
    )


def test_a_method_that_vanished_is_refused() -> None:
    old = interface.Numbers({}, {"AllocationService.Dance": "(A) returns (B)"})
    with pytest.raises(interface.Breaking, match=r"AllocationService\.Dance"):
        interface.numbered(interface.build(), old)


def changed(where: list[str | int], value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The published document with one place changed; None takes it away."""
    new: dict[str, Any] = copy.deepcopy(json.loads(openapi.PAGE.read_text()))
    inner: Any = new
    for key in where[:-1]:
        inner = inner[key]
    if value is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    return new


_VIEW: list[str | int] = ["components", "schemas", "AllocationView", "properties"]
_GET: list[str | int] = ["paths", "/api/v1/allocations/{id}", "get"]


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        ([*_VIEW, "name"], None, "AllocationView.name is gone"),
        ([*_VIEW, "number"], {"type": "string"}, "AllocationView.number is another thing"),
        (_GET, None, "GET /api/v1/allocations/{id} is gone"),
        ([*_GET, "parameters", 1], None, "parameter details is gone"),
        ([*_GET, "parameters", 1, "required"], True, "parameter details is required now"),
        ([*_GET, "parameters", 1, "schema"], {"type": "integer"}, "parameter details is another thing"),
        ([*_GET, "responses", "200"], None, "no longer answers 200"),
        (["components", "schemas", "Submission", "required"], ["name"], "Submission.name is required now"),
        (["components", "schemas", "Submission"], None, "Submission is gone"),
    ],
)
def test_a_document_that_keeps_less_is_refused(where: list[str | int], value: object, complaint: str) -> None:
    old = json.loads(openapi.PAGE.read_text())
    assert any(complaint in problem for problem in openapi.broken(old, changed(where, value)))


def test_a_document_that_says_more_is_accepted() -> None:
    old = json.loads(openapi.PAGE.read_text())
    assert list(openapi.broken(old, old)) == []
    assert list(openapi.broken(old, changed([*_VIEW, "mood"], {"type": "string"}))) == []
    assert list(openapi.broken(changed([*_VIEW, "name"], None), old)) == []
