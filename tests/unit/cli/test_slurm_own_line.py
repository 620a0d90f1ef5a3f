"""A server may have a Slurm program open, run and write what its own command line names, and nothing else."""

import pytest

from lattice.cli.slurm.own_line import (
    STDERR,
    STDIN,
    STDOUT,
    may_set,
    names_file,
    names_output,
    names_program,
)


@pytest.mark.parametrize(
    ("argv", "name", "may"),
    [
        (["-N", "2", "job.sh", "a"], "job.sh", True),
        (["job.sh"], "/home/ada/.private", False),
        (["job.sh"], "", False),
        (["-N2", "job.sh"], "-N2", False),
        ([], "job.sh", False),
    ],
)
def test_a_script_is_a_word_of_the_line(argv: list[str], name: str, may: bool) -> None:
    assert names_file(argv, name) is may


@pytest.mark.parametrize(
    ("argv", "words", "may"),
    [
        (["-N1", "make", "-j4"], ["make", "-j4"], True),
        (["-N1"], [], True),
        (["-N1", "make"], ["/bin/sh", "-c", "id"], False),
        (["-N1", "make", "-j4"], ["make"], False),
        (["-N1"], ["-N1"], False),
        ([], ["sh"], False),
    ],
)
def test_a_program_is_the_end_of_the_line(argv: list[str], words: list[str], may: bool) -> None:
    assert names_program(argv, words) is may


def test_a_server_sets_no_variable_that_loads_or_runs_something() -> None:
    assert [
        name for name in ("SLURM_JOB_ID", "SLURMD_NODENAME", "LD_PRELOAD", "PATH", "BASH_ENV") if may_set(name)
    ] == [
        "SLURM_JOB_ID",
        "SLURMD_NODENAME",
    ]


@pytest.mark.parametrize(
    ("argv", "path", "may"),
    [
        (["-o", "out.%j", "true"], "/data/out.17", True),
        (["-oout.%j", "true"], "/data/out.17", True),
        (["-lo", "out", "true"], "/data/out", True),
        (["--output=/tmp/%u/%5j-%s.txt", "true"], "/tmp/ada/00017-0.txt", True),
        (["--output", "out", "true"], "/data/out", True),
        (["--outp=out", "true"], "/data/out", True),
        (["-D", "sub", "-o", "out", "true"], "/data/sub/out", True),
        (["-o", "100%%", "true"], "/data/100%", True),
        (["-o", "a\\%j", "true"], "/data/a%j", True),
        (["true"], "/dev/null", True),
        (["true"], "/home/ada/.bashrc", False),
        (["-o", "out.%j", "true"], "/data/out.1/../../home/x", False),
        (["-o", "%j", "true"], "/home/ada/.bashrc", False),
        (["-o", "out", "true"], "/data/out2", False),
        (["-e", "err", "true"], "/data/err", False),
        (["-n", "1", "cp", "a", "b"], "/data/b", False),
    ],
)
def test_output_goes_where_the_line_says(argv: list[str], path: str, may: bool) -> None:
    assert names_output(argv, {}, "/data", STDOUT, path) is may


def test_variables_name_files_as_well() -> None:
    assert names_output(["true"], {"SLURM_STDERRMODE": "err.%j"}, "/data", STDERR, "/data/err.3")
    assert not names_output(["true"], {"SLURM_STDERRMODE": "err.%j"}, "/data", STDIN, "/data/err.3")
