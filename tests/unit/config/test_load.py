"""What a person reads when a configuration file is wrong, and what a right one gives."""

from pathlib import Path

import pytest
from msgspec.structs import fields

from lattice.api.operations.table import OPERATIONS
from lattice.api.rates import BURST, CONCURRENCY, PER_MINUTE, REQUESTS
from lattice.config.load import ConfigError, load, parse_duration, read, with_place
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import RateLimitsSection

GOOD = """\
name: s1
mode: dev
data_dir: /var/lib/lattice
api:
  hmac_secret: file:///etc/lattice/secret
  rest_listen: 127.0.0.1:0
node_agent:
  grace_period_s: 1m30s
  heartbeat_timeout_s: 0.5
archive: {after_s: 500ms}
"""


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "server.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def complaint(tmp_path: Path, text: str | bytes, *overrides: str) -> str:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, ServerConfig, overrides)
    return str(caught.value).replace(str(path), "F")


def test_a_good_file_gives_values_and_defaults(tmp_path: Path) -> None:
    config = load(written(tmp_path, GOOD), ServerConfig)
    assert config.name == "s1"
    assert config.api.rest_listen == "127.0.0.1:0"
    assert config.node_agent.grace_period_s == 90.0
    assert config.node_agent.heartbeat_timeout_s == 0.5
    assert config.node_agent.heartbeat_interval_s == 10.0
    assert config.archive.after_s == 0.5
    assert config.scheduling.merge_ms == 50


def test_an_override_wins_over_the_file_and_over_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    overrides = ["node_agent.grace_period_s=2", "snapshots.keep=7", "defaults.walltime=2h", "name=s2"]
    config = load(path, ServerConfig, overrides)
    assert config.node_agent.grace_period_s == 2.0
    assert config.node_agent.heartbeat_timeout_s == 0.5
    assert config.snapshots.keep == 7
    assert config.defaults.walltime == 7200.0
    assert config.name == "s2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD.replace("grace_period_s", "grace_perod_s"), 'F:8:3: unknown key "grace_perod_s" in "node_agent"; did you mean "grace_period_s"?'),
        (GOOD + "quorom: {}\n", 'F:11:1: unknown key "quorom"; did you mean "quorum"?'),
        (GOOD.replace("1m30s", "soon"), 'F:8:19: cannot read "soon" as a duration for "node_agent.grace_period_s"'),
        (GOOD.replace("1m30s", "0"), 'F:8:19: "node_agent.grace_period_s": expected'),
        (GOOD.replace("0.5", "[1]"), 'F:9:24: "node_agent.heartbeat_timeout_s": expected'),
        (GOOD.replace("mode: dev", "mode: test"), "F:2:7: \"mode\": invalid enum value 'test'; known values: dev, production"),
        (GOOD + "log: {kind: mysql}\n", "F:11:13: \"log.kind\": invalid enum value 'mysql'; known values: sqlite, memory"),
        (GOOD.replace("mode: dev", "mode: [dev"), "F:3:9: not valid YAML"),
        (GOOD.replace("name: s1", "name: no"), 'F:1:7: "name": expected `str`, got `bool`'),
        (GOOD.replace("name: s1", "name: s1\nname: s2"), 'F:2:1: "name" is given twice'),
        (GOOD.replace("127.0.0.1:0", "nowhere"), 'F:6:16: "api.rest_listen": expected'),
        (GOOD.replace("  hmac_secret: file:///etc/lattice/secret\n", ""), 'F:5:3: "api.hmac_secret" is missing'),
        (GOOD.replace("data_dir: /var/lib/lattice\n", ""), 'F:1:1: "data_dir" is missing'),
        ("", 'F:1:1: "data_dir" is missing'),
        ("- a\n- b\n", "F:1:1: the file must hold `key: value` pairs"),
        (GOOD.replace("archive: {after_s: 500ms}", "archive: 5"), 'F:10:10: "archive" must hold `key: value` pairs'),
        ("a: !!python/object:os.system x\n", 'F:1:1: unknown key "a"'),
        ("name: !!python/object:os.system x\n", "F:1:7: not a plain value"),
        (b"name: s1\ndata_dir: /\xff\n", "F:2:12: not UTF-8 text"),
        ("name:\n\t- x\n", "F:2:1: not valid YAML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_line_and_column(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert complaint(tmp_path, text).startswith(expected)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("node_agent.grace=1", 'unknown key "grace" in "node_agent"; did you mean "grace_period_s"?'),
        ("name", "write it as section.key=value"),
        ("name.first=x", '"name" has no keys of its own'),
        ("snapshots.keep=0", '"snapshots.keep": expected'),
        ("snapshots.keep=[", "not valid YAML"),
        ("node_agent.grace_period_s=later", 'cannot read "later" as a duration'),
    ],
)  # fmt: skip
def test_a_wrong_override_is_refused_by_name(tmp_path: Path, override: str, expected: str) -> None:
    said = complaint(tmp_path, GOOD, override)
    assert said.startswith(f"--set {override}")
    assert expected in said


def test_an_empty_limit_is_none_that_was_given(tmp_path: Path) -> None:
    """As in a file that 0.1.0 wrote with every key."""
    path = tmp_path / "server.yaml"
    path.write_text(GOOD + "rate_limits: {attach_max_concurrent: null, audit_per_minute: 3}\n")
    assert load(path, ServerConfig).rate_limits.audit_per_minute == 3


def test_every_limit_of_the_file_is_one_that_is_kept() -> None:
    """One that no operation counts against would be accepted and not done."""
    operations = {row.name for row in OPERATIONS}
    counted = {limit for name, limit in {**PER_MINUTE, **CONCURRENCY}.items() if name in operations}
    # Terminals are counted where they are launched.
    assert {field.name for field in fields(RateLimitsSection)} == counted | {REQUESTS, BURST, "attach_max_concurrent"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read: No such file"):
        load(tmp_path / "none.yaml", ServerConfig)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10.0), ("0.25", 0.25), ("250ms", 0.25), ("1h30m", 5400.0), ("1.5m", 90.0), ("x", None), ("5 minutes", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_a_complaint_about_a_key_names_its_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("data_dir: /nowhere\napi:\n  hmac_secret: file:///nowhere\n")
    _, place = read(file, ServerConfig)
    told = with_place("api.hmac_secret: cannot read /nowhere", ServerConfig, place)
    assert told == f"{file}:3:16: api.hmac_secret: cannot read /nowhere"
    assert with_place("api.rest_listen: in use", ServerConfig, place).startswith(f"{file}:")
    assert with_place("strange: in use", ServerConfig, place) == "strange: in use"
    assert with_place("the log is damaged: entry 7", ServerConfig, place) == "the log is damaged: entry 7"
