"""Rules that choose a vCluster, and senders of notifications, as they stand in a configuration file."""

from pathlib import Path

import pytest

from lattice.config.load import ConfigError, load
from lattice.config.rules import intent_rules
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError
from lattice.core.model.work.allocations import Lifecycle
from lattice.daemons.server.senders import Senders
from lattice.ports.clock import SystemClock

HEAD = "data_dir: /tmp/x\nmode: dev\napi: {hmac_secret: plain}\n"


def written(folder: Path, text: str) -> ServerConfig:
    path = folder / "server.yaml"
    path.write_text(HEAD + text)
    return load(path, ServerConfig)


def test_rules_are_read_in_their_order(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        """
submission:
  rules:
    - vcluster: gpu
      when: {min_gpus: 1, tenant: [ml, physics]}
    - name: short work
      vcluster: short
      when: {max_walltime: 1h30m, max_nodes: 4, lifecycle: bounded, tags: {kind: test}, user: ada}
    - vcluster: rest
""",
    )
    first, second, third = intent_rules(config.submission)
    assert (first.vcluster, first.name, first.gpus, first.tenants) == ("gpu", "rule 1", (1, None), ("ml", "physics"))
    assert (second.name, second.walltime_s, second.nodes) == ('rule "short work"', (None, 5400), (None, 4))
    assert (second.lifecycle, second.tags, second.users) == (Lifecycle.BOUNDED, (("kind", "test"),), ("ada",))
    assert third.vcluster == "rest"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{vcluster: x, when: {min_nodes: 5, max_nodes: 4}}", "at least 5, but at most 4"),
        ("{vcluster: x, when: {max_walltime: soon}}", 'cannot read "soon" as a duration'),
        ("{vcluster: x, when: {colour: red}}", "colour"),
        ("{when: {min_nodes: 1}}", "vcluster"),
    ],
)
def test_rules_that_make_no_sense_are_named(tmp_path: Path, rule: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        intent_rules(written(tmp_path, f"submission: {{rules: [{rule}]}}\n").submission)


def senders(folder: Path, text: str) -> Senders:
    return Senders(written(folder, f"notifications: {text}\n"), SystemClock())


def test_without_a_sender_nothing_is_sent(tmp_path: Path) -> None:
    none = senders(tmp_path, "{}")
    assert none.senders == {}
    assert none.policy.channels == frozenset()


def test_what_is_configured_is_opened(tmp_path: Path) -> None:
    mail = (
        "{host: mx, sender: l@site.test, user: u, password: p, allowed_domains: [Site.Test], default_domain: site.test}"
    )
    both = senders(tmp_path, f"{{mail: {mail}, webhook: {{enabled: true, secret: s, allow_http: true}}}}")
    assert set(both.senders) == {"mail", "webhook"}
    policy = both.policy
    assert policy.own_address("ada") == "mail:ada@site.test"
    for odd in ("x:y;", "oid:1.2.3;x", "victim@evil.example,me", "f:1234:ada", "a b", "ada@elsewhere.example", "<x>"):
        assert policy.own_address(odd) == "", odd
    assert policy.problem_with("mail:x@site.test") == ""
    assert policy.problem_with("webhook:http://x/") == ""
    assert "elsewhere" in policy.problem_with("mail:x@elsewhere")
    assert len(policy.key_of("ada")) == 64
    assert "secret" not in repr(policy)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{mail: {host: mx}}", ConfigError, "sender"),
        ("{mail: {host: mx, sender: l@s, user: u}}", SecretError, "mail.password"),
        ("{webhook: {enabled: true}}", ConfigError, "webhook.secret: set the key that signs calls"),
        ("{webhook: {enabled: true, secret: s, ca_file: /nowhere}}", ConfigError, "/nowhere"),
    ],
)
def test_what_is_half_configured_is_refused(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        senders(tmp_path, text)
