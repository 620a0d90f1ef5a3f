"""The checker finds what was planted, and nothing in a history that is as it should be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.checker import RULES, check
from tests.chaos.history import Execution, Fault, History, Listing, Seen, Submission, read_journal


def good() -> History:
    """Two allocations; the second lost its node once and ran again."""
    return History(
        submissions=[Submission("r1", 1), Submission("r2", 2), Submission("r3", None), Submission("r4", 3)],
        cancelled=[3],
        listings=[
            Listing(1.0, (Seen(1, "Running", 1, ("n1",)), Seen(2, "Starting", 1, ("n2",)))),
            Listing(2.0, (Seen(1, "Completed", 1, ("n1",), "exit"), Seen(2, "Pending", 2))),
        ],
        faults=[Fault(1.5, "kill shim: n2", loses_work=True)],
        executions=[
            Execution(1, 1, "n1", 10.0, 11.0, reached_end=True),
            Execution(2, 1, "n2", 10.0, 10.4),
            Execution(2, 2, "n1", 11.0, 11.5, reached_end=True),
        ],
        final=(
            Seen(1, "Completed", 1, ("n1",), "exit"),
            Seen(2, "Failed", 2, ("n1",), "exit"),
            Seen(3, "Cancelled", 0, (), "cancelled"),
        ),
    )


def change(history: History, wrong: Seen) -> None:
    history.final = tuple(wrong if seen.number == wrong.number else seen for seen in history.final)


def lost(history: History) -> None:
    history.submissions.append(Submission("r9", 9))


def not_terminal(history: History) -> None:
    change(history, Seen(2, "Running", 2, ("n1",)))


def two_requests_one_number(history: History) -> None:
    history.submissions.append(Submission("r5", 1))


def one_request_two_numbers(history: History) -> None:
    history.submissions.append(Submission("r1", 2))


def more_allocations_than_requests(history: History) -> None:
    history.final += tuple(Seen(number, "Completed", 1, ("n1",), "exit") for number in (8, 9))


def cancel_forgotten(history: History) -> None:
    change(history, Seen(3, "Pending", 0))


def cancelled_and_executed(history: History) -> None:
    history.executions.append(Execution(3, 0, "n2", 20.0, 21.0))


def executed_twice(history: History) -> None:
    history.executions.append(Execution(1, 1, "n2", 20.0, 21.0, reached_end=True))


def completed_without_execution(history: History) -> None:
    history.executions = [done for done in history.executions if done.number != 1]


def completed_after_a_kill(history: History) -> None:
    history.executions[0] = replace(history.executions[0], reached_end=False)


def executed_unknown(history: History) -> None:
    history.executions.append(Execution(77, 1, "n2", 20.0, 21.0))


def executed_future_run(history: History) -> None:
    history.executions.append(Execution(2, 3, "n2", 20.0, 21.0))


def repeated_without_loss(history: History) -> None:
    history.faults = [Fault(1.5, "kill server", loses_work=False)]
    history.executions[1] = replace(history.executions[1], reached_end=True)


def held_twice(history: History) -> None:
    history.listings.append(Listing(3.0, (Seen(1, "Stopping", 1, ("n1",)), Seen(2, "Running", 2, ("n2", "n1")))))


def two_at_once_on_a_node(history: History) -> None:
    history.executions[0] = replace(history.executions[0], last_alive=11.2)


def active_without_node(history: History) -> None:
    history.listings.append(Listing(3.0, (history.final[0], Seen(2, "Running", 2))))


def risen_from_the_dead(history: History) -> None:
    history.listings.append(Listing(3.0, (Seen(1, "Running", 2, ("n2",)), Seen(2, "Pending", 2))))


def changed_its_verdict(history: History) -> None:
    change(history, Seen(1, "Failed", 1, ("n1",), "node"))


def run_went_back(history: History) -> None:
    change(history, Seen(2, "Failed", 1, ("n1",), "exit"))
    history.executions.pop()


def no_cause(history: History) -> None:
    change(history, Seen(2, "Failed", 2, ("n1",)))


def vanished(history: History) -> None:
    history.listings.append(Listing(3.0, ()))


def gone_from_the_archive(history: History) -> None:
    history.final = history.final[1:]
    history.submissions = history.submissions[1:]
    history.executions = history.executions[1:]


PLANTED: dict[Callable[[History], None], str] = {
    lost: "acknowledged_submissions_are_terminal",
    not_terminal: "acknowledged_submissions_are_terminal",
    two_requests_one_number: "requests_and_allocations_match_one_to_one",
    one_request_two_numbers: "requests_and_allocations_match_one_to_one",
    more_allocations_than_requests: "requests_and_allocations_match_one_to_one",
    cancel_forgotten: "an_acknowledged_cancel_holds",
    cancelled_and_executed: "an_acknowledged_cancel_holds",
    executed_twice: "a_run_is_executed_at_most_once",
    completed_without_execution: "a_completed_run_was_executed_to_its_end",
    completed_after_a_kill: "a_completed_run_was_executed_to_its_end",
    executed_unknown: "nothing_is_executed_that_was_not_asked_for",
    executed_future_run: "nothing_is_executed_that_was_not_asked_for",
    repeated_without_loss: "a_run_that_ended_is_not_repeated",
    held_twice: "a_node_is_held_once_in_every_listing",
    two_at_once_on_a_node: "a_node_executes_one_run_at_a_time",
    active_without_node: "active_allocations_have_nodes",
    risen_from_the_dead: "terminal_states_never_change",
    changed_its_verdict: "terminal_states_never_change",
    run_went_back: "runs_never_go_back",
    no_cause: "terminal_allocations_say_why",
    vanished: "nothing_disappears_before_its_end",
    gone_from_the_archive: "nothing_disappears_before_its_end",
}


def test_a_good_history_has_no_violation() -> None:
    assert check(good()) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_violation_is_found_by_its_rule(plant: Callable[[History], None]) -> None:
    history = good()
    plant(history)
    assert PLANTED[plant] in {violation.partition(":")[0] for violation in check(history)}


def test_archived_allocations_may_leave_the_listings_of_the_living() -> None:
    history = good()
    history.listings.append(Listing(3.0, (Seen(2, "Running", 2, ("n1",)),)))
    history.listings.append(Listing(60.0, ()))
    history.archived_after_s = 8
    assert check(history) == []


def test_an_end_that_was_told_late_may_be_archived_at_once() -> None:
    history = good()
    history.archived_after_s = 8
    history.listings.append(Listing(19.0, (Seen(1, "Completed", 1, ("n1",), "exit"), Seen(2, "Running", 2, ("n1",)))))
    history.listings.append(Listing(19.6, ()))
    assert not [found for found in check(history) if found.startswith("nothing_disappears")]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule.__name__ for rule in RULES} == set(PLANTED.values())


def test_the_journal_tells_killed_from_finished(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text(
        "begin a7 1 n1 10.00 42\nbegin a8 1 n2 10.10 43\ntick a7 1 n1 10.11 42\ntick a8 1 n2 10.20 43\nend a7 1 n1 10.30 42\n"
    )
    assert read_journal(journal) == [
        Execution(7, 1, "n1", 10.0, 10.3, reached_end=True),
        Execution(8, 1, "n2", 10.1, 10.2),
    ]
