"""A small world for the loops: the real state machine behind a replica without a log, and nodes that only listen."""

from lattice.core.machine.commands import (
    AnyCommand,
    ConfirmNode,
    PlaceAllocation,
    RegisterNode,
    ReportPart,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node, Share
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, Cause, Hold, PartPhase, Request
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.core.model.work.notifications import Notify
from lattice.testing import FakeLinks, FakeReplica, HandClock
from lattice.wire.work.payloads import Work, encode_work

HARDWARE = Hardware(cpus=4, memory_mb=4096)


class World:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.replica = FakeReplica(self.clock)
        self.links = FakeLinks()

    @property
    def state(self) -> State:
        return self.replica.state

    def node(self, name: str) -> Node:
        return self.state.nodes[name]

    def allocation(self, number: int) -> Allocation:
        return self.state.allocations[number]

    async def do(self, command: AnyCommand, actor: str = "test") -> Accepted:
        outcome = await self.replica.propose(command, actor=actor)
        assert isinstance(outcome, Accepted), outcome
        return outcome

    async def prepare(self, *nodes: str, hardware: Hardware = HARDWARE) -> None:
        """Tenant, vCluster and Ready, connected nodes."""
        await self.do(SetTenant(tenant=Tenant(name="default"), create=True))
        vcluster = Vcluster(name="default", default_walltime_s=3600)
        await self.do(SetVcluster(vcluster=vcluster, create=True))
        for node in nodes:
            await self.do(RegisterNode(node=node, hardware=hardware))
            await self.do(ConfirmNode(node=node))
            self.links.open.add(node)
        self.replica.proposed.clear()

    async def submit(
        self,
        *,
        nodes: int = 1,
        per_node: bool = False,
        tasks: tuple[tuple[int, int, int], ...] = (),
        walltime_s: int = 0,
        eligible_at: int = 0,
        payload: bytes | None = None,
        notify: Notify | None = None,
        deadline_at: int = 0,
        asked: Asked | None = None,
        vcluster: str = "default",
        name: str = "test",
        idle_end_s: int = 0,
        hold: Hold = Hold.NONE,
        preemption_class: int = 5,
        checkpoint: CheckpointWay | None = None,
        stages_out: bool = False,
    ) -> int:
        work = Work(argv=("true",), env={"A": "1"}, cwd="/tmp")
        command = SubmitAllocation(
            name=name,
            user="ada",
            account="ada",
            tenant="default",
            vcluster=vcluster,
            request=Request(nodes=nodes),
            idle_end_s=idle_end_s,
            hold=hold,
            preemption_class=preemption_class,
            checkpoint=checkpoint,
            stages_out=stages_out,
            per_node=per_node,
            tasks=tasks,
            walltime_s=walltime_s,
            eligible_at=eligible_at,
            deadline_at=deadline_at,
            notify=notify,
            asked=asked,
            payload=encode_work(work) if payload is None else payload,
        )
        return (await self.do(command)).number

    async def place(self, number: int, *nodes: str) -> None:
        shares = tuple(Share(node=node) for node in nodes)
        record = self.state.find(number)
        assert record is not None
        await self.do(PlaceAllocation(number=number, run=record.run + 1, shares=shares))

    async def started(self, number: int, node: str) -> None:
        run = self.allocation(number).run
        await self.do(ReportPart(number=number, run=run, node=node, seq=1, phase=PartPhase.RUNNING))

    async def ended(self, number: int, node: str, exit_code: int = 0) -> None:
        run = self.allocation(number).run
        await self.do(
            ReportPart(
                number=number,
                run=run,
                node=node,
                seq=2,
                phase=PartPhase.ENDED,
                cause=Cause.EXIT,
                exit_code=exit_code,
            )
        )

    async def running(
        self,
        *nodes: str,
        walltime_s: int = 0,
        per_node: bool = False,
        deadline_at: int = 0,
        asked: Asked | None = None,
        checkpoint: CheckpointWay | None = None,
        stages_out: bool = False,
    ) -> int:
        """The number of an allocation that runs on these nodes."""
        number = await self.submit(
            nodes=len(nodes),
            walltime_s=walltime_s,
            per_node=per_node,
            deadline_at=deadline_at,
            asked=asked,
            checkpoint=checkpoint,
            stages_out=stages_out,
        )
        await self.place(number, *nodes)
        for node in nodes if per_node else nodes[:1]:
            await self.started(number, node)
        return number
