"""Trace context as W3C writes it."""

import pytest

from lattice.wire.text.traces import parse_traceparent

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_child_belongs_to_the_same_trace() -> None:
    parent = parse_traceparent(GOOD)
    assert parent is not None
    assert (parent.text, parent.is_sampled) == (GOOD, True)
    child = parent.child()
    assert (child.trace, child.parent) == (parent.trace, parent.span)
    assert child.span != parent.span
    assert parse_traceparent(child.text) == child._replace(parent="")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        GOOD + "\nX: y",
        GOOD + "-" + "x" * 300,
    ],
)
def test_what_is_no_trace_context_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = parse_traceparent(GOOD.replace("00-", "01-", 1) + "-more")
    assert later is not None
    assert later.text == GOOD
