"""Steps and nodes that lie: a node's word counts for its own tasks of its own runs."""

import time

import msgspec
import pytest

from lattice.control.steps.plan import StepPlan, decode_plan, encode_plan, step_name
from lattice.control.steps.registry import UNHEARD
from lattice.control.steps.trust import MAX_REFUSED
from lattice.core.model.work.layout import Distribution, Layout
from lattice.ports.nodes.agents import KnownStep, StepKey, StepReport, TaskEnd
from lattice.ports.nodes.steps import AckOrder, EndOrder
from lattice.testing import scenario
from tests.unit.control.test_steps import Book
from tests.unit.control.world import World


class Cluster(Book):
    """A running allocation on n1 and n2; n3 has nothing to do with it."""

    async def begin(self) -> None:
        await self.world.prepare("n1", "n2", "n3")
        self.number = await self.world.running("n1", "n2")

    def plan(self, **more: object) -> StepPlan:
        fields = {
            "number": self.number,
            "run": 1,
            "step": 7,
            "launch_id": "forged",
            "name": "forged",
            "layout": Layout(nodes=("n1", "n2"), counts=(1, 1)),
            "started_at": 1,
        }
        return StepPlan(**{**fields, **more})  # type: ignore[arg-type]

    def tell(self, node: str, plan: StepPlan, *, number: int = 0, run: int = 1, step: int = -1) -> None:
        key = StepKey(number or self.number, run, plan.step if step < 0 else step)
        known = KnownStep(key=key, launch_id=plan.launch_id, plan=encode_plan(plan))
        self.registry.registered(node, (known,))


@scenario
async def test_a_report_of_a_node_without_the_step_changes_nothing() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    step = await cluster.launch(tasks=2)
    cluster.report("n3", step, TaskEnd(rank=0, exit_code=1, message="killed by n3"))
    view = cluster.registry.find(cluster.number, step)
    assert view is not None
    assert (view.exit_code, view.closed_nodes, view.failures) == (0, (), ())
    assert cluster.sent(EndOrder) == []
    assert cluster.registry.counts["foreign_steps"] == 1


@scenario
async def test_a_node_tells_the_end_of_its_own_tasks_alone() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    step = await cluster.launch(tasks=2)
    cluster.report("n1", step, TaskEnd(rank=1, exit_code=9), TaskEnd(rank=77, exit_code=9), over=False)
    assert cluster.sent(EndOrder) == []
    cluster.report("n1", step, TaskEnd(rank=0))
    cluster.report("n2", step, TaskEnd(rank=1))
    await cluster.registry.record()
    assert cluster.records() == [(0, 0, 0)]


@scenario
async def test_made_up_steps_of_foreign_allocations_are_not_taken_over() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    cluster.tell("n3", cluster.plan())
    cluster.tell("n3", cluster.plan(layout=Layout(nodes=("n3",), counts=(1,))))
    cluster.tell("n1", cluster.plan(run=9), run=9)
    assert cluster.registry.live(cluster.number) == ()
    assert await cluster.launch() == 0, "the numbers of steps go on where they were"


@pytest.mark.parametrize(
    "layout",
    [
        Layout(nodes=("n1",), counts=(20_000_000,)),
        Layout(nodes=("n1", "n2"), counts=(65_536, 1)),
        Layout(nodes=("n1", "n2"), counts=(0, 1)),
        Layout(nodes=("n1", "n2"), counts=(-1, 1)),
        Layout(nodes=("n1", "n2"), counts=(1,), distribution=Distribution.CYCLIC),
        Layout(nodes=("n1", "n1"), counts=(1, 1)),
        Layout(nodes=("n1", "n3"), counts=(1, 1)),
        Layout(nodes=("n2",), counts=(1,)),
    ],
)
def test_layouts_that_no_step_has_are_not_followed(layout: Layout) -> None:
    @scenario
    async def told() -> None:
        cluster = Cluster(World())
        await cluster.begin()
        cluster.tell("n1", cluster.plan(layout=layout))
        assert cluster.registry.live(cluster.number) == ()

    told()


@scenario
async def test_a_number_far_beyond_the_next_one_does_not_count() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    cluster.tell("n1", cluster.plan(step=(1 << 32) - 1))
    cluster.tell("n1", cluster.plan(), step=9)
    assert cluster.registry.live(cluster.number) == ()
    assert await cluster.launch() == 0


@scenario
async def test_a_known_step_is_not_replaced_by_another_of_the_same_number() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    step = await cluster.launch(tasks=2, launch_id="mine")
    cluster.tell("n1", cluster.plan(step=step))
    view = cluster.registry.find(cluster.number, step)
    assert view is not None
    assert (view.launch_id, view.name) == ("mine", "work")


@scenario
async def test_the_end_of_a_step_that_nobody_follows_is_acknowledged_so_that_its_node_forgets_it() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    report = StepReport(key=StepKey(cluster.number, 9, 3), launch_id="old", ended=True, tasks=())
    cluster.registry.report("n3", report)
    assert cluster.sent(AckOrder) == ["n3"]


@scenario
async def test_moments_that_cannot_be_written_are_not_followed() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    for moment in (-1, 1 << 62):
        cluster.tell("n1", cluster.plan(started_at=moment))
    assert cluster.registry.live(cluster.number) == ()


@scenario
async def test_names_are_shown_without_what_a_terminal_obeys() -> None:
    cluster = Cluster(World())
    await cluster.begin()
    cluster.tell("n1", cluster.plan(name="\x1b[31m" + "x" * 2000))
    view = cluster.registry.find(cluster.number, 7)
    assert view is not None
    assert (view.name[:5], len(view.name)) == ("?[31m", 64)
    assert step_name(("/bin/\x1b]0;owned\x07",)) == "?]0;owned?"


def test_only_plain_digits_name_a_task() -> None:
    layout = Layout(nodes=("n1",), counts=(1,))
    plan = StepPlan(number=1, run=1, step=0, launch_id="", name="", layout=layout, started_at=1)
    assert msgspec.structs.replace(plan, stdin="0").input_nodes() == ("n1",)
    for file in ("\u00b2", "\u0663", "input.txt"):
        assert msgspec.structs.replace(plan, stdin=file).input_nodes() == ()


@scenario
async def test_thousands_of_made_up_steps_of_a_nodes_own_run_are_taken_in_a_moment_and_no_more_than_an_allocation_may_have() -> (
    None
):
    cluster = Cluster(World())
    await cluster.begin()
    took_s = []
    for many in (1000, 4000):
        plans = [cluster.plan(step=100 + step) for step in range(many)]
        keys = [StepKey(cluster.number, 1, plan.step) for plan in plans]
        known = [
            KnownStep(key=key, launch_id="forged", plan=encode_plan(plan))
            for key, plan in zip(keys, plans, strict=True)
        ]
        cluster.registry.reset()
        began_s = time.thread_time()
        cluster.registry.registered("n1", tuple(known))
        took_s.append(time.thread_time() - began_s)
    assert len(cluster.registry.live(cluster.number)) == UNHEARD
    assert took_s[1] < 10 * took_s[0], "not by the square of their number"


@scenario
async def test_thousands_of_foreign_steps_in_one_message_are_a_few_lines_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(World())
    await cluster.begin()
    many = 5000
    key = StepKey(cluster.number, 1, 7)
    cluster.registry.registered("n3", (KnownStep(key=key, launch_id="x", plan=b"\x81"),) * many)
    assert cluster.registry.counts["foreign_steps"] == many
    assert len([record for record in caplog.records if "foreign step" in record.getMessage()]) < 20


@scenario
async def test_few_of_the_plans_that_a_node_makes_up_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(World())
    await cluster.begin()
    read = list[bytes]()

    def reading(data: bytes) -> StepPlan | None:
        read.append(data)
        return decode_plan(data)

    monkeypatch.setattr("lattice.control.steps.trust.decode_plan", reading)
    elsewhere = cluster.plan(layout=Layout(nodes=("n1", "n9"), counts=(1, 1)))
    forged = KnownStep(key=StepKey(cluster.number, 1, 7), launch_id="forged", plan=encode_plan(elsewhere))
    cluster.registry.registered("n1", (forged,) * 5000)
    assert len(read) == MAX_REFUSED
    assert cluster.registry.counts["foreign_steps"] == 5000
    cluster.tell("n1", cluster.plan())
    assert [live.launch_id for live in cluster.registry.live(cluster.number)] == ["forged"], "the next message is read"
