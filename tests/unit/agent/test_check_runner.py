"""When checks run, and what the server is told of them."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lattice.agent.checks import builtins, runner
from lattice.agent.checks.builtins import Surroundings
from lattice.agent.checks.options import BuiltinOptions, Check
from lattice.agent.checks.runner import CheckRunner
from lattice.core.model.nodes.health import CheckRule, Consequence, Outcome
from lattice.core.model.nodes.observations import Beat
from lattice.testing import scenario
from lattice.wire.pb import agent_pb2 as pb

DEADLINE_S = 60.0
NEVER_S = 3600.0
HANGS_S = 1.0


class Stage:
    """A runner whose built-in checks say what the test wants."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **checks: Callable[[], Outcome | None]) -> None:
        monkeypatch.setattr(runner, "BUILTINS", {name: _look(answer) for name, answer in checks.items()})
        self.sent: list[pb.HealthReport] = []
        rules = [
            Check(
                rule=CheckRule(
                    name=name,
                    period_s=NEVER_S,
                    timeout_s=HANGS_S if name == "hang" else DEADLINE_S,
                    consequence=Consequence.DEGRADE,
                )
            )
            for name in checks
        ]
        here = Surroundings(state_dir=tmp_path)
        self.here = here
        self.runner = CheckRunner(rules, here, "n1", lambda message: self.sent.append(message.health_report))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)

    def verdicts(self) -> dict[str, int]:
        return {each.name: each.verdict for each in self.sent[-1].checks}

    async def ask(self, *names: str) -> pb.HealthReport:
        ticket = 1 + len(self.sent)
        assert self.runner.received(pb.ServerMessage(run_checks=pb.RunChecks(ticket=ticket, names=names)))
        await self.until(lambda: any(ticket in report.tickets for report in self.sent))
        return next(report for report in self.sent if ticket in report.tickets)


def _look(answer: Callable[[], Outcome | None]) -> builtins.Builtin:
    return lambda here, options: answer()


@scenario
async def test_nothing_is_said_before_a_stream_begins_then_all_checks_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, good=builtins.passed, bad=lambda: builtins.failed("broken"))
    stage.runner.start()
    await stage.until(lambda: stage.runner.failing == 1)
    assert stage.sent == []
    assert stage.runner.fill(Beat(seq=1)).failing_checks == 1
    stage.runner.announce()
    assert stage.verdicts() == {"good": pb.CHECK_VERDICT_PASSED, "bad": pb.CHECK_VERDICT_FAILED}
    assert stage.sent[-1].checks[1].text == "broken"
    assert stage.sent[-1].checks[1].consequence == pb.CHECK_CONSEQUENCE_DEGRADE
    stage.runner.leave()
    await stage.runner._run_once("bad")
    assert len(stage.sent) == 1
    stage.runner.close()


@scenario
async def test_checks_that_have_not_run_are_pending_and_a_change_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [None, None, builtins.passed("late")]
    stage = Stage(tmp_path, monkeypatch, late=lambda: answers.pop(0))
    stage.runner.announce()
    assert stage.verdicts() == {"late": pb.CHECK_VERDICT_PENDING}
    stage.runner.start()
    await stage.until(lambda: len(stage.sent) == 2)
    assert stage.verdicts() == {"late": pb.CHECK_VERDICT_PASSED}
    stage.runner.close()


@scenario
async def test_the_server_can_have_checks_run_and_an_unchanged_result_is_told_to_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def good() -> Outcome:
        ran.append("good")
        return builtins.passed()

    def other() -> Outcome:
        ran.append("other")
        return builtins.passed()

    stage = Stage(tmp_path, monkeypatch, good=good, other=other)
    stage.runner.announce()
    answer = await stage.ask()
    assert sorted(ran) == ["good", "other"]
    assert len(answer.checks) == 2
    await stage.ask("good")
    assert sorted(ran) == ["good", "good", "other"]
    stage.runner.close()


def test_a_check_that_hangs_has_failed_is_not_started_again_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, started = threading.Event(), []

    def hang() -> Outcome:
        started.append(time.monotonic())
        let_go.wait(DEADLINE_S)
        return builtins.passed()

    async def play() -> None:
        stage = Stage(tmp_path, monkeypatch, hang=hang, good=builtins.passed)
        stage.runner.announce()
        answer = await stage.ask()
        told = {each.name: (each.verdict, each.text) for each in answer.checks}
        assert told["hang"] == (pb.CHECK_VERDICT_FAILED, "took longer than 1 s")
        assert told["good"][0] == pb.CHECK_VERDICT_PASSED
        again = await stage.ask("hang")
        assert next(each.text for each in again.checks if each.name == "hang") == "still hangs"
        assert len(started) == 1
        let_go.set()
        await stage.until(lambda: stage.runner._hanging["hang"].done())
        last = await stage.ask("hang")
        assert next(each.verdict for each in last.checks if each.name == "hang") == pb.CHECK_VERDICT_PASSED
        stage.runner.close()

    try:
        asyncio.run(play())
    finally:
        let_go.set()


@scenario
async def test_a_check_that_breaks_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Outcome:
        raise ZeroDivisionError

    stage = Stage(tmp_path, monkeypatch, broken=broken)
    stage.runner.announce()
    answer = await stage.ask()
    assert (answer.checks[0].verdict, answer.checks[0].text) == (
        pb.CHECK_VERDICT_FAILED,
        "broke: ZeroDivisionError",
    )
    stage.runner.close()


@scenario
async def test_acknowledgements_tell_how_far_the_clock_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, monkeypatch, good=builtins.passed)
    stage.runner.announce()
    behind_ms = int(time.time() * 1000) + 100_000
    ack = pb.HealthAck(seq=stage.sent[-1].seq, server_time_ms=behind_ms)
    assert stage.runner.received(pb.ServerMessage(health_ack=ack))
    reading = stage.here.clock()
    assert reading is not None
    assert reading.offset_s == pytest.approx(-100, abs=5)
    assert not stage.runner.received(pb.ServerMessage(rejoin=pb.Rejoin()))
    stage.runner.close()


def test_mounts_must_be_there_and_answer(tmp_path: Path) -> None:
    async def play(paths: tuple[str, ...]) -> Outcome:
        check = Check(rule=CheckRule(name="mounts", timeout_s=DEADLINE_S), options=BuiltinOptions(paths=paths))
        made = CheckRunner([check], Surroundings(state_dir=tmp_path), "n1", lambda message: None)
        outcome = await made._outcome(check)
        made.close()
        assert outcome is not None
        return outcome

    assert asyncio.run(play(("/proc",))) == builtins.passed("1 mounted and answering")
    assert asyncio.run(play(("/proc", "/nowhere"))) == builtins.failed("nothing is mounted on /nowhere")


@scenario
async def test_what_somebody_met_fails_the_check_at_once_until_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, disk_space=builtins.passed)
    name = runner.DISK_SPACE
    check = stage.runner._checks[name]
    stage.runner._checks[name] = replace(check, rule=replace(check.rule, failures_needed=3))
    stage.runner.announce()
    await stage.runner.fail(name, "cannot write the run's folder")
    assert stage.verdicts() == {name: pb.CHECK_VERDICT_FAILED}
    assert stage.sent[-1].checks[0].text == "cannot write the run's folder"
    await stage.runner._run_once(name)
    assert stage.verdicts() == {name: pb.CHECK_VERDICT_PASSED}
    stage.runner.close()


@scenario
async def test_a_check_under_way_does_not_hide_what_was_met_since_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def look() -> Outcome:
        go.wait(DEADLINE_S)
        return builtins.passed()

    stage = Stage(tmp_path, monkeypatch, disk_space=look)
    stage.runner.announce()
    under_way = asyncio.create_task(stage.runner._run_once(runner.DISK_SPACE))
    await stage.until(lambda: stage.runner._under_way)
    await asyncio.sleep(0)
    met = asyncio.create_task(stage.runner.fail(runner.DISK_SPACE, "no room"))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(under_way, met)
    assert stage.verdicts() == {runner.DISK_SPACE: pb.CHECK_VERDICT_FAILED}
    stage.runner.close()
