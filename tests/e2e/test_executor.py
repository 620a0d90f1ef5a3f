"""Python functions on the cluster: results, remote failures, kills, cancellation, the event loop."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, as_completed
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import AllocationSpec, Client, Executor, Refused, TaskFailed
from lattice_sdk.executor.pickles import NotPicklable

pytestmark = pytest.mark.e2e


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster.api_url, token=cluster.token) as made:
        yield made


@pytest.fixture
def executor(client: Client, scratch: Path) -> Iterator[Executor]:
    with Executor(client, directory=scratch) as made:
        yield made


def test_map_returns_results_in_order_from_few_tasks(executor: Executor, client: Client) -> None:
    offset = 7
    assert list(executor.map(lambda x, y: x + y + offset, range(200), range(200), timeout=60)) == [
        2 * x + offset for x in range(200)
    ]
    newest = client.list_allocations(limit=1).items[0]
    assert newest.task_counts is not None
    assert newest.task_counts.size < 200


def test_calls_submitted_together_are_one_group_and_run_elsewhere(executor: Executor, client: Client) -> None:
    def where(number: int, *, factor: int) -> tuple[int, str, int]:
        return number * factor, os.environ["LATTICE_ALLOC_ID"], os.getpid()

    futures = [executor.submit(where, number, factor=3) for number in range(4)]
    results = [future.result(timeout=60) for future in as_completed(futures, timeout=60)]
    assert sorted(number for number, _, _ in results) == [0, 3, 6, 9]
    assert os.getpid() not in {pid for _, _, pid in results}


def test_an_exception_is_raised_here_with_the_traceback_from_there(executor: Executor) -> None:
    def divide(by: int) -> float:
        return 1 / by

    future = executor.submit(divide, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        future.result(timeout=60)
    assert "in divide" in str(caught.value.__cause__)
    assert list(executor.map(divide, [1, 2], timeout=60)) == [1.0, 0.5]


def test_a_killed_task_says_how_it_ended_and_what_it_wrote(executor: Executor) -> None:
    def die() -> None:
        os.write(2, b"about to die\n")
        os.kill(os.getpid(), 9)

    with pytest.raises(TaskFailed, match="signal 9") as caught:
        executor.submit(die).result(timeout=60)
    assert "about to die" in "".join(caught.value.__notes__)


def test_results_before_a_kill_are_kept(executor: Executor) -> None:
    def sometimes(number: int) -> int:
        if number == 2:
            os._exit(3)
        return number

    results = executor.map(sometimes, range(4), chunksize=4, timeout=60)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(TaskFailed, match="exit code 3"):
        next(results)


def test_a_cancelled_future_ends_its_task(executor: Executor, client: Client, tmp_path: Path) -> None:
    mark = tmp_path / "began"

    def linger(path: str) -> None:
        Path(path).touch()
        time.sleep(600)

    future = executor.submit(linger, str(mark))
    eventually(mark.exists, "the call begins")
    eventually(future.running, "the future runs")
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(timeout=1)
    newest = client.list_allocations(limit=1).items[0]
    assert client.wait(newest.id, timeout=60).state == "Cancelled"


def test_the_event_loop_can_await_calls(executor: Executor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, abs, -number) for number in range(3)))

    assert asyncio.run(main()) == [0, 1, 2]


def test_what_cannot_be_sent_or_submitted_fails_its_future(executor: Executor, client: Client, tmp_path: Path) -> None:
    with pytest.raises(NotPicklable, match="cannot send this"):
        executor.submit(print, threading.Lock()).result(timeout=60)
    too_large = Executor(client, spec=AllocationSpec(nodes=1_000), directory=tmp_path / "calls")
    with too_large, pytest.raises(Refused, match="not enough nodes"):
        too_large.submit(abs, -1).result(timeout=60)
    assert list((tmp_path / "calls").iterdir()) == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        too_large.submit(abs, -1)


def test_a_thousand_trivial_functions_take_seconds(executor: Executor) -> None:
    began = time.monotonic()
    assert sum(executor.map(abs, range(1_000), timeout=60)) == 499_500
    assert time.monotonic() - began < 30  # the goal is 5 s on an idle machine
