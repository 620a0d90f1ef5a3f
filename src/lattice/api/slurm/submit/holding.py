"""Allocations that only hold nodes for a program elsewhere: how srun and salloc get them, wait for them and give them back."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find_hot
from lattice.api.slurm.answering import require
from lattice.api.slurm.submit.dry_run import predicted
from lattice.api.slurm.submit.predecessors import predecessors_of
from lattice.api.slurm.submit.translation import images_of, translate
from lattice.api.submit.defaults import apply_defaults, settle
from lattice.api.submit.dependencies import with_dependencies
from lattice.api.submit.filter import screen
from lattice.api.submit.site_images import settle_images
from lattice.core.machine.commands import CancelAllocation
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import FinishOrder, RunKey
from lattice.slurm.faults import Fault
from lattice.slurm.submit.job import SUBMISSION_FAILED, Job
from lattice.slurm.text.numbers import whole
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

# A process that only waits; the program it holds the nodes for ends it.
PLACEHOLDER = "#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 86400 & wait $!; done\n"
FIRST_S = 0.8
AGAIN_S = 20.0
MAX_CODE = 255
FAILED = {"srun": "Unable to allocate resources: ", "salloc": "Job submit/allocate failed: "}
_FAILURES = {
    "infeasible": "Requested node configuration is not available",
    "quota": "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    "forbidden": "Invalid account or account/partition combination specified",
}


async def submit(
    context: Context, command: SlurmCommand, job: Job, name: str, words: tuple[str, ...]
) -> tuple[int, str] | SlurmAnswer:
    """The number of the allocation, the same for a repeat of the same line, and warnings; for --test-only its answer.

    Raises Fault in the program's words.
    """
    program = command.program
    require(context, Permission.SUBMIT)
    try:
        images = await images_of(context, job, program)
        wanted = translate(context, job, command, images, script=PLACEHOLDER, name=name, words=words)
    except Fault as fault:
        texts = (line.replace(SUBMISSION_FAILED, FAILED[program]) for line in fault.lines)
        raise Fault(*texts, code=fault.code) from None
    prepared = apply_defaults(context, wanted.command, names_vcluster=wanted.names_vcluster)
    await screen(context, prepared)
    settle(context, prepared)
    await settle_images(context, prepared, job.uenv)
    submission = prepared.command
    warnings = [*wanted.warnings, *prepared.warnings]
    if job.dependency is not None and job.dependency.waits:
        clauses = await predecessors_of(context, job.dependency, warnings)
        submission = await with_dependencies(context, submission, clauses)
    if job.is_test:
        return await predicted(context, submission, program, wanted.partition)
    try:
        accepted = await context.carry_out(submission, command.request_id)
    except ApiError as problem:
        raise _in_slurms_words(program, problem) from None
    said = "" if job.is_quiet else "".join(f"{program}: warning: {text}\n" for text in warnings)
    return accepted.number, said


def _in_slurms_words(program: str, problem: ApiError) -> Exception:
    known = _FAILURES.get(problem.code)
    if known is None:
        return problem
    return Fault(f"{program}: error: {FAILED[program]}{known}", f"{program}: error: {problem.view.message}")


def resumed(program: str, text: str) -> tuple[str, int, int]:
    """What a program says when it comes back: the word, the number and the exit code in `end:17:0`. Raises Fault."""
    word, _, rest = text.partition(":")
    number, _, code = rest.partition(":")
    if not word:
        return "", 0, 0
    found, ended = whole(number), whole(code or "0")
    if found is None or ended is None or ended > MAX_CODE:
        raise Fault(f"{program}: error: {text[:60]!r} is not a valid continuation of a command")
    return word, found, ended


async def granted(context: Context, number: int, timeout_s: float, program: str) -> Allocation | None:
    """The allocation, when it runs; None while it waits. Raises Fault when it never will."""
    clock, feed = context.services.clock, context.services.feed
    deadline = clock.monotonic_s() + timeout_s
    while True:
        found = find_hot(context, number)
        # A reconnecting client names its number; a number of another user counts as none.
        if found is None or found.is_ended or found.head.user != context.user:
            raise Fault(f"{program}: error: Job allocation {number} has been revoked")
        record = found.record
        if isinstance(record, Allocation) and record.is_running:
            return record
        left = deadline - clock.monotonic_s()
        # Nothing may be awaited between looking and waiting, or a change could slip through.
        if left <= 0:
            return None
        await feed.next_change_of(number, left)


def finish(context: Context, number: int, code: int) -> None:
    """Ends the placeholder as if it had ended with this code; nothing happens to what is not the caller's or has ended."""
    found = find_hot(context, number)
    record = None if found is None else found.record
    if not isinstance(record, Allocation) or record.user != context.user or not record.is_holding:
        return
    order = FinishOrder(key=RunKey(number, record.run), exit_code=max(0, min(code, 255)))
    for part in record.launched:
        context.services.links.send(part.node, order)


async def cancel(context: Context, number: int, request_id: str) -> None:
    found = find_hot(context, number)
    if found is not None and not found.is_ended and found.head.user == context.user:
        await context.carry_out(CancelAllocation(number=number), f"{request_id}-cancel")
