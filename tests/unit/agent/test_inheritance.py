"""What a process of the work does not inherit from the shim."""

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim import spawn


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


@pytest.mark.parametrize(("own", "of_the_work"), [("-900", "0900"), ("0", "0"), ("300", "300")])
def test_the_protection_of_the_agent_is_not_that_of_the_work(
    own: str, of_the_work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OOMScoreAdjust of the unit: the kernel would otherwise spare the work and kill the daemons of the machine.

    A file of the kernel takes the 0 as a whole, this one as its first character.
    """
    score = tmp_path / "oom_score_adj"
    score.write_text(own)
    monkeypatch.setattr(spawn, "OOM_SCORE", str(score))
    spawn.Inheritance().expose()
    assert score.read_text() == of_the_work


def test_descriptors_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(signal, "valid_signals", set)
    inheritance = spawn.Inheritance()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda _: None)
    inheritance.restore()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
