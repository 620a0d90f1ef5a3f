"""`scancel`: ends jobs, array tasks and steps, or sends them a signal. Silent unless there is a problem that the user can fix."""

from collections.abc import AsyncIterator

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find, find_tasks
from lattice.api.find.selection import Selection, hot_records
from lattice.api.limits import MAX_READ_HERE
from lattice.api.pacing import Pace, in_thread
from lattice.api.slurm.accounts import NOBODY, named, user_ids
from lattice.api.slurm.answering import complained, require, version_line
from lattice.api.slurm.rows.finding import partition_reader
from lattice.api.slurm.signals import send
from lattice.core.machine.commands import CancelAllocation
from lattice.core.model.intervals import Intervals, from_positions
from lattice.core.model.work.allocations import TERMINAL, Allocation, AllocationState, TaskGroup
from lattice.ports.nodes.steps import StepRefused
from lattice.slurm.faults import error
from lattice.slurm.listings.scancel import OPTIONS, PROGRAM, JobWord, Line, read_line
from lattice.slurm.submit.usage import help_text
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.numbers import whole
from lattice.slurm.text.signals import KILL
from lattice.slurm.text.states import State, state_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand
from lattice.wire.text.problems import BadField

UNKNOWN = "Invalid job id specified"
DONE = "Job/step already completing or completed"
DENIED = "Access/permission denied"
_SHOWN = {"name": "job_name", "user": "user_name"}


class _Notes:
    """Lines for stderr and the exit code."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.begun: list[str] = []
        self.failed: list[str] = []
        self.code = 0

    def begin(self, text: str) -> None:
        line = self.line
        if not line.verbose:
            return
        targets = {"steps": "job", "entrypoint": "batch job", "all": "full job"}
        what = f"Signal {line.signal} to {targets[line.target]}" if line.signal else "Terminating job"
        self.begun.append(f"{PROGRAM}: {what} {text}")

    def fail(self, kind: str, text: str, why: str) -> None:
        """What is not there, or not any more, is an error only for those who look closer than by its id."""
        is_harmless = why in (UNKNOWN, DONE) and kind == "job id" and not self.line.signal and not self.line.is_filtered
        if not is_harmless:
            self.code = 1
        if not is_harmless or self.line.verbose:
            self.failed.append(f"{PROGRAM}: error: Kill job error on {kind} {text}: {why}")


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    """Cancels what the line names, one after the other; one that fails does not spoil the others."""
    # A long line is read in a thread, which hands the interpreter over; a loop here would hold up everything else.
    is_long = len(command.argv) > MAX_READ_HERE
    line = await in_thread(read_line, command.argv) if is_long else read_line(command.argv)
    if line.asks:
        return SlurmAnswer(stdout=version_line() if line.asks == "version" else help_text(PROGRAM, OPTIONS))
    for cluster in filter(None, line.clusters.split(",")):
        if cluster not in (context.services.slurm.cluster, "all"):
            raise error(PROGRAM, f"No cluster '{cluster}' known by database.")
    require(context, Permission.CHANGE)
    notes = _Notes(line)
    if line.jobs:
        pace = Pace()
        for word in line.jobs:
            if pace.is_due():
                await pace.rest()
            await _named(context, command, line, word, notes)
    else:
        await _matching(context, command, line, notes)
    return complained(*notes.begun, *notes.failed, code=notes.code)


async def _named(context: Context, command: SlurmCommand, line: Line, word: JobWord, notes: _Notes) -> None:
    kind = "job step id" if word.step else "job id"
    try:
        found, positions = await find_tasks(context, _our_id(word), Permission.CHANGE)
    except (ApiError, BadField) as problem:
        denied = isinstance(problem, ApiError) and problem.code == "forbidden"
        if not line.signal:
            notes.begin(word.text)
        notes.fail(kind, word.text, DENIED if denied else UNKNOWN)
        return
    if line.is_filtered and not _takes(context, command, line, found.record):
        return
    if word.step:
        _end_step(context, line, found, word, notes)
        return
    notes.begin(word.text)
    await _act(context, command, line, found, positions, word.text, notes)


def _our_id(word: JobWord) -> str:
    if not word.tasks:
        return f"{word.number}"
    return (
        f"a{word.number}_{word.tasks}"
        if whole(word.tasks) is not None
        else f"a{word.number}_[{word.tasks.partition('%')[0]}]"
    )


async def _act(
    context: Context, command: SlurmCommand, line: Line, found: Found, positions: Intervals, text: str, notes: _Notes
) -> None:
    try:
        if found.is_ended:
            raise ApiError("conflict", DONE)
        if line.signal and line.signal != KILL:
            for each in _running(context, found, positions):
                await send(context, each, line.signal, line.target)
            return
        cancel = CancelAllocation(number=found.number, positions=positions)
        await context.carry_out(cancel, command.request_id, part=text)
    except ApiError as problem:
        if problem.status >= 500:
            raise
        why = DONE if problem.code == "conflict" else DENIED if problem.code == "forbidden" else str(problem)
        notes.fail("job id", text, why)


def _running(context: Context, found: Found, positions: Intervals) -> list[Found]:
    """The record itself, or of an array the tasks that run."""
    record = found.record
    if not isinstance(record, TaskGroup):
        return [found]
    wanted = positions or ((0, record.size),)
    numbers = (record.number + 1 + place for start, stop in wanted for place in range(start, stop))
    records = (context.state.allocations.get(number) for number in numbers)
    return [Found(each) for each in records if each is not None and each.is_running]


def _end_step(context: Context, line: Line, found: Found, word: JobWord, notes: _Notes) -> None:
    service = context.services.steps
    try:
        step = whole(word.step)
        if service is None or step is None:
            raise StepRefused("not_found", UNKNOWN)
        if line.signal and line.signal != KILL:
            service.signal(found.number, step, line.signal)
        else:
            service.end(found.number, step, "cancelled")
    except StepRefused:
        notes.fail("job step id", word.text, DONE if found.is_ended else UNKNOWN)


async def _matching(context: Context, command: SlurmCommand, line: Line, notes: _Notes) -> None:
    """All that fit the filters and that the caller may end."""
    count = 0
    async for record in _candidates(context, line):
        if not _takes(context, command, line, record):
            continue
        count += 1
        text = f"{record.number}"
        notes.begin(text)
        try:
            found = await find(context, text, Permission.CHANGE)
        except ApiError:
            notes.fail("job id", text, DENIED)
            continue
        await _act(context, command, line, found, _positions(context, record, line), text, notes)
    if not count and line.verbose:
        given = [f"{_SHOWN.get(name, name)}={value} " for name, value in line.filters.items()]
        given += [f"state={line.state.long} "] if line.state is not None else []
        given += [f"user_name={command.uid} "] if line.mine else []
        notes.failed.append(f"{PROGRAM}: error: No active jobs match ALL job filters, including: {''.join(given)}")


async def _candidates(context: Context, line: Line) -> AsyncIterator[Allocation | TaskGroup]:
    if "user" in line.filters and not _knows_user(context, line.filters["user"]):
        raise error(PROGRAM, f"Invalid user name: {line.filters['user']}")
    wanted = Selection(states=frozenset(AllocationState) - TERMINAL, scope=context.scope(Permission.CHANGE))
    async for record in hot_records(context.state, wanted):
        head = record.template if isinstance(record, TaskGroup) else record
        if context.covers(Permission.CHANGE, user=head.user, tenant=head.tenant):
            yield record


def _knows_user(context: Context, user: str) -> bool:
    if not user:
        return False
    if user in (context.identity.user, context.identity.account) or whole(user) is not None:
        return True
    return user_ids(user)[0] != NOBODY


def _takes(context: Context, command: SlurmCommand, line: Line, record: Allocation | TaskGroup) -> bool:
    head = record.template if isinstance(record, TaskGroup) else record
    asked, filters = head.asked, line.filters
    owners = {head.user, head.account}
    user = filters.get("user", "")
    shown = {
        "account": head.tenant,
        "name": head.name,
        "partition": partition_reader(context)(head),
        "qos": (asked.qos if asked is not None else "") or context.services.slurm.qos_of(head.preemption_class),
        "reservation": asked.reservation if asked is not None else "",
        "wckey": asked.wckey if asked is not None else "",
    }
    return (
        all(filters[name] == value for name, value in shown.items() if name in filters)
        and (not user or user in owners or named(user) in owners)
        and (not line.mine or context.user in owners)
        and (line.state is None or _has_state(record, line))
        and ("nodelist" not in filters or _is_on(head, filters["nodelist"]))
    )


def _positions(context: Context, record: Allocation | TaskGroup, line: Line) -> Intervals:
    """Those tasks of an array that are in the state asked for; nothing means all."""
    if not isinstance(record, TaskGroup) or line.state is None:
        return ()
    if line.state is State.PENDING:
        return record.pending
    return from_positions(each.number - record.number - 1 for each in _running(context, Found(record), ()))


def _has_state(record: Allocation | TaskGroup, line: Line) -> bool:
    if isinstance(record, TaskGroup):
        waits, runs = bool(record.pending), bool(record.holding)
        return (waits and line.state is State.PENDING) or (runs and line.state is State.RUNNING)
    return state_of(record.state, record.cause or "") is line.state


def _is_on(head: Allocation, hosts: str) -> bool:
    try:
        return not set(expand(hosts)).isdisjoint(head.nodes)
    except BadHostlist:
        return False
