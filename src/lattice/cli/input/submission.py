"""From the options of `lattice submit` to what the API takes."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lattice.cli.context import Context
from lattice.cli.errors import CommandError, UsageError
from lattice.cli.input.constraints import parse_constraints, parse_nodes
from lattice.cli.input.container_flags import asked_container
from lattice.cli.input.exposure import MAX_PORT, parse_exposed
from lattice.cli.input.probes import parse_probe
from lattice.cli.times import parse_moment
from lattice_sdk.data.models import DataRequest
from lattice_sdk.models.notifications import NotifyRequest
from lattice_sdk.models.records import LifecycleRequest, OutputFiles, ResourceRequest, Submission
from lattice_sdk.models.runs import CheckpointOptions, ContainerOptions

MAX_NAME = 128
STRATEGIES = ("auto", "manual", "none")

# Variables that lead to a token stay with the person; an allocation gets its own.
IMAGE_NAMES = frozenset({"uenv", "view", "tools_uenv", "image"})
SECRET_VARIABLES = frozenset({"LATTICE_TOKEN", "LATTICE_TOKEN_FILE", "LATTICE_AGENT_TOKEN", "LATTICE_AGENT_TOKEN_FILE"})


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """What to run (a script or a command), then every flag; None = the cluster's default."""

    script: str | None = None
    script_args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    default_name: str = ""
    name: str | None = None
    project: str | None = None
    nodes: str = "1"
    walltime: str | None = None
    constraint: tuple[str, ...] = ()
    topology: str | None = None
    cpus: int = 0
    memory: str = ""
    gpus: int = 0
    exclusive: bool = False
    nodelist: str = ""
    exclude: str = ""
    task_group: str | None = None
    priority: str | None = None
    no_preempt: bool = False
    requeue: str | None = None
    max_requeue: int | None = None
    lifecycle: str = "bounded"
    min_nodes: int | None = None
    max_nodes: int | None = None
    scale_metric: str = ""
    scale_target: str | None = None
    scale_up_window: str | None = None
    scale_down_window: str | None = None
    scale_down_threshold: float | None = None
    scale_interval: str | None = None
    scale_cooldown: str | None = None
    per_node: bool | None = None
    hold: bool = False
    begin: str | None = None
    depends_on: tuple[str, ...] = ()
    mutex: str = ""
    deadline: str | None = None
    keep_on_invalid_dependency: bool = False
    env: tuple[str, ...] = ()
    export: str | None = None
    uenv: str = ""
    view: str = ""
    tools_uenv: str = ""
    scratch: str = ""
    memory_policy: str = ""
    data_mount: tuple[str, ...] = ()
    stage_out: tuple[str, ...] = ()
    image: str = ""
    mount: tuple[str, ...] = ()
    container_writable: bool = False
    container_workdir: str = ""
    no_home: bool = False
    container_name: str = ""
    chdir: str | None = None
    tag: tuple[str, ...] = ()
    notify: str | None = None
    notify_to: tuple[str, ...] = ()
    on_quota: str | None = None
    idle_end: str | None = None
    expose: tuple[str, ...] = ()
    restart: str | None = None
    liveness_probe: str | None = None
    readiness_probe: str | None = None
    startup_probe: str | None = None
    drain: str | None = None
    request_id: str = ""
    summary: bool = False
    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    open_mode: str = ""
    signal: str = ""
    checkpoint: str = ""
    checkpoint_signal: str = ""
    checkpoint_port: int | None = None
    resume_from: str = ""
    wait: bool = False
    dry_run: bool = False
    places: Mapping[str, str] = field(default_factory=dict)  # where the script gave an option: FILE, line N
    is_batch: bool = False  # the script has #SBATCH lines, and no #LATTICE lines


USUAL_UMASK = 0o022


def build_submission(options: SubmitOptions, context: Context) -> Submission:
    """The request; UsageError for what cannot be said in one."""
    here = _directory(context)
    uenv, tools_uenv = _images(options, here, "" if options.image else context.settings.default_uenv)
    image, container = _container(options, here)
    return Submission(
        name=options.name if options.name is not None else options.default_name,
        tenant=context.settings.tenant,
        project=options.project or context.settings.project,
        vcluster=context.settings.vcluster,
        tags=dict(parse_pair(text, "--tag") for text in options.tag),
        entrypoint=list(options.command) or None,
        script=options.script,
        script_args=list(options.script_args),
        environment=_environment(options, context),
        uenv=uenv,
        view=options.view,
        tools_uenv=tools_uenv,
        scratch=options.scratch,
        image=image,
        container=container,
        cwd=os.path.normpath(os.path.join(here, options.chdir or "")),
        submit_dir=here,
        umask=_umask(),
        resources=_resources(options),
        lifecycle=_lifecycle(options),
        priority=None if _class(options) is not None else options.priority,
        per_node=options.per_node,
        hold=options.hold,
        begin=parse_moment(options.begin, context.clock.now()) if options.begin else None,
        depends_on=",".join(options.depends_on),
        mutex=options.mutex,
        deadline=parse_moment(options.deadline, context.clock.now()) if options.deadline else None,
        keep_on_invalid_dependency=options.keep_on_invalid_dependency,
        tasks=options.task_group,
        summary=options.summary,
        output=_output(options),
        signal=options.signal,
        on_quota=options.on_quota,
        idle_end=options.idle_end,
        expose=[parse_exposed(text) for text in options.expose],
        notify=_notify(options),
        checkpoint=_checkpoint(options),
        resume_from=options.resume_from,
        data=_data(options),
        liveness_probe=parse_probe(options.liveness_probe, "--liveness-probe"),
        readiness_probe=parse_probe(options.readiness_probe, "--readiness-probe"),
        startup_probe=parse_probe(options.startup_probe, "--startup-probe"),
        drain=options.drain,
    )


def _checkpoint(options: SubmitOptions) -> CheckpointOptions | None:
    """Words in any order: a strategy, a protocol, or both. The server knows which there are."""
    if not options.checkpoint:
        if options.checkpoint_signal:
            raise UsageError("--checkpoint-signal needs --checkpoint", hint="add --checkpoint=signal")
        if options.checkpoint_port is not None:
            raise UsageError("--checkpoint-port needs --checkpoint", hint="add --checkpoint=grpc")
        return None
    words = [word for word in options.checkpoint.split(",") if word]
    strategy = [word for word in words if word in STRATEGIES]
    protocol = [word for word in words if word not in STRATEGIES]
    if not words or len(strategy) > 1 or len(protocol) > 1:
        raise UsageError(
            f'--checkpoint "{options.checkpoint}" is not possible',
            hint="give a strategy (auto, manual, none), a protocol (signal, shmem, grpc), or both, as in manual,shmem",
        )
    if options.checkpoint_port is not None and not 1 <= options.checkpoint_port <= MAX_PORT:
        raise UsageError(f"--checkpoint-port {options.checkpoint_port} is not possible", hint=f"1 to {MAX_PORT}")
    return CheckpointOptions(
        strategy="".join(strategy),
        protocol="".join(protocol),
        signal=options.checkpoint_signal,
        port=options.checkpoint_port or 0,
    )


def _images(options: SubmitOptions, here: str, default: str) -> tuple[str, str]:
    uenv = options.uenv or default
    if not (uenv or options.view or options.tools_uenv):
        return "", ""
    from lattice.cli.input.images import complete_images

    return complete_images(uenv, options.view, options.tools_uenv, here)


def _container(options: SubmitOptions, here: str) -> tuple[str, ContainerOptions | None]:
    wanted = asked_container(options)
    if wanted is None:
        return "", None
    from lattice.cli.input.containers import complete_container

    if options.uenv or options.tools_uenv:
        raise UsageError("--image and --uenv exclude each other", hint="give one of the two")
    return complete_container(options.image, wanted, here)


def _data(options: SubmitOptions) -> DataRequest | None:
    if not options.data_mount and not options.stage_out:
        return None
    from lattice.cli.input.data import parse_mount, parse_stage_out

    return DataRequest(
        mounts=[parse_mount(text) for text in options.data_mount],
        stage_out=[parse_stage_out(text) for text in options.stage_out],
    )


def _umask() -> int | None:
    """One's own; nothing where it is what work gets anyway."""
    mask = os.umask(USUAL_UMASK)
    os.umask(mask)
    return None if mask == USUAL_UMASK else mask


def _output(options: SubmitOptions) -> OutputFiles | None:
    if not (options.stdout or options.stderr or options.stdin):
        if options.open_mode:
            raise UsageError("--open-mode needs --stdout", hint="add --stdout FILE")
        return None
    return OutputFiles(
        stdout=options.stdout, stderr=options.stderr, stdin=options.stdin, mode=options.open_mode or "truncate"
    )


def _notify(options: SubmitOptions) -> NotifyRequest | None:
    if options.notify is None:
        if options.notify_to:
            raise UsageError("--notify-to needs --notify", hint="add --notify=end,fail")
        return None
    return NotifyRequest(on=[options.notify], to=list(options.notify_to))


def _directory(context: Context) -> str:
    try:
        here = context.process.directory()
    except OSError:
        raise CommandError("the current directory no longer exists", hint="cd elsewhere") from None
    if not _is_utf8(here):
        raise CommandError("the name of the current directory is not UTF-8", hint="cd elsewhere")
    return here


def _resources(options: SubmitOptions) -> ResourceRequest:
    least, most = parse_nodes(options.nodes)
    return ResourceRequest(
        nodes=least,
        max_nodes=most,
        cpus=options.cpus,
        memory=options.memory,
        gpus=options.gpus,
        exclusive=options.exclusive,
        constraints=parse_constraints(
            options.constraint,
            topology=options.topology,
            nodes=options.nodelist,
            exclude=options.exclude,
            memory_policy=options.memory_policy,
        ),
    )


def _lifecycle(options: SubmitOptions) -> LifecycleRequest:
    return LifecycleRequest(
        type=options.lifecycle,
        walltime=checked_walltime(options.walltime),
        preemption_class=_class(options),
        no_preempt=options.no_preempt,
        requeue=None if options.requeue is None else options.requeue.replace("-", "_"),
        max_requeue=options.max_requeue,
        restart=None if options.restart is None else options.restart.replace("-", "_"),
        min_nodes=options.min_nodes,
        max_nodes=options.max_nodes,
        metric=options.scale_metric,
        target=options.scale_target,
        scale_up_window=options.scale_up_window,
        scale_down_window=options.scale_down_window,
        scale_down_threshold=options.scale_down_threshold,
        evaluation_interval=options.scale_interval,
        cooldown_period=options.scale_cooldown,
    )


def checked_walltime(text: str | None) -> str | None:
    """The text; UsageError for a bare number, which Slurm reads as minutes."""
    if text is not None and text.isascii() and text.isdigit():
        hint = f"write {text}m for {text} minutes or {text}s for {text} seconds"
        raise UsageError(f'--walltime "{text}" has no unit', hint=hint)
    return text


def _class(options: SubmitOptions) -> int | None:
    text = options.priority or ""
    return int(text) if text.isascii() and text.isdigit() else None


def parse_pair(text: str, flag: str) -> tuple[str, str]:
    """Both sides of KEY=VALUE; UsageError when it is not that."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f'{flag} takes KEY=VALUE, not "{text}"')
    return key, value


def _environment(options: SubmitOptions, context: Context) -> dict[str, str]:
    """What --export lets through, then --env on top."""
    chosen: dict[str, str] = {}
    export = options.export if options.export is not None else context.settings.export
    if export.upper() != "NONE":
        chosen = _named(export.split(","), context.process.environment, context)
    kept = {key: value for key, value in chosen.items() if key not in SECRET_VARIABLES}
    return {**kept, **dict(parse_pair(text, "--env") for text in options.env)}


def _named(names: Iterable[str], outside: Mapping[str, str], context: Context) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        key, separator, value = name.strip().partition("=")
        if key.upper() == "ALL" and not separator:
            chosen.update(_sendable(outside, context))
            for name in IMAGE_NAMES & chosen.keys():
                del chosen[name]
                context.warn(f"--export=ALL: {name} stays here: inside a submission it would name an image")
        elif separator:
            chosen[key] = value
        elif key in outside:
            chosen.update(_sendable({key: outside[key]}, context))
        elif key:
            context.warn(f"--export: {key} is not set")
    return chosen


def _sendable(outside: Mapping[str, str], context: Context) -> dict[str, str]:
    good = {key: value for key, value in outside.items() if _is_utf8(key) and _is_utf8(value)}
    for key in outside.keys() - good.keys():
        context.warn(f"--export: {key.encode('ascii', 'replace').decode()} is not UTF-8 and is not passed on")
    return good


def _is_utf8(text: str) -> bool:
    # Bytes that are not UTF-8 come in as lone surrogates, which nothing can encode.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def name_after(path: str) -> str:
    """A name made from a path, in a form that every name may have."""
    name = os.path.basename(path.rstrip("/")) or path
    return "".join(char if char.isprintable() else "?" for char in name)[:MAX_NAME]
