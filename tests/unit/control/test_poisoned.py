"""Every loop of a leader goes on for the others when it fails over one item, again and again, and says so."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from lattice.api.grpc.agents.links import AgentLinkTable
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.control import loop
from lattice.control.audit.sealing import Auditing
from lattice.control.capacity.evictions import Evictions
from lattice.control.checkpoints.broker import CheckpointBroker
from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.control.collectors.tree import CollectorTree
from lattice.control.data.staging import Staging
from lattice.control.loop import keep_alive
from lattice.control.nodes.conformance import Conformance
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.hooks import NodeHooks
from lattice.control.nodes.probing import Probing
from lattice.control.nodes.rebooting import Rebooting
from lattice.control.nodes.remediation import Remediation
from lattice.control.nodes.watch import NodeWatch
from lattice.control.nodes.wiping import Wiping
from lattice.control.retention.ended import EndedRetention
from lattice.control.services import moving
from lattice.control.services.moving import Moving
from lattice.control.services.scaling import Autoscaling
from lattice.control.services.updating import Updating
from lattice.control.work import budget_notices as budget_notices_module
from lattice.control.work.archiving import Archiving
from lattice.control.work.budget_notices import BudgetNotices
from lattice.control.work.deadlines import Deadlines
from lattice.control.work.dispatch import Dispatch
from lattice.control.work.idle import IdleEnds
from lattice.control.work.log_retention import LogDeletion
from lattice.control.work.notifying import Notifying
from lattice.control.work.reconcile import Reconcile
from lattice.control.work.tracing import TraceCapture
from lattice.daemons.server.loops import Loops
from lattice.observe.metrics import Metrics
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.testing import scenario
from tests.unit.control.poison import Patch, Poison
from tests.unit.control.poisoned_nodes import (
    collectors,
    conformance,
    health,
    node_hooks,
    node_watch,
    probing,
    rebooting,
    remediation,
    wiping,
)
from tests.unit.control.poisoned_records import archive, audit, ended_retention, log_retention, notifications, traces
from tests.unit.control.poisoned_work import (
    autoscaling,
    budget_notices,
    checkpoint_broker,
    checkpoint_requests,
    deadlines,
    dispatch,
    drained_services,
    evictions,
    idle_ends,
    reconcile,
    staging,
    steps,
    updates,
)
from tests.unit.control.world import World

Case = Callable[[Patch, Path], Coroutine[Any, Any, None]]
# By the loop's class: its name in logs and metrics, and what it does for one good and one bad item.
CASES: dict[str, tuple[str, Case]] = {
    Dispatch.__name__: ("dispatch", dispatch),
    Reconcile.__name__: ("reconcile", reconcile),
    Deadlines.__name__: ("deadlines", deadlines),
    IdleEnds.__name__: ("idle", idle_ends),
    Evictions.__name__: ("evictions", evictions),
    Updating.__name__: ("updates", updates),
    Moving.__name__: (moving.LOOP, drained_services),
    BudgetNotices.__name__: (budget_notices_module.LOOP, budget_notices),
    Autoscaling.__name__: ("autoscaling", autoscaling),
    Staging.__name__: ("staging", staging),
    NodeWatch.__name__: ("node_watch", node_watch),
    Notifying.__name__: ("notifications", notifications),
    Archiving.__name__: ("archive", archive),
    Wiping.__name__: ("wiping", wiping),
    Probing.__name__: ("probing", probing),
    Remediation.__name__: ("remediation", remediation),
    Conformance.__name__: ("conformance", conformance),
    HealthRegistry.__name__: ("health", health),
    NodeHooks.__name__: ("node hooks", node_hooks),
    Rebooting.__name__: ("rebooting", rebooting),
    CollectorTree.__name__: ("collectors", collectors),
    "StepRegistry": ("steps", steps),
    Auditing.__name__: ("audit", audit),
    LogDeletion.__name__: ("log retention", log_retention),
    EndedRetention.__name__: ("retention", ended_retention),
    TraceCapture.__name__: ("tracing", traces),
    CheckpointRequests.__name__: ("checkpoints", checkpoint_requests),
    CheckpointBroker.__name__: ("checkpoint broker", checkpoint_broker),
}
# A turn of these is one thing: a plan over the whole queue, the cluster's level, the one upgrade, the prices, the budgets, a snapshot.
WHOLE = {"Scheduling", "Finalizing", "Upgrading", "EnergyPrices", "Budgets", "SnapshotUploads"}


@pytest.mark.parametrize("name", CASES)
@scenario
async def test_one_poisoned_item_does_not_stop_the_others(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says, case = CASES[name]
    before = loop.failures[says]
    await case(monkeypatch, tmp_path)
    assert loop.failures[says] > before


@scenario
async def test_every_loop_of_a_leader_is_tried_here(tmp_path: Path) -> None:
    world = World()
    config = ServerConfig(data_dir=str(tmp_path), api=ApiSection(hmac_secret=""))
    loops = Loops(
        config,
        world.replica,
        cast("AgentLinkTable", world.links),
        world.clock,
        Metrics(),
        launch_key=lambda launch_id: bytes(32),
        grant=lambda prefix, node: "",
        mint=lambda allocation: "token",
        api_url="",
        senders={},
        is_crowded=lambda: False,
    )
    assert {type(each).__name__ for each in loops._all()} <= CASES.keys() | WHOLE


@scenario
async def test_a_loop_that_breaks_outside_of_its_turns_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PAUSE_AFTER_FAILURE_S", 0.0)
    ends: list[Exception] = [Poison(), Poison(), ReplicaStopped()]
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        raise ends[runs - 1]

    before = loop.failures["broken"], loop.repeats["broken"]
    await keep_alive("broken", run)
    assert runs == 3
    assert (loop.failures["broken"] - before[0], loop.repeats["broken"] - before[1]) == (2, 1)
