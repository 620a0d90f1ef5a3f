"""Requests made up from the published OpenAPI document: whatever they say, no answer is a failure of the server and none is late."""

import itertools
import logging
import time
from typing import Any

import hypothesis
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings

from lattice.testing import LocalCluster
from tests.fuzz.conftest import LONG_S, SHORT_S

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

# What the library makes up; its own types are many.
Case = Any
MadeUp = Any

_log = logging.getLogger(__name__)
LATE_S = 15.0
# These write where the request says, or wait on purpose.
LEFT_OUT = frozenset({"create_backup", "restore_backup", "verify_backup", "wait"})
# Requests at one operation before the next one has its turn.
BATCH, LONG_BATCH = 4, 12


def ask(target: LocalCluster, case: Case) -> None:
    """Sends the case and judges the answer; of a stream only its beginning is read."""
    prepared = case.as_transport_kwargs(base_url=target.api_url)
    prepared["headers"] = {**dict(prepared.get("headers") or {}), "Authorization": f"Bearer {target.token}"}
    begun = time.monotonic()
    try:
        with requests.request(**prepared, timeout=LATE_S, stream=True, allow_redirects=False) as answer:
            status = answer.status_code
            if "event-stream" not in answer.headers.get("content-type", ""):
                _ = answer.content
    except requests.exceptions.InvalidHeader:
        return  # the library refuses to send it
    took = time.monotonic() - begun
    assert status < 500, f"{status}: {answer.text}\n{case.as_curl_command()}"
    assert took < LATE_S, case.as_curl_command()


def throw(target: LocalCluster, operation: MadeUp, number: int, batch: int) -> None:
    @seed(number)
    @settings(
        max_examples=batch,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @given(case=operation.as_strategy())
    def run(case: Case) -> None:
        ask(target, case)

    run()


def go_on(target: LocalCluster, seconds: float, batch: int) -> None:
    """Throws one thing after the other for so long, and at least one batch at each operation."""
    import schemathesis  # the workers that run other tests do not wait for it

    schema = schemathesis.openapi.from_url(f"{target.api_url}/api/v1/openapi.json")
    # An operation that the library cannot read has no `ok`: that is a mistake in the document.
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    chosen = [each for each in operations if each.definition.raw["operationId"] not in LEFT_OUT]
    assert len(chosen) > 50
    end = time.monotonic() + seconds
    for number, operation in zip(itertools.count(1), itertools.cycle(chosen)):
        if time.monotonic() > end and number > len(chosen):
            break
        throw(target, operation, number, batch)
    _log.info("the last seed was %d", number - 1)


def test_no_request_makes_the_server_fail(target: LocalCluster) -> None:
    go_on(target, SHORT_S, BATCH)


@pytest.mark.soak
def test_no_request_makes_the_server_fail_for_long(target: LocalCluster) -> None:
    go_on(target, LONG_S, LONG_BATCH)
