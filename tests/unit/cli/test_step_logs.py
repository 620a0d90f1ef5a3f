"""`lattice logs --step`, in memory: all ranks, one of them, and what cannot be shown."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.cli.test_launch import STEP, records, result, serve
from tests.unit.sdk.fake_api import FakeApi, Reply


def test_the_output_of_a_step_is_shown_by_rank(cli: Cli, api: FakeApi) -> None:
    serve(api, records((0, 1, b"zero\n"), (1, 1, b"one\n"), (1, 2, b"bad\n")), result(0))
    api.on("GET", "/allocations/a1/steps/0", Reply(json={**STEP, "state": "ended"}))
    done = cli("logs", "a1", "--step", "0")
    assert (done.code, done.out, done.err) == (0, "0: zero\n1: one\n", "1: bad\n")
    done = cli("logs", "a1", "--step", "0", "--rank", "1", "--stdout")
    assert (done.code, done.out, done.err) == (0, "one\n", "")


def test_a_step_that_runs_is_followed_or_refused(cli: Cli, api: FakeApi) -> None:
    serve(api, records((0, 1, b"zero\n")), result(3))
    api.on("GET", "/allocations/a1/steps/0", Reply(json=STEP))
    done = cli("logs", "a1", "--step", "0")
    assert (done.code, "--follow" in done.err) == (1, True)
    assert cli("logs", "a1", "--step", "0", "--follow").out == "0: zero\n"
    done = cli("logs", "a1", "--step", "0", "--rank", "2", "-f")
    assert (done.code, "no rank 2" in done.err) == (1, True)


def of_node(node: int, *found: tuple[int, int, bytes]) -> str:
    return records(*found).replace('"node":0', f'"node":{node}')


def serve_two_nodes(api: FakeApi) -> None:
    first = of_node(0, (0, 1, b"a1\na"), (1, 1, b"b1\n"), (0, 1, b"2\na3\n"), (0, 2, b"bad a\n"))
    second = of_node(1, (2, 1, b"c1\nc2\nc3"), (2, 2, b"bad c\n"))
    serve(api, first, second, result(0))
    ended = {**STEP, "state": "ended", "tasks": 3, "nodes": ["n1", "n2"]}
    api.on("GET", "/allocations/a1/steps/0", Reply(json=ended))


@pytest.mark.parametrize(
    ("words", "out", "err"),
    [
        (("--node", "n2"), "2: c1\n2: c2\n2: c3\n", "2: bad c\n"),
        (("--node", "n1", "--stderr"), "", "0: bad a\n"),
        (("--tail", "2"), "0: a2\n0: a3\n2: c2\n2: c3\n", "0: bad a\n2: bad c\n"),
        (("--tail", "1", "--rank", "1"), "b1\n", ""),
        (("--tail", "0"), "", ""),
        (("--grep", "[13]$"), "0: a1\n1: b1\n0: a3\n2: c1\n2: c3\n", ""),
        (("--grep", "bad", "--node", "n2"), "", "2: bad c\n"),
        (("--grep", "a", "--follow"), "0: a1\n0: a2\n0: a3\n", "0: bad a\n2: bad c\n"),
        (("--tail", "2", "--grep", "3"), "0: a3\n2: c3\n", ""),
    ],
)
def test_nodes_lines_and_the_end_of_output_are_chosen(
    words: tuple[str, ...], out: str, err: str, cli: Cli, api: FakeApi
) -> None:
    serve_two_nodes(api)
    done = cli("logs", "a1", "--step", "0", *words)
    assert (done.code, done.out, done.err) == (0, out, err)


def test_a_node_without_tasks_of_the_step_is_refused(cli: Cli, api: FakeApi) -> None:
    serve_two_nodes(api)
    done = cli("logs", "a1", "--step", "0", "--node", "n3")
    assert (done.code, "no tasks on n3" in done.err, "n1, n2" in done.err) == (1, True, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--rank", "1"),
        ("a2", "--step", "0"),
        ("--step", "0", "--tail", "3", "--follow"),
        ("--step", "0", "--since", "10m"),
        ("--step", "0", "--until", "10m"),
        ("--step", "0", "--timestamps"),
        ("--step", "0", "--run", "1"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], cli: Cli, api: FakeApi) -> None:
    done = cli("logs", "a1", *words)
    assert (done.code, "--step" in done.err, api.asked) == (2, True, [])
