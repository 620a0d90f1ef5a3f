"""How work ended, in one sentence."""

from typing import Any

import pytest

from lattice.core.model.work.allocations import Cause
from lattice.core.model.work.endings import group_sentence, preempted_for_good, probe_failed, sentence, stopped_sentence


@pytest.mark.parametrize(
    ("wanted", "cause", "facts"),
    [
        ("a5 failed with exit code 3", "exit", {"exit_code": 3}),
        (
            "a5 failed with exit code 3; its output was not stored: disk full",
            "exit",
            {"exit_code": 3, "message": "its output was not stored: disk full"},
        ),
        ("a5 was killed by signal 9 (SIGKILL)", "signal", {"signal": 9}),
        ("a5 was killed by signal 40", "signal", {"signal": 40}),
        (
            "a5 was killed: out of memory, limit 64 MB, peak 64 MB, python3 (pid 812)",
            "oom",
            {"signal": 9, "message": "out of memory, limit 64 MB, peak 64 MB, python3 (pid 812)"},
        ),
        ("a5 was killed: out of memory", "oom", {}),
        ("a5 was killed at its walltime limit of 00:00:03", "walltime", {"walltime_s": 3}),
        ("a5 was killed at its walltime limit of 1-00:00:00", "walltime", {"walltime_s": 86400, "message": "stopped: walltime"}),
        ("a5 was cancelled", "cancelled", {"message": "stopped: cancelled"}),
        ("a5 was cancelled by bob", "cancelled", {"message": "cancelled by bob"}),
        ("a5 was stopped at its deadline", "deadline", {"message": "stopped: deadline"}),
        (
            "a5 was given up: it could no longer end before its deadline",
            "deadline",
            {"message": "it could no longer end before its deadline", "has_run": False},
        ),
        (
            "a5 was never started: a1 was to end with success, it failed",
            "dependency",
            {"message": "a1 was to end with success, it failed"},
        ),
        (
            "a5 was never started: a1 was to end with success, it was cancelled",
            "dependency",
            {"message": "a1 was to end with success, it cancelled"},
        ),
        ("a5 was given up: it could no longer end before its deadline", "deadline", {"has_run": False}),
        (
            "a5 was cancelled by bob; its output was not stored: disk full",
            "cancelled",
            {"message": "cancelled by bob; its output was not stored: disk full"},
        ),
        ("a5 could not be started: cannot execute /no: No such file", "launch", {"message": "cannot execute /no: No such file"}),
        ("a5 failed with its node: node n1 was lost", "node", {"message": "node n1 was lost"}),
        ("a5 was preempted", "preempted", {}),
    ],
)  # fmt: skip
def test_every_end_has_a_sentence(wanted: str, cause: str, facts: dict[str, Any]) -> None:
    assert sentence("a5", cause, **facts) == wanted


def test_a_good_end_needs_none() -> None:
    assert sentence("a5", "exit", exit_code=0) == ""


def test_no_cause_is_told_by_its_bare_word() -> None:
    told = {cause: sentence("a5", cause.value, exit_code=1) for cause in Cause if cause is not Cause.PREEMPTED}
    assert not [text for text in told.values() if text.startswith("a5 ended:")]


def test_a_node_tells_of_a_stop_what_it_knows() -> None:
    assert stopped_sentence("a5", "walltime", walltime_s=3) == "a5 was killed at its walltime limit of 00:00:03"
    assert stopped_sentence("a5", "cancelled by bob") == "a5 was cancelled by bob"
    assert stopped_sentence("a5", "something new") == "a5 was stopped"
    assert stopped_sentence("a5", "preempted") == "a5 was preempted: other work needs its nodes; it will run again"
    failed = "liveness probe failed 3 times in a row: no answer"
    assert stopped_sentence("a5", probe_failed(failed)) == sentence("a5", "probe", message=failed)
    for_good = preempted_for_good("work of class 9 needs its nodes")
    assert stopped_sentence("a5", for_good) == sentence("a5", "preempted", message=for_good)
    assert stopped_sentence("a5", preempted_for_good("")) == "a5 was preempted: other work needs its nodes"


def test_a_group_is_told_by_its_worst_task() -> None:
    worst = sentence("a5", "exit", exit_code=3)
    wanted = "a5 failed: 2 of 9 tasks failed, the worst one failed with exit code 3"
    assert group_sentence("a5", 2, 9, worst=worst) == wanted
