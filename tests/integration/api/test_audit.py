"""The audit chain over REST: what is recorded, who sees what, exports that verify, and every way of spoiling one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lattice.control.audit.keys import Signer
from lattice.control.audit.sealing import Auditing, AuditSettings
from lattice.core.machine.commands import RaiseLevel, RecordAudit, SetTenant, SetVcluster
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.tenants import SENSITIVE, Tenant, Vcluster
from lattice.integrations.directory.store import DirectoryStore
from lattice_sdk.audit_export import AuditBroken, ChainHead, verify_export
from tests.integration.api.world import World, in_world

SETTINGS = AuditSettings(seal_every_s=0, keep=4, archive_after_s=1e9)


@asynccontextmanager
async def auditing(world: World, settings: AuditSettings = SETTINGS) -> AsyncIterator[Auditing]:
    """A world whose chain has a key and an archive."""
    with TemporaryDirectory() as folder:
        objects = DirectoryStore(Path(folder) / "objects")
        signer = Signer(Path(folder) / "audit.key", "s1")
        service = Auditing(world.replica, world.clock, signer, objects, settings)
        await service.begin()
        world.services.audit = service
        world.services.objects = objects
        yield service


async def kinds(world: World, query: str = "", token: str | None = None) -> list[str]:
    answer = await world.call("GET", f"/audit{query}", token=token or world.admin)
    assert answer.status == 200, answer.json()
    return [item["type"] for item in answer.json()["items"]]


async def export(world: World, query: str = "", token: str | None = None) -> bytes:
    answer = await world.call("GET", f"/audit/export{query}", token=token or world.admin)
    assert answer.status == 200
    return bytes(answer.body)


def lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


async def drain(world: World, node: str) -> None:
    for verb in ("drain", "undrain"):
        assert (await world.call("POST", f"/nodes/{node}/{verb}", {}, token=world.admin)).status == 200


@in_world
async def test_administration_is_found_by_who_what_where_and_when(world: World) -> None:
    async with auditing(world):
        await drain(world, "n1")
        world.clock.ms += 60_000
        await world.call("PUT", "/settings/agent.grace_s", {"value": 5}, token=world.admin)
        assert await kinds(world) == ["audit.key", "node.drain", "node.undrain", "setting.set"]
        assert await kinds(world, "?type=node") == ["node.drain", "node.undrain"]
        assert await kinds(world, "?type=node.drain&user=root&node=n1") == ["node.drain"]
        assert await kinds(world, "?node=n2") == []
        assert await kinds(world, "/logs?type=setting") == ["setting.set"]
        assert await kinds(world, "?since=2026-03-05T08:41:00Z") == ["setting.set"]
        assert await kinds(world, "?until=2026-03-05T08:41:00Z&type=setting") == []
        page = (await world.call("GET", "/audit?limit=3", token=world.admin)).json()
        assert [item["seq"] for item in page["items"]] == [1, 2, 3]
        assert await kinds(world, f"?cursor={page['next_cursor']}") == ["setting.set"]
        for wrong in ("allocation=x!", "since=then", "limit=0", "cursor=?"):
            assert (await world.call("GET", f"/audit?{wrong}", token=world.admin)).status == 400, wrong


@in_world
async def test_refused_callers_are_recorded_once_and_counted(world: World) -> None:
    async with auditing(world) as service:
        for _ in range(500):
            assert (await world.call("GET", "/nodes", token="nonsense")).status == 401
            assert (await world.call("POST", "/nodes/n1/drain", {}, token=world.alice)).status == 403
        await service.record_refusals()
        found = (await world.call("GET", "/audit?type=login", token=world.admin)).json()["items"]
        assert [(item["outcome"], item["count"], item["actor"]) for item in found] == [("refused", 500, "")]
        found = (await world.call("GET", "/audit?type=role", token=world.admin)).json()["items"]
        assert [(item["actor"], item["subject"], item["count"]) for item in found] == [("alice", "drain_node", 500)]
        await world.call("GET", "/nodes", token="nonsense")
        await service.record_refusals()
        assert len(await kinds(world, "?type=login")) == 1
        world.clock.ms += 61_000
        await service.record_refusals()
        assert len(await kinds(world, "?type=login")) == 2
        # Whoever has a thousand names fills nothing.
        for number in range(1000):
            token = world.token(f"user{number}")
            await world.call("POST", "/nodes/n1/drain", {}, token=token)
        await service.record_refusals()
        assert len(await kinds(world, "?type=role&limit=1000")) < 100


@in_world
async def test_everybody_sees_what_is_theirs_and_no_more(world: World) -> None:
    async with auditing(world):
        await world.do(
            SetVcluster(vcluster=Vcluster(name="ward", scheduler=SENSITIVE, default_walltime_s=60), create=True)
        )
        submission = {"entrypoint": ["true"], "vcluster": "ward", "tenant": "physics"}
        ada = world.token("ada", tenants=("physics",), scope="sensitive")
        made = await world.call("POST", "/allocations", submission, token=ada)
        if made.status != 201:  # who may claim is not this test's business
            made = await world.call("POST", "/allocations", submission, token=world.admin)
            ada = world.token("root", tenants=("physics",))
        assert made.status == 201, made.json()
        about = f"?allocation={made.json()['id']}"
        assert (await kinds(world, about))[0] == "allocation.submit"
        assert (await kinds(world, about, ada))[0] == "allocation.submit"
        reviewer = world.token("rita", tenants=("physics",), scope="tenant:admin")
        assert (await kinds(world, about, reviewer))[0] == "allocation.submit"
        await world.do(SetTenant(tenant=Tenant(name="physics", admins=("petra",)), create=False))
        assert (await kinds(world, about, world.token("petra", tenants=())))[0] == "allocation.submit"
        other = world.token("eve", tenants=("default",), scope="tenant:admin")
        assert await kinds(world, about, other) == []
        assert await kinds(world, "", world.token("bob", tenants=("physics",))) == []
        await world.call("GET", f"/allocations/{made.json()['id']}/logs", token=world.admin)
        assert "allocation.logs" in await kinds(world, about)
        await world.call("GET", f"/allocations/{made.json()['id']}?details=true", token=world.admin)
        assert "allocation.details" in await kinds(world, about)
        part = lines(await export(world, token=other))
        assert verify_export(part).entries == len(part) - 2
        assert b"ward" not in b"".join(part)


@in_world
async def test_an_export_verifies_also_across_the_archive_and_a_change_of_keys(world: World) -> None:
    async with auditing(world) as service:
        for _ in range(4):
            await drain(world, "n1")
            await service.seal()
        await service.archive_due()
        head = world.state.audit.head
        assert head.archived > 0
        assert len(world.state.audit.entries) <= SETTINGS.keep + 2
        old = (await world.call("GET", "/audit/keys", token=world.alice)).json()["items"][0]
        new = (await world.call("POST", "/audit/keys", {}, token=world.admin)).json()
        assert (await world.call("POST", "/audit/keys", {}, token=world.alice)).status == 403
        await drain(world, "n2")
        data = await export(world)
        verdict = verify_export(lines(data), {key["id"]: key["public"] for key in (old, new)})
        assert verdict.complete
        assert (verdict.first, verdict.last) == (1, world.state.audit.head.sealed)
        assert set(verdict.keys) == {old["id"], new["id"]}
        with pytest.raises(AuditBroken, match="trusted"):
            verify_export(lines(data), {new["id"]: new["public"]})
        assert await kinds(world, "?node=n1&type=node.drain") == ["node.drain"] * 4


@in_world
async def test_every_flipped_byte_and_every_cut_is_found(world: World) -> None:
    async with auditing(world) as service:
        await drain(world, "n1")
        await service.seal()
        data = await export(world)
        part = await export(world, "?type=node")
        assert not verify_export(lines(part)).complete
        for good in (data, part):
            assert verify_export(lines(good)).entries
            for place in range(len(good)):
                for bit in (0x01, 0x20, 0x80):
                    bad = bytearray(good)
                    bad[place] ^= bit
                    with pytest.raises(AuditBroken):
                        verify_export(lines(bytes(bad)))
            for end in range(len(good)):
                with pytest.raises(AuditBroken):
                    verify_export(lines(good[:end]))
        whole = lines(data)
        for gone in range(len(whole)):
            with pytest.raises(AuditBroken):
                verify_export(whole[:gone] + whole[gone + 1 :])
        with pytest.raises(AuditBroken, match="after the end"):
            verify_export([*whole, whole[1]])


@in_world
async def test_old_segments_are_forgotten_and_the_rest_still_verifies(world: World) -> None:
    settings = AuditSettings(seal_every_s=0, keep=1, archive_after_s=1, retention_s=3600)
    async with auditing(world, settings) as service:
        await drain(world, "n1")
        await service.seal()
        world.clock.ms += 2_000
        await service.archive_due()
        world.clock.ms += 2 * 3_600_000
        await drain(world, "n1")
        await service.forget_old()
        verdict = verify_export(lines(await export(world)))
        assert verdict.complete
        assert verdict.first == 4


@in_world
async def test_what_cannot_be_recorded_is_not_done(world: World) -> None:
    async with auditing(world):
        await world.replica.stop()
        refused = await world.call("POST", "/nodes/n1/drain", {}, token=world.admin)
        assert refused.status == 503
        assert str(world.state.nodes["n1"].state) == "Ready"
        assert world.state.audit.head.last == 1


@in_world
async def test_an_export_continues_an_earlier_one_or_says_why_not(world: World) -> None:
    async with auditing(world):
        await drain(world, "n1")
        early = verify_export(lines(await export(world)))
        await drain(world, "n2")
        late = await export(world)
        assert verify_export(lines(late), after=ChainHead(early.last, early.link)).last > early.last
        with pytest.raises(AuditBroken, match=f"entry {early.last} is not the one that was known earlier"):
            verify_export(lines(late), after=ChainHead(early.last, "0" * 64))
        with pytest.raises(AuditBroken, match="earlier it reached entry 999"):
            verify_export(lines(late), after=ChainHead(999, early.link))
        part = await export(world, "?type=node")
        with pytest.raises(AuditBroken, match="a selection cannot show"):
            verify_export(lines(part), after=ChainHead(early.last, early.link))


@in_world
async def test_seals_carry_the_epoch_and_one_that_rises_needs_the_entry_of_a_restore(world: World) -> None:
    async with auditing(world) as first:
        await drain(world, "n1")
        await first.seal()
        assert {seal.epoch for seal in world.state.audit.seals.values()} == {0}  # a server of before would not read it
        await world.do(RaiseLevel(level=2))
        signer, objects = first._signer, first._objects  # the key of the same server
        for epoch, notes in ((5, ()), (7, (AuditNote(kind="backup.restored", actor="root"),)), (9, ())):
            later = Auditing(world.replica, world.clock, signer, objects, SETTINGS, epoch)
            world.services.audit = later
            if notes:
                await world.do(RecordAudit(notes=notes))
            await drain(world, "n2")
            await later.seal()
            data = lines(await export(world))
            assert world.state.audit.seals[world.state.audit.head.sealed].epoch == epoch
            if epoch == 9:
                with pytest.raises(AuditBroken, match="and no entry says so"):
                    verify_export(data)
            else:
                assert verify_export(data).epoch == epoch


@in_world
async def test_an_epoch_that_falls_is_refused(world: World) -> None:
    async with auditing(world) as first:
        await world.do(RaiseLevel(level=2))
        for epoch in (9, 5):
            service = Auditing(world.replica, world.clock, first._signer, first._objects, SETTINGS, epoch)
            world.services.audit = service
            await drain(world, "n1")
            await service.seal()
        with pytest.raises(AuditBroken, match="of the later epoch 9"):
            verify_export(lines(await export(world)))
