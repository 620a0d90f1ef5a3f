"""Asking to be told: per allocation and by default, with warnings where nothing will come of it."""

from lattice.api.notifications import ALL_OFF, NotificationPolicy
from lattice.core.model.work.notifications import Notify, Occasion
from lattice.wire.work.notifications import webhook_key
from tests.integration.api.world import World, in_world

MAIL = "mail:alice@site.test"
BOTH = NotificationPolicy(channels=frozenset({"mail", "webhook"}), webhook_secret=b"s" * 32)


@in_world
async def test_without_a_sender_a_submission_is_warned_and_nothing_is_kept(world: World) -> None:
    answer = await world.submit(notify={"on": ["end"], "to": [MAIL]})
    assert answer["warnings"] == [ALL_OFF]
    assert world.state.allocations[1].notify is None
    assert "warnings" not in await world.submit()
    assert "warnings" not in await world.submit(notify={"on": ["none"]})


@in_world
async def test_with_a_sender_the_wish_is_kept_and_shown_to_its_owner_alone(world: World) -> None:
    world.services.notifications = BOTH
    answer = await world.submit(notify={"on": "BEGIN,time-limit-near,end", "to": ["alice@site.test"]})
    assert "warnings" not in answer
    wanted = (Occasion.BEGIN, Occasion.END, Occasion.TIME_LIMIT_90)
    assert world.state.allocations[1].notify == Notify(on=wanted, to=(MAIL,))
    shown = (await world.call("GET", "/allocations/a1?details=true")).json()
    assert shown["details"]["notify_on"] == ["begin", "end", "time_limit_90"]
    assert shown["details"]["notify_to"] == [MAIL]
    other = (await world.call("GET", "/allocations/a1?details=true", token=world.token("bob"))).json()
    assert other["details"] is None


@in_world
async def test_what_cannot_be_reached_is_warned_of_and_the_rest_is_kept(world: World) -> None:
    world.services.notifications = NotificationPolicy(channels=frozenset({"mail"}), allowed_domains=("site.test",))
    places = [MAIL, "mail:x@elsewhere.test", "webhook:https://example.org/"]
    answer = await world.submit(notify={"on": ["end"], "to": places})
    assert len(answer["warnings"]) == 2
    assert "elsewhere.test" in answer["warnings"][0]
    assert "webhooks" in answer["warnings"][1]
    assert world.state.allocations[1].notify == Notify(on=(Occasion.END,), to=(MAIL,))
    none_left = await world.submit(notify={"on": ["end"], "to": places[1:]})
    assert len(none_left["warnings"]) == 2
    assert world.state.allocations[2].notify is None


@in_world
async def test_http_is_warned_of_where_only_https_is_called(world: World) -> None:
    world.services.notifications = BOTH
    answer = await world.submit(notify={"on": ["end"], "to": ["http://example.org/hook"]})
    assert answer["warnings"] == ["this site calls webhooks by https:// only"]


@in_world
async def test_a_site_that_knows_where_its_users_read_mail_needs_no_address(world: World) -> None:
    world.services.notifications = NotificationPolicy(channels=frozenset({"mail"}), default_domain="site.test")
    await world.submit(notify={"on": ["end"]})
    assert world.state.allocations[1].notify == Notify(on=(Occasion.END,), to=(MAIL,))


@in_world
async def test_nowhere_to_send_and_nonsense_are_refused_in_words(world: World) -> None:
    world.services.notifications = BOTH
    bad = {
        "notify.on": {"on": ["sometimes"], "to": [MAIL]},
        "notify.to": {"on": ["end"], "to": ["pigeon:coop"]},
        "mail address": {"on": ["end"], "to": ["mail:a b@c"]},
        "no address of a webhook": {"on": ["end"], "to": ["webhook:ftp://x/"]},
        "no password": {"on": ["end"], "to": ["webhook:https://u:p@x/"]},
        "too many": {"on": ["end"], "to": [f"mail:u{k}@x" for k in range(5)]},
        "not said where": {"on": ["end"]},
    }
    for words, notify in bad.items():
        answer = await world.call("POST", "/allocations", {"entrypoint": ["true"], "notify": notify})
        assert answer.status == 400, notify
        assert words in answer.error["message"], answer.error
    assert world.state.allocations == {}


@in_world
async def test_a_default_is_set_shown_used_and_cleared(world: World) -> None:
    world.services.notifications = BOTH
    empty = (await world.call("GET", "/notifications")).json()
    assert (empty["on"], empty["channels"], empty["waiting"]) == ([], ["mail", "webhook"], 0)
    body = {"on": ["end", "fail"], "to": [MAIL]}
    assert (await world.call("PUT", "/notifications", body)).json()["on"] == ["end", "fail"]
    await world.submit()
    assert world.state.allocations[1].notify == Notify(on=(Occasion.END, Occasion.FAIL), to=(MAIL,))
    await world.start_run(1)
    await world.finish(1, exit_code=4)
    assert (await world.call("GET", "/notifications")).json()["waiting"] == 1
    assert (await world.call("GET", "/notifications", token=world.token("bob"))).json()["waiting"] == 0
    assert (await world.call("DELETE", "/notifications")).json()["on"] == []
    await world.submit()
    assert world.state.allocations[2].notify is None


@in_world
async def test_a_default_without_a_place_is_refused_and_one_without_a_sender_is_warned_of(world: World) -> None:
    assert (await world.call("PUT", "/notifications", {"on": ["end"]})).status == 400
    warned = (await world.call("PUT", "/notifications", {"on": ["end"], "to": [MAIL]})).json()
    assert warned["warnings"] == [ALL_OFF]


@in_world
async def test_the_key_of_ones_webhooks_is_ones_own(world: World) -> None:
    assert (await world.call("GET", "/notifications/key")).status == 404
    world.services.notifications = BOTH
    mine = (await world.call("GET", "/notifications/key")).json()["key"]
    theirs = (await world.call("GET", "/notifications/key", token=world.token("bob"))).json()["key"]
    assert mine == webhook_key(b"s" * 32, "alice") != theirs
    readonly = world.token("eve", scope="readonly")
    assert (await world.call("GET", "/notifications/key", token=readonly)).status == 403
