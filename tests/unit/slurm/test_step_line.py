"""What srun's own options mean."""

import pytest

from lattice.slurm.faults import Fault
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.submit.job import Job
from lattice.slurm.submit.options import options_of
from lattice.slurm.submit.step_line import StepLine, is_per_task, narrowed_warning, read_programs, step_line, task_count

GRAMMAR = Grammar("srun", options_of("srun"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["hostname"], StepLine()),
        (["-l", "--overlap", "-O", "x"], StepLine(label=True, overlap=True, overcommit=True)),
        (["-K", "x"], StepLine(kills_on_failure=True)),
        (["-K0", "x"], StepLine()),
        (["--kill-on-bad-exit=1", "x"], StepLine(kills_on_failure=True)),
        (["--jobid=17", "--pty", "x"], StepLine(jobid="17", pty=True)),
        (["--multi-prog", "--open-mode=append", "x"], StepLine(multi_prog=True, open_mode="append")),
    ],
)
def test_options_of_a_step(words: list[str], line: StepLine) -> None:
    assert step_line(GRAMMAR.read(words).given) == line


@pytest.mark.parametrize(
    ("job", "variable", "asked", "tasks"),
    [
        (Job(ntasks=3), "8", 4, 3),
        (Job(), "8", 4, 8),
        (Job(), "", 4, 4),
        (Job(), "", 0, 0),
        (Job(ntasks_per_node=2), "8", 4, 0),
        (Job(min_nodes=1), "8", 4, 0),
        (Job(min_nodes=2), "8", 4, 4),
    ],
)
def test_how_many_tasks(job: Job, variable: str, asked: int, tasks: int) -> None:
    assert task_count(job, variable, asked, nodes=2) == tasks


def test_a_step_with_fewer_tasks_than_nodes_is_told_as_slurm_tells_it() -> None:
    assert narrowed_warning(1, 3, is_named=False) == "can't run 1 processes on 3 nodes, setting nnodes to 1"
    assert narrowed_warning(3, 3, is_named=False) == narrowed_warning(0, 3, is_named=False) == ""


def test_patterns_with_a_task_belong_to_the_tasks() -> None:
    assert [is_per_task(text) for text in ("out.%t", "%3t", "%N", "%n", "out.%j", "")] == [True] * 4 + [False] * 2


def test_several_programs() -> None:
    text = "# comment\n\n0-1,4 ./a 'b c'\n* ./rest \\\n  more\n"
    assert read_programs(text) == [("0-1,4", ["./a", "b c"]), ("*", ["./rest", "more"])]
    for bad in ("x ./a", "0", "", "0 'open"):
        with pytest.raises(Fault):
            read_programs(bad)
