"""The comparison of two commits, and the tick that measures how long the event loop is held."""

import asyncio
import math
import subprocess
import time
from pathlib import Path

import pytest

from bench.compare import baseline_environment, comparison, worsening
from bench.figures import FIGURES
from bench.holding import HoldFile, watch

RATE = next(figure for figure in FIGURES if figure.key == "submit_rate")
TIME = next(figure for figure in FIGURES if figure.key == "submit_p50_ms")
LOST = next(figure for figure in FIGURES if figure.key == "recovery_lost")


@pytest.mark.parametrize(
    ("figure", "old", "new", "ratio"),
    [(RATE, 2000.0, 1000.0, 2.0), (RATE, 1000.0, 2000.0, 0.5), (TIME, 2.0, 3.0, 1.5), (LOST, 0.0, 0.0, 1.0)],
)
def test_the_ratio_says_how_many_times_worse(figure: object, old: float, new: float, ratio: float) -> None:
    assert worsening(figure, old, new) == ratio  # type: ignore[arg-type]


def test_something_instead_of_nothing_is_worse_by_any_measure() -> None:
    assert worsening(LOST, 0.0, 1.0) == math.inf


def test_only_figures_that_both_have_are_compared() -> None:
    table = comparison({"submit_rate": 1000.0, "submit_p50_ms": 1.0}, {"submit_rate": 940.0, "submit_p99_ms": 2.0})
    assert RATE.text in table
    assert "| 1.06 | WORSE |" in table
    assert TIME.text not in table
    assert "| 1.04 | met |" in comparison({"submit_p50_ms": 1.0}, {"submit_p50_ms": 1.04})


def test_programs_of_the_baseline_find_the_version_of_their_distribution(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sdk").mkdir(parents=True)
    (tree / "sdk" / "pyproject.toml").write_text('[project]\nname = "once-named-sdk"\nversion = "0.1.0"\n')
    (tree / "src").mkdir()
    (tree / "src" / "printing.py").write_text(
        "from importlib.metadata import version\n\ndef main():\n    print(version('once-named'))\n"
    )
    (tree / "pyproject.toml").write_text(
        '[project]\nname = "once-named"\nversion = "0.0.7"\n[project.scripts]\nlattice = "printing:main"\n'
    )
    baseline_environment(tree, tmp_path / "environment")
    done = subprocess.run([tmp_path / "environment" / "bin" / "lattice"], capture_output=True, text=True, check=True)
    assert done.stdout == "0.0.7\n"


def test_what_holds_the_loop_is_measured_and_what_waits_is_not(tmp_path: Path) -> None:
    file = HoldFile(tmp_path / "holds")

    async def hold_and_wait() -> tuple[float, float]:
        watch(asyncio.get_running_loop(), file)
        await asyncio.sleep(0.01)
        file.reset()
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        await asyncio.sleep(0.01)
        held = file.read().cpu_ms
        file.reset()
        await asyncio.sleep(0.2)
        return held, file.read().cpu_ms

    held, waited = asyncio.run(hold_and_wait())
    assert held >= 45
    assert waited < 45
