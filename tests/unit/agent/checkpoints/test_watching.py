"""What a node does with an order: request, hint, answer; once, also across a restart; within its time."""

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import pytest

from lattice.agent.checkpoints import directories, shared_memory
from lattice.agent.checkpoints.control import read_request
from lattice.testing import scenario
from lattice.wire.agents.messages import order_message
from tests.unit.agent.checkpoints.checkpoint_node import OWNER, Node


def writes(path: Path) -> None:
    (path / "state").write_bytes(b"x" * 100)
    (path / ".done").touch()


@scenario
async def test_the_request_is_in_place_before_the_hint_and_done_is_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    seen: list[object] = []

    def hint(path: Path) -> None:
        request = read_request(node.state / "checkpoints" / "7.1")
        assert request is not None
        seen.append((request.n, request.path, request.reason))
        writes(path)

    node.on_hint = hint
    told = await node.answer(node.order())
    assert (told.phase, told.bytes, seen) == ("done", 100, [(1, str(node.path), "user")])
    again = await node.answer(node.order())
    assert (again.phase, node.hints) == ("done", 1)
    sealed = await node.answer(node.order(seal=True, nodes=("n1",)))
    assert sealed.phase == "sealed"
    assert (node.path / "MANIFEST").exists()
    node.made.received(order_message(node.order(n=0)))  # of an earlier one, late
    assert len(node.reports) == 3


@scenario
async def test_nothing_that_catches_the_signal_is_known_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path, caught=0)
    told = await node.answer(node.order())
    assert (told.phase, told.message) == ("nothing", "none of its processes catches signal 10")
    assert (node.hints, node.path.exists(), read_request(node.state / "checkpoints" / "7.1")) == (0, False, None)
    node.caught, node.on_hint = 1, writes
    assert (await node.answer(node.order())).phase == "done", "the same number, once it can answer"
    empty = Node(tmp_path / "b", members=0)
    told = await empty.answer(empty.order())
    assert (told.phase, told.message, empty.hints) == ("nothing", "", 0)
    strange = Node(tmp_path / "c")
    (strange.state / "checkpoints" / "7.1").rmdir()
    assert "not started with checkpoints" in (await strange.answer(strange.order())).message


@scenario
async def test_a_failure_is_reported_in_the_words_of_the_work(tmp_path: Path) -> None:
    node = Node(tmp_path)

    def fails(path: Path) -> None:
        (path / ".failed").write_text("disk full")

    node.on_hint = fails
    told = await node.answer(node.order())
    assert (told.phase, told.message) == ("failed", "disk full")


@scenario
async def test_work_that_does_not_answer_in_time_has_failed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told = await node.answer(node.order(timeout_s=0.3))
    assert (told.phase, told.message.startswith("not complete within")) == ("failed", True)


@scenario
async def test_work_that_makes_progress_gets_half_as_long_again(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def write() -> None:
        for size in range(1, 200):
            (node.path / "state").write_bytes(b"x" * size)
            await asyncio.sleep(0.02)
            request = read_request(node.state / "checkpoints" / "7.1")
            if request is not None and request.deadline - request.asked > 1.3:
                (node.path / ".done").touch()
                return

    writing: list[asyncio.Task[None]] = []
    node.on_hint = lambda path: writing.append(asyncio.get_running_loop().create_task(write()))
    told = await node.answer(node.order(timeout_s=1.0))
    await writing[0]
    assert (told.phase, told.elapsed_s > 1.0) == ("done", True)


@scenario
async def test_the_agent_that_follows_waits_for_the_answer_and_does_not_hint_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.made.received(order_message(node.order()))
    async with asyncio.timeout(20):
        while not (node.state / "checkpoints" / "7.1" / "hinted").exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.01)
    for task in list(node.tasks):
        task.cancel()
    heir = node.agent()
    writes(node.path)
    told = await node.answer(node.order(), heir)
    assert (told.phase, node.hints) == ("done", 1)


@scenario
async def test_a_run_that_ended_says_nothing_more_and_one_that_had_written_does(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.alive = False
    node.made.received(order_message(node.order()))
    while node.tasks:
        await asyncio.gather(*node.tasks)
    assert node.reports == []
    node.on_hint = writes
    writes(node.path)
    assert (await node.answer(node.order())).phase == "done"


@scenario
async def test_storage_that_is_away_keeps_the_request_waiting(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.root.rmdir()
    node.made.received(order_message(node.order()))
    while node.tasks:
        await asyncio.gather(*node.tasks)
    assert ([each.phase for each in node.reports], node.hints) == (["storage_away"], 0)
    node.root.mkdir()
    node.on_hint = writes
    assert (await node.answer(node.order())).phase == "done"


@scenario
async def test_each_node_of_work_that_starts_everywhere_has_its_own_directory(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.on_hint = lambda path: writes(path / "n1")
    assert (await node.answer(node.order(apart=True))).phase == "done"
    await node.answer(node.order(seal=True, apart=True, nodes=("n1", "n2")))
    assert sorted(os.listdir(node.path)) == ["MANIFEST", "n1"]


@scenario
async def test_shared_memory_is_asked_and_answers(tmp_path: Path) -> None:
    node = Node(tmp_path)
    region = node.state / "checkpoints" / "7.1" / "shm"
    shared_memory.make(region, OWNER)

    async def work() -> None:
        while (standing := shared_memory.read(region)) is None or standing.request != 1:  # noqa: ASYNC110 - memory
            await asyncio.sleep(0.01)
        with open(region, "r+b") as file:
            file.seek(12)
            file.write((1).to_bytes(4, "little"))

    working = asyncio.get_running_loop().create_task(work())
    told = await node.answer(node.order(protocol="shmem"))
    await working
    assert (told.phase, node.hints) == ("done", 0)
    os.truncate(region, 3)
    other = msgspec.structs.replace(node.order(protocol="shmem"), n=2)
    node.made.received(order_message(other))
    while node.tasks:
        await asyncio.gather(*node.tasks)
    assert len(node.reports) == 1  # it cannot be asked; the servers repeat the order until its time is over


@scenario
async def test_all_checkpoints_are_removed_and_said_to_be_gone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.path.mkdir(parents=True)
    order = node.order(n=0, path=str(node.path.parent), remove=True)
    assert (await node.answer(order)).phase == "removed"
    assert not node.path.parent.exists()
    assert (await node.answer(order)).phase == "removed"


@scenario
async def test_removals_follow_one_another_and_repeated_orders_cost_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, begun = Node(tmp_path), list[str]()
    has_begun, may_end = threading.Event(), threading.Event()

    def hang(root: str, directory: str) -> None:
        begun.append(directory)
        has_begun.set()
        assert may_end.wait(20)

    monkeypatch.setattr(directories, "remove_all", hang)
    for path in ("a", "b", "a", "b"):
        assert node.made.received(order_message(node.order(n=0, path=path, remove=True)))
    assert await asyncio.to_thread(has_begun.wait, 20)
    assert begun == ["a"]
    may_end.set()
    await asyncio.gather(*node.tasks)
    assert begun == ["a", "b"]
    assert [report.phase for report in node.reports] == ["removed", "removed"]
