"""`lattice admin reservation` and `lattice admin vcluster set-weights`."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply

UPKEEP = {
    "name": "upkeep",
    "start": "2026-03-05T13:00:00.000Z",
    "end": "2026-03-05T17:00:00.000Z",
    "state": "upcoming",
    "next_start": "2026-03-05T13:00:00.000Z",
    "next_end": "2026-03-05T17:00:00.000Z",
    "repeat_s": 604800,
    "reason": "new firmware",
    "created_by": "root",
}


def test_a_reservation_is_made_from_times_as_people_say_them(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/reservations", Reply(status=201, json=UPKEEP))
    line = ("--start=+1h", "--duration=4h", "--nodes=n[1-2],n7", "--repeat=7d", "--reason=new firmware")
    outcome = cli("admin", "reservation", "create", "upkeep", *line)
    assert outcome.code == 0
    assert outcome.out == (
        "Created reservation upkeep: 2026-03-05T13:00:00.000Z to 2026-03-05T17:00:00.000Z, maintenance\n"
    )
    assert api.last().json == {
        "name": "upkeep",
        "start": "2026-03-05T13:00:00Z",
        "duration": "4h",
        "nodes": ["n1", "n2", "n7"],
        "repeat": "7d",
        "reason": "new firmware",
    }


def test_a_reservation_for_tenants_and_users(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/reservations", Reply(status=201, json={**UPKEEP, "tenants": ["physics"], "users": ["eve"]}))
    line = ("--name=course", "--start=now", "--end=2026-03-05T14:00:00Z", "--tenant=physics", "--user=eve")
    outcome = cli("admin", "reservation", "create", *line)
    assert "for tenant physics, user eve" in outcome.out
    assert api.last().json == {
        "name": "course",
        "start": "2026-03-05T12:00:00Z",
        "end": "2026-03-05T14:00:00Z",
        "tenants": ["physics"],
        "users": ["eve"],
    }


@pytest.mark.parametrize(
    "line",
    [
        ("--start=now", "--duration=1h"),
        ("r", "--duration=1h"),
        ("r", "--start=now"),
        ("r", "--start=now", "--duration=1h", "--end=+2h"),
        ("r", "--start=someday", "--duration=1h"),
    ],
)
def test_a_reservation_that_says_too_little_or_too_much(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    assert cli("admin", "reservation", "create", *line).code == 2
    assert api.asked == []


def test_listing_showing_and_deleting_reservations(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/reservations", {"items": [UPKEEP]})
    api.on("GET", "/reservations/upkeep", UPKEEP)
    api.on("DELETE", "/reservations/upkeep", {"name": "upkeep"})
    row = cli("admin", "reservation", "list").table()[1]
    assert row[:5] == ["upkeep", "upcoming", UPKEEP["next_start"], UPKEEP["next_end"], "all"]
    assert cli("admin", "reservation", "list", "-q").out == "upkeep\n"
    assert "every 7d" in cli("admin", "reservation", "show", "upkeep").out
    assert cli("admin", "reservation", "show", "upkeep", "-o", "json").json["reason"] == "new firmware"
    assert cli("admin", "reservation", "delete", "upkeep").out == "Deleted reservation upkeep\n"
    assert cli("admin", "reservation", "delete").code == 2


def test_weights_are_set_by_factor(api: FakeApi, cli: Cli) -> None:
    answer = {"name": "gpu", "profile": "responsive", "weights": {"priority": 0.2, "wait_time": 1}}
    api.on("PUT", "/vclusters/gpu", answer)
    api.on("GET", "/vclusters/gpu", answer)
    outcome = cli("admin", "vcluster", "set-weights", "--name=gpu", "--priority=0.2", "--wait-time=1")
    assert outcome.out == "Weights of vCluster gpu, profile responsive: priority=0.2, wait_time=1\n"
    assert api.last().json == {"weights": {"priority": 0.2, "wait_time": 1.0}}
    assert cli("admin", "vcluster", "set-weights", "gpu", "--profile=responsive", "--reset").code == 0
    assert api.last().json == {"profile": "responsive", "weights": None}
    assert cli("admin", "vcluster", "set-weights", "gpu", "--reset", "--energy=1", "--profile=none").code == 0
    sent = api.last().json
    assert sent["profile"] == ""
    assert {name for name, weight in sent["weights"].items() if weight is None} == set(sent["weights"]) - {"energy"}
    assert "priority=0.2, wait_time=1" in cli("admin", "vcluster", "show", "gpu").out


@pytest.mark.parametrize(
    "line",
    [
        ("gpu",),
        ("--priority=1",),
        ("gpu", "--priority=much"),
        ("gpu", "--speed=1"),
        ("gpu", "--priority=nan"),
        ("gpu", "--energy=inf"),
    ],
)
def test_weights_that_say_nothing_are_refused(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    assert cli("admin", "vcluster", "set-weights", *line).code == 2
    assert api.asked == []


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "much"])
def test_a_weight_that_is_no_number_is_refused_in_words(api: FakeApi, cli: Cli, text: str) -> None:
    outcome = cli("admin", "vcluster", "set-weights", "gpu", f"--priority={text}")
    assert outcome.code == 2
    assert f'argument --priority: a weight is a number of at least 0, not "{text}"' in outcome.err
    assert api.asked == []
