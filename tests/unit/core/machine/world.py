"""A small world for tests of the state machine: commands in, outcomes out, time under control."""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.apply import apply
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node, Share
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase, Request
from lattice.core.model.work.usage import Usage


class World:
    """State plus shorthands; checks the invariants after every command."""

    def __init__(self, nodes: int = 3, level: int = NEWEST, **vcluster: object) -> None:
        self.state = State.empty()
        self.at = 1_000
        for each in range(OLDEST + 1, level + 1):
            self.must(cmd.RaiseLevel(level=each))
        self.must(cmd.SetTenant(tenant=Tenant(name="physics"), create=True))
        self.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", default_walltime_s=3600, **vcluster), create=True))  # type: ignore[arg-type]
        for i in range(1, nodes + 1):
            self.add_node(f"n{i}")

    def do(self, command: cmd.AnyCommand, *, actor: str = "ada", command_id: str = "") -> Outcome:
        self.at += 1
        outcome = apply(self.state, cmd.Envelope(at=self.at, command=command, actor=actor, command_id=command_id))
        assert check(self.state) == []
        return outcome

    def must(self, command: cmd.AnyCommand, **options: str) -> tuple[ev.AnyEvent, ...]:
        outcome = self.do(command, **options)
        assert isinstance(outcome, Accepted), outcome
        return outcome.events

    def refused(self, command: cmd.AnyCommand, **options: str) -> Rejected:
        before = self.state.frozen_view()
        outcome = self.do(command, **options)
        assert isinstance(outcome, Rejected), outcome
        after = self.state.frozen_view()
        assert (before.allocations, before.nodes, before.groups) == (after.allocations, after.nodes, after.groups)
        return outcome

    def add_node(self, name: str, **hardware: object) -> None:
        declared = Hardware(**{"cpus": 4, "memory_mb": 4096, **hardware})  # type: ignore[arg-type]
        self.must(cmd.RegisterNode(node=name, hardware=declared, boot_id="b1"))
        self.must(cmd.ConfirmNode(node=name))

    def submission(self, **changes: object) -> cmd.SubmitAllocation:
        request = changes.pop("request", None) or Request(nodes=changes.pop("nodes", 1))  # type: ignore[arg-type]
        fields: dict[str, object] = {
            "name": "work",
            "user": "ada",
            "account": "ada",
            "tenant": "physics",
            "vcluster": "batch",
            "request": request,
            "payload": b"run me",
            **changes,
        }
        return cmd.SubmitAllocation(**fields)  # type: ignore[arg-type]

    def submit(self, **changes: object) -> int:
        outcome = self.do(self.submission(**changes))
        assert isinstance(outcome, Accepted), outcome
        return outcome.number

    def place(self, number: int, *nodes: str) -> None:
        found = self.state.find(number)
        assert found is not None
        self.must(cmd.PlaceAllocation(number=number, run=found.run + 1, shares=tuple(Share(node=n) for n in nodes)))

    def started(self, number: int, node: str, *, run: int | None = None, seq: int = 1) -> tuple[ev.AnyEvent, ...]:
        run = run if run is not None else self[number].run
        return self.must(cmd.ReportPart(number=number, run=run, node=node, seq=seq, phase=PartPhase.RUNNING))

    def ended(self, number: int, node: str, **report: object) -> tuple[ev.AnyEvent, ...]:
        fields = {"run": self[number].run, "seq": 2, "cause": Cause.EXIT, **report}
        usage = fields.pop("usage", None)
        ended = cmd.ReportPart(number=number, node=node, phase=PartPhase.ENDED, **fields)  # type: ignore[arg-type]
        return self.must(cmd.EndPart(report=ended, usage=usage) if isinstance(usage, Usage) else ended)

    def running(self, *nodes: str, **changes: object) -> int:
        """Submits, places and starts an allocation on these nodes."""
        number = self.submit(nodes=len(nodes), **changes)
        self.place(number, *nodes)
        for part in self[number].parts:
            self.started(number, part.node)
        return number

    def node(self, name: str) -> Node:
        return self.state.nodes[name]

    def __getitem__(self, number: int) -> Allocation:
        return self.state.allocations[number]
