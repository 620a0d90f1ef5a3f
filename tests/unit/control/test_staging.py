"""The loop that brings data: who gets which copy, who lost theirs, and who has to leave."""

import asyncio
from typing import Any

import pytest

from lattice.control.data.order import Watermarks, claimable, full_sentence, to_evict
from lattice.control.data.staging import Staging, StagingSettings
from lattice.core.machine.commands import (
    CancelAllocation,
    RaiseLevel,
    ReportCopy,
    SetSetting,
    SetTenant,
    SubmitAllocation,
)
from lattice.core.machine.levels import NEWEST
from lattice.core.model.data.copies import Copy, CopyPhase, CopyState, key_of
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import AllocationState, Request
from lattice.ports.data.staging import MoverWork, Progress
from lattice.ports.quorum.log import LogError
from lattice.testing import scenario
from tests.unit.control.world import World

A, B, C = (f"file:///warm/{name}" for name in "abc")


class Tier:
    """A replica with a vCluster, a loop, and shorthands."""

    def __init__(self, world: World, staging: Staging) -> None:
        self.clock, self.replica, self.staging = world.clock, world.replica, staging

    async def submit(self, *sources: str, tenant: str = "default", **fields: Any) -> int:  # noqa: ANN401 - fields of several kinds
        command = SubmitAllocation(
            name="work",
            user=fields.pop("user", "ada"),
            account=fields.pop("account", "ada"),
            tenant=tenant,
            vcluster="default",
            request=Request(),
            data=sources,
            payload=b"x",
            **fields,
        )
        outcome = await self.replica.propose(command, actor="test")
        return int(outcome.number)  # type: ignore[union-attr]

    def copy(self, source: str) -> Copy:
        return self.replica.state.staging.copies[key_of(source)]

    async def ask(self, mover: str = "m1", *, slots: int = 4, **fields: Any) -> MoverWork:  # noqa: ANN401 - fields of several kinds
        given = {"wait_s": 0.0, "progress": [], "space": (1000, 500), **fields}
        return await self.staging.work_for(mover, slots=slots, **given)

    async def say(self, source: str, phase: CopyPhase, mover: str = "m1", **fields: Any) -> str | None:  # noqa: ANN401 - fields of several kinds
        copy = self.copy(source)
        generation = fields.pop("generation", copy.next_generation)
        return await self.staging.reported(
            ReportCopy(key=copy.key, mover=mover, generation=generation, phase=phase, **fields)
        )

    async def bring(self, source: str, size: int = 100) -> str | None:
        self.clock.pass_s(0.001)
        await self.ask()
        refused = await self.say(source, CopyPhase.SIZED, size=size, files=1, readers=("ada",))
        if refused is None:
            await self.say(source, CopyPhase.READY, size=size, files=1, version=f"v{size}")
            await self.staging.settle()
        return refused


async def made(**settings: Any) -> Tier:  # noqa: ANN401 - fields of several kinds
    world = World()
    await world.do(RaiseLevel(level=NEWEST))
    await world.prepare()
    return Tier(world, Staging(world.replica, world.clock, StagingSettings(**settings)))


@scenario
async def test_a_mover_claims_what_is_wanted_and_the_work_is_settled() -> None:
    tier = await made()
    number = await tier.submit(A)
    tier.clock.pass_s(0.001)
    assert "no mover is running" in tier.staging.reason_for(tier.replica.state.allocations[number])
    given = await tier.ask()
    assert [(copy.source, accounts) for copy, accounts in given.claimed] == [(A, ("ada",))]
    assert (await tier.ask("m2")).claimed == ()
    head = tier.replica.state.allocations[number]
    assert tier.staging.reason_for(head) == f"{A} is being read"
    await tier.say(A, CopyPhase.SIZED, size=1000, files=1, readers=("ada",))
    said = Progress(bytes_done=430, bytes_total=1000, bytes_per_s=57.0)
    await tier.ask(slots=0, progress=[(key_of(A), 1, said)])
    assert tier.staging.reason_for(head) == f"staging {A}: 43 % (430 B of 1.0 kB) at 57 B/s, about 10 s left"
    assert tier.staging.readiness() == {number: 0.43}
    await tier.say(A, CopyPhase.READY, size=1000, files=1, version="v")
    assert await tier.staging.settle() == 1
    assert tier.replica.state.allocations[number].state is AllocationState.PENDING
    assert tier.staging.readiness() == {number: 1.0}
    assert (tier.staging.moved_bytes, tier.staging.tier().movers) == (1000, 2)


@scenario
async def test_work_that_the_log_did_not_take_out_of_staging_is_taken_out_later() -> None:
    tier = await made()
    number = await tier.submit(A)
    tier.clock.pass_s(0.001)
    await tier.ask()
    await tier.say(A, CopyPhase.SIZED, size=100, files=1, readers=("ada",))
    await tier.say(A, CopyPhase.READY, size=100, files=1, version="v")
    tier.replica.failure = LogError("it takes nothing")
    with pytest.raises(LogError):
        await tier.staging.settle()
    assert tier.replica.state.allocations[number].state is AllocationState.STAGING
    assert await tier.staging.settle() == 1
    assert tier.replica.state.allocations[number].state is AllocationState.PENDING


@scenario
async def test_a_copy_that_nodes_wait_for_is_continued_for_those_whose_work_is_there() -> None:
    """Else one whose user may not read the source would end it for all."""
    tier = await made(silent_s=10.0)
    number = await tier.submit(A)
    tier.clock.pass_s(0.001)
    await tier.ask("m1")
    await tier.say(A, CopyPhase.SIZED, size=100, files=1, readers=("ada",))
    await tier.say(A, CopyPhase.USABLE)
    assert await tier.staging.settle() == 1
    assert tier.replica.state.allocations[number].data[0].generation == 1
    await tier.submit(A, user="bob", account="bob")
    tier.clock.pass_s(11)
    await tier.staging._release_lost()
    ((_, accounts),) = (await tier.ask("m2")).claimed
    assert accounts == ("ada", "bob")


@scenario
async def test_a_silent_mover_loses_its_copy_and_hears_of_it() -> None:
    tier = await made(silent_s=10.0)
    await tier.submit(A)
    await tier.ask("m1")
    tier.clock.pass_s(9)
    await tier.staging._release_lost()
    assert tier.copy(A).mover == "m1"
    tier.clock.pass_s(2)
    await tier.staging._release_lost()
    assert (tier.copy(A).state, tier.copy(A).reason) == (CopyState.WANTED, "mover m1 is not heard")
    assert len((await tier.ask("m2")).claimed) == 1
    late = await tier.ask("m1", progress=[(key_of(A), 1, Progress())])
    assert late.stop == (key_of(A),)
    assert await tier.say(A, CopyPhase.READY, "m1") == "this mover does not hold the claim on the copy"


@scenario
async def test_a_new_leader_gives_movers_time_to_report() -> None:
    tier = await made(silent_s=10.0)
    await tier.submit(A)
    await tier.ask("m1")
    tier.clock.pass_s(100)
    again = Staging(tier.replica, tier.clock, StagingSettings(silent_s=10.0))
    await again._release_lost()
    assert tier.copy(A).mover == "m1"
    tier.clock.pass_s(11)
    await again._release_lost()
    assert not tier.copy(A).is_claimed


@scenario
async def test_the_order_is_expected_start_then_size_then_share() -> None:
    tier = await made()
    now = tier.clock.now_ms()
    await tier.replica.propose(SetTenant(tenant=Tenant(name="other"), create=True), actor="test")
    await tier.submit(A, eligible_at=now + 1_000_000)
    await tier.submit(B, preemption_class=2)
    await tier.submit(C, preemption_class=6, tenant="other")
    order = [copy.source for copy in claimable(tier.replica.state, now, {})]
    assert order == [C, B, A]
    await tier.submit(B, preemption_class=6)
    shares = {"other": 2.0, "default": 0.5}
    assert [copy.source for copy in claimable(tier.replica.state, now, shares)] == [B, C, A]


@scenario
async def test_what_was_used_longest_ago_leaves_and_never_what_live_work_needs() -> None:
    tier = await made(capacity=1000, watermarks=Watermarks(high=0.9, low=0.5))
    first, second = await tier.submit(A), 0
    assert await tier.bring(A, 400) is None
    tier.clock.pass_s(1)
    second = await tier.submit(B)
    assert await tier.bring(B, 400) is None
    third = await tier.submit(C)
    refused = await tier.bring(C, 400)
    assert refused is not None
    assert refused.startswith("the hot tier is full: 400 bytes are needed, 800 of 1,000 are used; in use by ")
    assert f"a{first}, a{second}" in refused
    await tier.say(C, CopyPhase.FULL, reason=refused)
    assert to_evict(tier.replica.state, 400, 0) == []
    for number in (first, second):
        await tier.replica.propose(CancelAllocation(number=number), actor="test")
    assert to_evict(tier.replica.state, 400, 0) == [key_of(A)]
    tier.clock.pass_s(60)
    assert await tier.bring(C, 400) is not None
    assert tier.copy(A).state is CopyState.LEAVING
    assert (await tier.ask(slots=0)).remove[0] == (key_of(A), 1)
    await tier.say(A, CopyPhase.REMOVED, generation=1)
    await tier.say(B, CopyPhase.REMOVED, generation=1)
    await tier.say(C, CopyPhase.FULL, reason="again")
    tier.clock.pass_s(60)
    assert await tier.bring(C, 400) is None
    assert tier.replica.state.allocations[third].state is AllocationState.PENDING


@scenario
async def test_a_tenant_has_its_part_of_the_tier() -> None:
    tier = await made(capacity=1000, tenants={"default": 300})
    number = await tier.submit(A)
    assert await tier.bring(A, 200) is None
    await tier.submit(B)
    assert await tier.bring(B, 200) == "copies of tenant default have 200 of 300 bytes on the hot tier"
    assert tier.copy(A).state is CopyState.READY  # live work needs it
    await tier.replica.propose(CancelAllocation(number=number), actor="test")
    await tier.say(B, CopyPhase.FULL, reason="full")
    tier.clock.pass_s(60)
    await tier.bring(B, 200)
    assert tier.copy(A).state is CopyState.LEAVING


@scenario
async def test_names_of_other_tenants_stay_with_them() -> None:
    tier = await made()
    await tier.replica.propose(SetTenant(tenant=Tenant(name="other"), create=True), actor="test")
    await tier.submit(A, tenant="other")
    number = await tier.submit(B)
    await tier.submit(C)
    sentence = full_sentence(tier.replica.state, tier.copy(C), 10, 20)
    assert sentence.endswith(f"in use by a{number} and 1 of other tenants")


@scenario
async def test_movers_share_the_bandwidth_of_the_tier() -> None:
    tier = await made(bandwidth=1000.0)
    assert (await tier.ask("m1")).bytes_per_s == 300.0
    await tier.replica.propose(SetSetting(key="staging.bandwidth", value="0.5"), actor="test")
    assert (await tier.ask("m2")).bytes_per_s == 250.0


@scenario
async def test_an_old_generation_goes_when_no_live_work_has_it() -> None:
    tier = await made()
    first = await tier.submit(A)
    await tier.bring(A, 100)
    await tier.submit(A)
    await tier.bring(A, 200)
    assert tier.copy(A).generation == 2
    assert (await tier.ask()).remove == ()
    await tier.replica.propose(CancelAllocation(number=first), actor="test")
    assert (await tier.ask()).remove == ((key_of(A), 1),)


@scenario
async def test_work_that_comes_wakes_a_mover_that_waits() -> None:
    tier = await made()
    waiting = asyncio.create_task(tier.ask(wait_s=10.0))
    await asyncio.sleep(0)
    await tier.submit(A)
    async with asyncio.timeout(5):
        assert len((await waiting).claimed) == 1


@scenario
async def test_a_claim_whose_answer_was_lost_is_offered_again() -> None:
    tier = await made()
    await tier.submit(A)
    assert len((await tier.ask("m1")).claimed) == 1  # the mover never gets this answer
    tier.clock.pass_s(0.001)
    again = await tier.ask("m1")
    assert [copy.source for copy, _ in again.claimed] == [A]
    tier.clock.pass_s(0.001)
    assert (await tier.ask("m1", progress=[(key_of(A), 1, Progress())])).claimed == ()
    assert tier.copy(A).mover == "m1"


@scenario
async def test_a_mover_that_waits_hears_of_the_next_copy_whatever_else_changes() -> None:
    tier = await made()
    await tier.submit(A)
    await tier.ask("m2")
    waiting = asyncio.create_task(tier.ask("m1", wait_s=10.0))
    await asyncio.sleep(0)
    await tier.say(A, CopyPhase.SIZED, "m2", size=1, readers=("ada",))  # nothing for m1
    await asyncio.sleep(0)
    await tier.submit(B)
    async with asyncio.timeout(5):
        assert [copy.source for copy, _ in (await waiting).claimed] == [B]


@scenario
async def test_waiting_ends_in_time() -> None:
    tier = await made()
    async with asyncio.timeout(5):
        assert (await tier.ask(wait_s=0.01)).claimed == ()


@scenario
async def test_a_mover_that_waits_is_answered_when_the_loop_ends() -> None:
    """A server that stops waits for its answers."""
    tier = await made()
    loop = asyncio.create_task(tier.staging.run())
    waiting = asyncio.create_task(tier.ask(wait_s=10.0))
    await asyncio.sleep(0)
    loop.cancel()
    async with asyncio.timeout(5):
        assert (await waiting).claimed == ()
