"""Probes of a service on the command line."""

import pytest

from lattice.cli.errors import UsageError
from lattice.cli.input.probes import parse_probe, probe_text
from lattice_sdk import Probe, ProbeRequest


def test_a_probe_is_a_kind_a_port_and_options() -> None:
    assert parse_probe(None, "--liveness-probe") is None
    assert parse_probe("tcp:8080", "--liveness-probe") == ProbeRequest(probe_type="tcp", port=8080)
    assert parse_probe("http:80/a,b?c=1,period=5,delay=0,timeout=1,failures=2,successes=3", "-") == ProbeRequest(
        probe_type="http",
        port=80,
        path="/a,b?c=1",
        period_secs=5,
        initial_delay_secs=0,
        timeout_secs=1,
        failure_threshold=2,
        success_threshold=3,
    )


def test_a_port_may_be_named() -> None:
    probe = parse_probe("http:web/healthz,period=5", "-")
    assert probe == ProbeRequest(probe_type="http", port_name="web", path="/healthz", period_secs=5)
    text = probe_text(Probe(kind="liveness", type="tcp", port_name="web", period_s=5, timeout_s=1))
    assert text.startswith("tcp:web,period=5,")


def test_a_command_is_split_into_words_and_given_back_as_it_was() -> None:
    probe = parse_probe("exec:./check 'two words',period=5", "-")
    assert probe == ProbeRequest(probe_type="exec", command=("./check", "two words"), period_secs=5)
    text = probe_text(Probe(kind="liveness", type="exec", command=("./check", "two words"), period_s=5, timeout_s=1))
    assert text.startswith("exec:./check 'two words',period=5,")


@pytest.mark.parametrize(
    "text", ["8080", "exec:", "exec:'a", "tcp:", "http:-x/y", "tcp:80,period=often", "tcp:80,when=now"]
)
def test_what_is_no_probe_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_probe(text, "--readiness-probe")
    assert "--readiness-probe" in str(refused.value)
    assert "tcp:8080" in (refused.value.hint or "")
