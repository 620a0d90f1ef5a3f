"""`sbatch`: a script, its directives, the variables and the command line become one submission."""

import os.path

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.limits import MAX_DECODED_HERE, MAX_READ_HERE
from lattice.api.pacing import in_thread
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import about
from lattice.api.slurm.submit.dry_run import predicted
from lattice.api.slurm.submit.predecessors import predecessors_of
from lattice.api.slurm.submit.translation import TranslatedSubmission, images_of, translate
from lattice.api.slurm.submit.waiting import wait_for
from lattice.api.submit.defaults import apply_defaults, settle
from lattice.api.submit.dependencies import with_dependencies
from lattice.api.submit.filter import screen
from lattice.api.submit.site_images import settle_images
from lattice.slurm.faults import Fault, error
from lattice.slurm.submit.directives import check_script, directive_options
from lattice.slurm.submit.environment import environment_options
from lattice.slurm.submit.getopt import Given, Grammar, Line
from lattice.slurm.submit.job import SUBMISSION_FAILED, Job, merge
from lattice.slurm.submit.options import options_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

PROGRAM = "sbatch"
GRAMMAR = Grammar(PROGRAM, options_of(PROGRAM))


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    """Submits, or says what is wrong; asks for the script first when it did not come along."""
    if command.resume:
        return await wait_for(context, command.resume)
    is_long = len(command.argv) > MAX_READ_HERE or len(command.script or "") > MAX_DECODED_HERE
    line = await in_thread(GRAMMAR.read, command.argv) if is_long else GRAMMAR.read(command.argv)
    told = about(PROGRAM, line)
    if told is not None:
        return told
    wrapped = next((each.value for each in reversed(line.given) if each.option.name == "wrap"), None)
    if wrapped is not None and line.words:
        raise error(PROGRAM, "Script arguments not permitted with --wrap option")
    now = context.services.clock.now_ms() / 1000
    # Errors on the command line are reported before the script is read.
    await in_thread(_check_line, line, now) if is_long else _check_line(line, now)
    if wrapped is None and command.script is None:
        return SlurmAnswer(needs="script", path=line.words[0]) if line.words else SlurmAnswer(needs="stdin")
    require(context, Permission.SUBMIT)
    script = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{wrapped}\n" if wrapped is not None else ""
    script = script or command.script or ""
    reading = _job, context.services.slurm.cluster, command, line, script, now
    job = await in_thread(*reading) if is_long else _job(context.services.slurm.cluster, command, line, script, now)
    default = "wrap" if wrapped is not None else os.path.basename(line.words[0]) if line.words else PROGRAM
    images = await images_of(context, job, PROGRAM)
    wanted = translate(context, job, command, images, script=script, name=default, words=line.words[1:])
    return await _submit(context, command, job, wanted)


def _check_line(line: Line, now: float) -> None:
    merge([line.given], program=PROGRAM, now=now)


def _job(own: str, command: SlurmCommand, line: Line, script: str, now: float) -> Job:
    check_script(script)
    layers: list[tuple[Given, ...]] = [
        directive_options(script, GRAMMAR),
        environment_options(GRAMMAR, command.environment),
        line.given,
    ]
    job = merge(layers, program=PROGRAM, now=now)
    for cluster in filter(None, job.clusters.split(",")):
        if cluster not in (own, "all"):
            raise error(PROGRAM, f"No cluster '{cluster}' known by database.")
    return job


async def _submit(context: Context, command: SlurmCommand, job: Job, wanted: TranslatedSubmission) -> SlurmAnswer:
    prepared = apply_defaults(context, wanted.command, names_vcluster=wanted.names_vcluster)
    await screen(context, prepared)
    settle(context, prepared)
    await settle_images(context, prepared, job.uenv)
    wanted.warnings += prepared.warnings
    submission = prepared.command
    if job.dependency is not None and job.dependency.waits:
        clauses = await predecessors_of(context, job.dependency, wanted.warnings)
        submission = await with_dependencies(context, submission, clauses)
    said = "" if job.is_quiet else "".join(f"{PROGRAM}: warning: {text}\n" for text in wanted.warnings)
    if job.is_test:
        answer = await predicted(context, submission, PROGRAM, wanted.partition)
        return replace(answer, stderr=said + answer.stderr)
    try:
        accepted = await context.carry_out(submission, command.request_id)
    except ApiError as problem:
        raise _in_slurms_words(problem) from None
    number = accepted.number
    shown = f"{number};{context.services.slurm.cluster}" if job.clusters else f"{number}"
    lines = [shown] if job.is_parsable else [] if job.is_quiet else [f"Submitted batch job {number}"]
    return SlurmAnswer(stdout=printed(*lines).stdout, stderr=said, resume=f"{number}" if job.waits else "")


_FAILURES = {
    "infeasible": "Requested node configuration is not available",
    "quota": "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    "forbidden": "Invalid account or account/partition combination specified",
}


def _in_slurms_words(problem: ApiError) -> Exception:
    """A refusal of the core under the words that clients look for; its own words on the next line."""
    known = _FAILURES.get(problem.code)
    if known is None:
        return problem
    view = problem.view
    figures = ", ".join(filter(None, (view.current, view.requested, view.limit)))
    return Fault(
        f"{PROGRAM}: error: {SUBMISSION_FAILED}{known}",
        f"{PROGRAM}: error: {view.message}{f' ({figures})' if figures else ''}",
    )
