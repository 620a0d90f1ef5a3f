"""A term: the replica for as long as this server leads, and nothing afterwards."""

import asyncio

import pytest

from lattice.core.machine.outcomes import Accepted
from lattice.ports.quorum.replica import Replica, ReplicaStopped
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.leadership.term import Term
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.replica import LogReplica
from lattice.testing import HandClock, scenario
from tests.unit.quorum.world import founded, submission, submit


def in_memory() -> LogReplica:
    return LogReplica(log=MemoryLog(), archive=SqliteArchive(None), snapshots=None, clock=HandClock())


@scenario
async def test_it_shows_the_replica_and_proposes_through_it() -> None:
    async with founded(in_memory()) as replica:
        term: Replica = Term(replica)
        outcome = await term.propose(submission(), actor="ada", command_id="one")
        assert isinstance(outcome, Accepted)
        again = await term.propose(submission(), actor="ada", command_id="one")
        assert isinstance(again, Accepted)
        assert again.number == outcome.number
        both = await term.propose_many([submission("a"), submission("b")], "ada")
        assert all(isinstance(each, Accepted) for each in both)
        assert term.state is replica.state
        assert term.applied_index == replica.applied_index == await term.read_index()
        await term.wait_for(term.applied_index)
        assert await term.archived(outcome.number) is None
        assert term.is_leader


@scenario
async def test_nothing_is_proposed_once_it_has_ended() -> None:
    async with founded(in_memory()) as replica:
        term = Term(replica)
        term.end()
        term.end()
        with pytest.raises(ReplicaStopped, match="no longer the leader"):
            await term.propose(submission(), actor="ada")
        with pytest.raises(ReplicaStopped):
            await term.propose_many([submission()], "ada")
        assert not term.is_leader
        assert replica.is_leader
        assert not replica.state.allocations


@scenario
async def test_its_subscribers_hear_nothing_once_it_has_ended_and_others_do() -> None:
    async with founded(in_memory()) as replica:
        term, seen, others = Term(replica), list[int](), list[int]()
        term.subscribe(lambda index, envelope, events: seen.append(index))
        replica.subscribe(lambda index, envelope, events: others.append(index))
        await submit(replica)
        await asyncio.sleep(0)
        assert len(seen) == 1
        term.end()
        await submit(replica)
        await asyncio.sleep(0)
        assert len(seen) == 1
        assert len(others) == 2


@scenario
async def test_a_subscriber_that_left_before_the_end_is_not_asked_again() -> None:
    async with founded(in_memory()) as replica:
        term = Term(replica)
        leave = term.subscribe(lambda index, envelope, events: None)
        leave()
        term.end()
        await submit(replica)
