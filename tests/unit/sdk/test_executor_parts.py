"""The parts of the executor that need no cluster: chunks, outcomes in files, the line on the terminal."""

import io
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.executor import task
from lattice_sdk.executor.chunks import Chunk, Group, RemoteFuture, TaskFailed, chosen_chunksize
from lattice_sdk.executor.dispatch import Dispatcher
from lattice_sdk.executor.pickles import CallFailed, NotPicklable, dumped
from lattice_sdk.executor.progress import ProgressLine
from lattice_sdk.specification import AllocationSpec


class Stubborn(Exception):
    """Can be written and not be read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def stubborn() -> None:
    raise Stubborn("a", "b")


def group_of(directory: Path, *calls: task.Call) -> tuple[Group, list[RemoteFuture[object]]]:
    futures: list[RemoteFuture[object]] = [RemoteFuture() for _ in calls]
    group = Group([Chunk(dumped(list(calls)), futures)])
    group.write(directory, sys.path)
    return group, futures


def lost() -> BaseException:
    return TaskFailed("a1_0 was killed")


def test_few_calls_have_a_task_each_and_many_share_one() -> None:
    assert [chosen_chunksize(count, 8) for count in (1, 32, 33, 1_000)] == [1, 1, 2, 32]


def test_outcomes_settle_the_futures_of_their_calls(tmp_path: Path) -> None:
    group, futures = group_of(tmp_path, (abs, (-3,), {}), (int, ("x",), {}), (stubborn, (), {}))
    task.main(str(tmp_path), "0")
    group.chunks[0].settle(group.output_of(0), lost)
    assert futures[0].result(0) == 3
    with pytest.raises(ValueError, match="invalid literal") as caught:
        futures[1].result(0)
    assert "Traceback" in str(caught.value.__cause__)
    with pytest.raises(CallFailed, match="Stubborn: ab"):
        futures[2].result(0)


def test_calls_without_an_outcome_say_how_the_task_ended(tmp_path: Path) -> None:
    group, futures = group_of(tmp_path, (abs, (-3,), {}), (abs, (-4,), {}))
    task.main(str(tmp_path), "0")
    path = group.output_of(0)
    path.write_bytes(path.read_bytes()[:-1])  # killed while it wrote
    group.chunks[0].settle(path, lost)
    assert futures[0].result(0) == 3
    with pytest.raises(TaskFailed, match="was killed"):
        futures[1].result(0)


def test_calls_that_cannot_be_read_on_the_node_fail_with_the_reason(tmp_path: Path) -> None:
    group, futures = group_of(tmp_path, (abs, (-3,), {}))
    (tmp_path / "0.in").write_bytes(b"no pickle")
    assert task.main(str(tmp_path), "0") == 1
    group.chunks[0].settle(group.output_of(0), lost)
    with pytest.raises(pickle.UnpicklingError):
        futures[0].result(0)


def test_a_task_is_abandoned_when_all_its_calls_are_cancelled() -> None:
    futures: list[RemoteFuture[object]] = [RemoteFuture(), RemoteFuture()]
    chunk = Chunk(b"", futures)
    abandoned: list[Chunk] = []
    chunk.abandon = abandoned.append
    assert futures[0].cancel()
    assert abandoned == []
    assert futures[1].cancel()
    assert abandoned == [chunk]


def test_without_cloudpickle_a_lambda_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(NotPicklable) as caught:
        dumped(lambda: 1)
    assert "install cloudpickle" in "".join(caught.value.__notes__)


def test_the_line_says_how_many_are_done_and_goes_away() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, shown=True)
    line.add(10)
    line.show(4, 2)
    assert stream.getvalue().endswith("6/10 done, 2 tasks running")
    line.show(0, 0)
    assert stream.getvalue().endswith("\r\x1b[K")
    silent = io.StringIO()
    ProgressLine(silent, shown=None).show(1, 1)
    assert silent.getvalue() == ""


class DeafClient:
    """A client whose stream of events has ended for good."""

    def twin(self) -> "DeafClient":
        return self

    def watch(self, **_wanted: object) -> "DeafClient":
        return self

    def __iter__(self) -> Iterator[object]:
        raise LatticeError("the server is gone")

    def submit(self, _spec: object) -> object:
        return SimpleNamespace(id="g1")

    def stop(self) -> None: ...

    def close(self) -> None: ...


def test_a_call_fails_when_nothing_would_be_heard_of_its_end(tmp_path: Path) -> None:
    dispatcher = Dispatcher(cast("Client", DeafClient()), AllocationSpec(), tmp_path, cast("ProgressLine", Mock()))
    future: RemoteFuture[object] = RemoteFuture()
    dispatcher.order(Group([Chunk(b"", [future])]))
    with pytest.raises(LatticeError, match="the server is gone"):
        future.result(timeout=30)
    dispatcher.close()
