from collections.abc import Iterator

import pytest

from lattice_sdk import Client, RetryPolicy
from tests.unit.sdk.fake_api import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    yield fake
    fake.close()


@pytest.fixture
def client(api: FakeApi) -> Iterator[Client]:
    """A client that does not pause between tries."""
    policy = RetryPolicy(retry_for_s=5, pause=lambda _seconds: None)
    with Client(api.url, token="secret", policy=policy) as made:
        yield made
