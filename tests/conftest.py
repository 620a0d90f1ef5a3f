"""Settings that hold for every test: hypothesis profiles, and what a test may
ask of the machine. What is missing is skipped with a reason in the summary;
under CI=true it is a failure, so that a gap cannot pass for success."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
# How much of the long forms is run: 1 is all of it, hours of work; nothing or 0 means the everyday forms.
SOAK = float(os.environ.get("LATTICE_SOAK", "") or 0)
# Under `make coverage` every line costs many times as much: random walks are shorter and may take longer.
IS_TRACED = sys.gettrace() is not None


def sized(everyday: int, long: int, covered: int = 0) -> int:
    """A number of examples, seeds or rounds: the everyday one, or the share of the long one that was asked for.

    `covered` is what it takes to see every branch of the core; coverage is not measured every day.
    """
    return max(everyday, int(long * SOAK)) if SOAK else max(everyday, covered if IS_TRACED else 0)


# A worker holds thousands of tests and all that they import. Searched for garbage as often as usual, they cost a third of its time.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    """What was collected stays until the end."""
    gc.freeze()


# Commands of tests run in processes of their own, which leave nothing behind; the tests of the warm interpreter say otherwise.
os.environ["LATTICE_WARM"] = "off"

# A shell starts background commands with SIGINT ignored, and so would be all that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("ci"), max_examples=sized(100, 5000), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "soak" if SOAK else "ci"))


pytest_plugins = ["tests.once_more", "tests.repeated_alarm"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="record expected texts (help pages) instead of comparing")
    parser.addoption("--rewrite-scenarios", action="store_true", help="record the outcomes in tests/scenarios/*.txt")


def missing(what: str) -> NoReturn:
    """End the test as skipped, or as failed under CI=true."""
    if CI:
        pytest.fail(f"{what} is missing and CI=true allows no gaps", pytrace=False)
    pytest.skip(f"{what} is missing")


def require_program(name: str) -> str:
    """Path of a program that the test needs."""
    path = shutil.which(name)
    if path is None:
        missing(f"program {name!r}")
    return path


def require_root() -> None:
    if os.geteuid() != 0:
        missing("root")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") is not None:
        require_root()


@pytest.fixture
def open_path() -> Iterator[Path]:
    """All may enter the folders above it, which is not so of pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
