"""srun's own half: the words of Slurm, and bytes cut into chunks anywhere."""

import pytest

from lattice.cli.slurm.attending import _dechunked, in_slurms_words


@pytest.mark.parametrize(
    ("line", "texts", "code"),
    [
        ("task 0 on n1: exited with code 1", ["srun: error: n1: task 0: Exited with exit code 1"], 0),
        ("tasks 0-1,4 on n2: exited with code 9", ["srun: error: n2: tasks 0-1,4: Exited with exit code 9"], 0),
        ("task 3 on n1: killed by signal 9 (SIGKILL)", ["srun: error: n1: task 3: Killed"], 0),
        ("task 3 on n1: killed by signal 40 (unknown)", ["srun: error: n1: task 3: Signal 40"], 0),
        (
            "task 0 on n1: not started: x: command not found in PATH",
            [
                "slurmstepd: error: execve(): x: command not found in PATH",
                "srun: error: n1: task 0: Exited with exit code 2",
            ],
            2,
        ),
        (
            "task 0 on n1: not started: cannot execute /x: Permission denied",
            [
                "slurmstepd: error: execve(): cannot execute /x: Permission denied",
                "srun: error: n1: task 0: Exited with exit code 13",
            ],
            13,
        ),
        ("and 3 more", ["srun: error: and 3 more"], 0),
    ],
)
def test_failures_in_slurms_words(line: str, texts: list[str], code: int) -> None:
    assert in_slurms_words(line) == (texts, code)


def test_chunks_are_put_together_wherever_they_are_cut() -> None:
    whole = b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n"
    for cut in range(len(whole)):
        body, rest = _dechunked(whole[:cut])
        more, rest = _dechunked(rest + whole[cut:])
        assert (body + more, rest) == (b"abcdefgh", b"")
