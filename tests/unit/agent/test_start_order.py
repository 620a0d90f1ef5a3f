"""Every field of an order to start a run reaches the agent. A new field fails until both ends of the stream carry it."""

from typing import Any

import msgspec
import pytest

from lattice.agent.machine.state import RunOrder
from lattice.agent.messages import order_of
from lattice.api.grpc.agents.messages import order_message
from lattice.ports.nodes.agents import EarlyOrder, FileNames, StartOrder
from tests.unit.agent.test_interventions import start

# Two values for each field, so that a field which is not carried shows.
VALUES: dict[str, tuple[Any, Any]] = {
    **{"number": (7, 8), "run": (1, 2), "allocation_id": ("a7", "a8"), "name": ("x", "y"), "account": ("a", "b")},
    **{"cwd": ("/", "/srv"), "nodes": (("n1",), ("n2",)), "tasks": (1, 2), "grace_s": (1.0, 2.0)},
    **{"argv": ((), ("true",)), "script": (b"", b"#!"), "script_args": ((), ("x",)), "env": ({}, {"A": "1"})},
    **{"submit_dir": ("", "/srv"), "walltime_s": (0.0, 60.0), "cpus": (0, 2), "memory_mb": (0, 64), "gpus": (0, 1)},
    **{"task_index": (None, 0), "task_group_id": ("", "a6"), "token": ("", "t"), "api_url": ("", "http://s1")},
    **{"is_fenced": (False, True), "has_summary": (False, True), "umask": (0o22, 0o27), "submission": ("", "s")},
    "files": (None, FileNames(stdout="o")),
    "early": (None, EarlyOrder(signal=10, before_s=60, to="steps")),
}
# What the agent adds by itself.
OWN = {"epoch"}


def received(**fields: object) -> RunOrder:
    return order_of(order_message(start(**fields)).start_run)


@pytest.mark.parametrize("field", StartOrder.__struct_fields__)
def test_a_field_of_the_order_reaches_the_agent(field: str) -> None:
    one, other = VALUES[field]
    assert received(**{field: one}) != received(**{field: other})


def test_every_field_of_the_agents_order_is_filled_from_the_stream() -> None:
    full = received(**{field: other for field, (_, other) in VALUES.items()})
    empty = {
        field.name
        for field in msgspec.structs.fields(RunOrder)
        if getattr(full, field.name) == field.default or getattr(full, field.name) in ((), {}, "", b"")
    }
    assert empty == OWN
