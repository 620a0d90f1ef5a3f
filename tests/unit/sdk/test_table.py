"""The client library speaks every operation of the table, over its own route, and its models know every field.

A new operation or field fails here until the library has it.
"""

import inspect
import re
from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import inspect as i

import lattice_sdk.models.records as m
from lattice.api.interface import response_of
from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS
from lattice.wire.work import resources, submissions
from lattice_sdk import Client, LatticeClient, Submission
from lattice_sdk.calls.every import Calls
from lattice_sdk.operation import operation
from lattice_sdk.session import Request

ROUTES = {row.name: row for row in OPERATIONS}
# Streams and output are methods of the clients themselves.
STREAMS = {
    "watch": "watch",
    "logs": "iter_logs",
    "stream_logs": "stream_logs",
    "follow_step": "follow_step",
    "stream_metrics": "stream_metrics",
    "connect_port": "connect_port",
    "export_audit": "export_audit",
}
PUBLIC = {"healthz": ("GET", "/healthz")}


def methods() -> dict[str, "operation[Any, Any]"]:
    found = {name: inspect.getattr_static(Calls, name) for name in dir(Calls)}
    return {name: each for name, each in found.items() if isinstance(each, operation)}


def test_every_operation_has_a_method() -> None:
    covered = {each.covers for each in methods().values()} | STREAMS.keys()
    assert sorted(ROUTES.keys() - covered) == []
    assert sorted(covered - ROUTES.keys() - PUBLIC.keys()) == []
    for name in STREAMS.values():
        assert hasattr(Client, name)
        assert hasattr(LatticeClient, name)


def made_up(annotation: Any) -> Any:  # noqa: ANN401 - a value of whatever type
    """Something of this type."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    for member in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        kind = get_origin(member) or member
        if kind is str:
            return "word"
        if kind is int:
            return 3
        if kind is float:
            return 1.5
        if kind is bytes:
            return b"x"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return Submission(entrypoint=["true"]) if kind is Submission else kind()
        if (isinstance(kind, type) and issubclass(kind, dict)) or "Mapping" in str(kind):
            return {"name": "word", "allocations": [{"name": "one", "entrypoint": "true"}]}
        if "Iterable" in str(kind):
            return ["word"]
        if "Sequence" in str(kind) or kind in (list, tuple):
            return []
    raise AssertionError(f"nothing is known of type {annotation}")


def first_request(name: str) -> Request:
    """What the method asks first, with made-up arguments for what it must be given."""
    function: Callable[..., Any] = inspect.unwrap(getattr(Client, name))
    hints = get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    needed = [each for each in parameters if each.default is inspect.Parameter.empty]
    given = {each.name: {"allocations": []} if each.name == "dag" else made_up(hints[each.name]) for each in needed}
    request: Request = next(function(None, **given))
    return request


def pattern(row: Operation) -> str:
    return "/api/v1" + re.sub(r"\{\w+\}", "[^/]+", row.path)


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_method_asks_over_the_route_of_its_operation(name: str) -> None:
    covers = methods()[name].covers
    request = first_request(name)
    if covers in PUBLIC:
        assert (request.method, request.path) == PUBLIC[covers]
        return
    row = ROUTES[covers]
    assert request.method == row.method
    assert re.fullmatch(pattern(row), request.path), request.path
    if row.method != "GET":
        assert "X-Request-Id" in dict(request.headers)


def records_in(described: i.Type) -> list[i.StructType]:
    """The records that a value of this type is made of, without those inside of them."""
    match described:
        case i.StructType():
            return [described]
        case i.UnionType(types=types):
            return [record for each in types for record in records_in(each)]
        case i.ListType(item_type=item) | i.VarTupleType(item_type=item) | i.DictType(value_type=item):
            return records_in(item)
        case _:
            return []


def is_wrapped(view: i.StructType) -> bool:
    """Whether the record only holds others: a page, or the answers to several questions."""
    return {field.encode_name for field in view.fields} <= {"items", "next_cursor", "dropped"}


def pairs() -> dict[tuple[type, type], tuple[i.StructType, i.StructType]]:
    """What the server answers with, and the library's record for it, at any depth."""
    found: dict[tuple[type, type], tuple[i.StructType, i.StructType]] = {}

    def add(view: i.StructType, model: i.StructType) -> None:
        if is_wrapped(view) and not is_wrapped(model):
            (items,) = (field for field in view.fields if field.encode_name == "items")
            for inner in records_in(items.type):
                add(inner, model)
            return
        if (view.cls, model.cls) in found:
            return
        found[view.cls, model.cls] = view, model
        known = {field.encode_name: field for field in model.fields}
        for field in view.fields:
            ours = records_in(known[field.encode_name].type) if field.encode_name in known else []
            for inner, other in zip(records_in(field.type), ours, strict=False):
                add(inner, other)

    for name, method in methods().items():
        if method.covers not in ROUTES:
            continue
        returned = get_type_hints(inspect.unwrap(getattr(Client, name)))["return"]
        models = records_in(i.type_info(returned)) if returned is not type(None) else []
        for record in response_of(ROUTES[method.covers]).records:
            for model in models:
                described = i.type_info(record)
                if isinstance(described, i.StructType) and (len(models) == 1 or not is_wrapped(described)):
                    add(described, model)
    return found


# An operation that answers in one of two ways has a method for each: these are the other way's.
OTHER_WAY = {("AllocationView", "Explanation"), ("ExplanationView", "Allocation")}
# Fields that the library leaves out, and why.
LEFT_OUT = {("DagGraph", "svg"): "only an answer to `format=svg` has it, which the library does not ask for"}


def names(record: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(record)}


def test_a_model_knows_every_field_of_the_answer() -> None:
    missing = [
        f"{model.cls.__name__} has no field {field.encode_name} of {view.cls.__name__}"
        for view, model in pairs().values()
        for field in view.fields
        if (view.cls.__name__, model.cls.__name__) not in OTHER_WAY
        and (view.cls.__name__, field.encode_name) not in LEFT_OUT
        and field.encode_name not in {known.encode_name for known in model.fields}
    ]
    assert missing == []


def test_answers_are_compared_at_every_depth() -> None:
    compared = {(view.cls.__name__, model.cls.__name__) for view, model in pairs().values()}
    assert compared >= {
        ("AllocationView", "Allocation"),
        ("DetailsView", "Details"),
        ("ConstraintsView", "Constraints"),
        ("NodeView", "Node"),
        ("CancelAnswer", "CancelOutcome"),
        ("QuorumStatusView", "QuorumStatus"),
        ("UpgradeView", "UpgradeStatus"),
    }


def test_the_models_say_everything_that_a_submission_can_say() -> None:
    beside = {"request_id", "dry_run"}  # the call's own arguments
    assert names(submissions.Submission) - beside <= names(m.Submission)
    assert names(resources.Resources) <= names(m.ResourceRequest)
    assert names(resources.Constraints) <= names(m.Constraints)
    assert names(submissions.LifecycleRequest) <= names(m.LifecycleRequest)


def test_both_clients_have_the_same_operations_and_say_the_same_of_them() -> None:
    for name in methods():
        waiting, awaiting = getattr(Client, name), getattr(LatticeClient, name)
        assert inspect.signature(waiting) == inspect.signature(awaiting)
        assert inspect.iscoroutinefunction(awaiting)
        assert not inspect.iscoroutinefunction(waiting)
        assert waiting.__doc__
        assert waiting.__doc__ == awaiting.__doc__
