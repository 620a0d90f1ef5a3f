"""The policies of mode r1 once more, written to be read and not to be fast: what the real ones are held against.

An entry is (submit, run, procs, estimate), in queue order. Nothing here is shared with the product.
"""

from collections.abc import Callable
from itertools import groupby

Job = tuple[int, int, int, int]
Interval = tuple[float, float, int]  # from, to, processors
AN_INSTANT = 0.5


class Machine:
    """Who runs, who waits, and the clock."""

    def __init__(self, total: int, jobs: list[Job]) -> None:
        self.total = total
        self.jobs = jobs
        self.starts: list[int] = [-1] * len(jobs)
        self.waiting: list[int] = []
        self.running: set[int] = set()
        self.now = 0

    @property
    def free(self) -> int:
        return self.total - sum(self.jobs[k][2] for k in self.running)

    def start(self, k: int) -> None:
        assert self.jobs[k][2] <= self.free
        self.waiting.remove(k)
        self.running.add(k)
        self.starts[k] = self.now

    def end_of(self, k: int) -> int:
        return self.starts[k] + self.jobs[k][1]

    def estimated_end(self, k: int) -> int:
        return self.starts[k] + self.jobs[k][3]

    def end_due(self) -> bool:
        due = {k for k in self.running if self.end_of(k) == self.now}
        self.running -= due
        return bool(due)

    def run(self, decide: Callable[["Machine", bool], None]) -> list[int]:
        arrived = 0
        while arrived < len(self.jobs) or self.running:
            instants = [self.end_of(k) for k in self.running]
            if arrived < len(self.jobs):
                instants.append(self.jobs[arrived][0])
            self.now = min(instants)
            has_ended = self.end_due()
            while arrived < len(self.jobs) and self.jobs[arrived][0] == self.now:
                self.waiting.append(arrived)
                arrived += 1
            decide(self, has_ended)
            while self.end_due():
                decide(self, True)
        return self.starts


def start_from_head(machine: Machine) -> None:
    while machine.waiting and machine.jobs[machine.waiting[0]][2] <= machine.free:
        machine.start(machine.waiting[0])


def fcfs(total: int, jobs: list[Job]) -> list[int]:
    return Machine(total, jobs).run(lambda machine, _: start_from_head(machine))


def easy(total: int, jobs: list[Job]) -> list[int]:
    def decide(machine: Machine, _: bool) -> None:
        start_from_head(machine)
        if machine.waiting:
            backfill(machine)

    return Machine(total, jobs).run(decide)


def backfill(machine: Machine) -> None:
    head = machine.waiting[0]
    free = machine.free
    shadow = machine.now
    in_order = sorted(machine.running, key=machine.estimated_end)
    for end, group in groupby(in_order, key=machine.estimated_end):
        free += sum(machine.jobs[k][2] for k in group)
        shadow = end
        if free >= machine.jobs[head][2]:
            break
    extra = free - machine.jobs[head][2]
    for k in machine.waiting[1:]:
        _, _, procs, estimate = machine.jobs[k]
        if procs > machine.free:
            continue
        if machine.now + estimate > shadow:
            if procs > extra:
                continue
            extra -= procs
        machine.start(k)


def conservative(total: int, jobs: list[Job]) -> list[int]:
    reserved: dict[int, float] = {}

    def decide(machine: Machine, has_ended: bool) -> None:
        if has_ended:
            reserved.clear()
        for k in machine.waiting:
            if k not in reserved:
                reserved[k] = earliest(machine, k, taken(machine, reserved))
        for k in [k for k in machine.waiting if reserved[k] == machine.now]:
            del reserved[k]
            machine.start(k)

    return Machine(total, jobs).run(decide)


def taken(machine: Machine, reserved: dict[int, float]) -> list[Interval]:
    begins = {k: float(machine.starts[k]) for k in machine.running} | reserved
    return [(begin, begin + length(machine.jobs[k]), machine.jobs[k][2]) for k, begin in begins.items()]


def earliest(machine: Machine, k: int, intervals: list[Interval]) -> float:
    """The first instant from which all processors wanted are free all the time wanted."""
    procs, long = machine.jobs[k][2], length(machine.jobs[k])
    for begin in sorted({float(machine.now)} | {end for _, end, _ in intervals if end > machine.now}):
        instants = [begin, *(start for start, _, _ in intervals if begin < start < begin + long)]
        if all(used(intervals, instant) + procs <= machine.total for instant in instants):
            return begin
    raise AssertionError("it fits when all others have ended")


def used(intervals: list[Interval], instant: float) -> int:
    return sum(procs for start, end, procs in intervals if start <= instant < end)


def length(job: Job) -> float:
    """An estimate of nothing still holds its processors within the pass that starts it."""
    return job[3] or AN_INSTANT
