"""What belongs to single runs of an allocation: the images that they mount, what they used, their checkpoints, and why they wait."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from lattice_sdk.models.moments import Duration


class ImageInfo(Struct, frozen=True, kw_only=True):
    """An image of an allocation: always the bytes with this sha256."""

    reference: str
    digest: str
    mount: str = ""  # empty = where the image itself wants to be


class ContainerOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the container of `image` is set up."""

    mounts: list[str] = []  # SRC:DST[:ro] of what you may read
    writable: bool = False  # changes to the image are kept in memory until the run ends
    workdir: str = ""  # where it starts; empty = cwd
    no_home: bool = False  # without your home directory
    name: str = ""  # under which steps find it; in a step NAME[:auto|create|exec|no_exec]


class ExposedPort(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of the work that has a name. You reach it always; `share` names others of the tenant, or "tenant" for all of them."""

    port: int  # 0 = chosen by each node, which tells the work in LATTICE_PORT_NAME
    name: str = ""  # default: port-PORT
    protocol: str = "tcp"
    share: list[str] = []


class ContainerInfo(Struct, frozen=True, kw_only=True):
    """The container of an allocation: always the image with this sha256, of its file or of its manifest."""

    image: str
    digest: str
    mounts: list[str] = []
    writable: bool = False
    workdir: str = ""
    no_home: bool = False
    name: str = ""  # under which steps find it


class RunUsage(Struct, frozen=True, kw_only=True):
    """What a run or a step used beyond CPU time and memory; 0 also where a node does not measure it."""

    throttled_s: float = 0  # waited because its share of the CPUs was used up
    read_bytes: int = 0  # from storage, on all nodes
    written_bytes: int = 0
    peak_pids: int = 0  # processes and threads at the same time, on the node that had most
    gpu_efficiency: float | None = None  # use of its GPUs in percent, where it was measured
    energy_kwh: float | None = None  # as far as the sensors of its nodes say


class GroupUse(Struct, frozen=True, kw_only=True):
    """What a run or a step uses on one node at this moment; 0 also where the node does not measure it."""

    node: str
    step: int | None = None  # None = the whole run, steps included
    cpu_s: float = 0
    throttled_s: float = 0  # waited because its share of the CPUs was used up
    memory_mb: float = 0
    peak_memory_mb: float = 0
    read_bytes: int = 0  # from storage
    written_bytes: int = 0
    pids: int = 0  # processes and threads
    peak_pids: int = 0
    cpus: list[int] = []  # empty = not bound to single CPUs
    gpus: list[int] = []


class LiveUsage(Struct, frozen=True, kw_only=True):
    """What a running allocation uses at this moment, node by node; nothing of one that does not run."""

    id: str
    items: list[GroupUse] = []
    unreachable: list[str] = []  # nodes that did not answer

    def of_step(self, step: int | None = None) -> list[GroupUse]:
        """Of one step, or of the whole run."""
        return [use for use in self.items if use.step == step]


class InUse(Struct, frozen=True, kw_only=True):
    """What the runs of a tenant hold now."""

    nodes: int = 0
    allocations: int = 0


class LogsDeleted(Struct, frozen=True, kw_only=True):
    """How many objects with output were deleted."""

    id: str = ""
    objects: int = 0


class CheckpointOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How work is asked for checkpoints. A protocol alone means auto, a strategy alone the protocol signal."""

    strategy: str = ""  # auto, manual or none
    protocol: str = ""  # signal, shmem or grpc
    signal: str = ""  # of the protocol signal; empty = USR1
    port: int = 0  # of the protocol grpc: the work listens there; 0 = it registers with the agent of its node


class Checkpoint(Struct, frozen=True, kw_only=True):
    """One checkpoint; `state` is writing, complete or failed."""

    n: int
    state: str = ""
    run: int = 0
    path: str = ""
    reason: str = ""
    requested_at: str | None = None
    completed_at: str | None = None
    bytes: int = 0
    seconds: float = 0.0
    nodes: int = 0  # that wrote it
    message: str = ""
    stored: bool = False  # the object store has a copy


class CheckpointStanding(Struct, frozen=True, kw_only=True):
    """How an allocation stands with checkpoints; `resume_from` is where its next run begins, or the present one began."""

    strategy: str = ""
    protocol: str = ""
    complete: int = 0  # that are kept
    last_completed_at: str | None = None
    writing: int = 0  # number of the one that is being written, 0 = none
    failures: int = 0  # since the last complete one
    message: str = ""  # why the last one failed
    resume_from: str = ""
    signal: str = ""  # of the protocol signal
    port: int = 0  # of the protocol grpc, where the work listens


Figure = int | float


class Probe(Struct, frozen=True, kw_only=True):
    """How a node asks the instances of a service for their health."""

    kind: str
    type: str
    port: int = 0
    path: str = ""
    period_s: Figure = 0
    initial_delay_s: Figure = 0
    timeout_s: Figure = 0
    failure_threshold: int = 0
    success_threshold: int = 0
    command: tuple[str, ...] = ()
    port_name: str = ""  # of a port that each node chooses


class Instance(Struct, frozen=True, kw_only=True):
    """One instance of a service, as its node told it last."""

    node: str
    phase: str = ""
    revision: int = 1  # of what it runs
    ready: bool = False
    restarts: int = 0  # by its node
    running_since: str | None = None
    reason: str = ""  # why it is not ready
    last_cause: str | None = None
    last_exit_code: int | None = None
    last_signal: int | None = None
    last_message: str = ""


class Scaling(Struct, frozen=True, kw_only=True):
    """The policy of a service that follows its load, and what was decided last: up, down or hold."""

    min_nodes: int = 0
    max_nodes: int = 0
    metric: str = ""
    target: Figure = 0
    scale_up_window_s: int = 0
    scale_down_window_s: int = 0
    scale_down_threshold: Figure = 0
    evaluation_interval_s: int = 0
    cooldown_period_s: int = 0
    value: Figure | None = None
    decision: str = ""
    reason: str = ""
    evaluated_at: str | None = None
    scaled_at: str | None = None


class Service(Struct, frozen=True, kw_only=True):
    """What keeps an allocation alive, and how its instances stand."""

    restart: str = ""
    wanted: int = 0
    ready: int = 0
    restarts: int = 0
    reason: str = ""
    instances: list[Instance] = []
    revision: int = 1  # of what instances are started with
    scaling: Scaling | None = None


class ProbeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the node asks an instance of a service for its health; None = 10 s, of readiness 0."""

    probe_type: str  # tcp, http, exec
    port: int = 0
    path: str = ""
    period_secs: int = 30
    initial_delay_secs: int | None = None
    failure_threshold: int = 3
    success_threshold: int = 1
    timeout_secs: int = 5
    command: tuple[str, ...] = ()  # of exec
    port_name: str = ""  # instead of port: of one that the service exposes


class OutputFiles(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where output goes besides the log: names with `%j` number, `%x` name, `%a` index, `%N` node; an empty `stderr` joins `stdout`."""

    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    mode: str = "truncate"  # or append


class Candidates(Struct, frozen=True, kw_only=True):
    """Of the work that runs on nodes which suit it: how many it may preempt, how many others each protection keeps, and a sentence."""

    could_take: int = 0
    protected: dict[str, int] = {}
    text: str = ""


class Penalty(Struct, frozen=True, kw_only=True):
    """What the tenant's soft quotas multiply the score by, and why, with figures."""

    factor: Figure = 1.0
    text: str = ""


class Standing(Struct, frozen=True, kw_only=True):
    """How running work stands towards preemption. `safe_until` None: for good if `is_protected`, else not at all."""

    is_protected: bool = False
    safe_until: str | None = None
    cost_hours: Figure = 0.0
    unit: str = ""
    text: str = ""
    notice_s: int | None = None


class Prediction(Struct, frozen=True, kw_only=True):
    """At that moment it was predicted to start then."""

    at: str | None = None
    start: str | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Why an allocation waits, and when and where it will start as things are.

    `rank` 1 = the next of its vCluster, None = it does not wait. `scores` has each factor by name and "total".
    `predictions` has how the predicted start moved since the present leader watches, oldest first.
    Of a dry run: `id` is None, and `rank` is None when it would start immediately.
    """

    id: str | None = None
    state: str = ""
    reason: str = ""
    scores: dict[str, Figure] = {}
    rank: int | None = None
    predicted_start: str | None = None
    predicted_nodes: list[str] = []
    vcluster: str | UnsetType = UNSET  # of a dry run, as are the two below
    chosen_by: str | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    preemption: Candidates | UnsetType = UNSET  # of work that waits for room
    standing: Standing | UnsetType = UNSET  # of work that runs
    penalty: Penalty | UnsetType = UNSET  # of work that waits, where soft quotas hold it back
    predictions: list[Prediction] | UnsetType = UNSET  # of work that waits
    images: str | UnsetType = (
        UNSET  # of work that waits and brings images, where nodes have some of them: on how many they are
    )


class LifecycleRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long, how important, and what happens after a failure; None = the cluster's default."""

    type: str = "bounded"
    walltime: Duration | None = None
    preemption_class: int | None = None
    no_preempt: bool = False
    requeue: str | None = None
    max_requeue: int | None = None
    restart: str | None = None  # of a service: always (default), on_failure, never
    min_nodes: int | None = None  # of reactive work, as are all below
    max_nodes: int | None = None
    metric: str = ""
    target: str | float | None = None
    scale_up_window: str | int | None = None
    scale_down_window: str | int | None = None
    scale_down_threshold: float | None = None
    evaluation_interval: str | int | None = None
    cooldown_period: str | int | None = None
    scale_policy: dict[str, Any] | None = None  # the same in one record
