"""Shims for the tests of this folder."""

from collections.abc import Callable, Iterator

import pytest

from tests.integration.agent.shim_process import NOBODY, Client, ShimProcess


@pytest.fixture
def make_shim() -> Iterator[Callable[..., ShimProcess]]:
    shims: list[ShimProcess] = []

    def make(*options: str, uid: int = 0, cgroup: bool = True, descriptors: int = 0) -> ShimProcess:
        shim = ShimProcess(*options, uid=uid, cgroup=cgroup, descriptors=descriptors)
        shims.append(shim)
        return shim

    yield make
    for shim in shims:
        shim.close()


@pytest.fixture(params=[pytest.param("cgroup", marks=pytest.mark.root), "tree"])
def shim(request: pytest.FixtureRequest, make_shim: Callable[..., ShimProcess]) -> ShimProcess:
    """A shim that has cgroups and one that may not have them; both owe the same."""
    if request.param == "cgroup":
        return make_shim()
    return make_shim(uid=NOBODY, cgroup=False)


@pytest.fixture
def root_shim(make_shim: Callable[..., ShimProcess]) -> ShimProcess:
    """A shim with cgroups; for tests marked `root`."""
    return make_shim()


@pytest.fixture
def agent(shim: ShimProcess) -> Client:
    return shim.connect()
