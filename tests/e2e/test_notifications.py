"""Mails and webhooks of real work on a real cluster, to a real mail server and a real web server; also across deaths of the server."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lattice.testing import LocalCluster, eventually
from tests.hooks import Hooks
from tests.mailbox import Mailbox

pytestmark = pytest.mark.e2e


class Site(NamedTuple):
    cluster: LocalCluster
    mails: Mailbox
    hooks: Hooks


def settings(mails: Mailbox, secret: Path) -> dict[str, str]:
    secret.touch(mode=0o600)
    secret.write_text("not-for-production")
    return {
        "notifications.mail.host": "127.0.0.1",
        "notifications.mail.port": str(mails.port),
        "notifications.mail.security": "none",
        "notifications.mail.sender": "Lattice <lattice@site.test>",
        "notifications.webhook.enabled": "true",
        "notifications.webhook.secret": f"file://{secret}",
        "notifications.webhook.allow_http": "true",
        "notifications.webhook.allow_private": "true",
        "notifications.retry": "200ms",
        "submission.rules": "[{vcluster: gone}, {name: sweeps, vcluster: default, when: {tags: {kind: sweep}}}]",
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    secret = tmp_path_factory.mktemp("site") / "webhook-secret"
    with Mailbox() as mails, Hooks() as hooks, LocalCluster(nodes=1, settings=settings(mails, secret)) as cluster:
        yield Site(cluster, mails, hooks)


def events_of(site: Site, allocation_id: str) -> list[str]:
    """What the mail server got about an allocation, in order."""
    return [
        str(letter.message["X-Lattice-Event"])
        for letter in list(site.mails.letters)
        if letter.message["X-Lattice-Allocation"] == allocation_id
    ]


def test_begin_and_end_are_mailed_once_each_in_their_order(site: Site) -> None:
    notify = {"on": ["begin", "end"], "to": ["mail:ada@site.test"]}
    done = site.cluster.run(["true"], name="training", notify=notify)
    eventually(lambda: len(events_of(site, done["id"])) == 2, "two mails")
    assert events_of(site, done["id"]) == ["begin", "end"]
    letter = site.mails.of("ada@site.test")[-1]
    assert letter.message["Subject"] == f"Lattice: {done['id']} training ended (exit code 0)"
    assert "State:" in letter.text
    assert "Completed" in letter.text
    assert len({letter.id for letter in site.mails.letters}) == len(site.mails.letters)


def test_a_failure_calls_the_webhook_with_a_signature_that_only_its_user_can_check(site: Site) -> None:
    notify = {"on": "fail", "to": [f"webhook:{site.hooks.url}"]}
    done = site.cluster.run("exit 7", notify=notify)
    called = eventually(lambda: [call for call in site.hooks.calls if call.json["allocation"] == done["id"]], "a call")
    assert len(called) == 1
    told = called[0].json
    assert (told["event"], told["state"], told["exit_code"]) == ("fail", "Failed", 7)
    key = site.cluster.cli("notify", "key").stdout.strip()
    assert called[0].is_signed_with(key)


def test_what_could_not_be_sent_is_sent_once_after_the_server_was_killed(site: Site, scratch: Path) -> None:
    site.mails.answer = lambda: 451
    site.hooks.answer = lambda: 503
    tries = site.mails.tries, site.hooks.tries
    notify = {"on": ["end"], "to": ["mail:bob@site.test", f"webhook:{site.hooks.url}"]}
    done = site.cluster.run(["true"], notify=notify)
    eventually(lambda: site.mails.tries > tries[0] and site.hooks.tries > tries[1], "a first try of both")
    site.cluster.wait_replaced(site.cluster.kill("server"))
    site.mails.answer, site.hooks.answer = (lambda: 250), (lambda: 204)
    site.cluster.wait_serving()
    eventually(lambda: site.mails.of("bob@site.test"), "the mail")
    eventually(lambda: [call for call in site.hooks.calls if call.json["allocation"] == done["id"]], "the call")
    settle(site)
    assert events_of(site, done["id"]) == ["end"]
    assert len([call for call in site.hooks.calls if call.json["allocation"] == done["id"]]) == 1


def test_what_was_sent_is_not_sent_again_by_the_next_server(site: Site) -> None:
    notify = {"on": ["begin", "end"], "to": ["mail:eve@site.test"]}
    done = site.cluster.run(["true"], notify=notify)
    eventually(lambda: len(events_of(site, done["id"])) == 2, "both mails")
    settle(site)
    site.cluster.wait_replaced(site.cluster.kill("server"))
    site.cluster.wait_serving()
    again = site.cluster.run(["true"], notify=notify)
    eventually(lambda: len(events_of(site, again["id"])) == 2, "the mails of the next one")
    assert events_of(site, done["id"]) == ["begin", "end"]


def test_work_near_its_walltime_is_told_of_while_it_runs(site: Site) -> None:
    notify = {"on": ["time-limit-50"], "to": ["mail:ada@site.test"]}
    submitted = site.cluster.submit(["sleep", "30"], lifecycle={"walltime": "4s"}, notify=notify)
    eventually(lambda: events_of(site, submitted["id"]) == ["time_limit_50"], "the mail", within_s=60)
    assert site.cluster.allocation(submitted["id"])["state"] == "Running"
    site.cluster.delete(f"/allocations/{submitted['id']}")
    site.cluster.wait_end(submitted["id"])


def test_rules_choose_the_vcluster_and_one_that_does_not_exist_is_reported_at_the_start(site: Site) -> None:
    told = site.cluster.cli("submit", "--tag=kind=sweep", "--", "true")
    assert told.stderr == 'note: vCluster default was chosen by rule "sweeps"\n'
    log = (site.cluster.directory / "server.log").read_text()
    assert 'rule 1 names the vCluster \\"gone\\", which does not exist' in log


def settle(site: Site) -> None:
    """Nothing waits to be sent any more."""
    eventually(lambda: waiting(site) == 0, "nothing waits")


def waiting(site: Site) -> int:
    return int(site.cluster.get("/notifications")["waiting"])
