"""Data folders and snapshots that earlier releases wrote: this one goes on with them."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import AllocationState, Hold
from lattice.quorum.backup.objects import unpack
from lattice.quorum.backup.restore import restore
from lattice.quorum.replica import LogReplica
from tests.unit.quorum.world import run, running
from tests.upgrades.record import EXPECTED, HERE, propose, record, submission
from tests.upgrades.replicas import replica_of

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{EXPECTED}"))


def expected_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / EXPECTED).read_text()))


async def check_before_backup(replica: LogReplica, expected: dict[str, Any]) -> None:
    """What is the same in the log's end and in the backup."""
    state = replica.state
    assert state.allocations[expected["running"]].state is AllocationState.RUNNING
    assert state.groups[expected["group"]].size == 10
    assert state.nodes["n3"].state in (NodeState.DRAINING, NodeState.DRAINED)
    assert state.settings["archive.after_s"] == "60"
    if "flow" in expected:
        check_rarities(replica, expected)
    archived = await replica.archived(expected["finished"])
    assert archived is not None
    assert archived.exit_code == 3
    assert await replica.archived_payload(expected["finished"]) == b"#!/bin/sh\ntrue\n"


def check_rarities(replica: LogReplica, expected: dict[str, Any]) -> None:
    state = replica.state
    dag = state.dependencies.dags[expected["flow"]]
    assert (dag.name, len(dag.members)) == ("flow", 2)
    assert list(state.reservations) == ["course"]
    assert state.vclusters["ward"].scheduler == SENSITIVE
    assert state.drift.baselines["batch"].fingerprint == "a" * 64
    assert state.drift.drifts["n1"].differences[0].component == "kernel"
    assert state.nodes["n2"].state is NodeState.READY
    assert state.notifications.defaults["ada"].notify.to == ("mail:a@b.c",)
    assert [step.name for step in state.allocations[expected["running"]].steps] == ["mpirun"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("from_log_alone", [False, True])
def test_a_data_folder_of_an_earlier_release_is_gone_on_with(
    release: str, tmp_path: Path, *, from_log_alone: bool
) -> None:
    expected = expected_of(HERE / release)
    shutil.copytree(HERE / release / "data", tmp_path / "data")
    if from_log_alone:
        shutil.rmtree(tmp_path / "data" / "snapshots")

    async def scenario() -> None:
        async with running(replica_of(tmp_path / "data")) as replica:
            assert replica.state.digest() == expected["digest"]
            await check_before_backup(replica, expected)
            assert replica.state.allocations[expected["waiting"]].state is AllocationState.CANCELLED
            assert replica.state.allocations[expected["held"]].hold is not Hold.NONE
            assert await propose(replica, submission("new")) > expected["held"]

    run(scenario())


@pytest.mark.parametrize("release", RELEASES)
def test_a_snapshot_of_an_earlier_release_is_restored(release: str, tmp_path: Path) -> None:
    expected = expected_of(HERE / release)
    unpack(HERE / release / "snapshot.bin", tmp_path / "backup")

    async def scenario() -> None:
        await asyncio.to_thread(restore, tmp_path / "backup", tmp_path / "data", "sqlite")
        async with running(replica_of(tmp_path / "data")) as replica:
            await check_before_backup(replica, expected)
            assert replica.state.allocations[expected["waiting"]].state is AllocationState.PENDING
            assert expected["held"] not in replica.state.allocations
            assert await propose(replica, submission("new")) == expected["held"]

    run(scenario())


def test_what_is_recorded_is_what_this_release_writes_too(tmp_path: Path) -> None:
    """So that the next recording, made at a release, is known to work."""
    run(record(tmp_path / "now"))
    expected = expected_of(tmp_path / "now")

    async def scenario() -> None:
        async with running(replica_of(tmp_path / "now" / "data")) as replica:
            assert replica.state.digest() == expected["digest"]

    run(scenario())
    assert RELEASES
