"""`lattice resubmit` repeats every field of a submission but those that are named here."""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from lattice_sdk.models.records import Submission
from lattice_sdk.models.runs import ProbeRequest
from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply

DIGEST = "0" * 64
NOT_REPEATED = {
    # What the old one waited for, and when it began.
    *("hold", "begin", "depends_on", "keep_on_invalid_dependency", "deadline", "on_quota", "resume_from"),
    *("telemetry.mode", "telemetry.duration", "telemetry.interval"),  # a mode is switched on for a time
    # Said by other fields.
    *("tools_uenv", "priority", "lifecycle.scale_policy", "resources.constraints.gpu_count", "data.scratch_per_node"),
    "notify.each_task",
}

DETAILS: dict[str, Any] = {
    "entrypoint": ["true"],
    "script": "#!/bin/sh\n",
    "script_args": ["x"],
    "environment": {"A": "1"},
    "cwd": "/srv",
    "submit_dir": "/srv",
    "umask": "0027",
    "max_nodes": 4,
    "constraints": {
        **{"gpu_type": "h100", "memory_gb": 1, "features": ["fast"], "topology": "tight", "nodes": ["n1"]},
        **{"exclude": ["n2"], "require_unified_memory": True, "allow_cxl_memory": True, "require_conformance": True},
        **{"prefer_same_numa": True, "prefer_local_memory": True, "memory_policy": "bind:0", "storage_gbps": 1},
    },
    "exclusive": True,
    "per_node": True,
    "notify_on": ["end"],
    "notify_to": ["mail:a@b.org"],
    "notify_each_task": True,
    "output": {"stdout": "/tmp/o", "stderr": "/tmp/e", "stdin": "/tmp/i", "mode": "append"},
    "signal": "USR1@90",
    "summary": True,
    "scratch_mb": 1024,
    "data": [
        {"source": "s3://set/a", "target": "/data/a", "access": "read-only", "tier": "hot"},
        {"source": "file:///warm/b", "target": "/data/b:c", "access": "read-write", "tier": "direct"},
    ],
    "stage_out": [
        {"source": "results", "target": "file:///capacity/{id}"},
        {"source": "output", "target": "file:///capacity/ada/{id}", "made": True},
    ],
    "no_defaults": True,
}
WORK: dict[str, Any] = {
    "resources": {"nodes": 2, "cpus": 2, "memory_mb": 512, "gpus": 1},
    "project": "p1",
    "tags": {"a": "b"},
    "requeue": "always",
    "max_requeue": 2,
    "preemption_class": 8,
    "no_preempt": True,
    "mutex": "m",
    "idle_end_s": 600,
    "task_index": 3,
    "expose": [{"name": "web", "port": 80}],
}
SIGNALLED = {"checkpoint": {"strategy": "manual", "protocol": "signal", "signal": "USR2"}}
ASKED = {"checkpoint": {"strategy": "auto", "protocol": "grpc", "port": 7000}}
IN_IMAGES = {"uenv": [{"reference": f"greeter/1.0:v1@sha256:{DIGEST}", "digest": DIGEST, "mount": "/u"}], "view": ["v"]}
IN_CONTAINER = {
    "container": {
        **{"image": f"docker://registry.example.org/a@sha256:{DIGEST}", "digest": DIGEST, "mounts": ["/tmp:/data"]},
        **{"writable": True, "workdir": "/data", "no_home": True, "name": "tools"},
    }
}
FIGURES = {"period_s": 5, "initial_delay_s": 0, "timeout_s": 2, "failure_threshold": 4, "success_threshold": 1}
SERVICE = {
    "lifecycle": "reactive",
    "service": {
        "restart": "on_failure",
        "scaling": {
            **{"min_nodes": 1, "max_nodes": 4, "metric": "in_flight", "target": 2, "scale_up_window_s": 5},
            **{"scale_down_window_s": 5, "scale_down_threshold": 0.5, "evaluation_interval_s": 5},
            "cooldown_period_s": 5,
        },
    },
}
PROBED = {
    "drain_s": 7,
    "probes": [
        {"kind": kind, "type": "tcp", "port": 80, "path": "", **FIGURES}
        for kind in ("startup", "liveness", "readiness")
    ],
}


def sent(api: FakeApi, cli: Cli, old: Mapping[str, Any], details: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """What is submitted."""
    api.on("GET", "/allocations/a17", Reply(json=allocation(**{**WORK, **old, "details": {**DETAILS, **details}})))
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    outcome = cli("resubmit", "a17", *words)
    assert outcome.code == 0, outcome.err
    body: dict[str, Any] = api.last().json
    return body


def fields_of(record: type[Struct], path: str = "") -> Iterator[str]:
    for name, kind in get_type_hints(record).items():
        members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        inner = next((each for each in members if isinstance(each, type) and issubclass(each, Struct)), None)
        if inner is None or inner is ProbeRequest:
            yield path + name
        else:
            yield from fields_of(inner, f"{path}{name}.")


def named_in(body: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in body.items():
        yield path + name
        if isinstance(value, dict):
            yield from named_in(value, f"{path}{name}.")


def test_every_field_of_a_submission_is_repeated_or_named_here(api: FakeApi, cli: Cli) -> None:
    found = set(named_in(sent(api, cli, SIGNALLED, IN_IMAGES)))
    found |= set(named_in(sent(api, cli, ASKED, IN_CONTAINER)))
    found |= set(named_in(sent(api, cli, SERVICE, PROBED)))
    assert set(fields_of(Submission)) - found == NOT_REPEATED


def test_data_and_results_are_what_they_were(api: FakeApi, cli: Cli) -> None:
    wanted = sent(api, cli, {}, {})["data"]
    assert wanted["mounts"] == [
        {"source": "s3://set/a", "target": "/data/a", "access": "read-only", "tier_hint": "hot"},
        {"source": "file:///warm/b", "target": "/data/b:c", "access": "read-write", "tier_hint": "direct"},
    ]
    assert wanted["stage_out"] == [{"source": "results", "target": "file:///capacity/{id}"}]
    assert (wanted["output"], wanted["defaults"]) == ("file:///capacity/ada/{id}", False)
    other = sent(api, cli, {}, {}, "--data-mount=/warm/c:/data/c")["data"]
    assert [each["source"] for each in other["mounts"]] == ["/warm/c"]
    assert other["stage_out"] == wanted["stage_out"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), {"strategy": "manual", "protocol": "signal", "signal": "USR2"}),
        (("--checkpoint=auto,shmem",), {"strategy": "auto", "protocol": "shmem"}),
        (("--checkpoint=none",), {"strategy": "none"}),
    ],
)
def test_checkpoints_are_asked_for_as_before_unless_that_is_said_anew(
    words: tuple[str, ...], wanted: dict[str, Any], api: FakeApi, cli: Cli
) -> None:
    assert sent(api, cli, SIGNALLED, {}, *words)["checkpoint"] == wanted


def test_work_without_data_and_checkpoints_asks_for_none(api: FakeApi, cli: Cli) -> None:
    body = sent(api, cli, {}, {"data": [], "stage_out": [], "no_defaults": False})
    assert not {"data", "checkpoint"} & set(body)
