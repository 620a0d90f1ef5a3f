from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ContainerOptions(_message.Message):
    __slots__ = ("mounts", "writable", "workdir", "no_home", "name")
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    NO_HOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    mounts: _containers.RepeatedScalarFieldContainer[str]
    writable: bool
    workdir: str
    no_home: bool
    name: str
    def __init__(self, mounts: _Optional[_Iterable[str]] = ..., writable: _Optional[bool] = ..., workdir: _Optional[str] = ..., no_home: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...

class NodeRange(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: int
    max: int
    def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class Constraints(_message.Message):
    __slots__ = ("gpu_type", "gpu_count", "memory_gb", "features", "topology", "nodes_text", "nodes", "exclude_text", "exclude", "require_unified_memory", "allow_cxl_memory", "require_conformance", "prefer_same_numa", "prefer_local_memory", "memory_policy", "storage_gbps")
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_TEXT_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_UNIFIED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_CXL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_CONFORMANCE_FIELD_NUMBER: _ClassVar[int]
    PREFER_SAME_NUMA_FIELD_NUMBER: _ClassVar[int]
    PREFER_LOCAL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_POLICY_FIELD_NUMBER: _ClassVar[int]
    STORAGE_GBPS_FIELD_NUMBER: _ClassVar[int]
    gpu_type: str
    gpu_count: int
    memory_gb: float
    features: _containers.RepeatedScalarFieldContainer[str]
    topology: str
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    exclude_text: str
    exclude: _containers.RepeatedScalarFieldContainer[str]
    require_unified_memory: bool
    allow_cxl_memory: bool
    require_conformance: bool
    prefer_same_numa: bool
    prefer_local_memory: bool
    memory_policy: str
    storage_gbps: float
    def __init__(self, gpu_type: _Optional[str] = ..., gpu_count: _Optional[int] = ..., memory_gb: _Optional[float] = ..., features: _Optional[_Iterable[str]] = ..., topology: _Optional[str] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., exclude_text: _Optional[str] = ..., exclude: _Optional[_Iterable[str]] = ..., require_unified_memory: _Optional[bool] = ..., allow_cxl_memory: _Optional[bool] = ..., require_conformance: _Optional[bool] = ..., prefer_same_numa: _Optional[bool] = ..., prefer_local_memory: _Optional[bool] = ..., memory_policy: _Optional[str] = ..., storage_gbps: _Optional[float] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("nodes", "nodes_object", "max_nodes", "cpus", "memory", "gpus", "exclusive", "constraints")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_OBJECT_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    nodes_object: NodeRange
    max_nodes: int
    cpus: int
    memory: str
    gpus: int
    exclusive: bool
    constraints: Constraints
    def __init__(self, nodes: _Optional[int] = ..., nodes_object: _Optional[_Union[NodeRange, _Mapping]] = ..., max_nodes: _Optional[int] = ..., cpus: _Optional[int] = ..., memory: _Optional[str] = ..., gpus: _Optional[int] = ..., exclusive: _Optional[bool] = ..., constraints: _Optional[_Union[Constraints, _Mapping]] = ...) -> None: ...

class ScaleFields(_message.Message):
    __slots__ = ("min", "max", "metric", "target", "scale_up_window", "scale_down_window", "scale_down_threshold", "evaluation_interval", "cooldown_period")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_PERIOD_FIELD_NUMBER: _ClassVar[int]
    min: int
    max: int
    metric: str
    target: str
    scale_up_window: str
    scale_down_window: str
    scale_down_threshold: float
    evaluation_interval: str
    cooldown_period: str
    def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ..., metric: _Optional[str] = ..., target: _Optional[str] = ..., scale_up_window: _Optional[str] = ..., scale_down_window: _Optional[str] = ..., scale_down_threshold: _Optional[float] = ..., evaluation_interval: _Optional[str] = ..., cooldown_period: _Optional[str] = ...) -> None: ...

class LifecycleRequest(_message.Message):
    __slots__ = ("type", "walltime", "preemption_class", "requeue", "max_requeue", "no_preempt", "restart", "min_nodes", "max_nodes", "metric", "target", "scale_up_window", "scale_down_window", "scale_down_threshold", "evaluation_interval", "cooldown_period", "scale_policy")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_CLASS_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEUE_FIELD_NUMBER: _ClassVar[int]
    NO_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_PERIOD_FIELD_NUMBER: _ClassVar[int]
    SCALE_POLICY_FIELD_NUMBER: _ClassVar[int]
    type: str
    walltime: str
    preemption_class: int
    requeue: str
    max_requeue: int
    no_preempt: bool
    restart: str
    min_nodes: int
    max_nodes: int
    metric: str
    target: str
    scale_up_window: str
    scale_down_window: str
    scale_down_threshold: float
    evaluation_interval: str
    cooldown_period: str
    scale_policy: ScaleFields
    def __init__(self, type: _Optional[str] = ..., walltime: _Optional[str] = ..., preemption_class: _Optional[int] = ..., requeue: _Optional[str] = ..., max_requeue: _Optional[int] = ..., no_preempt: _Optional[bool] = ..., restart: _Optional[str] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., metric: _Optional[str] = ..., target: _Optional[str] = ..., scale_up_window: _Optional[str] = ..., scale_down_window: _Optional[str] = ..., scale_down_threshold: _Optional[float] = ..., evaluation_interval: _Optional[str] = ..., cooldown_period: _Optional[str] = ..., scale_policy: _Optional[_Union[ScaleFields, _Mapping]] = ...) -> None: ...

class TaskRange(_message.Message):
    __slots__ = ("start", "end", "step", "concurrency")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    step: int
    concurrency: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., step: _Optional[int] = ..., concurrency: _Optional[int] = ...) -> None: ...

class OutputFiles(_message.Message):
    __slots__ = ("stdout", "stderr", "stdin", "mode")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    stdout: str
    stderr: str
    stdin: str
    mode: str
    def __init__(self, stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., stdin: _Optional[str] = ..., mode: _Optional[str] = ...) -> None: ...

class ExposedPort(_message.Message):
    __slots__ = ("port", "name", "protocol", "share")
    PORT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    port: int
    name: str
    protocol: str
    share: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, port: _Optional[int] = ..., name: _Optional[str] = ..., protocol: _Optional[str] = ..., share: _Optional[_Iterable[str]] = ...) -> None: ...

class NotifyRequest(_message.Message):
    __slots__ = ("on_text", "on", "to", "each_task")
    ON_TEXT_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    EACH_TASK_FIELD_NUMBER: _ClassVar[int]
    on_text: str
    on: _containers.RepeatedScalarFieldContainer[str]
    to: _containers.RepeatedScalarFieldContainer[str]
    each_task: bool
    def __init__(self, on_text: _Optional[str] = ..., on: _Optional[_Iterable[str]] = ..., to: _Optional[_Iterable[str]] = ..., each_task: _Optional[bool] = ...) -> None: ...

class TelemetryFields(_message.Message):
    __slots__ = ("mode", "duration", "interval")
    MODE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    mode: str
    duration: str
    interval: str
    def __init__(self, mode: _Optional[str] = ..., duration: _Optional[str] = ..., interval: _Optional[str] = ...) -> None: ...

class AlternativeFields(_message.Message):
    __slots__ = ("ref", "condition", "delay")
    REF_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ref: str
    condition: str
    delay: str
    def __init__(self, ref: _Optional[str] = ..., condition: _Optional[str] = ..., delay: _Optional[str] = ...) -> None: ...

class DependencyFields(_message.Message):
    __slots__ = ("ref", "condition", "delay", "any_of")
    REF_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    ref: str
    condition: str
    delay: str
    any_of: _containers.RepeatedCompositeFieldContainer[AlternativeFields]
    def __init__(self, ref: _Optional[str] = ..., condition: _Optional[str] = ..., delay: _Optional[str] = ..., any_of: _Optional[_Iterable[_Union[AlternativeFields, _Mapping]]] = ...) -> None: ...

class CheckpointFields(_message.Message):
    __slots__ = ("strategy", "protocol", "signal", "port")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    protocol: str
    signal: str
    port: int
    def __init__(self, strategy: _Optional[str] = ..., protocol: _Optional[str] = ..., signal: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class DataMount(_message.Message):
    __slots__ = ("source", "target", "access", "tier_hint")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    TIER_HINT_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    access: str
    tier_hint: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., access: _Optional[str] = ..., tier_hint: _Optional[str] = ...) -> None: ...

class StageOut(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class DataRequest(_message.Message):
    __slots__ = ("mounts", "stage_out", "scratch_per_node", "defaults", "output")
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    STAGE_OUT_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    mounts: _containers.RepeatedCompositeFieldContainer[DataMount]
    stage_out: _containers.RepeatedCompositeFieldContainer[StageOut]
    scratch_per_node: str
    defaults: bool
    output: str
    def __init__(self, mounts: _Optional[_Iterable[_Union[DataMount, _Mapping]]] = ..., stage_out: _Optional[_Iterable[_Union[StageOut, _Mapping]]] = ..., scratch_per_node: _Optional[str] = ..., defaults: _Optional[bool] = ..., output: _Optional[str] = ...) -> None: ...

class ProbeRequest(_message.Message):
    __slots__ = ("probe_type", "port", "path", "period_secs", "initial_delay_secs", "failure_threshold", "success_threshold", "timeout_secs", "command", "port_name")
    PROBE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PERIOD_SECS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_DELAY_SECS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PORT_NAME_FIELD_NUMBER: _ClassVar[int]
    probe_type: str
    port: int
    path: str
    period_secs: int
    initial_delay_secs: int
    failure_threshold: int
    success_threshold: int
    timeout_secs: int
    command: _containers.RepeatedScalarFieldContainer[str]
    port_name: str
    def __init__(self, probe_type: _Optional[str] = ..., port: _Optional[int] = ..., path: _Optional[str] = ..., period_secs: _Optional[int] = ..., initial_delay_secs: _Optional[int] = ..., failure_threshold: _Optional[int] = ..., success_threshold: _Optional[int] = ..., timeout_secs: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., port_name: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("request_id", "name", "tenant", "project", "vcluster", "tags", "entrypoint_text", "entrypoint", "script", "script_args", "environment", "uenv", "view", "tools_uenv", "scratch", "image", "container", "cwd", "submit_dir", "umask", "resources", "lifecycle", "priority", "per_node", "hold", "begin", "tasks", "tasks_object", "summary", "output", "signal", "on_quota", "idle_end", "expose", "notify", "telemetry", "depends_on_text", "depends_on", "mutex", "deadline", "keep_on_invalid_dependency", "checkpoint", "resume_from", "dry_run", "data", "liveness_probe", "readiness_probe", "startup_probe", "drain")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_UENV_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_TEXT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    MUTEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_INVALID_DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    tenant: str
    project: str
    vcluster: str
    tags: _containers.ScalarMap[str, str]
    entrypoint_text: str
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    uenv: str
    view: str
    tools_uenv: str
    scratch: str
    image: str
    container: ContainerOptions
    cwd: str
    submit_dir: str
    umask: int
    resources: Resources
    lifecycle: LifecycleRequest
    priority: str
    per_node: bool
    hold: bool
    begin: str
    tasks: str
    tasks_object: TaskRange
    summary: bool
    output: OutputFiles
    signal: str
    on_quota: str
    idle_end: str
    expose: _containers.RepeatedCompositeFieldContainer[ExposedPort]
    notify: NotifyRequest
    telemetry: TelemetryFields
    depends_on_text: str
    depends_on: _containers.RepeatedCompositeFieldContainer[DependencyFields]
    mutex: str
    deadline: str
    keep_on_invalid_dependency: bool
    checkpoint: CheckpointFields
    resume_from: str
    dry_run: bool
    data: DataRequest
    liveness_probe: ProbeRequest
    readiness_probe: ProbeRequest
    startup_probe: ProbeRequest
    drain: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., entrypoint_text: _Optional[str] = ..., entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., uenv: _Optional[str] = ..., view: _Optional[str] = ..., tools_uenv: _Optional[str] = ..., scratch: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ..., cwd: _Optional[str] = ..., submit_dir: _Optional[str] = ..., umask: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., lifecycle: _Optional[_Union[LifecycleRequest, _Mapping]] = ..., priority: _Optional[str] = ..., per_node: _Optional[bool] = ..., hold: _Optional[bool] = ..., begin: _Optional[str] = ..., tasks: _Optional[str] = ..., tasks_object: _Optional[_Union[TaskRange, _Mapping]] = ..., summary: _Optional[bool] = ..., output: _Optional[_Union[OutputFiles, _Mapping]] = ..., signal: _Optional[str] = ..., on_quota: _Optional[str] = ..., idle_end: _Optional[str] = ..., expose: _Optional[_Iterable[_Union[ExposedPort, _Mapping]]] = ..., notify: _Optional[_Union[NotifyRequest, _Mapping]] = ..., telemetry: _Optional[_Union[TelemetryFields, _Mapping]] = ..., depends_on_text: _Optional[str] = ..., depends_on: _Optional[_Iterable[_Union[DependencyFields, _Mapping]]] = ..., mutex: _Optional[str] = ..., deadline: _Optional[str] = ..., keep_on_invalid_dependency: _Optional[bool] = ..., checkpoint: _Optional[_Union[CheckpointFields, _Mapping]] = ..., resume_from: _Optional[str] = ..., dry_run: _Optional[bool] = ..., data: _Optional[_Union[DataRequest, _Mapping]] = ..., liveness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., readiness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., startup_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., drain: _Optional[str] = ...) -> None: ...

class ResourcesView(_message.Message):
    __slots__ = ("nodes", "cpus", "memory_mb", "gpus", "gpu_type", "features")
    NODES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[int] = ..., cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class RunUsageView(_message.Message):
    __slots__ = ("throttled_s", "read_bytes", "written_bytes", "peak_pids", "gpu_efficiency", "energy_kwh")
    THROTTLED_S_FIELD_NUMBER: _ClassVar[int]
    READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_PIDS_FIELD_NUMBER: _ClassVar[int]
    GPU_EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    ENERGY_KWH_FIELD_NUMBER: _ClassVar[int]
    throttled_s: float
    read_bytes: int
    written_bytes: int
    peak_pids: int
    gpu_efficiency: float
    energy_kwh: float
    def __init__(self, throttled_s: _Optional[float] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., peak_pids: _Optional[int] = ..., gpu_efficiency: _Optional[float] = ..., energy_kwh: _Optional[float] = ...) -> None: ...

class AskedView(_message.Message):
    __slots__ = ("program", "partition", "qos", "ntasks", "ntasks_per_node", "cpus_per_task", "memory_mb", "memory_per_cpu_mb", "gres", "features", "reservation", "wckey", "dependency", "array", "host")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    WCKEY_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    program: str
    partition: str
    qos: str
    ntasks: int
    ntasks_per_node: int
    cpus_per_task: int
    memory_mb: int
    memory_per_cpu_mb: int
    gres: str
    features: str
    reservation: str
    wckey: str
    dependency: str
    array: str
    host: str
    def __init__(self, program: _Optional[str] = ..., partition: _Optional[str] = ..., qos: _Optional[str] = ..., ntasks: _Optional[int] = ..., ntasks_per_node: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., memory_mb: _Optional[int] = ..., memory_per_cpu_mb: _Optional[int] = ..., gres: _Optional[str] = ..., features: _Optional[str] = ..., reservation: _Optional[str] = ..., wckey: _Optional[str] = ..., dependency: _Optional[str] = ..., array: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class ExposedView(_message.Message):
    __slots__ = ("name", "port", "protocol", "share")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: int
    protocol: str
    share: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., share: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckpointStanding(_message.Message):
    __slots__ = ("strategy", "protocol", "complete", "last_completed_at", "writing", "failures", "message", "resume_from", "signal", "port")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LAST_COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    WRITING_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    protocol: str
    complete: int
    last_completed_at: str
    writing: int
    failures: int
    message: str
    resume_from: str
    signal: str
    port: int
    def __init__(self, strategy: _Optional[str] = ..., protocol: _Optional[str] = ..., complete: _Optional[int] = ..., last_completed_at: _Optional[str] = ..., writing: _Optional[int] = ..., failures: _Optional[int] = ..., message: _Optional[str] = ..., resume_from: _Optional[str] = ..., signal: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class InstanceView(_message.Message):
    __slots__ = ("node", "phase", "revision", "ready", "restarts", "running_since", "reason", "last_cause", "last_exit_code", "last_signal", "last_message")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_SINCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LAST_CAUSE_FIELD_NUMBER: _ClassVar[int]
    LAST_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    LAST_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    LAST_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    node: str
    phase: str
    revision: int
    ready: bool
    restarts: int
    running_since: str
    reason: str
    last_cause: str
    last_exit_code: int
    last_signal: int
    last_message: str
    def __init__(self, node: _Optional[str] = ..., phase: _Optional[str] = ..., revision: _Optional[int] = ..., ready: _Optional[bool] = ..., restarts: _Optional[int] = ..., running_since: _Optional[str] = ..., reason: _Optional[str] = ..., last_cause: _Optional[str] = ..., last_exit_code: _Optional[int] = ..., last_signal: _Optional[int] = ..., last_message: _Optional[str] = ...) -> None: ...

class ScalingView(_message.Message):
    __slots__ = ("min_nodes", "max_nodes", "metric", "target", "scale_up_window_s", "scale_down_window_s", "scale_down_threshold", "evaluation_interval_s", "cooldown_period_s", "value", "decision", "reason", "evaluated_at", "scaled_at")
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_AT_FIELD_NUMBER: _ClassVar[int]
    SCALED_AT_FIELD_NUMBER: _ClassVar[int]
    min_nodes: int
    max_nodes: int
    metric: str
    target: float
    scale_up_window_s: int
    scale_down_window_s: int
    scale_down_threshold: float
    evaluation_interval_s: int
    cooldown_period_s: int
    value: float
    decision: str
    reason: str
    evaluated_at: str
    scaled_at: str
    def __init__(self, min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., metric: _Optional[str] = ..., target: _Optional[float] = ..., scale_up_window_s: _Optional[int] = ..., scale_down_window_s: _Optional[int] = ..., scale_down_threshold: _Optional[float] = ..., evaluation_interval_s: _Optional[int] = ..., cooldown_period_s: _Optional[int] = ..., value: _Optional[float] = ..., decision: _Optional[str] = ..., reason: _Optional[str] = ..., evaluated_at: _Optional[str] = ..., scaled_at: _Optional[str] = ...) -> None: ...

class ServiceView(_message.Message):
    __slots__ = ("restart", "wanted", "ready", "restarts", "reason", "instances", "revision", "scaling")
    RESTART_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCALING_FIELD_NUMBER: _ClassVar[int]
    restart: str
    wanted: int
    ready: int
    restarts: int
    reason: str
    instances: _containers.RepeatedCompositeFieldContainer[InstanceView]
    revision: int
    scaling: ScalingView
    def __init__(self, restart: _Optional[str] = ..., wanted: _Optional[int] = ..., ready: _Optional[int] = ..., restarts: _Optional[int] = ..., reason: _Optional[str] = ..., instances: _Optional[_Iterable[_Union[InstanceView, _Mapping]]] = ..., revision: _Optional[int] = ..., scaling: _Optional[_Union[ScalingView, _Mapping]] = ...) -> None: ...

class TelemetryView(_message.Message):
    __slots__ = ("mode", "interval_s", "duration_s", "until")
    MODE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    mode: str
    interval_s: float
    duration_s: int
    until: str
    def __init__(self, mode: _Optional[str] = ..., interval_s: _Optional[float] = ..., duration_s: _Optional[int] = ..., until: _Optional[str] = ...) -> None: ...

class TaskCounts(_message.Message):
    __slots__ = ("size", "pending", "running", "completed", "failed", "cancelled", "concurrency", "pending_indices")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    PENDING_INDICES_FIELD_NUMBER: _ClassVar[int]
    size: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int
    concurrency: int
    pending_indices: str
    def __init__(self, size: _Optional[int] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., completed: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., concurrency: _Optional[int] = ..., pending_indices: _Optional[str] = ...) -> None: ...

class ImageInfo(_message.Message):
    __slots__ = ("reference", "digest", "mount")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    reference: str
    digest: str
    mount: str
    def __init__(self, reference: _Optional[str] = ..., digest: _Optional[str] = ..., mount: _Optional[str] = ...) -> None: ...

class ContainerInfo(_message.Message):
    __slots__ = ("image", "digest", "mounts", "writable", "workdir", "no_home", "name")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    NO_HOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    mounts: _containers.RepeatedScalarFieldContainer[str]
    writable: bool
    workdir: str
    no_home: bool
    name: str
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., mounts: _Optional[_Iterable[str]] = ..., writable: _Optional[bool] = ..., workdir: _Optional[str] = ..., no_home: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...

class ConstraintsView(_message.Message):
    __slots__ = ("gpu_type", "gpu_count", "memory_gb", "features", "topology", "nodes", "exclude", "require_unified_memory", "allow_cxl_memory", "require_conformance", "storage_gbps", "prefer_same_numa", "prefer_local_memory", "memory_policy")
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_UNIFIED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_CXL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_CONFORMANCE_FIELD_NUMBER: _ClassVar[int]
    STORAGE_GBPS_FIELD_NUMBER: _ClassVar[int]
    PREFER_SAME_NUMA_FIELD_NUMBER: _ClassVar[int]
    PREFER_LOCAL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_POLICY_FIELD_NUMBER: _ClassVar[int]
    gpu_type: str
    gpu_count: int
    memory_gb: float
    features: _containers.RepeatedScalarFieldContainer[str]
    topology: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    exclude: _containers.RepeatedScalarFieldContainer[str]
    require_unified_memory: bool
    allow_cxl_memory: bool
    require_conformance: bool
    storage_gbps: float
    prefer_same_numa: bool
    prefer_local_memory: bool
    memory_policy: str
    def __init__(self, gpu_type: _Optional[str] = ..., gpu_count: _Optional[int] = ..., memory_gb: _Optional[float] = ..., features: _Optional[_Iterable[str]] = ..., topology: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., exclude: _Optional[_Iterable[str]] = ..., require_unified_memory: _Optional[bool] = ..., allow_cxl_memory: _Optional[bool] = ..., require_conformance: _Optional[bool] = ..., storage_gbps: _Optional[float] = ..., prefer_same_numa: _Optional[bool] = ..., prefer_local_memory: _Optional[bool] = ..., memory_policy: _Optional[str] = ...) -> None: ...

class ProbeView(_message.Message):
    __slots__ = ("kind", "type", "port", "path", "period_s", "initial_delay_s", "timeout_s", "failure_threshold", "success_threshold", "command", "port_name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    INITIAL_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    FAILURE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PORT_NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    type: str
    port: int
    path: str
    period_s: float
    initial_delay_s: float
    timeout_s: float
    failure_threshold: int
    success_threshold: int
    command: _containers.RepeatedScalarFieldContainer[str]
    port_name: str
    def __init__(self, kind: _Optional[str] = ..., type: _Optional[str] = ..., port: _Optional[int] = ..., path: _Optional[str] = ..., period_s: _Optional[float] = ..., initial_delay_s: _Optional[float] = ..., timeout_s: _Optional[float] = ..., failure_threshold: _Optional[int] = ..., success_threshold: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., port_name: _Optional[str] = ...) -> None: ...

class AskedDetailsView(_message.Message):
    __slots__ = ("comment", "command", "arguments", "work_dir", "stdin", "stdout", "stderr")
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    comment: str
    command: str
    arguments: str
    work_dir: str
    stdin: str
    stdout: str
    stderr: str
    def __init__(self, comment: _Optional[str] = ..., command: _Optional[str] = ..., arguments: _Optional[str] = ..., work_dir: _Optional[str] = ..., stdin: _Optional[str] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ...) -> None: ...

class DataView(_message.Message):
    __slots__ = ("source", "target", "access", "tier", "state", "bytes_done", "bytes_total", "percent", "bytes_per_s", "seconds_left", "reason")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    access: str
    tier: str
    state: str
    bytes_done: int
    bytes_total: int
    percent: float
    bytes_per_s: float
    seconds_left: float
    reason: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., access: _Optional[str] = ..., tier: _Optional[str] = ..., state: _Optional[str] = ..., bytes_done: _Optional[int] = ..., bytes_total: _Optional[int] = ..., percent: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., seconds_left: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class StageOutView(_message.Message):
    __slots__ = ("source", "target", "made")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    made: bool
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., made: _Optional[bool] = ...) -> None: ...

class DetailsView(_message.Message):
    __slots__ = ("entrypoint", "script", "script_args", "environment", "cwd", "submit_dir", "umask", "uenv", "view", "container", "max_nodes", "constraints", "exclusive", "per_node", "notify_on", "notify_to", "output", "signal", "summary", "scratch_mb", "drain_s", "probes", "slurm", "data", "stage_out", "no_defaults", "notify_each_task")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_ON_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_TO_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_MB_FIELD_NUMBER: _ClassVar[int]
    DRAIN_S_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    SLURM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    STAGE_OUT_FIELD_NUMBER: _ClassVar[int]
    NO_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_EACH_TASK_FIELD_NUMBER: _ClassVar[int]
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    cwd: str
    submit_dir: str
    umask: str
    uenv: _containers.RepeatedCompositeFieldContainer[ImageInfo]
    view: _containers.RepeatedScalarFieldContainer[str]
    container: ContainerInfo
    max_nodes: int
    constraints: ConstraintsView
    exclusive: bool
    per_node: bool
    notify_on: _containers.RepeatedScalarFieldContainer[str]
    notify_to: _containers.RepeatedScalarFieldContainer[str]
    output: OutputFiles
    signal: str
    summary: bool
    scratch_mb: int
    drain_s: float
    probes: _containers.RepeatedCompositeFieldContainer[ProbeView]
    slurm: AskedDetailsView
    data: _containers.RepeatedCompositeFieldContainer[DataView]
    stage_out: _containers.RepeatedCompositeFieldContainer[StageOutView]
    no_defaults: bool
    notify_each_task: bool
    def __init__(self, entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., submit_dir: _Optional[str] = ..., umask: _Optional[str] = ..., uenv: _Optional[_Iterable[_Union[ImageInfo, _Mapping]]] = ..., view: _Optional[_Iterable[str]] = ..., container: _Optional[_Union[ContainerInfo, _Mapping]] = ..., max_nodes: _Optional[int] = ..., constraints: _Optional[_Union[ConstraintsView, _Mapping]] = ..., exclusive: _Optional[bool] = ..., per_node: _Optional[bool] = ..., notify_on: _Optional[_Iterable[str]] = ..., notify_to: _Optional[_Iterable[str]] = ..., output: _Optional[_Union[OutputFiles, _Mapping]] = ..., signal: _Optional[str] = ..., summary: _Optional[bool] = ..., scratch_mb: _Optional[int] = ..., drain_s: _Optional[float] = ..., probes: _Optional[_Iterable[_Union[ProbeView, _Mapping]]] = ..., slurm: _Optional[_Union[AskedDetailsView, _Mapping]] = ..., data: _Optional[_Iterable[_Union[DataView, _Mapping]]] = ..., stage_out: _Optional[_Iterable[_Union[StageOutView, _Mapping]]] = ..., no_defaults: _Optional[bool] = ..., notify_each_task: _Optional[bool] = ...) -> None: ...

class AllocationView(_message.Message):
    __slots__ = ("id", "number", "name", "state", "reason", "cause", "message", "exit_code", "signal", "nodes", "node_count", "user", "tenant", "project", "vcluster", "preemption_class", "walltime_s", "elapsed_s", "submitted_at", "started_at", "completed_at", "eligible_at", "hold", "lifecycle", "requeue", "max_requeue", "requeue_count", "restart_count", "step_count", "run", "resources", "tags", "group_id", "task_index", "cpu_s", "peak_memory_mb", "cpu_efficiency", "memory_efficiency", "archived", "ending", "usage", "used", "suspended", "depends_on", "waits_for", "mutex", "deadline", "dag_id", "avoided", "slurm", "session", "idle_end_s", "no_preempt", "preempted", "expose", "checkpoint", "service", "telemetry", "tasks", "details", "warnings", "chosen_by", "cleared")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_CLASS_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_AT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    STEP_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    CPU_EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    MUTEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DAG_ID_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    SLURM_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_S_FIELD_NUMBER: _ClassVar[int]
    NO_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_BY_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    name: str
    state: str
    reason: str
    cause: str
    message: str
    exit_code: int
    signal: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    node_count: int
    user: str
    tenant: str
    project: str
    vcluster: str
    preemption_class: int
    walltime_s: int
    elapsed_s: int
    submitted_at: str
    started_at: str
    completed_at: str
    eligible_at: str
    hold: str
    lifecycle: str
    requeue: str
    max_requeue: int
    requeue_count: int
    restart_count: int
    step_count: int
    run: int
    resources: ResourcesView
    tags: _containers.ScalarMap[str, str]
    group_id: str
    task_index: int
    cpu_s: float
    peak_memory_mb: int
    cpu_efficiency: float
    memory_efficiency: float
    archived: bool
    ending: str
    usage: RunUsageView
    used: str
    suspended: bool
    depends_on: str
    waits_for: str
    mutex: str
    deadline: str
    dag_id: str
    avoided: _containers.RepeatedScalarFieldContainer[str]
    slurm: AskedView
    session: bool
    idle_end_s: int
    no_preempt: bool
    preempted: int
    expose: _containers.RepeatedCompositeFieldContainer[ExposedView]
    checkpoint: CheckpointStanding
    service: ServiceView
    telemetry: TelemetryView
    tasks: TaskCounts
    details: DetailsView
    warnings: _containers.RepeatedScalarFieldContainer[str]
    chosen_by: str
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., cause: _Optional[str] = ..., message: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., node_count: _Optional[int] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., preemption_class: _Optional[int] = ..., walltime_s: _Optional[int] = ..., elapsed_s: _Optional[int] = ..., submitted_at: _Optional[str] = ..., started_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., eligible_at: _Optional[str] = ..., hold: _Optional[str] = ..., lifecycle: _Optional[str] = ..., requeue: _Optional[str] = ..., max_requeue: _Optional[int] = ..., requeue_count: _Optional[int] = ..., restart_count: _Optional[int] = ..., step_count: _Optional[int] = ..., run: _Optional[int] = ..., resources: _Optional[_Union[ResourcesView, _Mapping]] = ..., tags: _Optional[_Mapping[str, str]] = ..., group_id: _Optional[str] = ..., task_index: _Optional[int] = ..., cpu_s: _Optional[float] = ..., peak_memory_mb: _Optional[int] = ..., cpu_efficiency: _Optional[float] = ..., memory_efficiency: _Optional[float] = ..., archived: _Optional[bool] = ..., ending: _Optional[str] = ..., usage: _Optional[_Union[RunUsageView, _Mapping]] = ..., used: _Optional[str] = ..., suspended: _Optional[bool] = ..., depends_on: _Optional[str] = ..., waits_for: _Optional[str] = ..., mutex: _Optional[str] = ..., deadline: _Optional[str] = ..., dag_id: _Optional[str] = ..., avoided: _Optional[_Iterable[str]] = ..., slurm: _Optional[_Union[AskedView, _Mapping]] = ..., session: _Optional[bool] = ..., idle_end_s: _Optional[int] = ..., no_preempt: _Optional[bool] = ..., preempted: _Optional[int] = ..., expose: _Optional[_Iterable[_Union[ExposedView, _Mapping]]] = ..., checkpoint: _Optional[_Union[CheckpointStanding, _Mapping]] = ..., service: _Optional[_Union[ServiceView, _Mapping]] = ..., telemetry: _Optional[_Union[TelemetryView, _Mapping]] = ..., tasks: _Optional[_Union[TaskCounts, _Mapping]] = ..., details: _Optional[_Union[DetailsView, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., chosen_by: _Optional[str] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class CandidatesView(_message.Message):
    __slots__ = ("could_take", "protected", "text")
    class ProtectedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COULD_TAKE_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    could_take: int
    protected: _containers.ScalarMap[str, int]
    text: str
    def __init__(self, could_take: _Optional[int] = ..., protected: _Optional[_Mapping[str, int]] = ..., text: _Optional[str] = ...) -> None: ...

class StandingView(_message.Message):
    __slots__ = ("is_protected", "safe_until", "cost_hours", "unit", "text", "notice_s")
    IS_PROTECTED_FIELD_NUMBER: _ClassVar[int]
    SAFE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    COST_HOURS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NOTICE_S_FIELD_NUMBER: _ClassVar[int]
    is_protected: bool
    safe_until: str
    cost_hours: float
    unit: str
    text: str
    notice_s: int
    def __init__(self, is_protected: _Optional[bool] = ..., safe_until: _Optional[str] = ..., cost_hours: _Optional[float] = ..., unit: _Optional[str] = ..., text: _Optional[str] = ..., notice_s: _Optional[int] = ...) -> None: ...

class PenaltyView(_message.Message):
    __slots__ = ("factor", "text")
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    factor: float
    text: str
    def __init__(self, factor: _Optional[float] = ..., text: _Optional[str] = ...) -> None: ...

class PredictionView(_message.Message):
    __slots__ = ("at", "start")
    AT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    at: str
    start: str
    def __init__(self, at: _Optional[str] = ..., start: _Optional[str] = ...) -> None: ...

class ExplanationView(_message.Message):
    __slots__ = ("id", "state", "reason", "scores", "rank", "predicted_start", "predicted_nodes", "vcluster", "chosen_by", "warnings", "preemption", "standing", "penalty", "predictions", "images", "cleared")
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_START_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_NODES_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_BY_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    PENALTY_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    reason: str
    scores: _containers.ScalarMap[str, float]
    rank: int
    predicted_start: str
    predicted_nodes: _containers.RepeatedScalarFieldContainer[str]
    vcluster: str
    chosen_by: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    preemption: CandidatesView
    standing: StandingView
    penalty: PenaltyView
    predictions: _containers.RepeatedCompositeFieldContainer[PredictionView]
    images: str
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., scores: _Optional[_Mapping[str, float]] = ..., rank: _Optional[int] = ..., predicted_start: _Optional[str] = ..., predicted_nodes: _Optional[_Iterable[str]] = ..., vcluster: _Optional[str] = ..., chosen_by: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., preemption: _Optional[_Union[CandidatesView, _Mapping]] = ..., standing: _Optional[_Union[StandingView, _Mapping]] = ..., penalty: _Optional[_Union[PenaltyView, _Mapping]] = ..., predictions: _Optional[_Iterable[_Union[PredictionView, _Mapping]]] = ..., images: _Optional[str] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("allocation", "explanation")
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    allocation: AllocationView
    explanation: ExplanationView
    def __init__(self, allocation: _Optional[_Union[AllocationView, _Mapping]] = ..., explanation: _Optional[_Union[ExplanationView, _Mapping]] = ...) -> None: ...

class Submission(_message.Message):
    __slots__ = ("request_id", "name", "tenant", "project", "vcluster", "tags", "entrypoint_text", "entrypoint", "script", "script_args", "environment", "uenv", "view", "tools_uenv", "scratch", "image", "container", "cwd", "submit_dir", "umask", "resources", "lifecycle", "priority", "per_node", "hold", "begin", "tasks", "tasks_object", "summary", "output", "signal", "on_quota", "idle_end", "expose", "notify", "telemetry", "depends_on_text", "depends_on", "mutex", "deadline", "keep_on_invalid_dependency", "checkpoint", "resume_from", "dry_run", "data", "liveness_probe", "readiness_probe", "startup_probe", "drain")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_UENV_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_TEXT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    MUTEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_INVALID_DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    tenant: str
    project: str
    vcluster: str
    tags: _containers.ScalarMap[str, str]
    entrypoint_text: str
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    uenv: str
    view: str
    tools_uenv: str
    scratch: str
    image: str
    container: ContainerOptions
    cwd: str
    submit_dir: str
    umask: int
    resources: Resources
    lifecycle: LifecycleRequest
    priority: str
    per_node: bool
    hold: bool
    begin: str
    tasks: str
    tasks_object: TaskRange
    summary: bool
    output: OutputFiles
    signal: str
    on_quota: str
    idle_end: str
    expose: _containers.RepeatedCompositeFieldContainer[ExposedPort]
    notify: NotifyRequest
    telemetry: TelemetryFields
    depends_on_text: str
    depends_on: _containers.RepeatedCompositeFieldContainer[DependencyFields]
    mutex: str
    deadline: str
    keep_on_invalid_dependency: bool
    checkpoint: CheckpointFields
    resume_from: str
    dry_run: bool
    data: DataRequest
    liveness_probe: ProbeRequest
    readiness_probe: ProbeRequest
    startup_probe: ProbeRequest
    drain: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., entrypoint_text: _Optional[str] = ..., entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., uenv: _Optional[str] = ..., view: _Optional[str] = ..., tools_uenv: _Optional[str] = ..., scratch: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ..., cwd: _Optional[str] = ..., submit_dir: _Optional[str] = ..., umask: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., lifecycle: _Optional[_Union[LifecycleRequest, _Mapping]] = ..., priority: _Optional[str] = ..., per_node: _Optional[bool] = ..., hold: _Optional[bool] = ..., begin: _Optional[str] = ..., tasks: _Optional[str] = ..., tasks_object: _Optional[_Union[TaskRange, _Mapping]] = ..., summary: _Optional[bool] = ..., output: _Optional[_Union[OutputFiles, _Mapping]] = ..., signal: _Optional[str] = ..., on_quota: _Optional[str] = ..., idle_end: _Optional[str] = ..., expose: _Optional[_Iterable[_Union[ExposedPort, _Mapping]]] = ..., notify: _Optional[_Union[NotifyRequest, _Mapping]] = ..., telemetry: _Optional[_Union[TelemetryFields, _Mapping]] = ..., depends_on_text: _Optional[str] = ..., depends_on: _Optional[_Iterable[_Union[DependencyFields, _Mapping]]] = ..., mutex: _Optional[str] = ..., deadline: _Optional[str] = ..., keep_on_invalid_dependency: _Optional[bool] = ..., checkpoint: _Optional[_Union[CheckpointFields, _Mapping]] = ..., resume_from: _Optional[str] = ..., dry_run: _Optional[bool] = ..., data: _Optional[_Union[DataRequest, _Mapping]] = ..., liveness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., readiness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., startup_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., drain: _Optional[str] = ...) -> None: ...

class SubmitBatchRequest(_message.Message):
    __slots__ = ("submissions", "request_id")
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    submissions: _containers.RepeatedCompositeFieldContainer[Submission]
    request_id: str
    def __init__(self, submissions: _Optional[_Iterable[_Union[Submission, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ErrorView(_message.Message):
    __slots__ = ("code", "message", "current", "requested", "limit", "hint")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    current: str
    requested: str
    limit: str
    hint: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., current: _Optional[str] = ..., requested: _Optional[str] = ..., limit: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class BatchAnswer(_message.Message):
    __slots__ = ("ok", "allocation", "error")
    OK_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    allocation: AllocationView
    error: ErrorView
    def __init__(self, ok: _Optional[bool] = ..., allocation: _Optional[_Union[AllocationView, _Mapping]] = ..., error: _Optional[_Union[ErrorView, _Mapping]] = ...) -> None: ...

class BatchAnswers(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[BatchAnswer]
    def __init__(self, items: _Optional[_Iterable[_Union[BatchAnswer, _Mapping]]] = ...) -> None: ...

class ListAllocationsRequest(_message.Message):
    __slots__ = ("state", "user", "tenant", "vcluster", "project", "name", "group", "tag", "node", "all", "tasks", "since", "until", "limit", "cursor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    user: str
    tenant: str
    vcluster: str
    project: str
    name: str
    group: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    node: str
    all: bool
    tasks: bool
    since: str
    until: str
    limit: int
    cursor: str
    def __init__(self, state: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., vcluster: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., group: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., all: _Optional[bool] = ..., tasks: _Optional[bool] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListAllocationsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AllocationView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[AllocationView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CountAllocationsRequest(_message.Message):
    __slots__ = ("state", "user", "tenant", "vcluster", "project", "name", "group", "tag", "node", "all", "tasks", "since", "until", "limit", "cursor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    user: str
    tenant: str
    vcluster: str
    project: str
    name: str
    group: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    node: str
    all: bool
    tasks: bool
    since: str
    until: str
    limit: int
    cursor: str
    def __init__(self, state: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., vcluster: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., group: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., all: _Optional[bool] = ..., tasks: _Optional[bool] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("total", "states")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    total: int
    states: _containers.ScalarMap[str, int]
    def __init__(self, total: _Optional[int] = ..., states: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CancelManyRequest(_message.Message):
    __slots__ = ("ids", "states", "all_mine", "project", "tag", "name", "vcluster", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ALL_MINE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    all_mine: bool
    project: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    name: str
    vcluster: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ..., all_mine: _Optional[bool] = ..., project: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., vcluster: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelAnswer(_message.Message):
    __slots__ = ("id", "ok", "error")
    class ErrorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    ok: bool
    error: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., ok: _Optional[bool] = ..., error: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CancelAnswers(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CancelAnswer]
    def __init__(self, items: _Optional[_Iterable[_Union[CancelAnswer, _Mapping]]] = ...) -> None: ...

class RunningMetricsRequest(_message.Message):
    __slots__ = ("all", "duration", "metric")
    ALL_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    all: bool
    duration: str
    metric: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, all: _Optional[bool] = ..., duration: _Optional[str] = ..., metric: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricPoint(_message.Message):
    __slots__ = ("at", "length_s", "mean", "p50", "p95", "p99", "max", "count")
    AT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    at: str
    length_s: float
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int
    def __init__(self, at: _Optional[str] = ..., length_s: _Optional[float] = ..., mean: _Optional[float] = ..., p50: _Optional[float] = ..., p95: _Optional[float] = ..., p99: _Optional[float] = ..., max: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

class MetricRow(_message.Message):
    __slots__ = ("metric", "unit", "node", "device", "now", "mean", "max", "count", "points")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    metric: str
    unit: str
    node: str
    device: str
    now: float
    mean: float
    max: float
    count: int
    points: _containers.RepeatedCompositeFieldContainer[MetricPoint]
    def __init__(self, metric: _Optional[str] = ..., unit: _Optional[str] = ..., node: _Optional[str] = ..., device: _Optional[str] = ..., now: _Optional[float] = ..., mean: _Optional[float] = ..., max: _Optional[float] = ..., count: _Optional[int] = ..., points: _Optional[_Iterable[_Union[MetricPoint, _Mapping]]] = ...) -> None: ...

class RunningMetrics(_message.Message):
    __slots__ = ("id", "name", "user", "nodes", "age_s", "items")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    user: str
    nodes: int
    age_s: float
    items: _containers.RepeatedCompositeFieldContainer[MetricRow]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., nodes: _Optional[int] = ..., age_s: _Optional[float] = ..., items: _Optional[_Iterable[_Union[MetricRow, _Mapping]]] = ...) -> None: ...

class RunningMetricsView(_message.Message):
    __slots__ = ("source", "note", "items", "left_out")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    source: str
    note: str
    items: _containers.RepeatedCompositeFieldContainer[RunningMetrics]
    left_out: int
    def __init__(self, source: _Optional[str] = ..., note: _Optional[str] = ..., items: _Optional[_Iterable[_Union[RunningMetrics, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class GetAllocationRequest(_message.Message):
    __slots__ = ("id", "details")
    ID_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    id: str
    details: bool
    def __init__(self, id: _Optional[str] = ..., details: _Optional[bool] = ...) -> None: ...

class ExplanationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("id", "timeout")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    id: str
    timeout: float
    def __init__(self, id: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("id", "stream", "tail", "node", "run", "since", "until", "timestamps", "offset", "limit")
    ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    id: str
    stream: str
    tail: int
    node: str
    run: int
    since: str
    until: str
    timestamps: bool
    offset: int
    limit: int
    def __init__(self, id: _Optional[str] = ..., stream: _Optional[str] = ..., tail: _Optional[int] = ..., node: _Optional[str] = ..., run: _Optional[int] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., timestamps: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class TextPiece(_message.Message):
    __slots__ = ("data", "dropped")
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    dropped: int
    def __init__(self, data: _Optional[bytes] = ..., dropped: _Optional[int] = ...) -> None: ...

class DeleteLogsRequest(_message.Message):
    __slots__ = ("id", "run", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    run: int
    request_id: str
    def __init__(self, id: _Optional[str] = ..., run: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class LogsDeleted(_message.Message):
    __slots__ = ("id", "objects")
    ID_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    objects: int
    def __init__(self, id: _Optional[str] = ..., objects: _Optional[int] = ...) -> None: ...

class StreamLogsRequest(_message.Message):
    __slots__ = ("id", "stream", "tail", "node", "run", "since", "until", "timestamps", "offset", "limit", "last_event_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    stream: str
    tail: int
    node: str
    run: int
    since: str
    until: str
    timestamps: bool
    offset: int
    limit: int
    last_event_id: str
    def __init__(self, id: _Optional[str] = ..., stream: _Optional[str] = ..., tail: _Optional[int] = ..., node: _Optional[str] = ..., run: _Optional[int] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., timestamps: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., last_event_id: _Optional[str] = ...) -> None: ...

class PieceView(_message.Message):
    __slots__ = ("node", "stream", "offset", "data", "data_b64")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_B64_FIELD_NUMBER: _ClassVar[int]
    node: str
    stream: str
    offset: int
    data: str
    data_b64: str
    def __init__(self, node: _Optional[str] = ..., stream: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[str] = ..., data_b64: _Optional[str] = ...) -> None: ...

class Restart(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: int
    def __init__(self, run: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("state", "exit_code")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    state: str
    exit_code: int
    def __init__(self, state: _Optional[str] = ..., exit_code: _Optional[int] = ...) -> None: ...

class StreamLogsResponse(_message.Message):
    __slots__ = ("event_id", "event", "piece", "restart", "end")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    event: str
    piece: PieceView
    restart: Restart
    end: End
    def __init__(self, event_id: _Optional[str] = ..., event: _Optional[str] = ..., piece: _Optional[_Union[PieceView, _Mapping]] = ..., restart: _Optional[_Union[Restart, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("id", "request_id", "node", "command", "argv", "environment", "cwd", "rows", "columns", "keep", "ends_allocation")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    ENDS_ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    node: str
    command: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    cwd: str
    rows: int
    columns: int
    keep: bool
    ends_allocation: bool
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., node: _Optional[str] = ..., command: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., keep: _Optional[bool] = ..., ends_allocation: _Optional[bool] = ...) -> None: ...

class NodeRanks(_message.Message):
    __slots__ = ("node", "tasks", "ranks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    tasks: int
    ranks: str
    def __init__(self, node: _Optional[str] = ..., tasks: _Optional[int] = ..., ranks: _Optional[str] = ...) -> None: ...

class StepInfo(_message.Message):
    __slots__ = ("id", "allocation", "step", "run", "state", "name", "tasks", "nodes", "layout", "started_at", "ended_at", "exit_code", "lost", "message", "cpu_s", "peak_memory_mb", "codes", "launch_id", "usage", "cause", "is_terminal", "read_only", "watchers")
    class CodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    CODES_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    IS_TERMINAL_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    WATCHERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation: str
    step: int
    run: int
    state: str
    name: str
    tasks: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    layout: _containers.RepeatedCompositeFieldContainer[NodeRanks]
    started_at: str
    ended_at: str
    exit_code: int
    lost: int
    message: str
    cpu_s: float
    peak_memory_mb: int
    codes: _containers.ScalarMap[str, int]
    launch_id: str
    usage: RunUsageView
    cause: str
    is_terminal: bool
    read_only: bool
    watchers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., allocation: _Optional[str] = ..., step: _Optional[int] = ..., run: _Optional[int] = ..., state: _Optional[str] = ..., name: _Optional[str] = ..., tasks: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., layout: _Optional[_Iterable[_Union[NodeRanks, _Mapping]]] = ..., started_at: _Optional[str] = ..., ended_at: _Optional[str] = ..., exit_code: _Optional[int] = ..., lost: _Optional[int] = ..., message: _Optional[str] = ..., cpu_s: _Optional[float] = ..., peak_memory_mb: _Optional[int] = ..., codes: _Optional[_Mapping[str, int]] = ..., launch_id: _Optional[str] = ..., usage: _Optional[_Union[RunUsageView, _Mapping]] = ..., cause: _Optional[str] = ..., is_terminal: _Optional[bool] = ..., read_only: _Optional[bool] = ..., watchers: _Optional[_Iterable[str]] = ...) -> None: ...

class ShareTerminalRequest(_message.Message):
    __slots__ = ("id", "step", "user", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    user: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnshareTerminalRequest(_message.Message):
    __slots__ = ("id", "step", "user", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    user: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListPortsRequest(_message.Message):
    __slots__ = ("id", "node")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class PortView(_message.Message):
    __slots__ = ("port", "node", "address", "program", "pid", "name")
    PORT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    port: int
    node: str
    address: str
    program: str
    pid: int
    name: str
    def __init__(self, port: _Optional[int] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., program: _Optional[str] = ..., pid: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class ListPortsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PortView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[PortView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ConnectPortRequest(_message.Message):
    __slots__ = ("id", "port", "node")
    ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    id: str
    port: str
    node: str
    def __init__(self, id: _Optional[str] = ..., port: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class OpenPortRequest(_message.Message):
    __slots__ = ("id", "port", "request_id", "node", "path", "keep_path")
    ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEEP_PATH_FIELD_NUMBER: _ClassVar[int]
    id: str
    port: str
    request_id: str
    node: str
    path: str
    keep_path: bool
    def __init__(self, id: _Optional[str] = ..., port: _Optional[str] = ..., request_id: _Optional[str] = ..., node: _Optional[str] = ..., path: _Optional[str] = ..., keep_path: _Optional[bool] = ...) -> None: ...

class OpenedPort(_message.Message):
    __slots__ = ("url", "port", "node", "expires_in_s")
    URL_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_S_FIELD_NUMBER: _ClassVar[int]
    url: str
    port: int
    node: str
    expires_in_s: float
    def __init__(self, url: _Optional[str] = ..., port: _Optional[int] = ..., node: _Optional[str] = ..., expires_in_s: _Optional[float] = ...) -> None: ...

class ProgramFields(_message.Message):
    __slots__ = ("ranks", "argv")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ranks: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ranks: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ...) -> None: ...

class LaunchStepRequest(_message.Message):
    __slots__ = ("id", "request_id", "argv", "programs", "tasks", "nodes", "tasks_per_node", "cpus_per_task", "node_list", "distribution", "overcommit", "environment", "inherit_environment", "cwd", "input", "output", "error", "pty", "rows", "columns", "no_kill", "overlap", "immediate", "time", "pmi", "fence_timeout", "cpu_bind", "gpu_bind", "gpus_per_task", "task_prologue", "image", "container")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    OVERCOMMIT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    INHERIT_ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NO_KILL_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PMI_FIELD_NUMBER: _ClassVar[int]
    FENCE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CPU_BIND_FIELD_NUMBER: _ClassVar[int]
    GPU_BIND_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    TASK_PROLOGUE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    programs: _containers.RepeatedCompositeFieldContainer[ProgramFields]
    tasks: int
    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    node_list: _containers.RepeatedScalarFieldContainer[str]
    distribution: str
    overcommit: bool
    environment: _containers.ScalarMap[str, str]
    inherit_environment: bool
    cwd: str
    input: str
    output: str
    error: str
    pty: bool
    rows: int
    columns: int
    no_kill: bool
    overlap: bool
    immediate: bool
    time: str
    pmi: str
    fence_timeout: str
    cpu_bind: str
    gpu_bind: str
    gpus_per_task: int
    task_prologue: str
    image: str
    container: ContainerOptions
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., programs: _Optional[_Iterable[_Union[ProgramFields, _Mapping]]] = ..., tasks: _Optional[int] = ..., nodes: _Optional[int] = ..., tasks_per_node: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., node_list: _Optional[_Iterable[str]] = ..., distribution: _Optional[str] = ..., overcommit: _Optional[bool] = ..., environment: _Optional[_Mapping[str, str]] = ..., inherit_environment: _Optional[bool] = ..., cwd: _Optional[str] = ..., input: _Optional[str] = ..., output: _Optional[str] = ..., error: _Optional[str] = ..., pty: _Optional[bool] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., no_kill: _Optional[bool] = ..., overlap: _Optional[bool] = ..., immediate: _Optional[bool] = ..., time: _Optional[str] = ..., pmi: _Optional[str] = ..., fence_timeout: _Optional[str] = ..., cpu_bind: _Optional[str] = ..., gpu_bind: _Optional[str] = ..., gpus_per_task: _Optional[int] = ..., task_prologue: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ...) -> None: ...

class ListStepsRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListStepsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StepInfo]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[StepInfo, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetStepRequest(_message.Message):
    __slots__ = ("id", "step")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class FollowStepRequest(_message.Message):
    __slots__ = ("id", "step", "last_event_id", "screen")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SCREEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    last_event_id: str
    screen: bool
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., last_event_id: _Optional[str] = ..., screen: _Optional[bool] = ...) -> None: ...

class StepOutput(_message.Message):
    __slots__ = ("node", "next", "data")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    node: int
    next: int
    data: str
    def __init__(self, node: _Optional[int] = ..., next: _Optional[int] = ..., data: _Optional[str] = ...) -> None: ...

class StepScreen(_message.Message):
    __slots__ = ("node", "next", "data", "rows", "columns")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    node: int
    next: int
    data: str
    rows: int
    columns: int
    def __init__(self, node: _Optional[int] = ..., next: _Optional[int] = ..., data: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class StepGap(_message.Message):
    __slots__ = ("node", "next", "bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    next: int
    bytes: int
    def __init__(self, node: _Optional[int] = ..., next: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class StepNotice(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("exit_code", "lost", "message", "failures")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    lost: int
    message: str
    failures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, exit_code: _Optional[int] = ..., lost: _Optional[int] = ..., message: _Optional[str] = ..., failures: _Optional[_Iterable[str]] = ...) -> None: ...

class FollowStepResponse(_message.Message):
    __slots__ = ("event_id", "event", "step_info", "step_output", "step_screen", "step_gap", "step_notice", "step_result")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STEP_INFO_FIELD_NUMBER: _ClassVar[int]
    STEP_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    STEP_SCREEN_FIELD_NUMBER: _ClassVar[int]
    STEP_GAP_FIELD_NUMBER: _ClassVar[int]
    STEP_NOTICE_FIELD_NUMBER: _ClassVar[int]
    STEP_RESULT_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    event: str
    step_info: StepInfo
    step_output: StepOutput
    step_screen: StepScreen
    step_gap: StepGap
    step_notice: StepNotice
    step_result: StepResult
    def __init__(self, event_id: _Optional[str] = ..., event: _Optional[str] = ..., step_info: _Optional[_Union[StepInfo, _Mapping]] = ..., step_output: _Optional[_Union[StepOutput, _Mapping]] = ..., step_screen: _Optional[_Union[StepScreen, _Mapping]] = ..., step_gap: _Optional[_Union[StepGap, _Mapping]] = ..., step_notice: _Optional[_Union[StepNotice, _Mapping]] = ..., step_result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class FeedStepRequest(_message.Message):
    __slots__ = ("id", "step", "client", "task", "offset", "data", "eof", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    client: str
    task: int
    offset: int
    data: str
    eof: bool
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., client: _Optional[str] = ..., task: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[str] = ..., eof: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class InputTaken(_message.Message):
    __slots__ = ("upto", "waiting")
    UPTO_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    upto: int
    waiting: bool
    def __init__(self, upto: _Optional[int] = ..., waiting: _Optional[bool] = ...) -> None: ...

class SignalStepRequest(_message.Message):
    __slots__ = ("id", "step", "signal", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    signal: int
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., signal: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResizeStepRequest(_message.Message):
    __slots__ = ("id", "step", "client", "rows", "columns", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    client: str
    rows: int
    columns: int
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., client: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class EndStepRequest(_message.Message):
    __slots__ = ("id", "step", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    request_id: str
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class LiveUsageRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GroupUseView(_message.Message):
    __slots__ = ("node", "step", "cpu_s", "throttled_s", "memory_mb", "peak_memory_mb", "read_bytes", "written_bytes", "pids", "peak_pids", "cpus", "gpus")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    PEAK_PIDS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    step: int
    cpu_s: float
    throttled_s: float
    memory_mb: float
    peak_memory_mb: float
    read_bytes: int
    written_bytes: int
    pids: int
    peak_pids: int
    cpus: _containers.RepeatedScalarFieldContainer[int]
    gpus: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[str] = ..., step: _Optional[int] = ..., cpu_s: _Optional[float] = ..., throttled_s: _Optional[float] = ..., memory_mb: _Optional[float] = ..., peak_memory_mb: _Optional[float] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., peak_pids: _Optional[int] = ..., cpus: _Optional[_Iterable[int]] = ..., gpus: _Optional[_Iterable[int]] = ...) -> None: ...

class LiveUsageView(_message.Message):
    __slots__ = ("id", "items", "unreachable")
    ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    items: _containers.RepeatedCompositeFieldContainer[GroupUseView]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[GroupUseView, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryMetricsRequest(_message.Message):
    __slots__ = ("id", "mode", "duration", "metric", "points")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    mode: str
    duration: str
    metric: _containers.RepeatedScalarFieldContainer[str]
    points: bool
    def __init__(self, id: _Optional[str] = ..., mode: _Optional[str] = ..., duration: _Optional[str] = ..., metric: _Optional[_Iterable[str]] = ..., points: _Optional[bool] = ...) -> None: ...

class MetricsView(_message.Message):
    __slots__ = ("id", "source", "note", "read", "missing", "mode", "resolution_s", "age_s", "items", "unreachable")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_S_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    source: str
    note: str
    read: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    mode: str
    resolution_s: float
    age_s: float
    items: _containers.RepeatedCompositeFieldContainer[MetricRow]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., source: _Optional[str] = ..., note: _Optional[str] = ..., read: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ..., mode: _Optional[str] = ..., resolution_s: _Optional[float] = ..., age_s: _Optional[float] = ..., items: _Optional[_Iterable[_Union[MetricRow, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamMetricsRequest(_message.Message):
    __slots__ = ("id", "metric", "alerts_only", "history")
    ID_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    ALERTS_ONLY_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    id: str
    metric: _containers.RepeatedScalarFieldContainer[str]
    alerts_only: bool
    history: str
    def __init__(self, id: _Optional[str] = ..., metric: _Optional[_Iterable[str]] = ..., alerts_only: _Optional[bool] = ..., history: _Optional[str] = ...) -> None: ...

class FigureView(_message.Message):
    __slots__ = ("metric", "unit", "device", "mean", "p50", "p95", "p99", "max", "count")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    metric: str
    unit: str
    device: str
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int
    def __init__(self, metric: _Optional[str] = ..., unit: _Optional[str] = ..., device: _Optional[str] = ..., mean: _Optional[float] = ..., p50: _Optional[float] = ..., p95: _Optional[float] = ..., p99: _Optional[float] = ..., max: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

class FiguresView(_message.Message):
    __slots__ = ("node", "at", "length_s", "mode", "figures")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_S_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    node: str
    at: str
    length_s: float
    mode: str
    figures: _containers.RepeatedCompositeFieldContainer[FigureView]
    def __init__(self, node: _Optional[str] = ..., at: _Optional[str] = ..., length_s: _Optional[float] = ..., mode: _Optional[str] = ..., figures: _Optional[_Iterable[_Union[FigureView, _Mapping]]] = ...) -> None: ...

class AlertView(_message.Message):
    __slots__ = ("node", "at", "rule", "text", "metric", "device", "value", "over")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    node: str
    at: str
    rule: str
    text: str
    metric: str
    device: str
    value: float
    over: bool
    def __init__(self, node: _Optional[str] = ..., at: _Optional[str] = ..., rule: _Optional[str] = ..., text: _Optional[str] = ..., metric: _Optional[str] = ..., device: _Optional[str] = ..., value: _Optional[float] = ..., over: _Optional[bool] = ...) -> None: ...

class Followed(_message.Message):
    __slots__ = ("run", "nodes", "problem")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    run: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    problem: str
    def __init__(self, run: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., problem: _Optional[str] = ...) -> None: ...

class StreamMetricsResponse(_message.Message):
    __slots__ = ("event_id", "event", "figures", "alert", "followed")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    ALERT_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    event: str
    figures: FiguresView
    alert: AlertView
    followed: Followed
    def __init__(self, event_id: _Optional[str] = ..., event: _Optional[str] = ..., figures: _Optional[_Union[FiguresView, _Mapping]] = ..., alert: _Optional[_Union[AlertView, _Mapping]] = ..., followed: _Optional[_Union[Followed, _Mapping]] = ...) -> None: ...

class DiagnosticsRequest(_message.Message):
    __slots__ = ("id", "duration")
    ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    duration: str
    def __init__(self, id: _Optional[str] = ..., duration: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("name", "health", "text", "value", "unit", "node", "device")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    name: str
    health: str
    text: str
    value: float
    unit: str
    node: str
    device: str
    def __init__(self, name: _Optional[str] = ..., health: _Optional[str] = ..., text: _Optional[str] = ..., value: _Optional[float] = ..., unit: _Optional[str] = ..., node: _Optional[str] = ..., device: _Optional[str] = ...) -> None: ...

class DiagnosticsView(_message.Message):
    __slots__ = ("id", "source", "note", "resolution_s", "network", "storage", "gpus", "unreachable")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_S_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    source: str
    note: str
    resolution_s: float
    network: _containers.RepeatedCompositeFieldContainer[Finding]
    storage: _containers.RepeatedCompositeFieldContainer[Finding]
    gpus: _containers.RepeatedCompositeFieldContainer[Finding]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., source: _Optional[str] = ..., note: _Optional[str] = ..., resolution_s: _Optional[float] = ..., network: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., storage: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., gpus: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class NetworkDiagnosticsRequest(_message.Message):
    __slots__ = ("id", "duration")
    ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    duration: str
    def __init__(self, id: _Optional[str] = ..., duration: _Optional[str] = ...) -> None: ...

class StorageDiagnosticsRequest(_message.Message):
    __slots__ = ("id", "duration")
    ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    duration: str
    def __init__(self, id: _Optional[str] = ..., duration: _Optional[str] = ...) -> None: ...

class RunImagesRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class MountedImageView(_message.Message):
    __slots__ = ("image", "digest", "mount", "size", "views")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    mount: str
    size: int
    views: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., mount: _Optional[str] = ..., size: _Optional[int] = ..., views: _Optional[_Iterable[str]] = ...) -> None: ...

class VariableChangeView(_message.Message):
    __slots__ = ("variable", "operation", "view", "value")
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    variable: str
    operation: str
    view: str
    value: str
    def __init__(self, variable: _Optional[str] = ..., operation: _Optional[str] = ..., view: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class RunImagesView(_message.Message):
    __slots__ = ("id", "node", "images", "changes")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    images: _containers.RepeatedCompositeFieldContainer[MountedImageView]
    changes: _containers.RepeatedCompositeFieldContainer[VariableChangeView]
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ..., images: _Optional[_Iterable[_Union[MountedImageView, _Mapping]]] = ..., changes: _Optional[_Iterable[_Union[VariableChangeView, _Mapping]]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SignalAllocationRequest(_message.Message):
    __slots__ = ("id", "signal", "to", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    signal: str
    to: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., signal: _Optional[str] = ..., to: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SuspendRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RequeueRequest(_message.Message):
    __slots__ = ("id", "request_id", "hold", "checkpoint")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    hold: bool
    checkpoint: bool
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., hold: _Optional[bool] = ..., checkpoint: _Optional[bool] = ...) -> None: ...

class RequestCheckpointRequest(_message.Message):
    __slots__ = ("id", "wait", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    wait: float
    request_id: str
    def __init__(self, id: _Optional[str] = ..., wait: _Optional[float] = ..., request_id: _Optional[str] = ...) -> None: ...

class CheckpointView(_message.Message):
    __slots__ = ("n", "state", "run", "path", "reason", "requested_at", "completed_at", "bytes", "seconds", "nodes", "message", "stored")
    N_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    n: int
    state: str
    run: int
    path: str
    reason: str
    requested_at: str
    completed_at: str
    bytes: int
    seconds: float
    nodes: int
    message: str
    stored: bool
    def __init__(self, n: _Optional[int] = ..., state: _Optional[str] = ..., run: _Optional[int] = ..., path: _Optional[str] = ..., reason: _Optional[str] = ..., requested_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., nodes: _Optional[int] = ..., message: _Optional[str] = ..., stored: _Optional[bool] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CheckpointView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[CheckpointView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetCheckpointRequest(_message.Message):
    __slots__ = ("id", "n", "wait")
    ID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    id: str
    n: int
    wait: float
    def __init__(self, id: _Optional[str] = ..., n: _Optional[int] = ..., wait: _Optional[float] = ...) -> None: ...

class UpdateServiceRequest(_message.Message):
    __slots__ = ("id", "request_id", "entrypoint_text", "entrypoint", "script", "script_args", "environment", "unset_environment", "uenv", "view", "tools_uenv", "image", "container", "liveness_probe", "readiness_probe", "startup_probe", "drain", "max_unavailable", "ready_within", "note")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UNSET_ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_UENV_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    READY_WITHIN_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    entrypoint_text: str
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    unset_environment: _containers.RepeatedScalarFieldContainer[str]
    uenv: str
    view: str
    tools_uenv: str
    image: str
    container: ContainerOptions
    liveness_probe: ProbeRequest
    readiness_probe: ProbeRequest
    startup_probe: ProbeRequest
    drain: str
    max_unavailable: int
    ready_within: str
    note: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., entrypoint_text: _Optional[str] = ..., entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., unset_environment: _Optional[_Iterable[str]] = ..., uenv: _Optional[str] = ..., view: _Optional[str] = ..., tools_uenv: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ..., liveness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., readiness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., startup_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., drain: _Optional[str] = ..., max_unavailable: _Optional[int] = ..., ready_within: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RevisionView(_message.Message):
    __slots__ = ("revision", "at", "by", "note", "state", "reason")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    revision: int
    at: str
    by: str
    note: str
    state: str
    reason: str
    def __init__(self, revision: _Optional[int] = ..., at: _Optional[str] = ..., by: _Optional[str] = ..., note: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RolloutView(_message.Message):
    __slots__ = ("state", "revision", "target", "former", "updated", "ready", "size", "max_unavailable", "ready_within_s", "began_at", "ended_at", "reason")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    READY_WITHIN_S_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    state: str
    revision: int
    target: int
    former: int
    updated: int
    ready: int
    size: int
    max_unavailable: int
    ready_within_s: int
    began_at: str
    ended_at: str
    reason: str
    def __init__(self, state: _Optional[str] = ..., revision: _Optional[int] = ..., target: _Optional[int] = ..., former: _Optional[int] = ..., updated: _Optional[int] = ..., ready: _Optional[int] = ..., size: _Optional[int] = ..., max_unavailable: _Optional[int] = ..., ready_within_s: _Optional[int] = ..., began_at: _Optional[str] = ..., ended_at: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RevisionsView(_message.Message):
    __slots__ = ("id", "revision", "revisions", "rollout")
    ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    id: str
    revision: int
    revisions: _containers.RepeatedCompositeFieldContainer[RevisionView]
    rollout: RolloutView
    def __init__(self, id: _Optional[str] = ..., revision: _Optional[int] = ..., revisions: _Optional[_Iterable[_Union[RevisionView, _Mapping]]] = ..., rollout: _Optional[_Union[RolloutView, _Mapping]] = ...) -> None: ...

class ListRevisionsRequest(_message.Message):
    __slots__ = ("id", "timeout")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    id: str
    timeout: float
    def __init__(self, id: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class RollBackServiceRequest(_message.Message):
    __slots__ = ("id", "request_id", "to", "max_unavailable", "ready_within")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    READY_WITHIN_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    to: int
    max_unavailable: int
    ready_within: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., to: _Optional[int] = ..., max_unavailable: _Optional[int] = ..., ready_within: _Optional[str] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("id", "request_id", "walltime", "priority", "preemption_class", "name", "concurrency", "tags", "untag", "vcluster", "nodes", "max_nodes", "cpus", "memory", "gpus", "begin", "depends_on", "comment", "telemetry")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_CLASS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    UNTAG_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    walltime: str
    priority: str
    preemption_class: int
    name: str
    concurrency: int
    tags: _containers.ScalarMap[str, str]
    untag: _containers.RepeatedScalarFieldContainer[str]
    vcluster: str
    nodes: int
    max_nodes: int
    cpus: int
    memory: str
    gpus: int
    begin: str
    depends_on: str
    comment: str
    telemetry: TelemetryFields
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., walltime: _Optional[str] = ..., priority: _Optional[str] = ..., preemption_class: _Optional[int] = ..., name: _Optional[str] = ..., concurrency: _Optional[int] = ..., tags: _Optional[_Mapping[str, str]] = ..., untag: _Optional[_Iterable[str]] = ..., vcluster: _Optional[str] = ..., nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., cpus: _Optional[int] = ..., memory: _Optional[str] = ..., gpus: _Optional[int] = ..., begin: _Optional[str] = ..., depends_on: _Optional[str] = ..., comment: _Optional[str] = ..., telemetry: _Optional[_Union[TelemetryFields, _Mapping]] = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("request_id", "name", "tenant", "project", "vcluster", "tags", "entrypoint_text", "entrypoint", "script", "script_args", "environment", "uenv", "view", "tools_uenv", "scratch", "image", "container", "cwd", "submit_dir", "umask", "resources", "lifecycle", "priority", "per_node", "hold", "begin", "tasks", "tasks_object", "summary", "output", "signal", "on_quota", "idle_end", "expose", "notify", "telemetry", "depends_on_text", "depends_on", "mutex", "deadline", "keep_on_invalid_dependency", "checkpoint", "resume_from", "dry_run", "data", "liveness_probe", "readiness_probe", "startup_probe", "drain")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_UENV_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_TEXT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    MUTEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_INVALID_DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    tenant: str
    project: str
    vcluster: str
    tags: _containers.ScalarMap[str, str]
    entrypoint_text: str
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    uenv: str
    view: str
    tools_uenv: str
    scratch: str
    image: str
    container: ContainerOptions
    cwd: str
    submit_dir: str
    umask: int
    resources: Resources
    lifecycle: LifecycleRequest
    priority: str
    per_node: bool
    hold: bool
    begin: str
    tasks: str
    tasks_object: TaskRange
    summary: bool
    output: OutputFiles
    signal: str
    on_quota: str
    idle_end: str
    expose: _containers.RepeatedCompositeFieldContainer[ExposedPort]
    notify: NotifyRequest
    telemetry: TelemetryFields
    depends_on_text: str
    depends_on: _containers.RepeatedCompositeFieldContainer[DependencyFields]
    mutex: str
    deadline: str
    keep_on_invalid_dependency: bool
    checkpoint: CheckpointFields
    resume_from: str
    dry_run: bool
    data: DataRequest
    liveness_probe: ProbeRequest
    readiness_probe: ProbeRequest
    startup_probe: ProbeRequest
    drain: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., entrypoint_text: _Optional[str] = ..., entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., uenv: _Optional[str] = ..., view: _Optional[str] = ..., tools_uenv: _Optional[str] = ..., scratch: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ..., cwd: _Optional[str] = ..., submit_dir: _Optional[str] = ..., umask: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., lifecycle: _Optional[_Union[LifecycleRequest, _Mapping]] = ..., priority: _Optional[str] = ..., per_node: _Optional[bool] = ..., hold: _Optional[bool] = ..., begin: _Optional[str] = ..., tasks: _Optional[str] = ..., tasks_object: _Optional[_Union[TaskRange, _Mapping]] = ..., summary: _Optional[bool] = ..., output: _Optional[_Union[OutputFiles, _Mapping]] = ..., signal: _Optional[str] = ..., on_quota: _Optional[str] = ..., idle_end: _Optional[str] = ..., expose: _Optional[_Iterable[_Union[ExposedPort, _Mapping]]] = ..., notify: _Optional[_Union[NotifyRequest, _Mapping]] = ..., telemetry: _Optional[_Union[TelemetryFields, _Mapping]] = ..., depends_on_text: _Optional[str] = ..., depends_on: _Optional[_Iterable[_Union[DependencyFields, _Mapping]]] = ..., mutex: _Optional[str] = ..., deadline: _Optional[str] = ..., keep_on_invalid_dependency: _Optional[bool] = ..., checkpoint: _Optional[_Union[CheckpointFields, _Mapping]] = ..., resume_from: _Optional[str] = ..., dry_run: _Optional[bool] = ..., data: _Optional[_Union[DataRequest, _Mapping]] = ..., liveness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., readiness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., startup_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., drain: _Optional[str] = ...) -> None: ...

class SessionTerminal(_message.Message):
    __slots__ = ("id", "step", "node", "state", "started_at", "ends_session")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDS_SESSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: int
    node: str
    state: str
    started_at: str
    ends_session: bool
    def __init__(self, id: _Optional[str] = ..., step: _Optional[int] = ..., node: _Optional[str] = ..., state: _Optional[str] = ..., started_at: _Optional[str] = ..., ends_session: _Optional[bool] = ...) -> None: ...

class SessionView(_message.Message):
    __slots__ = ("id", "allocation", "name", "state", "reason", "user", "tenant", "project", "vcluster", "nodes", "node_count", "walltime_s", "idle_end_s", "elapsed_s", "created_at", "started_at", "ended_at", "exit_code", "ending", "terminals", "warnings")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_S_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation: str
    name: str
    state: str
    reason: str
    user: str
    tenant: str
    project: str
    vcluster: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    node_count: int
    walltime_s: int
    idle_end_s: int
    elapsed_s: int
    created_at: str
    started_at: str
    ended_at: str
    exit_code: int
    ending: str
    terminals: _containers.RepeatedCompositeFieldContainer[SessionTerminal]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., allocation: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., node_count: _Optional[int] = ..., walltime_s: _Optional[int] = ..., idle_end_s: _Optional[int] = ..., elapsed_s: _Optional[int] = ..., created_at: _Optional[str] = ..., started_at: _Optional[str] = ..., ended_at: _Optional[str] = ..., exit_code: _Optional[int] = ..., ending: _Optional[str] = ..., terminals: _Optional[_Iterable[_Union[SessionTerminal, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("state", "user", "tenant", "all", "limit", "cursor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    user: str
    tenant: str
    all: bool
    limit: int
    cursor: str
    def __init__(self, state: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., all: _Optional[bool] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SessionView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[SessionView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class OpenSessionTerminalRequest(_message.Message):
    __slots__ = ("id", "request_id", "environment", "rows", "columns", "keep")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    environment: _containers.ScalarMap[str, str]
    rows: int
    columns: int
    keep: bool
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., environment: _Optional[_Mapping[str, str]] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., keep: _Optional[bool] = ...) -> None: ...

class DagAllocation(_message.Message):
    __slots__ = ("request_id", "name", "tenant", "project", "vcluster", "tags", "entrypoint_text", "entrypoint", "script", "script_args", "environment", "uenv", "view", "tools_uenv", "scratch", "image", "container", "cwd", "submit_dir", "umask", "resources", "lifecycle", "priority", "per_node", "hold", "begin", "tasks", "tasks_object", "summary", "output", "signal", "on_quota", "idle_end", "expose", "notify", "telemetry", "depends_on_text", "depends_on", "mutex", "deadline", "keep_on_invalid_dependency", "checkpoint", "resume_from", "dry_run", "data", "liveness_probe", "readiness_probe", "startup_probe", "drain", "id", "nodes", "walltime")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    UENV_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_UENV_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_TEXT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    MUTEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_INVALID_DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    tenant: str
    project: str
    vcluster: str
    tags: _containers.ScalarMap[str, str]
    entrypoint_text: str
    entrypoint: _containers.RepeatedScalarFieldContainer[str]
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    uenv: str
    view: str
    tools_uenv: str
    scratch: str
    image: str
    container: ContainerOptions
    cwd: str
    submit_dir: str
    umask: int
    resources: Resources
    lifecycle: LifecycleRequest
    priority: str
    per_node: bool
    hold: bool
    begin: str
    tasks: str
    tasks_object: TaskRange
    summary: bool
    output: OutputFiles
    signal: str
    on_quota: str
    idle_end: str
    expose: _containers.RepeatedCompositeFieldContainer[ExposedPort]
    notify: NotifyRequest
    telemetry: TelemetryFields
    depends_on_text: str
    depends_on: _containers.RepeatedCompositeFieldContainer[DependencyFields]
    mutex: str
    deadline: str
    keep_on_invalid_dependency: bool
    checkpoint: CheckpointFields
    resume_from: str
    dry_run: bool
    data: DataRequest
    liveness_probe: ProbeRequest
    readiness_probe: ProbeRequest
    startup_probe: ProbeRequest
    drain: str
    id: str
    nodes: str
    walltime: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., entrypoint_text: _Optional[str] = ..., entrypoint: _Optional[_Iterable[str]] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., uenv: _Optional[str] = ..., view: _Optional[str] = ..., tools_uenv: _Optional[str] = ..., scratch: _Optional[str] = ..., image: _Optional[str] = ..., container: _Optional[_Union[ContainerOptions, _Mapping]] = ..., cwd: _Optional[str] = ..., submit_dir: _Optional[str] = ..., umask: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., lifecycle: _Optional[_Union[LifecycleRequest, _Mapping]] = ..., priority: _Optional[str] = ..., per_node: _Optional[bool] = ..., hold: _Optional[bool] = ..., begin: _Optional[str] = ..., tasks: _Optional[str] = ..., tasks_object: _Optional[_Union[TaskRange, _Mapping]] = ..., summary: _Optional[bool] = ..., output: _Optional[_Union[OutputFiles, _Mapping]] = ..., signal: _Optional[str] = ..., on_quota: _Optional[str] = ..., idle_end: _Optional[str] = ..., expose: _Optional[_Iterable[_Union[ExposedPort, _Mapping]]] = ..., notify: _Optional[_Union[NotifyRequest, _Mapping]] = ..., telemetry: _Optional[_Union[TelemetryFields, _Mapping]] = ..., depends_on_text: _Optional[str] = ..., depends_on: _Optional[_Iterable[_Union[DependencyFields, _Mapping]]] = ..., mutex: _Optional[str] = ..., deadline: _Optional[str] = ..., keep_on_invalid_dependency: _Optional[bool] = ..., checkpoint: _Optional[_Union[CheckpointFields, _Mapping]] = ..., resume_from: _Optional[str] = ..., dry_run: _Optional[bool] = ..., data: _Optional[_Union[DataRequest, _Mapping]] = ..., liveness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., readiness_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., startup_probe: _Optional[_Union[ProbeRequest, _Mapping]] = ..., drain: _Optional[str] = ..., id: _Optional[str] = ..., nodes: _Optional[str] = ..., walltime: _Optional[str] = ...) -> None: ...

class SubmitDagRequest(_message.Message):
    __slots__ = ("allocations", "name", "request_id", "tenant", "project", "vcluster", "cwd")
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    allocations: _containers.RepeatedCompositeFieldContainer[DagAllocation]
    name: str
    request_id: str
    tenant: str
    project: str
    vcluster: str
    cwd: str
    def __init__(self, allocations: _Optional[_Iterable[_Union[DagAllocation, _Mapping]]] = ..., name: _Optional[str] = ..., request_id: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., cwd: _Optional[str] = ...) -> None: ...

class DagCounts(_message.Message):
    __slots__ = ("size", "pending", "running", "completed", "failed", "cancelled")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    size: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int
    def __init__(self, size: _Optional[int] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., completed: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class DagMemberView(_message.Message):
    __slots__ = ("ref", "id", "number", "name", "state", "reason", "cause", "message", "exit_code", "nodes", "started_at", "completed_at", "depends_on", "task_count")
    REF_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ref: str
    id: str
    number: int
    name: str
    state: str
    reason: str
    cause: str
    message: str
    exit_code: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    started_at: str
    completed_at: str
    depends_on: str
    task_count: int
    def __init__(self, ref: _Optional[str] = ..., id: _Optional[str] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., cause: _Optional[str] = ..., message: _Optional[str] = ..., exit_code: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., started_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., depends_on: _Optional[str] = ..., task_count: _Optional[int] = ...) -> None: ...

class DagView(_message.Message):
    __slots__ = ("id", "number", "name", "state", "user", "tenant", "submitted_at", "completed_at", "cancelled_by", "counts", "archived", "allocations", "warnings", "cleared")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    name: str
    state: str
    user: str
    tenant: str
    submitted_at: str
    completed_at: str
    cancelled_by: str
    counts: DagCounts
    archived: bool
    allocations: _containers.RepeatedCompositeFieldContainer[DagMemberView]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., submitted_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., cancelled_by: _Optional[str] = ..., counts: _Optional[_Union[DagCounts, _Mapping]] = ..., archived: _Optional[bool] = ..., allocations: _Optional[_Iterable[_Union[DagMemberView, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class ListDagsRequest(_message.Message):
    __slots__ = ("user", "tenant", "state", "limit", "cursor")
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    user: str
    tenant: str
    state: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    cursor: str
    def __init__(self, user: _Optional[str] = ..., tenant: _Optional[str] = ..., state: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListDagsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[DagView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[DagView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetDagRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetDagGraphRequest(_message.Message):
    __slots__ = ("id", "format")
    ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    id: str
    format: str
    def __init__(self, id: _Optional[str] = ..., format: _Optional[str] = ...) -> None: ...

class DagNode(_message.Message):
    __slots__ = ("ref", "id", "state", "depth")
    REF_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    ref: str
    id: str
    state: str
    depth: int
    def __init__(self, ref: _Optional[str] = ..., id: _Optional[str] = ..., state: _Optional[str] = ..., depth: _Optional[int] = ...) -> None: ...

class DagEdge(_message.Message):
    __slots__ = ("source", "target", "condition", "clause", "delay_s")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CLAUSE_FIELD_NUMBER: _ClassVar[int]
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    condition: str
    clause: int
    delay_s: int
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., condition: _Optional[str] = ..., clause: _Optional[int] = ..., delay_s: _Optional[int] = ...) -> None: ...

class DagGraph(_message.Message):
    __slots__ = ("id", "name", "state", "allocations", "edges", "text", "svg")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    allocations: _containers.RepeatedCompositeFieldContainer[DagNode]
    edges: _containers.RepeatedCompositeFieldContainer[DagEdge]
    text: str
    svg: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., allocations: _Optional[_Iterable[_Union[DagNode, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[DagEdge, _Mapping]]] = ..., text: _Optional[str] = ..., svg: _Optional[str] = ...) -> None: ...

class CancelDagRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("ids", "user", "tenant", "project", "tag", "what", "since", "last_event_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    user: str
    tenant: str
    project: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    what: _containers.RepeatedScalarFieldContainer[str]
    since: int
    last_event_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., what: _Optional[_Iterable[str]] = ..., since: _Optional[int] = ..., last_event_id: _Optional[str] = ...) -> None: ...

class ChangeView(_message.Message):
    __slots__ = ("index", "at", "kind", "id", "state", "what", "number", "name", "user", "tenant", "project", "tags", "cause", "exit_code", "run", "nodes", "group_id", "dag_id", "reason", "task_index", "session", "cleared")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    DAG_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    index: int
    at: str
    kind: str
    id: str
    state: str
    what: str
    number: int
    name: str
    user: str
    tenant: str
    project: str
    tags: _containers.ScalarMap[str, str]
    cause: str
    exit_code: int
    run: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    group_id: str
    dag_id: str
    reason: str
    task_index: int
    session: bool
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., at: _Optional[str] = ..., kind: _Optional[str] = ..., id: _Optional[str] = ..., state: _Optional[str] = ..., what: _Optional[str] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., project: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., cause: _Optional[str] = ..., exit_code: _Optional[int] = ..., run: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., group_id: _Optional[str] = ..., dag_id: _Optional[str] = ..., reason: _Optional[str] = ..., task_index: _Optional[int] = ..., session: _Optional[bool] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("event_id", "event", "change", "gap", "position")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    event: str
    change: ChangeView
    gap: Gap
    position: Position
    def __init__(self, event_id: _Optional[str] = ..., event: _Optional[str] = ..., change: _Optional[_Union[ChangeView, _Mapping]] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...
