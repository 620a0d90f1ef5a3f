"""Judges a history from outside. Each rule is a function that returns the violations it found, as sentences."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.chaos.history import ACTIVE, TERMINAL, Execution, History, Seen

Rule = Callable[[History], Iterator[str]]


def check(history: History) -> list[str]:
    return [f"{rule.__name__}: {violation}" for rule in RULES for violation in rule(history)]


def acknowledged_submissions_are_terminal(history: History) -> Iterator[str]:
    final = {seen.number: seen for seen in history.final}
    for submission in history.submissions:
        if submission.number is None:
            continue
        seen = final.get(submission.number)
        if seen is None:
            yield f"{submission.number} was acknowledged and is lost"
        elif seen.state not in TERMINAL:
            yield f"{submission.number} was acknowledged and is still {seen.state} (run {seen.run})"


def requests_and_allocations_match_one_to_one(history: History) -> Iterator[str]:
    by_number: dict[int, set[str]] = defaultdict(set)
    by_request: dict[str, set[int]] = defaultdict(set)
    for submission in history.submissions:
        if submission.number is not None:
            by_number[submission.number].add(submission.request_id)
            by_request[submission.request_id].add(submission.number)
    for number, requests in by_number.items():
        if len(requests) > 1:
            yield f"{number} answers several requests: {sorted(requests)}"
    for request, numbers in by_request.items():
        if len(numbers) > 1:
            yield f"request {request} made several allocations: {sorted(numbers)}"
    sent = len({submission.request_id for submission in history.submissions})
    if len(history.final) > sent:
        yield f"{len(history.final)} allocations came from {sent} requests"


def an_acknowledged_cancel_holds(history: History) -> Iterator[str]:
    final = {seen.number: seen for seen in history.final}
    executed = {done.number for done in history.executions}
    for number in history.cancelled:
        seen = final.get(number)
        if seen is None or seen.state != "Cancelled" or number in executed:
            yield f"{number} was cancelled while it was held, and now: {seen}, executed: {number in executed}"


def a_run_is_executed_at_most_once(history: History) -> Iterator[str]:
    for (number, run), times in Counter((done.number, done.run) for done in history.executions).items():
        if times > 1:
            yield f"run {run} of {number} was executed {times} times"


def a_completed_run_was_executed_to_its_end(history: History) -> Iterator[str]:
    ended = {(done.number, done.run) for done in history.executions if done.reached_end}
    for seen in history.final:
        if seen.state == "Completed" and (seen.number, seen.run) not in ended:
            yield f"{seen.number} is Completed, but its run {seen.run} never reached its end"


def nothing_is_executed_that_was_not_asked_for(history: History) -> Iterator[str]:
    final = {seen.number: seen for seen in history.final}
    for done in history.executions:
        seen = final.get(done.number)
        if seen is None:
            yield f"{done.number} was executed and does not exist"
        elif done.run > seen.run:
            yield f"run {done.run} of {done.number} was executed, but its last run is {seen.run}"


def a_run_that_ended_is_not_repeated(history: History) -> Iterator[str]:
    """Deaths of servers and agents lose nothing; only the loss of a node, or of its shim, may lose the news."""
    if any(fault.loses_work for fault in history.faults):
        return
    ended = {(done.number, done.run) for done in history.executions if done.reached_end}
    for seen in history.final:
        for run in range(1, seen.run):
            if (seen.number, run) in ended:
                yield f"run {run} of {seen.number} reached its end and was repeated"


def a_node_is_held_once_in_every_listing(history: History) -> Iterator[str]:
    for listing in history.listings:
        holders: dict[str, list[int]] = defaultdict(list)
        for seen in listing.allocations:
            if seen.state in ACTIVE:
                for node in seen.nodes:
                    holders[node].append(seen.number)
        for node, numbers in holders.items():
            if len(numbers) > 1:
                yield f"at {listing.at:.2f} node {node} was held by {numbers}"


def a_node_executes_one_run_at_a_time(history: History) -> Iterator[str]:
    by_node: dict[str, list[Execution]] = defaultdict(list)
    for done in history.executions:
        by_node[done.node].append(done)
    for node, executions in by_node.items():
        executions.sort(key=lambda done: done.started)
        for first, second in pairwise(executions):
            if first.last_alive > second.started:
                yield (
                    f"node {node}: {second.number}.{second.run} began at {second.started:.2f}, and "
                    f"{first.number}.{first.run} was still alive at {first.last_alive:.2f}"
                )


def active_allocations_have_nodes(history: History) -> Iterator[str]:
    for listing in history.listings:
        for seen in listing.allocations:
            if seen.state in ACTIVE and not seen.nodes:
                yield f"at {listing.at:.2f} {seen.number} was {seen.state} without a node"


def terminal_states_never_change(history: History) -> Iterator[str]:
    for number, before, after in _successive(history):
        if before.state in TERMINAL and before != after:
            yield f"{number} was {before.state} (run {before.run}, {before.cause}) and later {after}"


def runs_never_go_back(history: History) -> Iterator[str]:
    for number, before, after in _successive(history):
        if after.run < before.run:
            yield f"{number} went from run {before.run} back to {after.run}"


def terminal_allocations_say_why(history: History) -> Iterator[str]:
    for seen in history.final:
        if seen.state in {"Failed", "Cancelled"} and not seen.cause:
            yield f"{seen.number} is {seen.state} without a cause"


def nothing_disappears_before_its_end(history: History) -> Iterator[str]:
    """What has ended for a while may leave the listings of the living for the archive; at the end all is asked for.

    The while counts from the end of the process, which may be told late: while its agent or all servers were away.
    """
    last_alive: dict[int, float] = {}
    for execution in history.executions:
        last_alive[execution.number] = max(execution.last_alive, last_alive.get(execution.number, 0.0))
    for before, after in pairwise(history.listings):
        if after.at - before.at >= history.archived_after_s:
            continue
        numbers = {seen.number for seen in after.allocations}
        for seen in before.allocations:
            if last_alive.get(seen.number, after.at) + history.archived_after_s <= after.at:
                continue
            if seen.number not in numbers and seen.state not in TERMINAL:
                yield f"{seen.number}, {seen.state} at {before.at:.2f}, is missing from the listing at {after.at:.2f}"
    known = {seen.number for listing in history.listings for seen in listing.allocations}
    for number in sorted(known - {seen.number for seen in history.final}):
        yield f"{number} is missing at the end"


def _successive(history: History) -> Iterator[tuple[int, Seen, Seen]]:
    """Each allocation in one listing and in the next one that has it."""
    last: dict[int, Seen] = {}
    for allocations in (*(listing.allocations for listing in history.listings), history.final):
        for seen in allocations:
            if seen.number in last:
                yield seen.number, last[seen.number], seen
            last[seen.number] = seen


RULES: tuple[Rule, ...] = (
    acknowledged_submissions_are_terminal,
    requests_and_allocations_match_one_to_one,
    an_acknowledged_cancel_holds,
    a_run_is_executed_at_most_once,
    a_completed_run_was_executed_to_its_end,
    nothing_is_executed_that_was_not_asked_for,
    a_run_that_ended_is_not_repeated,
    a_node_is_held_once_in_every_listing,
    a_node_executes_one_run_at_a_time,
    active_allocations_have_nodes,
    terminal_states_never_change,
    runs_never_go_back,
    terminal_allocations_say_why,
    nothing_disappears_before_its_end,
)
