"""From what a job asks for in Slurm's words to a submission, and what is kept of those words."""

import os.path
from dataclasses import dataclass, field

from msgspec import to_builtins
from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.visibility import may_see_reservation, visible_vclusters
from lattice.api.slurm.accounts import MAX_ID, NOBODY
from lattice.api.slurm.submit import exporting
from lattice.api.slurm.submit.shape import Shape, shape_of
from lattice.api.submit.images import resolve_images
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.site.tenants import OnQuota, Vcluster
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.notifications import Notify
from lattice.slurm.faults import Fault, error
from lattice.slurm.submit.job import SUBMISSION_FAILED, Job
from lattice.slurm.text.patterns import ARRAY_DEFAULT, BATCH_DEFAULT
from lattice.slurm.text.times import UNLIMITED
from lattice.wire.slurm.commands import SlurmCommand
from lattice.wire.text.problems import BadField
from lattice.wire.work.notifications import NotifyRequest, parse_notify
from lattice.wire.work.resources import Constraints, Resources
from lattice.wire.work.submissions import (
    MAX_UMASK,
    NO_IMAGES,
    NO_OPTIONS,
    ContainerOptions,
    Images,
    LifecycleRequest,
    Submission,
    Submitter,
    submit_command,
)

NO_LIMIT_S = 365 * 86400  # what stands for a limit that was declined
MAX_NAME = 128
MAX_SHOWN = 4096  # of the arguments, which the work itself has whole
MAX_ASKED = 65_536  # characters that are kept of the line besides the work itself


@dataclass(slots=True)
class TranslatedSubmission:
    """The command as it will be proposed, and what is said on stderr about it."""

    command: SubmitAllocation
    shape: Shape
    names_vcluster: bool
    partition: str
    warnings: list[str] = field(default_factory=list)


def translate(
    context: Context,
    job: Job,
    command: SlurmCommand,
    images: Images,
    *,
    script: str,
    name: str,
    words: tuple[str, ...] = (),
) -> TranslatedSubmission:
    """The submission behind a job. Raises Fault and ApiError for what is refused."""
    program = command.program
    warnings = list(job.warnings)
    tenant = _tenant(context, job, program)
    vcluster = _vcluster(context, job, program)
    shape = shape_of(context.state, job, vcluster, program)
    if job.reservation:
        _reserve(context, job, tenant, shape, program)
    warnings += shape.warnings
    submission = Submission(
        name=(job.name or name)[:MAX_NAME],
        vcluster=vcluster.name if job.partition else "",
        script=script,
        script_args=list(words),
        environment=exporting.exported(command.environment, job.export),
        cwd=os.path.normpath(os.path.join(command.cwd or "/", job.chdir)),
        submit_dir=command.cwd,
        umask=command.umask & MAX_UMASK,
        resources=Resources(
            nodes=shape.nodes,
            max_nodes=shape.max_nodes or None,
            cpus=shape.cpus,
            memory=f"{shape.memory_mb}M" if shape.memory_mb else 0,
            gpus=shape.gpus,
            exclusive=shape.whole,
            constraints=Constraints(
                memory_gb=shape.min_memory_mb / 1024,
                gpu_type=shape.gpu_type,
                features=list(shape.features),
                nodes=list(shape.node_list),
                exclude=list(shape.exclude),
            ),
        ),
        lifecycle=LifecycleRequest(preemption_class=_class(context, job, warnings)),
        tasks=job.array.text if job.array is not None else None,
        per_node=False,
        hold=job.is_held,
        on_quota=OnQuota.QUEUE,
        keep_on_invalid_dependency=job.kill_on_invalid_dep is not True,
    )
    wanted = submit_command(submission, _submitter(context, tenant), images)
    return TranslatedSubmission(
        command=_completed(context, wanted, job, command, shape, words, warnings),
        shape=shape,
        names_vcluster=bool(job.partition),
        partition=job.partition or context.services.slurm.partition_of(vcluster.name),
        warnings=warnings,
    )


def _submitter(context: Context, tenant: str) -> Submitter:
    identity = context.identity
    return Submitter(user=identity.user, account=identity.account, tenant=tenant, vcluster=context.default_vcluster)


_NO_IMAGES_WANTED = Submission()
# What the fields of a submission are called here.
_OPTION_OF = {
    "image": "container-image",
    "container.mounts": "container-mounts",
    "container.workdir": "container-workdir",
    "container.name": "container-name",
}


async def images_of(context: Context, job: Job, program: str) -> Images:
    """What --uenv, --view and --container-image mean. Raises Fault."""
    options = container_options(job)
    if job.container_name and not job.container_image:
        name = job.container_name.partition(":")[0][:64]
        raise error(
            program,
            f'{SUBMISSION_FAILED}a container with name "{name}" does not exist, and --container-image is not set: '
            "containers of a job go with it; name the image, or use srun inside an allocation that has begun the container",
        )
    if options != NO_OPTIONS and not job.container_image:
        raise error(program, f"{SUBMISSION_FAILED}options of a container need an image: add --container-image")
    wanted = Submission(uenv=job.uenv, view=job.view, image=job.container_image, container=options)
    if wanted == _NO_IMAGES_WANTED:
        return NO_IMAGES
    try:
        return await resolve_images(context, wanted)
    except ApiError as problem:
        raise error(program, f"{SUBMISSION_FAILED}{problem}") from None
    except BadField as problem:
        raise error(program, f"{SUBMISSION_FAILED}{in_options(problem)}") from None


def container_options(job: Job) -> ContainerOptions:
    return ContainerOptions(
        mounts=job.container_mounts.split(",") if job.container_mounts else [],
        writable=job.is_container_writable,
        workdir=job.container_workdir,
        no_home=job.has_no_home,
        name=job.container_name,
    )


def in_options(problem: BadField) -> str:
    """The same about the option that was given."""
    hint = f" ({problem.hint})" if problem.hint else ""
    option = _OPTION_OF.get(problem.field, problem.field)
    said = str(problem).removeprefix(f"{problem.field}: ")
    return f"--{option}: {said}{hint}"


def _completed(
    context: Context,
    wanted: SubmitAllocation,
    job: Job,
    command: SlurmCommand,
    shape: Shape,
    words: tuple[str, ...],
    warnings: list[str],
) -> SubmitAllocation:
    """With what a submission has no words for, or says in others."""
    asked = _bounded(asked_of(job, command, shape, words), job, command.program)
    partition = job.partition or context.services.slurm.partition_of(wanted.vcluster)
    never_requeued = {} if job.requeue is not False else {"requeue": "never", "max_requeue": 0}
    return replace(
        wanted,
        walltime_s=_walltime_s(job),
        eligible_at=max(int((job.begin_at or 0) * 1000), shape.not_before_ms),
        deadline_at=int((job.deadline_at or 0) * 1000),
        mutex=wanted.name if job.dependency is not None and job.dependency.is_singleton else "",
        notify=_notify(job, warnings),
        asked=replace(asked, partition=partition, qos=job.qos),
        **never_requeued,
    )


def asked_of(job: Job, command: SlurmCommand, shape: Shape, words: tuple[str, ...] = ()) -> Asked:
    """What was asked for, as it was written."""
    work_dir = os.path.normpath(os.path.join(command.cwd or "/", job.chdir))
    default = ARRAY_DEFAULT if job.array is not None else BATCH_DEFAULT
    stdout = job.output or default
    memory = job.memory_mb
    return Asked(
        program=command.program,
        ntasks=job.ntasks,
        ntasks_per_node=job.ntasks_per_node,
        cpus_per_task=job.cpus_per_task,
        memory_mb=-1 if memory == 0 else memory or 0,
        memory_per_cpu_mb=job.memory_per_cpu_mb,
        gres=f"gpu:{shape.gpu_type}:{shape.gpus}" if shape.gpu_type else f"gpu:{shape.gpus}" if shape.gpus else "",
        gpus=str(job.gpus.number) if job.gpus.number else "",
        features=job.features,
        reservation=job.reservation,
        comment=job.comment,
        wckey=job.wckey,
        dependency=job.dependency_text,
        array=job.array_text,
        signal=_signal_text(job),
        command=command.script_path,
        arguments=_shown(" ".join(words)[:MAX_SHOWN]),
        work_dir=work_dir,
        stdin=_joined(work_dir, job.input),
        stdout=_joined(work_dir, stdout),
        stderr=_joined(work_dir, job.error),
        open_mode=job.open_mode,
        export=_shown(job.export),
        host=command.host,
        uid=command.uid if 0 <= command.uid <= MAX_ID else NOBODY,
        gid=command.gid if 0 <= command.gid <= MAX_ID else NOBODY,
        time_limit_s=job.time_s or 0,
        never=shape.never,
    )


def _bounded(asked: Asked, job: Job, program: str) -> Asked:
    """Raises Fault for a line whose words cannot be shown, or would weigh more than the job: they stay in memory as long as it does."""
    texts = {name: value for name, value in to_builtins(asked).items() if isinstance(value, str)}
    for name, value in {**texts, "qos": job.qos, "partition": job.partition}.items():
        # Others see it in their listings: nothing in it may steer their terminal or look like a line of its own.
        if not value.isprintable():
            raise error(program, f"{SUBMISSION_FAILED}{name} contains characters that cannot be printed")
    kept = sum(map(len, texts.values()))
    if kept + len(job.qos) + len(job.partition) > MAX_ASKED:
        raise error(program, f"{SUBMISSION_FAILED}the options are too long (limit {MAX_ASKED} characters)")
    return asked


def _shown(text: str) -> str:
    """Arguments and variables may hold anything; where they are listed it is replaced."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name) if name else ""


def _signal_text(job: Job) -> str:
    early = job.signal
    return "" if early is None else f"{'B:' if early.to_shell else ''}{early.name}@{early.before_s}"


def _walltime_s(job: Job) -> int:
    if job.time_s is None:
        return 0
    return NO_LIMIT_S if job.time_s == UNLIMITED else min(job.time_s, 10 * NO_LIMIT_S)


def _tenant(context: Context, job: Job, program: str) -> str:
    try:
        return context.chosen_tenant(Permission.SUBMIT, job.account)
    except ApiError as problem:
        if not job.account or problem.code not in ("forbidden", "not_found"):
            raise
    every = context.visible_tenants(Permission.SUBMIT)
    known = ", ".join(sorted(context.state.tenants) if every is None else every) or "none"
    raise Fault(
        f"{program}: error: {SUBMISSION_FAILED}Invalid account or account/partition combination specified",
        f"{program}: error: known accounts: {known}",
    )


def _vcluster(context: Context, job: Job, program: str) -> Vcluster:
    names, vclusters = context.services.slurm, visible_vclusters(context)
    if not job.partition:
        default = vclusters.get(context.default_vcluster)
        if default is not None:
            return default
        raise error(program, f"{SUBMISSION_FAILED}No partition specified or system default partition")
    # All must exist, and the first is taken; Slurm takes the one that can start first.
    behind = {name: names.vcluster_of(name, vclusters) for name in job.partition.split(",")}
    unknown = next((name for name, target in behind.items() if target is None), None)
    if unknown is None:
        return vclusters[next(target for target in behind.values() if target is not None)]
    known = ", ".join(names.known_partitions(vclusters)) or "none"
    raise Fault(
        f"{program}: error: invalid partition specified: {unknown}",
        f"{program}: error: {SUBMISSION_FAILED}Invalid partition name specified",
        f"{program}: error: known partitions: {known}",
    )


def _reserve(context: Context, job: Job, tenant: str, shape: Shape, program: str) -> None:
    """Inside a reservation: on its nodes, not before it begins."""
    found = context.state.reservations.get(job.reservation)
    now_ms = context.services.clock.now_ms()
    window = None if found is None else found.occurrence(now_ms)
    if found is None or window is None:
        raise error(program, f"{SUBMISSION_FAILED}Requested reservation is invalid")
    if not may_see_reservation(context, found):
        raise error(program, f"{SUBMISSION_FAILED}Requested reservation is invalid")
    if not found.admits(tenant, context.user):
        raise error(program, f"{SUBMISSION_FAILED}Access denied to requested reservation")
    shape.not_before_ms = window[0] if window[0] > now_ms else 0
    if found.nodes:
        wanted = set(shape.node_list)
        shape.node_list = tuple(name for name in found.nodes if not wanted or name in wanted)


def _class(context: Context, job: Job, warnings: list[str]) -> int | None:
    if not job.qos:
        return None
    found = context.services.slurm.class_of(job.qos)
    if found is None:
        known = ", ".join(context.services.slurm.qos) or "none"
        warnings.append(f"--qos={job.qos} has no effect: it is not known here; known: {known}")
    return found


def _notify(job: Job, warnings: list[str]) -> Notify | None:
    if not job.mail_types:
        return None
    to = [f"mail:{job.mail_user}"] if "@" in job.mail_user else []
    words = [word for word in job.mail_types if word != "STAGE_OUT"]
    try:
        return parse_notify(NotifyRequest(on=words, to=to))
    except BadField as problem:
        warnings.append(f"--mail-type has no effect: {problem}")
        return None
