"""Times, work and views."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lattice.core.model.work.allocations import Allocation, AllocationState, Request, TaskGroup
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import parse_moment, rfc3339
from lattice.wire.work.allocations import group_state, group_view
from lattice.wire.work.payloads import Work, decode_work, encode_work

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50)


@given(st.integers(1, 4_102_444_800_000))
def test_times_survive_the_wire(ms: int) -> None:
    text = rfc3339(ms)
    assert text is not None
    assert parse_moment(text, "t") == ms


def test_no_time_is_null() -> None:
    assert rfc3339(0) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-05T10:00:00Z", 1_772_704_800_000),
        ("2026-03-05T11:00:00+01:00", 1_772_704_800_000),
        ("2026-03-05T10:00:00.250Z", 1_772_704_800_250),
        ("2026-03-05", 1_772_668_800_000),
    ],
)
def test_times_are_read_in_any_offset(text: str, ms: int) -> None:
    assert parse_moment(text, "t") == ms


@pytest.mark.parametrize("text", ["", "now", "2026-03-05T10:00:00", "2026-13-01", "1960-01-01", "1772704800"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(BadField):
        parse_moment(text, "t")


@given(
    st.lists(TEXTS, max_size=5),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3000),
    st.dictionaries(TEXTS, TEXTS, max_size=30),
)
def test_work_survives_the_log(argv: list[str], script: str, env: dict[str, str]) -> None:
    work = Work(argv=tuple(argv), script=script, env=env, cwd="/x")
    assert decode_work(encode_work(work)) == work


def test_same_work_is_the_same_bytes() -> None:
    work = Work(script="#!/bin/sh\n" * 1000)
    assert encode_work(work) == encode_work(Work(script="#!/bin/sh\n" * 1000))
    assert len(encode_work(work)) < 200


def test_damaged_work_is_told_apart_from_none() -> None:
    assert decode_work(b"") == Work()
    packed = encode_work(Work(script="x" * 5000))
    for damaged in (packed[:-5], packed[:8], b"\xc1"):
        with pytest.raises(ValueError, match=r".+"):
            decode_work(damaged)


def group(**fields: int | tuple[tuple[int, int], ...]) -> TaskGroup:
    template = Allocation(
        number=1,
        name="sweep",
        user="u",
        account="u",
        tenant="t",
        vcluster="v",
        request=Request(),
        submitted_at=1000,
    )
    base = TaskGroup(number=1, template=template, indices=((0, 9, 1),), size=10, pending=())
    return replace(base, **fields)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"pending": ((0, 10),)}, AllocationState.PENDING),
        ({"pending": ((1, 10),), "live": 1}, AllocationState.PENDING),
        ({"pending": ((1, 10),), "live": 1, "holding": 1}, AllocationState.RUNNING),
        ({"pending": ((1, 10),), "completed": 1}, AllocationState.RUNNING),
        ({"pending": ((1, 10),), "cancelled": 1}, AllocationState.PENDING),
        ({"completed": 10}, AllocationState.COMPLETED),
        ({"completed": 9, "cancelled": 1}, AllocationState.CANCELLED),
        ({"completed": 8, "cancelled": 1, "failed": 1}, AllocationState.FAILED),
    ],
)
def test_state_of_a_group_is_that_of_its_tasks(fields: dict[str, int], state: AllocationState) -> None:
    assert group_state(group(**fields)) is state


def test_group_ends_when_its_last_task_ends() -> None:
    half = group_view(group(pending=((5, 10),), completed=5, ended_at=9000), now_ms=10_000)
    assert half.completed_at is None
    whole = group_view(group(completed=10, ended_at=9000), now_ms=10_000)
    assert whole.completed_at == "1970-01-01T00:00:09.000Z"
