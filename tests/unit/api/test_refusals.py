"""Refusals of the core as the API shows them."""

import pytest

from lattice.api.errors import refused
from lattice.core.machine.outcomes import Rejected


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("Wait until it is Drained.", "wait until it is Drained"),
        ("Known: a, b.", "known: a, b"),
        ("Known: a, b, ...", "known: a, b, ..."),
        ("Ready, draining and drained nodes can.", "Ready, draining and drained nodes can"),
        ("`lattice status --all` lists yours.", "`lattice status --all` lists yours"),
        ("", ""),
    ],
)
def test_hints_are_lower_case_without_a_full_stop(hint: str, shown: str) -> None:
    assert refused(Rejected(code="conflict", message="no", hint=hint)).view.hint == shown
