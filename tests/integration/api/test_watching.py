"""A terminal that its owner shares: who may watch it, who may not, what a watcher cannot do, and how it is taken back."""

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from lattice.core.machine.commands import RecordSteps, SetTenant, SetVcluster
from lattice.core.model.site.tenants import SENSITIVE, Tenant, Visibility
from lattice.core.model.work.layout import Layout
from lattice.core.model.work.steps import StepRecord
from lattice.ports.nodes.agents import OutputPiece
from lattice.ports.nodes.steps import InputPiece, StepView
from lattice.wire.agents.journals import RECORD
from tests.integration.api.test_audit import auditing
from tests.integration.api.test_slurm_steps import Desk
from tests.integration.api.world import World, in_world


class OneTerminal(Desk):
    """Terminal 0 and step 1 of allocation 1; the terminal has written one line and stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.fed = 0
        self.names = ["terminal-x", "x"]  # of the launches
        self.is_over = False

    def live(self, number: int) -> tuple[StepView, ...]:
        return tuple(
            StepView(
                number=number,
                run=1,
                step=step,
                launch_id=self.names[step],
                name="bash",
                layout=Layout(nodes=("n1",), counts=(1,)),
                tasks=1,
                started_at=1,
                is_terminal=step == 0,
                has_ended=self.is_over and step == 0,
            )
            for step in (0, 1)
        )

    def find(self, number: int, step: int) -> StepView | None:
        return next((view for view in self.live(number) if view.step == step), None)

    async def feed(self, number: int, step: int, piece: InputPiece) -> int | None:
        self.fed += len(piece.data)
        return piece.offset + len(piece.data)

    async def read(
        self, node: str, number: int, run: int, step: int, *, offset: int, follow: bool = True
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=0, data=RECORD.pack(1, 0, 5) + b"shown")
        if follow:
            await asyncio.Event().wait()


async def furnish(world: World) -> OneTerminal:
    """alice's work, in a tenant whose members see only their own."""
    await world.do(SetTenant(tenant=Tenant(name="default", visibility=Visibility.OWN)))
    await world.submit()
    await world.start_run(1)
    desk = OneTerminal()
    world.services.steps = desk
    return desk


STEP = "/allocations/a1/steps/0"


@in_world
async def test_whom_the_owner_names_may_watch_and_nothing_else(world: World) -> None:
    desk = await furnish(world)
    bert = world.token("bert")
    assert (await world.call("GET", STEP, token=bert)).status == 404, "a stranger sees nothing"
    shared = await world.call("POST", f"{STEP}/watchers", {"user": "bert"})
    assert (shared.status, shared.json()["watchers"], shared.json()["read_only"]) == (201, ["bert"], False), shared.body
    seen = (await world.call("GET", STEP, token=bert)).json()
    assert (seen["read_only"], seen["watchers"]) == (True, [])
    stream = await world.open(f"{STEP}/stream", token=bert)
    events = [await stream.next() for _ in range(2)]
    assert [event.event if event else "" for event in events] == ["step", ""]
    await stream.close()
    for method, path, body in (
        ("POST", f"{STEP}/input", {"data": "bHM="}),
        ("POST", f"{STEP}/signal", {"signal": 2}),
        ("POST", f"{STEP}/window", {"rows": 5, "columns": 5}),
        ("DELETE", STEP, None),
        ("POST", f"{STEP}/watchers", {"user": "bert"}),
        ("DELETE", f"{STEP}/watchers/bert", None),
        ("GET", "/allocations/a1/steps/1", None),
        ("GET", "/allocations/a1/steps", None),
        ("GET", "/allocations/a1", None),
        ("GET", "/allocations/a1/logs", None),
        ("POST", "/allocations/a1/attach", {}),
    ):
        answer = await world.call(method, path, body, token=bert)
        assert answer.status == 404, (method, path, answer.body)
    assert not desk.fed


@in_world
async def test_nobody_but_the_named_ones_watches(world: World) -> None:
    await furnish(world)
    await world.call("POST", f"{STEP}/watchers", {"user": "bert"})
    for token, status in (
        (world.token("cleo"), 404),
        (world.token("bert", tenants=("other",)), 404),
        (world.token("bert", tenants=()), 404),
        (world.token("root", scope="admin"), 403),
        (world.token("boss", scope="tenant:admin"), 403),
    ):
        assert (await world.call("GET", f"{STEP}/stream", token=token)).status == status


@in_world
async def test_a_watcher_is_cut_off_when_it_is_taken_back(world: World) -> None:
    await furnish(world)
    async with auditing(world):
        await world.call("POST", f"{STEP}/watchers", {"user": "bert"})
        stream = await world.open(f"{STEP}/stream", token=world.token("bert"))
        assert [event.event if (event := await stream.next()) else "" for _ in range(2)] == ["step", ""]
        taken = await world.call("DELETE", f"{STEP}/watchers/bert")
        assert (taken.status, taken.json()["watchers"]) == (200, [])
        last = await stream.next()
        assert last is not None
        assert (last.event, last.data["code"], "not shared" in last.data["message"]) == ("error", "forbidden", True)
        assert (await world.call("GET", STEP, token=world.token("bert"))).status == 404
        found = (await world.call("GET", "/audit", token=world.admin)).json()["items"]
        kinds = [(each["type"], each["actor"]) for each in found]
    for entry in (("terminal.share", "alice"), ("terminal.watch", "bert"), ("terminal.unshare", "alice")):
        assert entry in kinds


@in_world
async def test_a_watcher_is_told_how_the_terminal_ended(world: World) -> None:
    desk = await furnish(world)
    await world.call("POST", f"{STEP}/watchers", {"user": "bert"})
    stream = await world.open(f"{STEP}/stream", token=world.token("bert"))
    assert [event.event if (event := await stream.next()) else "" for _ in range(2)] == ["step", ""]
    desk.is_over = True
    over = StepRecord(step=0, run=1, name="bash", nodes=("n1",), tasks=1, started_at=1, ended_at=2)
    await world.do(RecordSteps(number=1, steps=(over,)))
    assert world.state.allocations[1].watchers == ()
    assert [event.event if (event := await stream.next()) else "" for _ in range(2)] == ["result", "end"]
    assert (await world.call("GET", f"{STEP}/stream", token=world.token("bert"))).status == 404


@in_world
async def test_what_cannot_be_shared_is_named(world: World) -> None:
    await furnish(world)
    for path, user, status, told in (
        (f"{STEP}/watchers", "alice", 400, "names no other user"),
        (f"{STEP}/watchers", " ", 400, "names no other user"),
        (f"{STEP}/watchers", "x" * 65, 400, "user"),
        (f"{STEP}/watchers", "be\nrt", 400, "user"),
        ("/allocations/a1/steps/1/watchers", "bert", 409, "a step, not a terminal"),
        ("/allocations/a1/steps/7/watchers", "bert", 404, "no step"),
        ("/allocations/a9/steps/0/watchers", "bert", 404, "no allocation"),
    ):
        answer = await world.call("POST", path, {"user": user})
        assert (answer.status, told in answer.error["message"]) == (status, True), answer.error


@in_world
async def test_a_terminal_of_sensitive_work_is_never_shared(world: World) -> None:
    async with auditing(world):
        vcluster = world.state.vclusters["default"]
        await world.do(SetVcluster(vcluster=replace(vcluster, scheduler=SENSITIVE)))
        await furnish(world)
        answer = await world.call("POST", f"{STEP}/watchers", {"user": "bert"})
        assert (answer.status, "sensitive" in answer.error["message"]) == (403, True), answer.error
        assert (await world.call("GET", f"{STEP}/stream", token=world.token("bert"))).status == 404
