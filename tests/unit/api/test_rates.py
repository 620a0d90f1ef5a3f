"""How much one user may ask for: buckets fill up again, streams count while they last, others are not concerned."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from lattice.api.answers import EventAnswer, ServerEvent, TextAnswer, TextPiece
from lattice.api.errors import ApiError
from lattice.api.rates import DEFAULTS, GENEROUS, LOGIN_DELAY_S, LOGINS_BURST, MAX_BUCKETS, RateLimits
from lattice.core.model.site.settings import SETTINGS
from lattice.ports.site.identity import Identity
from lattice.testing import HandClock

ADA = Identity(user="ada", account="ada")
BOB = Identity(user="bob", account="bob")
AGENT = Identity(user="n1", account="", kind="agent")


def limits(clock: HandClock, changed: dict[str, str] | None = None, **figures: int) -> RateLimits:
    return RateLimits({**DEFAULTS, **figures}, clock.monotonic_s, lambda: changed or {})


def test_a_minutes_worth_at_once_then_one_after_the_other() -> None:
    clock = HandClock()
    guard = limits(clock)
    for _ in range(DEFAULTS["compare_per_minute"]):
        guard.spend(ADA, "compare")
    with pytest.raises(ApiError) as refused:
        guard.spend(ADA, "compare")
    assert (refused.value.status, refused.value.retry_after_s) == (429, 6)
    assert "10 per minute" in refused.value.view.limit
    guard.spend(BOB, "compare")
    clock.pass_s(5.9)
    with pytest.raises(ApiError):
        guard.spend(ADA, "compare")
    clock.pass_s(0.2)
    guard.spend(ADA, "compare")


def test_all_requests_together_have_a_limit_from_which_agents_are_free() -> None:
    guard = limits(HandClock(), requests_per_second=10, requests_burst=20)
    for _ in range(20):
        guard.spend(ADA, "get_node")
    with pytest.raises(ApiError, match="too many requests; the next one is allowed in 1 s"):
        guard.spend(ADA, "submit")
    for _ in range(100):
        guard.spend(AGENT, "whoami")


def test_what_an_administrator_sets_wins() -> None:
    guard = limits(HandClock(), {"rate_limits.compare_per_minute": "1"})
    guard.spend(ADA, "compare")
    with pytest.raises(ApiError):
        guard.spend(ADA, "compare")
    free = limits(HandClock(), {"rate_limits.compare_per_minute": "0"})
    for _ in range(100):
        free.spend(ADA, "compare")


def test_every_limit_can_be_set_and_dev_mode_lets_loops_run() -> None:
    assert {f"rate_limits.{name}" for name in DEFAULTS} == {key for key in SETTINGS if key.startswith("rate_limits.")}
    for name, figure in DEFAULTS.items():
        assert SETTINGS[f"rate_limits.{name}"].default == str(figure)
    guard = RateLimits(GENEROUS, lambda: 0.0)
    for _ in range(20_000):
        guard.spend(ADA, "submit")


def test_buckets_do_not_grow_without_end() -> None:
    clock = HandClock()
    guard = limits(clock)
    for number in range(MAX_BUCKETS + 10):
        clock.pass_s(1)
        guard.spend(Identity(user=f"u{number}", account=""), "get_node")
    assert len(guard._buckets) < 200


async def events() -> AsyncGenerator[ServerEvent[object], None]:
    yield ServerEvent(1)
    yield ServerEvent(2)


async def pieces() -> AsyncGenerator[TextPiece, None]:
    yield TextPiece(b"x")


async def answer(value: object) -> object:
    return value


async def open_stream(guard: RateLimits) -> EventAnswer[object]:
    opened = await guard.enter(ADA, "stream_logs").around(answer(EventAnswer(events())))
    assert isinstance(opened, EventAnswer)
    return opened


def test_streams_count_while_they_last_however_they_end() -> None:
    async def scenario() -> None:
        guard = limits(HandClock(), stream_logs_max_concurrent=2)
        first, second = await open_stream(guard), await open_stream(guard)
        with pytest.raises(ApiError) as refused:
            guard.enter(ADA, "stream_logs")
        assert str(refused.value) == (
            "maximum concurrent sessions reached (2/2). Close an existing session to open a new one."
        )
        guard.enter(BOB, "stream_logs")
        guard.enter(ADA, "get_node")
        await first.events.aclose()  # never begun
        third = await open_stream(guard)
        assert [event.data async for event in second.events] == [1, 2]  # read to its end
        await anext(third.events)
        with pytest.raises(asyncio.CancelledError):
            await third.events.athrow(asyncio.CancelledError())
        text = await guard.enter(ADA, "stream_logs").around(answer(TextAnswer(pieces())))
        assert isinstance(text, TextAnswer)
        assert [piece.data async for piece in text.pieces] == [b"x"]
        await guard.enter(ADA, "stream_logs").around(answer("no stream"))
        with pytest.raises(KeyError):
            await guard.enter(ADA, "stream_logs").around(fail())
        await open_stream(guard)
        assert (ADA.user, "stream_logs_max_concurrent") not in guard._open  # also one that was dropped

    async def fail() -> object:
        raise KeyError

    asyncio.run(scenario())


def test_wrong_tokens_from_one_address_wait_after_the_first_few() -> None:
    clock = HandClock()
    guard = limits(clock)
    assert [guard.refused("10.0.0.1") for _ in range(LOGINS_BURST)] == [0.0] * LOGINS_BURST
    assert guard.refused("10.0.0.1") == LOGIN_DELAY_S
    assert guard.refused("10.0.0.2") == guard.refused("") == 0.0
    clock.pass_s(2)
    assert guard.refused("10.0.0.1") == 0.0


def test_long_polls_and_followed_steps_are_counted() -> None:
    guard = limits(HandClock(), wait_max_concurrent=1, follow_step_max_concurrent=1)
    for operation in ("wait", "follow_step"):
        first = guard.enter(ADA, operation)
        with pytest.raises(ApiError, match="maximum concurrent"):
            guard.enter(ADA, operation)
        first.close()
        guard.enter(ADA, operation).close()
