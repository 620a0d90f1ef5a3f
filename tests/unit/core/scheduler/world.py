"""A small machine for scheduler tests: real commands on a real state, with the columns kept by the events."""

from collections.abc import Iterable

from lattice.core.cycle import Cycle, commands
from lattice.core.machine.apply import apply
from lattice.core.machine.commands import (
    AnyCommand,
    ConfirmNode,
    Envelope,
    PlaceAllocation,
    RegisterNode,
    ReportPart,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.events import AnyEvent
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.tenants import NodeSharing, OnQuota, Tenant, Vcluster
from lattice.core.model.work.allocations import Cause, PartPhase, Request
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.tables.snapshot import Snapshot

NOON = 1_772_712_000_000  # 2026-03-05T12:00:00Z
HOUR = 3_600_000


class World:
    """Tenant and vCluster `default` exist; time stands still unless a test moves it."""

    def __init__(self, sharing: NodeSharing = NodeSharing.EXCLUSIVE, scheduler: str = "hpc-backfill") -> None:
        self.state = State.empty()
        self.cycle = Cycle()
        self.now = NOON
        self.observations: Observations | None = None
        self.do(SetTenant(tenant=Tenant(name="default", on_quota=OnQuota.QUEUE), create=True))
        self.scheduler = scheduler
        self.set_vcluster("default", node_sharing=sharing)

    def try_to(self, command: AnyCommand) -> Outcome:
        outcome = apply(self.state, Envelope(at=self.now, command=command, actor="test"))
        if isinstance(outcome, Accepted):
            self.cycle.note(self.state, outcome.events)
        return outcome

    def do(self, command: AnyCommand) -> Accepted:
        outcome = self.try_to(command)
        assert not isinstance(outcome, Rejected), outcome
        return outcome

    def add_node(
        self,
        name: str,
        *,
        cpus: int = 4,
        memory_mb: int = 4000,
        gpus: int = 0,
        gpu_type: str = "",
        group: str = "",
        features: tuple[str, ...] = (),
        power_w: int = 0,
    ) -> None:
        hardware = Hardware(
            cpus=cpus,
            memory_mb=memory_mb,
            gpus=gpus,
            gpu_type=gpu_type,
            group=group,
            features=features,
            power_w=power_w,
        )
        self.do(RegisterNode(node=name, hardware=hardware))
        self.do(ConfirmNode(node=name))

    def add_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            self.add_node(name)

    def set_tenant(self, name: str = "default", **limits: int) -> None:
        tenant = Tenant(name=name, on_quota=OnQuota.QUEUE, **limits)  # type: ignore[arg-type]
        self.do(SetTenant(tenant=tenant, create=name not in self.state.tenants))

    def set_vcluster(self, name: str, **fields: object) -> None:
        vcluster = Vcluster(name=name, **{"scheduler": self.scheduler, **fields})  # type: ignore[arg-type]
        self.do(SetVcluster(vcluster=vcluster, create=name not in self.state.vclusters))

    def submit(self, request: Request | None = None, *, seen: list[AnyEvent] | None = None, **fields: object) -> int:
        """The number given out; the events go to `seen` as well."""
        outcome = self.try_submit(request, **fields)
        assert not isinstance(outcome, Rejected), outcome
        if seen is not None:
            seen.extend(outcome.events)
        return outcome.number

    def try_submit(self, request: Request | None = None, **fields: object) -> Outcome:
        given: dict[str, object] = {
            "name": "work",
            "user": "ann",
            "account": "ann",
            "tenant": "default",
            "vcluster": "default",
            "walltime_s": 3600,
            "request": request or Request(),
            **fields,
        }
        return self.try_to(SubmitAllocation(**given))  # type: ignore[arg-type]

    def snapshot(self) -> Snapshot:
        return self.cycle.snapshot(self.observations)

    def plan(self) -> Plan:
        return self.cycle.plan(self.observations, self.now)

    def carry_out(self, plan: Plan) -> None:
        """Every proposal of a fresh plan must be accepted."""
        for command in commands(plan):
            self.do(command)

    def run_cycle(self) -> Plan:
        plan = self.plan()
        self.carry_out(plan)
        return plan

    def place(self, number: int, *nodes: str) -> None:
        """Starts an allocation on whole nodes of the test's choice, past the scheduler."""
        record = self.state.find(number)
        assert record is not None
        shares = tuple(Share(node=node) for node in nodes)
        self.do(PlaceAllocation(number=number, run=record.run + 1, shares=shares))

    def report_running(self, number: int) -> None:
        self._report(number, PartPhase.RUNNING, None)

    def finish(self, number: int, exit_code: int = 0) -> None:
        self._report(number, PartPhase.ENDED, Cause.EXIT, exit_code)

    def lose(self, number: int) -> None:
        self._report(number, PartPhase.ENDED, Cause.NODE)

    def stopped(self, number: int) -> None:
        """Its processes are gone, by order."""
        self._report(number, PartPhase.ENDED, Cause.SIGNAL, signal=15, stopped=True)

    def _report(
        self,
        number: int,
        phase: PartPhase,
        cause: Cause | None,
        exit_code: int = 0,
        *,
        signal: int = 0,
        stopped: bool = False,
    ) -> None:
        record = self.state.allocations[number]
        for part in record.parts:
            report = ReportPart(
                number=number,
                run=record.run,
                node=part.node,
                seq=part.seq + 1,
                phase=phase,
                cause=cause,
                exit_code=exit_code,
                signal=signal,
                stopped=stopped,
            )
            self.do(report)


class FirstCome(World):
    """Work is taken as it comes, by class: for tests of what is done with it, whatever the score."""

    def __init__(self, sharing: NodeSharing = NodeSharing.EXCLUSIVE) -> None:
        super().__init__(sharing, "interactive-fifo")


def nodes_of(plan: Plan) -> dict[int, tuple[str, ...]]:
    """Where each placed allocation goes."""
    return {p.number: tuple(share.node for share in p.shares) for p in plan.placements}


def reason(plan: Plan, number: int) -> str:
    explanation = plan.explain(number)
    assert explanation is not None, f"{number} has no explanation"
    return explanation.reason
