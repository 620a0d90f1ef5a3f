"""Advance reservations and the ledger of what was used."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.rules.work import reservations
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.ledger import DAY_MS, KEPT_DAYS, Ledger
from tests.unit.core.machine.world import World

HOUR = 3_600_000


def reserve(world: World, **changes: object) -> cmd.SetReservation:
    fields: dict[str, object] = {"name": "upgrade", "start_at": world.at + HOUR, "end_at": world.at + 2 * HOUR}
    create = bool(changes.pop("create", True))
    return cmd.SetReservation(reservation=AdvanceReservation(**{**fields, **changes}), create=create)  # type: ignore[arg-type]


def test_work_that_would_run_into_a_reservation_does_not_start() -> None:
    world = World()
    world.must(reserve(world, nodes=("n1",), tenants=("physics",), users=()), actor="op")
    world.must(reserve(world, name="service", nodes=("n2",)), actor="op")
    long, short = world.submit(walltime_s=2 * 3600), world.submit(walltime_s=60)
    refusal = world.refused(cmd.PlaceAllocation(number=long, run=1, shares=(Share(node="n2"),)))
    assert refusal.message == 'reservation "service" needs the nodes'
    world.place(short, "n2")
    world.place(long, "n1")
    assert world.state.reservations["upgrade"].created_by == "op"


def test_unlimited_work_never_starts_in_front_of_a_reservation() -> None:
    world = World(nodes=1)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch")))
    world.must(reserve(world))
    number = world.submit()
    assert world.refused(cmd.PlaceAllocation(number=number, run=1, shares=(Share(node="n1"),))).code == "stale"
    world.at += 3 * HOUR
    world.place(number, "n1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ""}, "invalid"),
        ({"end_at": 0}, "invalid"),
        ({"start_at": 0, "end_at": 10}, "invalid"),
        ({"repeat_s": 60}, "invalid"),
        ({"nodes": ("n9",)}, "not_found"),
        ({"tenants": ("ghosts",)}, "not_found"),
        ({"create": False}, "not_found"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], code: str) -> None:
    world = World()
    assert world.refused(reserve(world, **changes)).code == code


def test_a_reservation_is_replaced_and_deleted_by_name() -> None:
    world = World()
    world.must(reserve(world), actor="op")
    assert world.refused(reserve(world)).code == "already_exists"
    world.must(reserve(world, create=False, reason="later"), actor="other")
    assert world.state.reservations["upgrade"].reason == "later"
    assert world.state.reservations["upgrade"].created_by == "op"
    world.must(cmd.DeleteReservation(name="upgrade"))
    assert world.refused(cmd.DeleteReservation(name="upgrade")).hint == "Known: none."


def test_repeats_come_back_until_their_end() -> None:
    weekly = AdvanceReservation(name="w", start_at=1_000, end_at=2_000, repeat_s=10, until=22_000)
    assert weekly.occurrence(0) == (1_000, 2_000)
    assert weekly.occurrence(1_999) == (1_000, 2_000)
    assert weekly.occurrence(2_000) == (11_000, 12_000)
    assert weekly.occurrence(21_500) == (21_000, 22_000)
    assert weekly.occurrence(22_000) is None
    assert AdvanceReservation(name="o", start_at=1, end_at=2).occurrence(2) is None


def test_every_run_is_booked_with_its_nodes_and_gpus() -> None:
    world = World(nodes=0)
    world.add_node("n1", gpus=2)
    world.add_node("n2", gpus=4)
    number = world.running("n1", "n2", project="")
    world.at += 9_999
    world.ended(number, "n1")
    elapsed = world.at - world[number].started_at
    ledger = world.state.ledger["physics", "", "ada"]
    assert ledger.since(0) == (2 * elapsed, 6 * elapsed)
    assert ledger.since(world.at // DAY_MS + 1) == (0, 0)
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.ledger == world.state.ledger


def test_a_run_that_is_requeued_is_booked_too() -> None:
    world = World()
    number = world.running("n1")
    world.at += 5_000
    world.must(cmd.RequeueAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert world.state.ledger["physics", "", "ada"].since(0)[0] > 5_000


def test_old_days_are_forgotten() -> None:
    ledger = Ledger(tenant="t", project="", user="u").with_run(0, 5, 5).with_run(DAY_MS, 1, 0)
    ledger = ledger.with_run(DAY_MS, 2, 1)
    assert ledger.days == ((0, 5, 5), (1, 3, 1))
    assert ledger.with_run(KEPT_DAYS * DAY_MS, 1, 1).days == ((1, 3, 1), (KEPT_DAYS, 1, 1))


def test_weights_profiles_and_depth_of_a_vcluster_are_checked() -> None:
    world = World()
    for changes, words in (
        ({"weights": (("luck", 1.0),)}, "unknown factor"),
        ({"weights": (("priority", -1.0),)}, "at least 0"),
        ({"weights": (("priority", 0.0),)}, "above 0"),
        ({"profile": "magic"}, "unknown profile"),
        ({"backfill_depth": -1}, "negative"),
    ):
        refusal = world.refused(cmd.SetVcluster(vcluster=Vcluster(name="batch", **changes)))
        assert words in refusal.message
    good = Vcluster(name="batch", weights=(("priority", 0.5), ("wait_time", 0.5)), profile="ml")
    world.must(cmd.SetVcluster(vcluster=good))


def test_reservations_are_bounded_and_survive_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.must(reserve(world), actor="op")
    monkeypatch.setattr(reservations, "MAX_RESERVATIONS", 1)
    assert world.refused(reserve(world, name="another")).message == "there are too many reservations"
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.reservations == world.state.reservations
