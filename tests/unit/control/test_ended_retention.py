"""Checkpoints go a week after the end of their work, unless they are kept or needed; recordings a week after their last line."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.control.retention.ended import EndedRetention
from lattice.control.work.log_retention import LogDeletion
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.nodes.checkpoints import CheckpointReport
from lattice.ports.nodes.run_keys import RunKey
from lattice.ports.site.retention import LogRetention
from lattice.testing import scenario
from lattice.wire.files import retained
from lattice.wire.files.chunks import Place
from lattice.wire.files.retained import Mark
from tests.unit.control.test_checkpoint_requests import asked, report, taken
from tests.unit.control.world import World

DAY_S = 86400


def loop_of(world: World, folder: Path) -> tuple[EndedRetention, DirectoryStore]:
    store = DirectoryStore(folder / "objects")
    nodes = ("n1", "n2")
    made = EndedRetention(
        world.replica, world.clock, store, world.links, LogRetention(), lambda: nodes, folder / "traces"
    )
    return made, store


async def ended(tmp_path: Path) -> tuple[World, CheckpointRequests, EndedRetention, DirectoryStore, int]:
    """Work that wrote a checkpoint and has ended."""
    world, requests, number = await asked("n1")
    made, store = loop_of(world, tmp_path)
    requests.on_removed = made.removed
    await requests.turn()
    for phase in ("done", "sealed"):
        requests.report("n1", report(number, phase))
        await requests.turn()
    await world.ended(number, "n1")
    await made.note_ended()
    taken(world)
    return world, requests, made, store, number


async def names(store: DirectoryStore) -> list[str]:
    return [name async for name in store.names("")]


@scenario
async def test_a_node_is_asked_after_a_week_and_until_it_says_that_they_are_gone(tmp_path: Path) -> None:
    world, requests, made, store, number = await ended(tmp_path)
    assert await names(store) == [f"_retention/ended/a{number}"]
    world.clock.pass_s(6 * DAY_S)
    assert await made.expire() == 0
    world.clock.pass_s(DAY_S + 60)
    assert [await made.expire() for _ in range(3)] == [1, 1, 1]
    orders = taken(world)
    order = orders[0][1]
    assert (order.remove, order.root) == (True, "/ck")
    assert [node for node, _ in orders] == ["n1", "n2", "n1"], "one of them may not reach the storage"
    assert order.path == f"/ck/default/-/a{number}/checkpoints"
    requests.report("n3", CheckpointReport(key=RunKey(number, 0), n=0, phase="removed"))
    await made.note_ended()
    assert len(await names(store)) == 1, "nobody asked this node"
    requests.report("n2", CheckpointReport(key=RunKey(number, 0), n=0, phase="removed"))
    await made.note_ended()
    assert await names(store) == []


@scenario
async def test_what_cannot_be_removed_does_not_keep_the_rest_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _, made, store, number = await ended(tmp_path)
    known = retained.read_retained(await store.get(retained.ended_name(number)))
    await store.put(retained.ended_name(number + 1), retained.write(replace(known, number=number + 1)))
    monkeypatch.setattr("lattice.control.retention.ended.MAX_ASKED", 1)
    world.clock.pass_s(8 * DAY_S)
    assert [await made.expire() for _ in range(3)] == [1, 1, 1]
    assert [order.key.number for _, order in taken(world)] == [number, number + 1, number]


@scenario
async def test_what_is_kept_stays_and_so_does_its_output(tmp_path: Path) -> None:
    world, _, made, store, number = await ended(tmp_path)
    mark = Mark(number=number, user="ada", tenant="default", by="ada", at=1)
    await store.put(retained.kept_name(number), retained.write(mark))
    log = f"default/-/a{number}/logs/run-1/stdout/n1/{Place(at_ms=1).name}"
    other = f"default/-/a{number + 1}/logs/run-1/stdout/n1/{Place(at_ms=1).name}"
    for name in (log, other):
        await store.put(name, b"x")
    world.clock.pass_s(100 * DAY_S)
    assert await made.expire() == 0
    assert await LogDeletion(world.replica, world.clock, store, LogRetention()).delete_old() == 1
    assert log in await names(store)
    await store.delete(retained.kept_name(number))
    assert await made.expire() == 1


@scenario
async def test_a_new_leader_notes_what_ended_before_it(tmp_path: Path) -> None:
    world, _, _, store, number = await ended(tmp_path)
    await store.delete(retained.ended_name(number))
    made, store = loop_of(world, tmp_path)
    await made.note_ended()
    assert await names(store) == [f"_retention/ended/a{number}"]


@scenario
async def test_old_recordings_go(tmp_path: Path) -> None:
    world = World()
    made, _ = loop_of(world, tmp_path)
    (tmp_path / "traces").mkdir()
    now_s = world.clock.now_ms() / 1000
    for name, age_s in (("old", 8 * DAY_S), ("new", 6 * DAY_S)):
        path = tmp_path / "traces" / name
        path.touch()
        os.utime(path, (now_s - age_s, now_s - age_s))
    await made.expire()
    assert os.listdir(tmp_path / "traces") == ["new"]
