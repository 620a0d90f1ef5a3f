"""The trees of all modules are large: looking for garbage among them again and again takes longer than the tests."""

import gc
from collections.abc import Iterator

import pytest

from tests.architecture.tree import parsed


@pytest.fixture(autouse=True, scope="module")
def no_search_for_garbage() -> Iterator[None]:
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()
