"""The last line of a run's stderr."""

from pathlib import Path

import pytest

from lattice.agent.machine.state import End
from lattice.agent.runs.summary import summary_line, write_summary
from lattice.ports.nodes.agents import EndCause, RunKey, StartOrder

ORDER = StartOrder(key=RunKey(7, 1), allocation_id="a7", cpus=2, memory_mb=512)


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (
            End(cause=EndCause.EXIT, exit_code=3, elapsed_s=100.0, cpu_s=150.0, peak_memory_mb=128),
            "lattice: a7 ended with exit code 3 after 00:01:40, CPU 00:02:30 (75.0%), peak memory 128 MB (25.0%)\n",
        ),
        (
            End(cause=EndCause.SIGNAL, signal=9, elapsed_s=3700.0),
            "lattice: a7 was killed by signal 9 after 01:01:40, CPU 00:00:00 (0.0%), peak memory 0 MB (0.0%)\n",
        ),
        (
            End(cause=EndCause.WALLTIME),
            "lattice: a7 ended: walltime after 00:00:00, CPU 00:00:00, peak memory 0 MB (0.0%)\n",
        ),
    ],
)
def test_the_line_says_how_it_ended_and_what_it_used(end: End, line: str) -> None:
    assert summary_line(ORDER, end) == line


def test_it_is_written_once_behind_all_that_the_run_wrote(tmp_path: Path) -> None:
    (tmp_path / "stderr").write_bytes(b"own words\n")
    end = End(cause=EndCause.EXIT, elapsed_s=1.0)
    for _ in range(2):
        write_summary(tmp_path, ORDER, end)
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert lines == ["own words", summary_line(ORDER, end).rstrip()]
