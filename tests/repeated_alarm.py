"""The alarm of a test that takes too long goes off again, until the test has ended.

pytest-timeout raises once. Whatever catches that, or waits while it cleans up (`asyncio.run` for a task that cannot be cancelled),
would stand still for ever, and with it the whole run. Where the alarm is not a signal, pytest-timeout ends the process by itself.
"""

import signal
from collections.abc import Generator
from typing import Protocol

import pytest

AGAIN_EVERY_S = 60.0


class _Settings(Protocol):
    timeout: float


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: _Settings) -> Generator[None, object, object]:
    is_set = yield
    if signal.getitimer(signal.ITIMER_REAL)[0] and settings.timeout:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, min(AGAIN_EVERY_S, settings.timeout))
    return is_set
