"""The ring of changes of a server that starts again: filled from the log behind its newest snapshot."""

from pathlib import Path

from lattice.api.streams.changes import ChangeRing
from lattice.core.machine.commands import CancelAllocation
from lattice.quorum.replica import LogReplica
from lattice.testing import scenario
from tests.unit.quorum.world import founded, replica_at, running, submit, until


def with_ring(replica: LogReplica) -> ChangeRing:
    ring = ChangeRing(replica)
    replica.on_loaded(ring.begin)
    return ring


@scenario
async def test_places_before_the_death_are_found_after_it(tmp_path: Path) -> None:
    first = replica_at(tmp_path)
    ring = with_ring(first)
    async with founded(first):
        for name in ("a", "b", "c"):
            await submit(first, name)
        seen = ring.read(0, 100)
    again = replica_at(tmp_path)
    ring = with_ring(again)
    async with running(again):
        assert ring.read(0, 100) == seen
        place, is_complete = ring.place_after(seen[-2].index)
        assert is_complete
        assert [change.name for change in ring.read(place, 100)] == ["c"]
        await again.propose(CancelAllocation(number=1), actor="ada")
        assert [change.kind for change in ring.read(place, 100)] == ["submitted", "ended"]


@scenario
async def test_what_a_snapshot_covers_is_said_to_be_missing(tmp_path: Path) -> None:
    first = replica_at(tmp_path, snapshot_every=3)
    async with founded(first):
        for name in ("a", "b", "c", "d"):
            await submit(first, name)
        await until(lambda: bool(list((tmp_path / "snapshots").glob("[0-9]*"))), "a snapshot")
    again = replica_at(tmp_path)
    ring = with_ring(again)
    async with running(again):
        assert ring.place_after(1)[1] is False
        assert ring.place_after(again.applied_index) == (ring.end, True)
