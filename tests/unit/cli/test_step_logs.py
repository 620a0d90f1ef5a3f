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


@pytest.mark.parametrize(
    "words",
    [("--rank", "1"), ("--step", "0", "--tail", "3"), ("a2", "--step", "0"), ("--step", "0", "--grep", "x")],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], cli: Cli, api: FakeApi) -> None:
    done = cli("logs", "a1", *words)
    assert (done.code, "--step" in done.err, api.asked) == (2, True, [])
