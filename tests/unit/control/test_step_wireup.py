"""What orders say about MPI, and what becomes of a step that its PMI service ended."""

import pytest
from msgspec.structs import replace

from lattice.control.steps.plan import decode_plan
from lattice.control.steps.wireup import WireUp, choose_port
from lattice.ports.nodes.agents import KnownStep, PmiUse, StepKey, StepReport, TaskEnd
from lattice.ports.nodes.steps import EndOrder, LaunchOrder, LaunchRequest, StepRefused
from lattice.testing import scenario
from tests.unit.control.test_steps import Book
from tests.unit.control.world import World


def launches(book: Book) -> dict[str, LaunchOrder]:
    return {node: order for node, order in book.orders() if isinstance(order, LaunchOrder)}


@scenario
async def test_all_nodes_get_the_key_of_the_launch_and_the_address_of_the_first() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    await book.launch(tasks=3, launch_id="first")
    orders = launches(book)
    assert {order.pmi.key for order in orders.values() if order.pmi} == {b"first".ljust(32, b"-")}
    for order in orders.values():
        assert order.pmi is not None
        assert (order.pmi.kinds, order.pmi.host, order.pmi.counts) == (("pmi1", "pmi2"), "n1.example", (2, 1))
        assert (order.pmi.timeout_s, order.master_host) == (60.0, "n1.example")
        assert order.pmi.key not in order.plan
        assert str(order.pmi.key) not in repr(order)


@scenario
async def test_nodes_of_a_large_step_learn_to_whom_they_give_and_hide_it_where_agents_use_tls() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    await book.launch(tasks=3)
    orders = launches(book)
    assert {(order.pmi.heads, order.pmi.hidden) for order in orders.values() if order.pmi} == {((), False)}
    wire_up = WireUp(lambda _: b"k" * 32, lambda node: f"{node}.example:8", hidden=True, star_nodes=1)
    plan = decode_plan(orders["n1"].plan)
    assert plan is not None
    pmi = wire_up.meeting(world.replica.state, plan, LaunchRequest(launch_id="first", argv=("work",))).pmi
    assert pmi is not None
    assert (pmi.heads, pmi.head_hosts, pmi.hidden) == ((1,), ("n2.example",), True)


@scenario
async def test_a_step_may_ask_for_one_protocol_or_for_none() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    await book.launch(pmi="pmi2", fence_timeout_s=5.0)
    pmi = launches(book)["n1"].pmi
    assert pmi is not None
    assert (pmi.kinds, pmi.timeout_s) == (("pmi2",), 5.0)
    await book.launch(pmi="none")
    assert launches(book)["n1"].pmi is None


@scenario
async def test_pmix_is_offered_where_all_nodes_have_it_and_refused_by_name_where_one_lacks_it() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    state = world.replica.state
    for name, features in (("n1", ("pmix",)), ("n2", ())):
        node = state.nodes[name]
        state.nodes[name] = replace(node, hardware=replace(node.hardware, features=features))
    await book.launch(tasks=1)
    assert launches(book)["n1"].pmi.kinds == ("pmi1", "pmi2", "pmix")  # type: ignore[union-attr]
    await book.launch(tasks=3)
    assert launches(book)["n1"].pmi.kinds == ("pmi1", "pmi2")  # type: ignore[union-attr]
    with pytest.raises(StepRefused, match="node n2 without PMIx"):
        await book.launch(tasks=3, pmi="pmix")


@scenario
async def test_steps_of_a_node_meet_at_different_ports() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    ports = []
    for _ in range(4):
        await book.launch(tasks=1)
        ports.append(launches(book)["n1"].master_port)
    assert len(set(ports)) == 4
    first = choose_port("a", ())
    assert choose_port("a", (first,)) == first + 1


@scenario
async def test_the_next_leader_gives_the_remaining_nodes_the_same_key() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    step = await book.launch(launch_id="first")
    order = launches(book)["n1"]
    book.registry = book.make()
    run = world.replica.state.allocations[book.number].run
    known = KnownStep(key=StepKey(book.number, run, step), launch_id="first", plan=order.plan)
    book.registry.registered("n1", (known,))
    world.links.step_orders.clear()
    allocation = world.replica.state.allocations[book.number]
    request = LaunchRequest(launch_id="first", argv=("work",))
    await book.registry.launch(allocation, request)
    assert launches(book)["n2"].pmi == order.pmi
    assert launches(book)["n2"].master_port == order.master_port


@scenario
async def test_tasks_that_died_because_another_aborted_do_not_count() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    step = await book.launch(tasks=3, no_kill=True)
    run = world.replica.state.allocations[book.number].run
    ends = (TaskEnd(rank=0, signal=9), TaskEnd(rank=1, exit_code=7))
    report = StepReport(
        key=StepKey(book.number, run, step),
        launch_id=book.launch_id(step),
        ended=True,
        tasks=ends,
        message="rank 1 called MPI_Abort with code 7",
        was_ended=True,
    )
    book.registry.report("n1", report)
    assert [order.grace_s for _, order in book.orders() if isinstance(order, EndOrder)] == [0.0]
    book.report("n2", step, TaskEnd(rank=2, signal=9))
    view = book.registry.find(book.number, step)
    assert view is not None
    assert (view.exit_code, view.message) == (7, "rank 1 called MPI_Abort with code 7")
    assert view.failures == ("task 1 on n1: exited with code 7",)


@scenario
async def test_ranks_that_loaded_a_library_and_never_met_are_warned_of() -> None:
    world = World()
    book = Book(world)
    await book.begin()
    step = await book.launch(tasks=3)
    run = world.replica.state.allocations[book.number].run
    for node, ranks in (("n1", (0, 1)), ("n2", (2,))):
        report = StepReport(
            key=StepKey(book.number, run, step),
            launch_id=book.launch_id(step),
            ended=True,
            tasks=tuple(TaskEnd(rank=rank) for rank in ranks),
            pmi=PmiUse(library="libmpi.so.40.30.4"),
        )
        book.registry.report(node, report)
    view = book.registry.find(book.number, step)
    assert view is not None
    (line,) = view.failures
    assert view.exit_code == 0
    assert line.startswith("warning: 3 tasks ran as 3 programs of one rank each: they loaded libmpi.so.40.30.4")
