from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    fake.on("GET", "/whoami", {"user": "alice", "tenant": "default", "tenants": ["default"], "roles": ["User"]})
    yield fake
    fake.close()


@pytest.fixture
def cli(api: FakeApi, tmp_path: Path) -> Cli:
    """A command line whose cluster is the fake one."""
    variables = {"HOME": str(tmp_path), "LATTICE_API_URL": api.url, "LATTICE_TOKEN": "secret", "TZ": "UTC"}
    return Cli(folder=tmp_path, environment=variables)
