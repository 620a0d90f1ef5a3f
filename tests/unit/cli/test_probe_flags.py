"""Probes of a service on the command line."""

import pytest

from lattice.cli.errors import UsageError
from lattice.cli.input.probes import parse_probe
from lattice_sdk import ProbeRequest


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


@pytest.mark.parametrize("text", ["8080", "exec:true", "tcp:", "http:x/y", "tcp:80,period=often", "tcp:80,when=now"])
def test_what_is_no_probe_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_probe(text, "--readiness-probe")
    assert "--readiness-probe" in str(refused.value)
    assert "tcp:8080" in (refused.value.hint or "")
