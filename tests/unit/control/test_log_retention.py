"""Stored output goes when its time is over, and nothing else does."""

from pathlib import Path

from lattice.control.work.log_retention import LogDeletion
from lattice.core.machine.commands import SetTenant, SetVcluster
from lattice.core.model.site.tenants import SENSITIVE, Tenant, Vcluster
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.site.retention import LogRetention
from lattice.testing import scenario
from lattice.wire.files.chunks import Place
from lattice.wire.files.retained import kept_name
from lattice.wire.files.samples import trace_name
from tests.unit.control.world import World

DAY_S = 86400


async def left(store: DirectoryStore) -> list[str]:
    return [name async for name in store.names("")]


def chunk(world: World, tenant: str, number: int, days_old: int) -> str:
    place = Place(offset=0, at_ms=world.clock.now_ms() - days_old * DAY_S * 1000)
    return f"{tenant}/-/a{number}/logs/run-1/stdout/n1/{place.name}"


@scenario
async def test_chunks_go_by_the_time_in_their_name(tmp_path: Path) -> None:
    world, store = World(), DirectoryStore(tmp_path)
    await world.prepare("n1")
    world.clock.pass_s(100 * DAY_S)
    await world.do(SetTenant(tenant=Tenant(name="chem"), create=True))
    old, new = chunk(world, "default", 1, 31), chunk(world, "default", 1, 29)
    short = chunk(world, "chem", 2, 8)
    others = [
        "audit/000001-000002",
        "default/-/a1/logs/deleted",
        "default/data/x",
        "chem/-/a2/logs/run-1/stdout/n1/notes",
    ]
    for name in (old, new, short, *others):
        await store.put(name, b"x")
    loop = LogDeletion(world.replica, world.clock, store, LogRetention(tenants={"chem": 7 * DAY_S}))
    assert await loop.delete_old() == 2
    assert sorted(await left(store)) == sorted([new, *others])
    assert await loop.delete_old() == 0


@scenario
async def test_journals_of_steps_go_as_output_of_runs_does(tmp_path: Path) -> None:
    world, store = World(), DirectoryStore(tmp_path)
    await world.prepare("n1")
    world.clock.pass_s(100 * DAY_S)
    old, new = (chunk(world, "default", 1, days).replace("stdout", "step-12/journal") for days in (31, 29))
    other = old.replace("step-12/journal", "step-12/notes")
    for name in (old, new, other):
        await store.put(name, b"x")
    assert await LogDeletion(world.replica, world.clock, store, LogRetention()).delete_old() == 1
    assert sorted(await left(store)) == sorted([new, other])


@scenario
async def test_a_vcluster_decides_before_its_tenant_and_sensitive_ones_keep_theirs(tmp_path: Path) -> None:
    world, store = World(), DirectoryStore(tmp_path)
    await world.prepare("n1")
    number = await world.running("n1")
    await world.ended(number, "n1")
    world.clock.pass_s(100 * DAY_S)
    name = chunk(world, "default", number, 50)
    await store.put(name, b"x")
    long = LogRetention(tenants={"default": DAY_S}, vclusters={"default": 60 * DAY_S})
    assert await LogDeletion(world.replica, world.clock, store, long).delete_old() == 0
    await world.do(SetVcluster(vcluster=Vcluster(name="default", scheduler=SENSITIVE, default_walltime_s=60)))
    assert await LogDeletion(world.replica, world.clock, store, LogRetention()).delete_old() == 0
    short = LogRetention(vclusters={"default": 40 * DAY_S})
    assert await LogDeletion(world.replica, world.clock, store, short).delete_old() == 1


@scenario
async def test_files_of_the_first_release_go_after_the_end_of_their_work(tmp_path: Path) -> None:
    world, store = World(), DirectoryStore(tmp_path)
    await world.prepare("n1", "n2")
    over, alive = await world.running("n1"), await world.running("n2")
    await world.ended(over, "n1")
    names = [f"logs/{number}/1/n1.{end}" for number in (over, alive, 999) for end in ("stdout", "stdout.base")]
    for name in names:
        await store.put(name, b"x")
    loop = LogDeletion(world.replica, world.clock, store, LogRetention())
    assert await loop.delete_old() == 0
    world.clock.pass_s(31 * DAY_S)
    assert await loop.delete_old() == 2
    assert await left(store) == sorted(names[2:])


@scenario
async def test_samples_of_mode_debug_go_after_a_week_unless_somebody_keeps_them(tmp_path: Path) -> None:
    world, store = World(), DirectoryStore(tmp_path)
    await world.prepare("n1")
    world.clock.pass_s(100 * DAY_S)

    def sample(number: int, days_old: int) -> str:
        return f"default/-/a{number}/telemetry/run-1/n1/{trace_name(world.clock.now_ms() - days_old * DAY_S * 1000)}"

    touched = sample(1, 90).replace(".jsonl", ".access.jsonl")
    await store.put(touched, b"x")
    assert await LogDeletion(world.replica, world.clock, store, LogRetention()).delete_old() == 0, "kept for years"
    week_s = 7 * DAY_S
    assert await LogDeletion(world.replica, world.clock, store, LogRetention(access_s=week_s)).delete_old() == 1
    old, new, kept, other = sample(1, 8), sample(1, 6), sample(2, 8), "default/-/a1/telemetry/run-1/n1/notes"
    for name in (old, new, kept, other, kept_name(2)):
        await store.put(name, b"x")
    assert await LogDeletion(world.replica, world.clock, store, LogRetention(telemetry_s=0)).delete_old() == 0
    assert await LogDeletion(world.replica, world.clock, store, LogRetention()).delete_old() == 1
    assert sorted(await left(store)) == sorted([new, kept, other, kept_name(2)])
