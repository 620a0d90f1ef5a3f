"""Allocations: submit, read, wait, change."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from time import monotonic

from lattice_sdk.errors import WaitTimedOut
from lattice_sdk.models.moments import texts_of, with_texts
from lattice_sdk.models.records import (
    Allocation,
    AllocationFilter,
    BatchOutcome,
    CancelOutcome,
    Counts,
    Explanation,
    Page,
    Submission,
)
from lattice_sdk.models.runs import LogsDeleted
from lattice_sdk.operation import Steps, at, decoded, given, items_of, operation, operation_named, read, write
from lattice_sdk.session import PREFIX, Request
from lattice_sdk.specification import AllocationSpec

LARGEST_BATCH = 500
LONGEST_POLL_S = 30.0
POLL_MARGIN_S = 30.0
EVERYTHING = AllocationFilter()


class AllocationCalls:
    @operation
    def submit(self, submission: Submission | AllocationSpec, *, request_id: str = "") -> Steps[Allocation]:
        """The new allocation; a second call with the same `request_id` gives the same one."""
        return write("POST", "/allocations", Allocation, _wanted(submission), request_id)

    @operation
    def submit_batch(
        self, submissions: Sequence[Submission | AllocationSpec], *, request_id: str = ""
    ) -> Steps[list[BatchOutcome]]:
        """Any number of them, 500 in one request; each has an outcome of its own, in the same order."""
        outcomes: list[BatchOutcome] = []
        for start in range(0, max(1, len(submissions)), LARGEST_BATCH):
            part = submissions[start : start + LARGEST_BATCH]
            fields = {"submissions": [_wanted(each) for each in part]}
            # Each request needs an id of its own; the first one has the one that was given.
            part_id = f"{request_id}-{start}" if request_id and start else request_id
            outcomes += yield from items_of(write("POST", "/allocations/batch", Page[BatchOutcome], fields, part_id))
        return outcomes

    @operation_named("submit")
    def dry_run(self, submission: Submission | AllocationSpec) -> Steps[Explanation]:
        """What would become of the submission now; refused as it would be. Nothing is submitted."""
        return write("POST", "/allocations", Explanation, _wanted(submission), query=[("dry_run", "true")])

    @operation_named("explanation")
    def explain(self, allocation_id: str) -> Steps[Explanation]:
        """Why it waits, and when and where it will start as things are."""
        return read(at("allocations", allocation_id, "explanation"), Explanation)

    @operation_named("list_allocations")
    def page_of_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, limit: int = 100, cursor: str = ""
    ) -> Steps[Page[Allocation]]:
        """One page, newest first."""
        return read("/allocations", Page[Allocation], _page(wanted, limit, cursor))

    @operation_named("signal_allocation")
    def signal(self, allocation_id: str, signal: str, *, to: str = "all", request_id: str = "") -> Steps[Allocation]:
        """Sends a signal (`USR1`, `10`) to what it runs: to `all`, the `steps`, or the `entrypoint` alone."""
        return write(
            "POST", at("allocations", allocation_id, "signal"), Allocation, {"signal": signal, "to": to}, request_id
        )

    @operation
    def count_allocations(self, wanted: AllocationFilter = EVERYTHING) -> Steps[Counts]:
        """Count allocations by state."""
        return read("/allocations/count", Counts, wanted.query())

    @operation
    def get_allocation(self, allocation_id: str, *, details: bool = False) -> Steps[Allocation]:
        """One allocation, archived or not; `details` adds what it runs, for those who may see it."""
        return read(at("allocations", allocation_id), Allocation, [("details", "true")] if details else [])

    @operation_named("get_allocation")
    def status(self, allocation_id: str) -> Steps[Allocation]:
        """One allocation as it is now."""
        return read(at("allocations", allocation_id), Allocation)

    @operation
    def cancel(self, allocation_id: str, *, request_id: str = "") -> Steps[Allocation]:
        """End it; the answer may still say Stopping."""
        return write("DELETE", at("allocations", allocation_id), Allocation, None, request_id)

    @operation
    def delete_logs(self, allocation_id: str, *, run: int | None = None, request_id: str = "") -> Steps[LogsDeleted]:
        """Delete the stored output of finished work; of one run, or of all."""
        query = given(run=run)
        return write("DELETE", at("allocations", allocation_id, "logs"), LogsDeleted, None, request_id, query)

    @operation
    def cancel_many(
        self,
        allocation_ids: Sequence[str] = (),
        *,
        states: Sequence[str] = (),
        all_mine: bool = False,
        project: str = "",
        tags: Sequence[str] = (),
        name: str = "",
        vcluster: str = "",
        request_id: str = "",
    ) -> Steps[list[CancelOutcome]]:
        """Cancel these, or all of your own that match; `tags` are KEY=VALUE. Each has its own outcome."""
        fields: dict[str, object] = {"ids": list(allocation_ids)}
        if all_mine:
            filters = {"project": project, "tag": list(tags), "name": name, "vcluster": vcluster}
            given_filters = {key: value for key, value in filters.items() if value}
            fields = {"states": list(states), "all_mine": True, **given_filters}
        return items_of(write("POST", "/allocations/cancel", Page[CancelOutcome], fields, request_id))

    @operation
    def hold(self, allocation_id: str, *, request_id: str = "") -> Steps[Allocation]:
        """Keep a pending allocation from starting."""
        return write("POST", at("allocations", allocation_id, "hold"), Allocation, None, request_id)

    @operation
    def suspend(self, allocation_id: str, *, request_id: str = "") -> Steps[Allocation]:
        """Suspend a running allocation; it keeps its nodes, and its walltime is paused."""
        return write("POST", at("allocations", allocation_id, "suspend"), Allocation, None, request_id)

    @operation
    def resume(self, allocation_id: str, *, request_id: str = "") -> Steps[Allocation]:
        """Resume a suspended allocation."""
        return write("POST", at("allocations", allocation_id, "resume"), Allocation, None, request_id)

    @operation
    def release(self, allocation_id: str, *, request_id: str = "") -> Steps[Allocation]:
        """Take a hold back."""
        return write("POST", at("allocations", allocation_id, "release"), Allocation, None, request_id)

    @operation
    def requeue(
        self, allocation_id: str, *, hold: bool = False, checkpoint: bool = False, request_id: str = ""
    ) -> Steps[Allocation]:
        """Stop it and let the same allocation run again, or wait until it is released; `checkpoint` = it writes one first."""
        fields = {name: True for name, is_given in (("hold", hold), ("checkpoint", checkpoint)) if is_given} or None
        return write("POST", at("allocations", allocation_id, "requeue"), Allocation, fields, request_id)

    @operation
    def update(self, allocation_id: str, changes: Mapping[str, object], *, request_id: str = "") -> Steps[Allocation]:
        """Change `walltime`, `priority`, `name`, `tags` (those given are set), `untag` (keys to take away) or `telemetry`.

        Of a pending allocation also `vcluster`, `nodes` (with `max_nodes`), `cpus`, `memory`, `gpus`, `begin` ("now" = as soon as possible),
        `depends_on` ("" = on nothing) and, where a Slurm command submitted it, `comment`.
        """
        return write("PATCH", at("allocations", allocation_id), Allocation, texts_of(changes), request_id)

    @operation
    def wait(self, allocation_id: str, *, timeout: float | timedelta | None = None) -> Steps[Allocation]:
        """The allocation once it has ended; WaitTimedOut when that takes longer than `timeout`."""
        return _until_ended(allocation_id, None if timeout is None else monotonic() + seconds(timeout))

    @operation_named("wait")
    def wait_many(
        self, allocations: Iterable[str | Allocation], *, timeout: float | timedelta | None = None
    ) -> Steps[list[Allocation]]:
        """All of them once the last has ended, in the same order; WaitTimedOut when that takes longer than `timeout`."""
        deadline = None if timeout is None else monotonic() + seconds(timeout)
        ended: list[Allocation] = []
        for each in allocations:
            ended.append((yield from _until_ended(id_of(each), deadline)))
        return ended

    @operation
    def history(
        self, wanted: AllocationFilter = EVERYTHING, *, limit: int = 100, cursor: str = ""
    ) -> Steps[Page[Allocation]]:
        """One page of what has ended, archived or not, newest first."""
        return read("/accounting", Page[Allocation], _page(wanted, limit, cursor))


def _wanted(submission: Submission | AllocationSpec) -> Submission:
    whole = submission.submission() if isinstance(submission, AllocationSpec) else submission
    return with_texts(whole)


def _until_ended(allocation_id: str, deadline: float | None) -> Steps[Allocation]:
    while True:
        left = LONGEST_POLL_S if deadline is None else max(0.0, deadline - monotonic())
        answer = yield poll(allocation_id, min(left, LONGEST_POLL_S))
        allocation = decoded(answer, Allocation)
        if allocation.is_terminal:
            return allocation
        if deadline is not None and monotonic() >= deadline:
            raise WaitTimedOut(f"{allocation.id} is still {allocation.state}")


def id_of(allocation: str | Allocation) -> str:
    return allocation if isinstance(allocation, str) else allocation.id


def seconds(timeout: float | timedelta) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def _page(wanted: AllocationFilter, limit: int, cursor: str) -> list[tuple[str, str]]:
    return [*wanted.query(), ("limit", str(limit)), *given(cursor=cursor)]


def poll(allocation_id: str, poll_s: float) -> Request:
    """Answered when the allocation has ended, or after the time-out."""
    return Request(
        method="GET",
        path=PREFIX + at("allocations", allocation_id, "wait"),
        query=[("timeout", f"{poll_s:g}")],
        timeout_s=poll_s + POLL_MARGIN_S,
        is_patient=True,
    )
