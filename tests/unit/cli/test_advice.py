"""Advice from earlier runs of the same name."""

from typing import Any

from lattice.cli.input.advice import advice
from lattice_sdk.models.records import Allocation
from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi


def runs(*figures: tuple[float, float]) -> list[Allocation]:
    return [Allocation(id=f"a{i}", number=i, elapsed_s=s, peak_memory_mb=mb) for i, (s, mb) in enumerate(figures)]


SMALL = runs((1200, 1500), (1320, 1900), (600, 1000))


def test_figures_and_the_flags_that_would_do() -> None:
    assert advice("train", 86400, 65536, SMALL) == (
        "your last 3 runs of train used at most 1.9 of 64 GB and 00:22:00 of 24:00:00; "
        "--memory=3G --walltime=35m may start sooner"
    )
    assert advice("train", 86400, 0, SMALL).endswith("; --walltime=35m may start sooner")


def test_no_advice_without_reason() -> None:
    assert advice("train", 86400, 65536, SMALL[:2]) == ""
    assert advice("train", 3600, 4096, SMALL) == ""
    assert advice("train", 86400, 65536, runs(*[(0, 0)] * 5)) == ""


def test_it_is_given_on_a_terminal_only(api: FakeApi, cli: Cli) -> None:
    made: dict[str, Any] = allocation(17, name="train", walltime_s=86400)
    api.on("POST", "/allocations", made)
    past = [allocation(number, state="Completed", elapsed_s=60) for number in (1, 2, 3)]
    api.on("GET", "/accounting", {"items": past})
    assert "your last" not in cli("submit", "--walltime=1d", "--", "true").err
    cli.is_stderr_terminal = True
    assert (
        "note: your last 3 runs of train used at most 00:01:00 of 24:00:00"
        in cli("submit", "--walltime=1d", "--", "true").err
    )
    assert "your last" not in cli("submit", "-q", "--walltime=1d", "--", "true").err
