"""Admins of a tenant are notified once at 80 and at 100 % of a budget, across leaders, and again when it was used less meanwhile."""

from lattice.control.work.budget_notices import BudgetNotices
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.commands import DeleteRecord, RaiseLevel, SetNotifyDefault, SetTenant
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.notifications import Notify, NotifyDefault, Occasion
from lattice.testing import scenario
from lattice.wire.work.notifications import notice_text
from tests.unit.control.world import World

PHYSICS = Tenant(name="physics", admins=("ada", "bob"), gpu_hours_budget=1000.0, node_hours_budget=50.0)


class Site:
    def __init__(self, world: World) -> None:
        self.world, self.gpu, self.node = world, 0.0, 0.0
        self.loop = self.leader()

    def leader(self) -> BudgetNotices:
        return BudgetNotices(self.world.replica, self._uses, self._places)

    def _uses(self) -> dict[str, list[tuple[float, float, str]]]:
        return {"physics": [(self.gpu, 1000.0, "GPU"), (self.node, 50.0, "node")], "gone": [(1.0, 0.0, "GPU")]}

    @staticmethod
    def _places(user: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        return wanted or ((f"mail:{user}@example.org",) if user == "ada" else ())

    async def at(self, gpu: float, node: float = 0.0) -> list[tuple[str, str]]:
        """Whom the next look notifies, and of what."""
        self.gpu, self.node = gpu, node
        before = set(self.world.state.notifications.waiting)
        await self.loop.look()
        waiting = self.world.state.notifications.waiting
        return [(waiting[number].to, waiting[number].message) for number in sorted(set(waiting) - before)]


async def site(**changes: object) -> Site:
    world = World()
    await world.replica.propose(RaiseLevel(level=2), actor="test")
    fields = {name: getattr(PHYSICS, name) for name in PHYSICS.__struct_fields__} | changes
    await world.do(SetTenant(tenant=Tenant(**fields), create=True))
    return Site(world)


@scenario
async def test_each_step_is_told_once_and_the_worse_budget_counts() -> None:
    place = await site()
    assert await place.at(799.0) == []
    assert await place.at(100.0, 41.0) == [("mail:ada@example.org", "41.0 of 50 node-hours (82%) are used")]
    assert await place.at(950.0) == []
    place.loop = place.leader()
    assert await place.at(990.0) == [], "the next leader knows"
    assert await place.at(1200.0) == [("mail:ada@example.org", "1,200.0 of 1,000 GPU-hours (120%) are used")]
    assert await place.at(1300.0) == []


@scenario
async def test_what_is_used_less_again_or_has_another_budget_is_told_anew() -> None:
    place = await site()
    assert len(await place.at(850.0)) == 1
    assert await place.at(780.0) == []
    assert len(await place.at(850.0)) == 0, "it did not fall far enough"
    assert await place.at(700.0) == []
    assert len(await place.at(850.0)) == 1
    fields = {name: getattr(PHYSICS, name) for name in PHYSICS.__struct_fields__}
    await place.world.do(SetTenant(tenant=Tenant(**{**fields, "max_nodes": 5}), create=False))
    assert await place.at(850.0) == [], "the budget is the same"
    await place.world.do(SetTenant(tenant=Tenant(**{**fields, "gpu_hours_budget": 900.0}), create=False))
    assert len(await place.at(850.0)) == 1


@scenario
async def test_what_was_told_is_in_snapshots_and_goes_with_its_tenant() -> None:
    place = await site()
    await place.at(850.0)
    state = place.world.state
    restored = decode_state_chunks(encode_state_chunks(state.frozen_view()))
    assert (restored.notifications.noted_percent("physics"), restored.digest()) == (80, state.digest())
    await place.world.do(DeleteRecord(what=Deletable.TENANT, name="physics"))
    assert state.notifications.budgets == {}


@scenario
async def test_admins_are_written_to_where_they_want_and_later_ones_hear_of_it_too() -> None:
    place = await site(admins=("bob",))
    assert await place.at(850.0) == [], "nobody can be written to"
    default = NotifyDefault(user="bob", notify=Notify(on=(), to=("webhook:https://hook.example.org/",)))
    await place.world.do(SetNotifyDefault(default=default))
    assert [to for to, _ in await place.at(850.0)] == ["webhook:https://hook.example.org/"]


@scenario
async def test_the_mail_says_which_tenant_and_how_much() -> None:
    place = await site()
    await place.at(850.0)
    (notification,) = place.world.state.notifications.waiting.values()
    assert notification.occasion is Occasion.BUDGET
    subject, body = notice_text(notification)
    assert subject == "Lattice: tenant physics uses up its budget"
    assert "850.0 of 1,000 GPU-hours (85%) are used" in body
    assert "Allocation" not in body
