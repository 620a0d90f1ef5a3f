"""Textbook policies give the published figures on traces of real machines, to the last digit that was published."""

from dataclasses import dataclass

import pytest

from lattice.replay.outcomes import Outcome, measure
from lattice.replay.policies.conservative import Conservative
from lattice.replay.policies.easy import Easy
from lattice.replay.policies.fcfs import Fcfs
from lattice.replay.simulate import simulate
from lattice.replay.traces.reader import listed_procs, read_trace
from lattice.replay.traces.workload import Workload, keep_r1
from tests.replay.traces import require_trace


@dataclass(frozen=True)
class Published:
    """As printed: thousands with commas, as many digits as were given."""

    trace: str
    procs: int
    entries: int
    fcfs_wait: str
    fcfs_slowdown: str
    easy_wait: str
    easy_slowdown: str
    easy_use: str


FIGURES = (
    Published("KTH-SP2", 100, 27_992, "218,832.06", "4294.50", "6,351", "86.37", ".6841"),
    Published("SDSC-SP2", 128, 54_044, "1,552,128", "14033", "21,180", "92.62", ".8339"),
    Published("ANL-Theta-2022", 4_360, 23_911, "162,612", "391.4", "44,664", "117.0", ".7592"),
    Published("ANL-Mira-2018", 49_152, 22_508, "597,890", "671.1", "47,130", "44.72", ".8606"),
    Published("MS-Philly", 256, 55_354, "279,645", "808.5", "261,635", "569.7", ".6124"),
    Published("HPC2N", 240, 202_876, "16,189", "207.8", "10,800", "87.10", ".5938"),
    Published("CEA-Curie", 93_312, 312_807, "15,922", "567.4", "1,345", "27.37", ".6177"),
    Published("RICC", 8_192, 447_794, "321,765", "5029", "36,863", "488.0", ".8886"),
)
LARGE = {"HPC2N", "CEA-Curie", "RICC"}
# Nobody published these; they may not change unnoticed.
CONSERVATIVE = {"KTH-SP2": ("7,627.94", "97.48"), "NASA": ("4.03", "1.01"), "MS-Philly": ("262,234.58", "574.94")}


def by_name(figures: tuple[Published, ...]) -> list[object]:
    return [pytest.param(row, id=row.trace, marks=[pytest.mark.soak] if row.trace in LARGE else []) for row in figures]


def workload(name: str) -> Workload:
    path = require_trace(name)
    trace = read_trace(path)
    return keep_r1(trace, trace.procs_total or listed_procs(path))


def shown(value: float, like: str) -> str:
    """The value with as many decimals and separators as the published one."""
    decimals = len(like.partition(".")[2])
    text = f"{value:,.{decimals}f}" if "," in like else f"{value:.{decimals}f}"
    return text.removeprefix("0") if like.startswith(".") else text


@pytest.mark.parametrize("published", by_name(FIGURES))
def test_fcfs_and_easy_equal_the_published_figures(published: Published) -> None:
    work = workload(published.trace)
    assert (work.procs_total, len(work)) == (published.procs, published.entries)
    fcfs = measure(work, simulate(work, Fcfs(work)))
    assert shown(fcfs.avg_wait_s, published.fcfs_wait) == published.fcfs_wait
    assert shown(fcfs.avg_bsld, published.fcfs_slowdown) == published.fcfs_slowdown
    easy = measure(work, simulate(work, Easy(work)))
    assert shown(easy.avg_wait_s, published.easy_wait) == published.easy_wait
    assert shown(easy.avg_bsld, published.easy_slowdown) == published.easy_slowdown
    assert shown(easy.util, published.easy_use) == published.easy_use


@pytest.mark.parametrize("name", list(CONSERVATIVE))
def test_conservative_stays_what_it_was(name: str) -> None:
    work = workload(name)
    outcome: Outcome = measure(work, simulate(work, Conservative(work)))
    wait, slowdown = CONSERVATIVE[name]
    assert (shown(outcome.avg_wait_s, wait), shown(outcome.avg_bsld, slowdown)) == (wait, slowdown)
