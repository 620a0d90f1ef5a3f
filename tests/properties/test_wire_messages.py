"""Any request that protobuf can carry becomes the same record as over JSON, and any answer says the same on both wires."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.api.errors import ApiError
from lattice.api.grpc.convert import record_writer, request_reader
from lattice.api.rest.explain import explain_field
from lattice.wire.admin.admin import TenantFields, VclusterFields
from lattice.wire.nodes.nodes import FreeView
from lattice.wire.shapes import shape_of
from lattice.wire.work.explanations import ExplanationView
from lattice.wire.work.submissions import Submission
from tests.integration.api.grpc_wire import message_of, plain, said

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # JSON knows no others
NAMES = st.lists(TEXTS, min_size=1, max_size=3)


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


SUBMISSIONS = some(
    {
        "name": TEXTS,
        "tags": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
        "entrypoint": NAMES | TEXTS,
        "script": TEXTS,
        "environment": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
        "resources": some(
            {
                "nodes": INTS | st.fixed_dictionaries({"min": INTS, "max": INTS}),
                "memory": TEXTS,
                "exclusive": st.booleans(),
                "constraints": some({"memory_gb": FLOATS, "features": NAMES, "nodes": NAMES | TEXTS}),
            }
        ),
        "lifecycle": some(
            {"type": st.sampled_from(["bounded", "unbounded", "x"]), "walltime": TEXTS, "max_requeue": INTS}
        ),
        "priority": TEXTS,
        "per_node": st.booleans(),
        "hold": st.booleans(),
        # One field at most is wrong: of two, each wire may name another one first.
        "on_quota": st.sampled_from(["queue", "reject"]),
    }
)
LIMITS = st.none() | INTS
TENANTS = st.fixed_dictionaries(
    {"name": TEXTS}, optional={"max_nodes": LIMITS, "max_class": INTS, "gpu_hours_budget": st.none() | FLOATS}
)
VCLUSTERS = st.fixed_dictionaries(
    {"name": TEXTS},
    optional={
        "tenants": st.lists(TEXTS, max_size=3),
        "up": st.booleans(),
        "max_nodes": LIMITS,
        "weights": st.dictionaries(st.sampled_from(["priority", "wait"]), st.none() | FLOATS, min_size=1) | st.none(),
    },
)


def outcome(make: Any) -> Any:  # noqa: ANN401 - a record or its refusal
    try:
        return make()
    except ApiError as error:
        return error.view


def by_json(record: type[msgspec.Struct], fields: dict[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.json.decode(msgspec.json.encode(fields), type=record)
    except msgspec.ValidationError as error:
        raise explain_field(error, record) from None


def check(record: type[msgspec.Struct], name: str, fields: dict[str, Any]) -> None:
    data = message_of(name, fields).SerializeToString()
    read = request_reader(shape_of(record), name)
    assert outcome(lambda: read(data)) == outcome(lambda: by_json(record, fields))


@given(SUBMISSIONS)
def test_a_submission_is_the_same_over_both_wires(fields: dict[str, Any]) -> None:
    check(Submission, "SubmitRequest", fields)


@given(TENANTS)
def test_a_change_of_a_tenant_is_the_same_over_both_wires(fields: dict[str, Any]) -> None:
    check(TenantFields, "UpdateTenantRequest", fields)


@given(VCLUSTERS)
def test_a_change_of_a_vcluster_is_the_same_over_both_wires(fields: dict[str, Any]) -> None:
    check(VclusterFields, "UpdateVclusterRequest", fields)


@given(st.binary(max_size=200))
def test_bytes_are_a_request_or_are_refused(data: bytes) -> None:
    for record, name in ((Submission, "SubmitRequest"), (VclusterFields, "UpdateVclusterRequest")):
        found = outcome(lambda record=record, name=name: request_reader(shape_of(record), name)(data))
        assert isinstance(found, record) or found.code == "invalid"


SIZES = st.integers(0, 2**53)
ANSWERS = [
    st.builds(
        ExplanationView,
        id=st.none() | TEXTS,
        state=TEXTS,
        reason=TEXTS,
        scores=st.dictionaries(TEXTS, FINITE, max_size=3),
        rank=st.none() | SIZES,
        predicted_start=st.none() | TEXTS,
        predicted_nodes=st.lists(TEXTS, max_size=3).map(tuple),
    ),
    st.builds(FreeView, cpus=SIZES, memory_mb=SIZES, gpus=SIZES),
]


@pytest.mark.parametrize("answers", ANSWERS, ids=["explanation", "free"])
def test_an_answer_says_the_same_on_both_wires(answers: st.SearchStrategy[msgspec.Struct]) -> None:
    @given(answers)
    def look(answer: msgspec.Struct) -> None:
        shown = plain(record_writer(type(answer))(answer))
        assert said(shown) == said(msgspec.json.decode(msgspec.json.encode(answer)))

    look()
