"""Every field of a submission's work changes the order that starts it. A new field fails until the order carries it."""

from typing import Any

import pytest
from msgspec.structs import fields

from lattice.control.work.orders import start_order
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node
from lattice.core.model.site.tenants import Demands, Vcluster
from lattice.core.model.telemetry.modes import Mode, RunMode, Telemetry
from lattice.core.model.work.exposure import Exposed
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.data import DataOrder, StageOutOrder
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.wire.work.payloads import Work
from lattice.wire.work.run_files import OutputFiles
from tests.unit.control.test_run_files import record

VALUES: dict[str, Any] = {
    **{"argv": ("true",), "script": "#!/bin/sh\n", "script_args": ("x",), "env": {"A": "1"}, "cwd": "/srv"},
    **{
        "submit_dir": "/srv",
        "summary": True,
        "output": OutputFiles(stdout="/tmp/o"),
        "signal": "USR1@60",
        "umask": 0o27,
        "images": (ImageOrder(reference="tools/1:v1", digest="ab" * 32, source="/srv/tools.squashfs"),),
        "views": ("default",),
        "scratch_mb": 32,
        "no_defaults": True,
        "data": (DataOrder(source="s3://b/set", target="/data/set", hot=True),),
        "stage_out": (StageOutOrder(source="out", target="file:///warm/out"),),
        "drain_s": 5.0,
        "memory_policy": "bind:0",
        "probes": (ProbeOrder(kind=ProbeKind.LIVENESS, type=ProbeType.TCP, port=80),),
        "container": ContainerOrder(image=ImageOrder(reference="x", digest="ab" * 32, source="/srv/x.squashfs")),
    },
}


def order(work: Work) -> StartOrder:
    allocation = record(walltime_s=600, exposes=(Exposed(name="web", port=80),))
    state = State()
    for share in allocation.shares:
        state.nodes[share.node] = Node(id=share.node, hardware=Hardware(cpus=4, memory_mb=1024))
    return start_order(state, allocation, allocation.parts[0], work, token="t", api_url="http://s1", grace_s=1.0)


# What the start of every run need not say.
SOMETIMES = {
    "instance",
    "restart",
    "task_index",
    "task_group_id",
    "gpus",
    "memory_mb",
    "telemetry",
    "checkpoint",
    "upload_grant",
    "same_numa",
    "read_mb_s",
    "write_mb_s",
    "holds",
    "awaits",
}
# Noted by the node.
OF_THE_NODE = {"epoch", "attempt", "failures", "streak"}


def test_every_field_of_the_order_is_filled() -> None:
    full = order(Work(**VALUES))
    said = {
        field.name
        for field in fields(StartOrder)
        if field.required or getattr(full, field.name) not in (field.default, (), {}, "", b"")
    }
    assert said | SOMETIMES | OF_THE_NODE | {"fence"} == set(StartOrder.__struct_fields__)


@pytest.mark.parametrize("field", Work.__struct_fields__)
def test_a_field_of_the_work_changes_the_order(field: str) -> None:
    assert order(Work(**{field: VALUES[field]})) != order(Work())


def test_a_mode_asked_for_while_a_run_lived_holds_for_the_next_run_for_the_rest_of_its_time() -> None:
    asked = Telemetry(mode=Mode.DEBUG, interval_ms=250, duration_s=600, since_ms=1_000_000)
    allocation = record(walltime_s=600, telemetry=asked)
    state = State()
    for share in allocation.shares:
        state.nodes[share.node] = Node(id=share.node, hardware=Hardware(cpus=4, memory_mb=1024))

    def mode_at(now_ms: int) -> RunMode | None:
        part = allocation.parts[0]
        made = start_order(state, allocation, part, Work(), token="t", api_url="", grace_s=1.0, now_ms=now_ms)
        return made.telemetry

    assert mode_at(1_200_000) == RunMode(mode=Mode.DEBUG, interval_ms=250, left_s=400.0)
    assert mode_at(1_700_000) == RunMode(), "its time is over"


def test_rates_of_storage_are_those_of_the_vcluster() -> None:
    allocation = record(vcluster="slow")
    state = State()
    state.vclusters["slow"] = Vcluster(name="slow", demands=Demands(read_mb_s=20, write_mb_s=5))
    for share in allocation.shares:
        state.nodes[share.node] = Node(id=share.node, hardware=Hardware(cpus=4, memory_mb=1024))
    made = start_order(state, allocation, allocation.parts[0], Work(), token="", api_url="", grace_s=1.0)
    assert (made.read_mb_s, made.write_mb_s) == (20, 5)
