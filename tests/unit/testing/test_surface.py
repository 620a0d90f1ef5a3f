"""What others may build on."""

import asyncio

import pytest

import lattice.testing
from lattice.agent.machine.state import RunStarted, ShimLost
from lattice.core.machine.commands import SetTenant
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.site.tenants import Tenant
from lattice.ports.nodes.agents import Phase, RunKey, StartOrder, StopOrder
from lattice.ports.quorum.log import LogFull
from lattice.testing import FakeAgent, FakeLinks, FakeReplica, HandClock, NotInTime, eventually, scenario


def test_public_names_change_on_purpose_only() -> None:
    assert lattice.testing.__all__ == [
        "QUICK_TIMINGS",
        "CommandFailed",
        "FakeAgent",
        "FakeLinks",
        "FakeReplica",
        "HandClock",
        "LocalCluster",
        "NotInTime",
        "eventually",
        "scenario",
    ]


def test_eventually_returns_the_first_true_answer() -> None:
    answers = iter([None, 0, "seen"])
    assert eventually(lambda: next(answers), "an answer", every_s=0) == "seen"


def test_eventually_ends_with_what_was_seen_last() -> None:
    with pytest.raises(NotInTime, match=r"a miracle \(last seen: 0\)"):
        eventually(lambda: 0, "a miracle", within_s=0, every_s=0)


def test_time_stands_until_it_is_passed() -> None:
    clock = HandClock()
    before = clock.now_ms(), clock.monotonic_s()
    assert (clock.now_ms(), clock.monotonic_s()) == before
    clock.pass_s(1.5)
    assert (clock.now_ms() - before[0], clock.monotonic_s() - before[1]) == (1500, 1.5)
    clock.ms -= 3_600_000
    assert clock.monotonic_s() - before[1] == 1.5


def test_a_coroutine_test_runs_with_its_arguments_and_its_failure_is_seen() -> None:
    seen: list[int] = []

    @scenario
    async def passes(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    @scenario
    async def fails() -> None:
        raise AssertionError("seen")

    passes(3)
    assert seen == [3]
    with pytest.raises(AssertionError, match="seen"):
        fails()


@scenario
async def test_a_replica_applies_at_once_tells_its_subscribers_and_fails_when_it_is_told_to() -> None:
    replica, heard = FakeReplica(HandClock()), list[int]()
    replica.subscribe(lambda index, envelope, events: heard.append(index))
    replica.failure = LogFull("no room")
    command = SetTenant(tenant=Tenant(name="physics"), create=True)
    with pytest.raises(LogFull):
        await replica.propose(command, actor="ops")
    assert not replica.state.tenants
    assert isinstance(await replica.propose(command, actor="ops"), Accepted)
    assert (list(replica.state.tenants), heard, replica.proposed) == (["physics"], [1], [command])


def test_links_keep_what_was_sent_to_connected_nodes() -> None:
    links, order = FakeLinks(open={"n1"}), StopOrder(key=RunKey(1, 1), grace_s=0.0, why="cancelled")
    assert links.send("n1", order)
    assert not links.send("n2", order)
    assert links.take() == [("n1", order)]
    links.close("n1", "gone")
    assert (links.take(), links.closed, links.is_connected("n1")) == ([], [("n1", "gone")], False)


def test_an_agent_that_is_restarted_finds_the_runs_that_its_shim_kept() -> None:
    agent, key = FakeAgent(), RunKey(7, 1)
    agent.answer()
    agent.tell(StartOrder(key=key))
    agent.tell(RunStarted(key=key, started_boot_s=5.0))
    agent.restart()
    agent.answer()
    assert agent.state.runs[key].phase is Phase.RUNNING
    agent.tell(ShimLost())
    agent.answer()
    assert agent.state.runs[key].phase is Phase.ENDED
