"""A submission on the wire: the request as people write it, checked field by field and turned into a command.

What depends on the cluster (tenants, vClusters, quotas, nodes that exist) is judged by the core; here only what can be
said of the request alone.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.memory_policy import FEATURE as POLICY_FEATURE
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.site.tenants import OnQuota
from lattice.core.model.telemetry.modes import ACCESS_FEATURE, Mode
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.allocations import Hold, Lifecycle, Request, RequeuePolicy
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.nodes.probes import ProbeKind
from lattice.wire.bounds import Argument, Short, TaskList, WholeText
from lattice.wire.checkpoints.checkpoints import FEATURE as CHECKPOINT_FEATURE
from lattice.wire.checkpoints.checkpoints import CheckpointFields, read_way
from lattice.wire.services.exposure import ExposedPort, check_exposed
from lattice.wire.services.scaling import ScaleFields, policy_of
from lattice.wire.services.services import ProbeRequest, RestartPolicy, drain_s, probes_of, restart_of
from lattice.wire.text.node_names import most_named
from lattice.wire.text.problems import BadField
from lattice.wire.text.tasks import TaskRange, read_tasks
from lattice.wire.text.texts import (
    check_argument,
    check_environment,
    check_line,
    check_name,
    check_path,
    check_tags,
    check_text,
)
from lattice.wire.text.times import parse_moment
from lattice.wire.work.data import (
    NO_DATA,
    DataRequest,
    check_shared_targets,
    data_features,
    read_mounts,
    read_stage_out,
    with_home,
)
from lattice.wire.work.dependencies import DependencyFields
from lattice.wire.work.memory_policy import check_policy
from lattice.wire.work.notifications import NotifyRequest, parse_notify
from lattice.wire.work.payloads import MAX_PAYLOAD_BYTES, Work, encode_work
from lattice.wire.work.resources import Resources, between, memory_mb, read_request
from lattice.wire.work.run_files import OutputFiles, check_early, check_files
from lattice.wire.work.telemetry import TelemetryFields, read_telemetry

PRIORITIES = {"low": 2, "normal": 5, "high": 8}
MAX_CLASS = 10
FIRST_UNPREEMPTED_CLASS = 7
MAX_NAMED_TOGETHER = 20_000
MAX_REQUEUE = 100
MIN_IDLE_END_S = 600  # terminals say it five minutes before
DEFAULT_CLASS = 5
SHELL = ("/bin/sh", "-c")
# Inside `environment` these are no variables but say in which image the work runs.
IMAGE_NAMES = ("uenv", "view", "tools_uenv", "image")
UENV_FEATURE = "uenv"  # of a node that mounts images
SCRATCH_FEATURE = "scratch"  # of a node where scratch can have a size
DISK_SCRATCH, MEMORY_SCRATCH = (
    "disk_scratch",
    "memory_scratch",
)  # of one where it lies on a disk, or in the memory of the work
MIN_SCRATCH_MB, MAX_SCRATCH_MB = 16, 1 << 24
CONFINED_FEATURE = "confined"  # of a node that enforces every limit of shared work
IO_FEATURE = "io_limits"  # of a node that can slow reading and writing down
NO_UENV = "none"  # instead of the default image of the vCluster
CONTAINER_FEATURE = "container"  # of a node that has a container runtime


class LifecycleRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Lifecycle = Lifecycle.BOUNDED
    walltime: Short | int | None = None
    preemption_class: int | None = None
    requeue: RequeuePolicy = RequeuePolicy.ON_NODE_FAILURE
    max_requeue: int = 3
    no_preempt: bool = False
    restart: RestartPolicy | None = None  # of a service; None = always
    min_nodes: int | None = None  # of reactive work, as are all below: it begins with this many
    max_nodes: int | None = None
    metric: Argument = ""  # that decides on its size
    target: Short | float | None = None  # above it a node is added
    scale_up_window: Short | int | None = None  # how long it must be above; None = 2 minutes
    scale_down_window: Short | int | None = None  # how long it must be far below; None = 5 minutes
    scale_down_threshold: float | None = None  # how far: a part of the target; None = 0.5
    evaluation_interval: Short | int | None = None  # None = 60 s
    cooldown_period: Short | int | None = None  # no step so soon after the last one, or the start; None = 3 minutes
    scale_policy: ScaleFields | None = None  # the same in one record


class ContainerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the container of `image` is set up."""

    mounts: list[Argument] = []  # SRC:DST[:ro] of what the user may read
    writable: bool = False  # changes to the image are kept in memory until the run ends
    workdir: str = ""  # where it starts; empty = cwd
    no_home: bool = False  # without the home directory
    name: Short = ""  # under which steps find it; in a step NAME[:auto|create|exec|no_exec]


NO_OPTIONS = ContainerOptions()
MAX_UMASK = 0o777


class Submission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /allocations."""

    request_id: str = ""
    name: str = ""
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    tags: dict[str, str] = {}
    entrypoint: Argument | list[Argument] | None = None
    script: WholeText | None = None
    script_args: list[Argument] = []
    environment: dict[str, Argument] = {}
    uenv: str = ""  # images to mount: REF[:MOUNT][,REF...]
    view: str = ""  # views of them to apply, in this order: [UENV:]VIEW[,...]
    tools_uenv: str = ""  # further images, with tools such as debuggers
    scratch: Short | int = ""  # size of the scratch directory of each node, such as 20G; empty = not limited
    image: str = ""  # the work runs inside this container image
    container: ContainerOptions = NO_OPTIONS
    cwd: str = ""
    submit_dir: str = ""
    umask: int | None = None  # of the work and of the files that the node opens for it; None = 022
    resources: Resources = Resources()
    lifecycle: LifecycleRequest = LifecycleRequest()
    priority: Short | int | None = None
    per_node: bool | None = None
    hold: bool = False
    begin: Short | None = None
    tasks: TaskList | TaskRange | None = None
    summary: bool = False  # a last line on stderr: how it ended, what it used
    output: OutputFiles | None = None
    signal: Short = ""  # before the limit, as in USR1@90; B:USR1@90 to the script alone
    on_quota: OnQuota | None = None
    idle_end: Short | int | None = None  # cancelled after this time without input, step or use of a CPU
    expose: list[ExposedPort] = []  # ports that have names, and who may reach them
    notify: NotifyRequest | None = None
    telemetry: TelemetryFields | None = None  # how closely each run is measured, from its start on
    depends_on: TaskList | list[DependencyFields] = ""
    mutex: str = ""  # one at a time of those with this name
    deadline: Short | None = None
    keep_on_invalid_dependency: bool = False
    checkpoint: CheckpointFields | None = None  # how it is asked for checkpoints; None = it writes none
    resume_from: Short = ""  # ID[:N]: begin with the newest complete checkpoint of that work, or with its number N
    dry_run: bool = False  # only say what would become of it
    data: DataRequest = NO_DATA  # sources that the work sees, and what is copied out at its end
    liveness_probe: ProbeRequest | None = None  # of a service: one that fails ends the instance, which is started again
    readiness_probe: ProbeRequest | None = None  # one that fails takes the instance out of what is reached by name
    startup_probe: ProbeRequest | None = None  # the other two wait until it has passed
    drain: Short | int | None = None  # how long a stop of an instance waits for requests in flight; None = 30 s


class Images(Struct, frozen=True, kw_only=True):
    """What a submission names as images, resolved; `features` is what a node needs for it."""

    images: tuple[ImageOrder, ...] = ()
    views: tuple[str, ...] = ()
    container: ContainerOrder | None = None

    @property
    def features(self) -> tuple[str, ...]:
        if self.container is not None:
            return (CONTAINER_FEATURE,)
        return (UENV_FEATURE,) if self.images else ()


NO_IMAGES = Images()


class Submitter(Struct, frozen=True, kw_only=True):
    """Who submits, and where to when the request does not say."""

    user: str
    account: str
    tenant: str
    vcluster: str


def check_together(wanted: Sequence[Submission], field: str) -> None:
    """Raises BadField when they name more nodes than one request may: a few characters can stand for thousands."""
    rules = [each.resources.constraints for each in wanted]
    named = sum(most_named(each.nodes, each.exclude) for each in rules)
    if len(wanted) > 1 and named > MAX_NAMED_TOGETHER:
        hint = "submit those that name many nodes by themselves"
        limit = f"{MAX_NAMED_TOGETHER:,}"
        raise BadField(field, "name too many nodes together", current=f"{named:,}", limit=limit, hint=hint)


def entries_of(wanted: Submission) -> int:
    """How much there is to read: words, variables, nodes, task indices, and kilobytes of the script."""
    words = len(wanted.entrypoint) if isinstance(wanted.entrypoint, list) else 0
    tasks = wanted.tasks.count(",") if isinstance(wanted.tasks, str) else 0
    script = len(wanted.script or "") >> 10
    rules = wanted.resources.constraints
    several = words + len(wanted.script_args) + len(wanted.environment) + tasks + script
    return several + (most_named(rules.nodes, rules.exclude) if rules.nodes or rules.exclude else 0)


def submit_command(wanted: Submission, by: Submitter, images: Images = NO_IMAGES) -> SubmitAllocation:
    """The command behind a submission. Raises BadField for the first field that cannot be accepted."""
    work = work_of(wanted, images)
    life = wanted.lifecycle
    scaling = policy_of(life.type, _scale_fields(life))
    tasks, concurrency = read_tasks(wanted.tasks)
    is_service = life.type is not Lifecycle.BOUNDED
    if work.stage_out:
        check_shared_targets(work.stage_out, is_service=is_service, per_node=bool(wanted.per_node), tasks=bool(tasks))
    way = read_way(wanted.checkpoint, in_container=bool(wanted.image))
    telemetry = read_telemetry(wanted.telemetry)
    features = [*_directory_features(work), *((CHECKPOINT_FEATURE,) if way is not None else ())]
    if telemetry is not None and telemetry.mode is Mode.AUDIT:
        features.append(ACCESS_FEATURE)
    return SubmitAllocation(
        name=check_name(wanted.name, "name") if wanted.name else _default_name(work),
        user=by.user,
        account=by.account,
        tenant=check_line(wanted.tenant, "tenant") or by.tenant,
        vcluster=check_line(wanted.vcluster, "vcluster") or by.vcluster,
        project=check_line(wanted.project, "project"),
        request=_scaled_request(read_request(wanted.resources, (*images.features, *features)), scaling),
        lifecycle=life.type,
        per_node=wanted.per_node,
        preemption_class=_preemption_class(wanted),
        walltime_s=walltime_s(life.walltime, "lifecycle.walltime"),
        eligible_at=parse_moment(wanted.begin, "begin") if wanted.begin is not None else 0,
        hold=Hold.USER if wanted.hold else Hold.NONE,
        requeue=life.requeue,
        max_requeue=between(life.max_requeue, "lifecycle.max_requeue", 0, MAX_REQUEUE),
        tags=check_tags(wanted.tags) if wanted.tags else (),
        tasks=tasks,
        concurrency=concurrency,
        queue_on_quota=wanted.on_quota is OnQuota.QUEUE,
        notify=None if wanted.notify is None else parse_notify(wanted.notify),
        mutex=check_name(wanted.mutex, "mutex") if wanted.mutex else "",
        deadline_at=parse_moment(wanted.deadline, "deadline") if wanted.deadline is not None else 0,
        keep_on_invalid_dependency=wanted.keep_on_invalid_dependency,
        payload=_payload(work),
        idle_end_s=0 if wanted.idle_end is None else _idle_end_s(wanted.idle_end, tasks),
        no_preempt=life.no_preempt,
        exposes=check_exposed(wanted.expose) if wanted.expose else (),
        checkpoint=way,
        data=tuple(dict.fromkeys(mount.source for mount in work.data if mount.hot)) if work.data else (),
        restart=restart_of(life.restart, life.type),
        probed=any(probe.kind is not ProbeKind.LIVENESS for probe in work.probes),
        stages_out=bool(work.stage_out),
        telemetry=telemetry,
        scaling=scaling,
    )


_SCALE_NAMES = {  # of the lifecycle, and of the policy
    "min_nodes": "min",
    "max_nodes": "max",
    **{name: name for name in ScaleFields.__struct_fields__ if name not in ("min", "max")},
}

_scale_values = attrgetter(*_SCALE_NAMES)
_NO_SCALE_VALUES = _scale_values(LifecycleRequest())


def _scale_fields(life: LifecycleRequest) -> ScaleFields | None:
    """What the lifecycle says of scaling, in either spelling; None if nothing."""
    if _scale_values(life) == _NO_SCALE_VALUES:
        return life.scale_policy
    given = {to: value for name, to in _SCALE_NAMES.items() if (value := getattr(life, name)) not in (None, "")}
    if given and life.scale_policy is not None:
        raise BadField(
            "lifecycle.scale_policy", "is given beside fields of the same meaning", hint="give one of the two"
        )
    return ScaleFields(**given) if given else life.scale_policy


def _scaled_request(request: Request, scaling: ScalePolicy | None) -> Request:
    """Reactive work begins with its least number of nodes."""
    if scaling is None:
        return request
    if request.nodes not in (1, scaling.min_nodes) or request.max_nodes not in (0, scaling.max_nodes):
        raise BadField("resources.nodes", "reactive work begins with min_nodes", hint="leave resources.nodes out")
    return replace(request, nodes=scaling.min_nodes, max_nodes=0)


def _directory_features(work: Work) -> Iterator[str]:
    """What a node needs for the directories of the work."""
    if work.scratch_mb:
        yield SCRATCH_FEATURE
    if work.data or work.stage_out:
        yield from data_features(work.data, work.stage_out)
    if work.memory_policy:
        yield POLICY_FEATURE


def _idle_end_s(value: str | int | None, tasks: object) -> int:
    seconds = walltime_s(value, "idle_end")
    if seconds and tasks:
        raise BadField("idle_end", "is not for task groups", hint="leave it out")
    if value is not None and seconds < MIN_IDLE_END_S:
        raise BadField("idle_end", f'"{str(value)[:40]}" is too short', limit=f"from {MIN_IDLE_END_S // 60} minutes")
    return seconds


def walltime_s(value: str | int | None, field: str) -> int:
    """Whole seconds of a walltime; 0 for one that is not given."""
    if value is None:
        return 0
    try:
        return parse_duration_s(str(value))
    except BadUnit as error:
        raise BadField(field, str(error)) from None


def priority_class(value: str | int, field: str) -> int:
    """A preemption class from its number or its name."""
    if isinstance(value, int):
        return between(value, field, 0, MAX_CLASS)
    if value.lower() in PRIORITIES:
        return PRIORITIES[value.lower()]
    if value.isascii() and value.isdigit() and len(value) < 4:
        return between(int(value), field, 0, MAX_CLASS)
    raise BadField(
        field,
        f'"{value[:60]}" is not a priority',
        hint=f"one of {', '.join(PRIORITIES)}, or a preemption class from 0 to {MAX_CLASS}",
    )


def _preemption_class(wanted: Submission) -> int:
    life = wanted.lifecycle
    chosen = DEFAULT_CLASS
    if life.preemption_class is not None:
        chosen = between(life.preemption_class, "lifecycle.preemption_class", 0, MAX_CLASS)
    if wanted.priority is not None:
        named = priority_class(wanted.priority, "priority")
        if life.preemption_class is not None and named != chosen:
            raise BadField(
                "priority",
                f"priority {wanted.priority} means class {named}, but lifecycle.preemption_class is {chosen}",
                hint="give one of the two",
            )
        chosen = named
    if life.no_preempt and chosen < FIRST_UNPREEMPTED_CLASS:
        raise BadField(
            "lifecycle.no_preempt",
            f"work of class {chosen} can be preempted",
            current=f"class {chosen}",
            limit=f"class {FIRST_UNPREEMPTED_CLASS} or higher",
            hint=f"ask for preemption class {FIRST_UNPREEMPTED_CLASS} or higher, or let it be preempted",
        )
    return chosen


def work_of(wanted: Submission, images: Images) -> Work:
    """What a node is to run. Raises BadField. Most submissions ask for little of it, and nothing else is looked through."""
    cwd = check_path(wanted.cwd, "cwd")
    data, life, probes = wanted.data, wanted.lifecycle.type, _probes(wanted)
    argv, script = _program(wanted)
    if wanted.script_args and not script:
        raise BadField("script_args", "arguments of a script need a script", hint='give "script"')
    return Work(
        argv=argv,
        script=script,
        script_args=_script_args(wanted.script_args) if wanted.script_args else (),
        env=check_environment(wanted.environment) if wanted.environment else {},
        cwd=cwd,
        submit_dir=check_path(wanted.submit_dir, "submit_dir") if wanted.submit_dir else cwd,
        summary=wanted.summary,
        output=check_files(wanted.output),
        signal=check_early(wanted.signal, "signal"),
        umask=_umask(wanted.umask),
        images=images.images,
        views=images.views,
        container=None if images.container is None else with_home(images.container, data),
        scratch_mb=_scratch_mb(wanted) if wanted.scratch or data.scratch_per_node else 0,
        memory_policy=check_policy(wanted.resources.constraints.memory_policy),
        no_defaults=not data.defaults,
        data=read_mounts(data) if data.mounts else (),
        stage_out=read_stage_out(data) if data.stage_out or data.output else (),
        drain_s=drain_s(wanted.drain, life),
        probes=()
        if probes == _NO_PROBES
        else probes_of(tuple(zip(_PROBE_KINDS, probes, strict=True)), life, check_exposed(wanted.expose)),
    )


_PROBE_KINDS = (ProbeKind.STARTUP, ProbeKind.LIVENESS, ProbeKind.READINESS)
_probes = attrgetter(*(f"{kind.value}_probe" for kind in _PROBE_KINDS))
_NO_PROBES = _probes(Submission())


def _script_args(words: list[str]) -> tuple[str, ...]:
    return tuple(check_argument(text, f"script_args[{place}]") for place, text in enumerate(words))


def _scratch_mb(wanted: Submission) -> int:
    text = wanted.scratch or wanted.data.scratch_per_node
    if wanted.scratch and wanted.data.scratch_per_node:
        raise BadField("data.scratch_per_node", "is the same as scratch", hint="give one of the two")
    size = memory_mb(text, "scratch") if text else 0
    if text and not MIN_SCRATCH_MB <= size <= MAX_SCRATCH_MB:
        raise BadField(
            "scratch", f"{size:,} MB is not possible", limit=f"from {MIN_SCRATCH_MB:,} to {MAX_SCRATCH_MB:,} MB"
        )
    return size


def _umask(wanted: int | None) -> int | None:
    if wanted is not None and not 0 <= wanted <= MAX_UMASK:
        raise BadField("umask", f"{wanted} is no umask", limit=f"from 0 to {MAX_UMASK} (octal 777)")
    return wanted


def _program(wanted: Submission) -> tuple[tuple[str, ...], str]:
    entrypoint, script = wanted.entrypoint, wanted.script
    if (entrypoint is None) == (script is None):
        what = "nothing to run" if script is None else "both an entrypoint and a script"
        raise BadField("", f"the submission has {what}", hint='give either "entrypoint" or "script"')
    if script is not None:
        if not script.strip():
            raise BadField("script", "the script is empty")
        return (), check_text(script, "script")
    if isinstance(entrypoint, str):
        if not entrypoint.strip():
            raise BadField("entrypoint", "the command is empty")
        return (*SHELL, check_argument(entrypoint, "entrypoint")), ""
    argv = tuple(check_argument(text, f"entrypoint[{place}]") for place, text in enumerate(entrypoint or ()))
    if not argv or not argv[0]:
        raise BadField("entrypoint", "the command is empty", hint='for example ["hostname", "-f"]')
    return argv, ""


def _default_name(work: Work) -> str:
    if work.script:
        return "script"
    words = work.argv[2].split() if work.argv[:2] == SHELL and len(work.argv) == 3 else work.argv
    name = words[0].rsplit("/", 1)[-1][:128] if words else ""
    return name if name.isprintable() and name.strip() else "command"


def _payload(work: Work) -> bytes:
    payload = encode_work(work)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadField(
            "",
            "script, arguments and environment are too large",
            current=f"{len(payload):,} bytes after compression",
            limit=f"{MAX_PAYLOAD_BYTES:,} bytes after compression",
            hint="put large data into files that the script reads, and export fewer variables",
        )
    return payload
