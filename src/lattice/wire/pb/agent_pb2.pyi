from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_STARTING: _ClassVar[Phase]
    PHASE_RUNNING: _ClassVar[Phase]
    PHASE_STOPPING: _ClassVar[Phase]
    PHASE_ENDED: _ClassVar[Phase]
    PHASE_RESTARTING: _ClassVar[Phase]

class ProbeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROBE_KIND_UNSPECIFIED: _ClassVar[ProbeKind]
    PROBE_KIND_LIVENESS: _ClassVar[ProbeKind]
    PROBE_KIND_READINESS: _ClassVar[ProbeKind]
    PROBE_KIND_STARTUP: _ClassVar[ProbeKind]

class ProbeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROBE_TYPE_UNSPECIFIED: _ClassVar[ProbeType]
    PROBE_TYPE_TCP: _ClassVar[ProbeType]
    PROBE_TYPE_HTTP: _ClassVar[ProbeType]
    PROBE_TYPE_EXEC: _ClassVar[ProbeType]

class EndCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_CAUSE_UNSPECIFIED: _ClassVar[EndCause]
    END_CAUSE_EXIT: _ClassVar[EndCause]
    END_CAUSE_SIGNAL: _ClassVar[EndCause]
    END_CAUSE_OOM: _ClassVar[EndCause]
    END_CAUSE_WALLTIME: _ClassVar[EndCause]
    END_CAUSE_LAUNCH: _ClassVar[EndCause]
    END_CAUSE_NODE: _ClassVar[EndCause]
    END_CAUSE_STOPPED: _ClassVar[EndCause]
    END_CAUSE_PROLOGUE: _ClassVar[EndCause]
    END_CAUSE_PROBE: _ClassVar[EndCause]

class OutputStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_STREAM_UNSPECIFIED: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDOUT: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDERR: _ClassVar[OutputStream]

class CheckVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_VERDICT_UNSPECIFIED: _ClassVar[CheckVerdict]
    CHECK_VERDICT_PENDING: _ClassVar[CheckVerdict]
    CHECK_VERDICT_PASSED: _ClassVar[CheckVerdict]
    CHECK_VERDICT_WARNED: _ClassVar[CheckVerdict]
    CHECK_VERDICT_FAILED: _ClassVar[CheckVerdict]

class CheckConsequence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_CONSEQUENCE_UNSPECIFIED: _ClassVar[CheckConsequence]
    CHECK_CONSEQUENCE_WARN: _ClassVar[CheckConsequence]
    CHECK_CONSEQUENCE_DEGRADE: _ClassVar[CheckConsequence]
    CHECK_CONSEQUENCE_DRAIN: _ClassVar[CheckConsequence]

class TelemetryMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TELEMETRY_MODE_UNSPECIFIED: _ClassVar[TelemetryMode]
    TELEMETRY_MODE_PROD: _ClassVar[TelemetryMode]
    TELEMETRY_MODE_DEBUG: _ClassVar[TelemetryMode]
    TELEMETRY_MODE_AUDIT: _ClassVar[TelemetryMode]
PHASE_UNSPECIFIED: Phase
PHASE_STARTING: Phase
PHASE_RUNNING: Phase
PHASE_STOPPING: Phase
PHASE_ENDED: Phase
PHASE_RESTARTING: Phase
PROBE_KIND_UNSPECIFIED: ProbeKind
PROBE_KIND_LIVENESS: ProbeKind
PROBE_KIND_READINESS: ProbeKind
PROBE_KIND_STARTUP: ProbeKind
PROBE_TYPE_UNSPECIFIED: ProbeType
PROBE_TYPE_TCP: ProbeType
PROBE_TYPE_HTTP: ProbeType
PROBE_TYPE_EXEC: ProbeType
END_CAUSE_UNSPECIFIED: EndCause
END_CAUSE_EXIT: EndCause
END_CAUSE_SIGNAL: EndCause
END_CAUSE_OOM: EndCause
END_CAUSE_WALLTIME: EndCause
END_CAUSE_LAUNCH: EndCause
END_CAUSE_NODE: EndCause
END_CAUSE_STOPPED: EndCause
END_CAUSE_PROLOGUE: EndCause
END_CAUSE_PROBE: EndCause
OUTPUT_STREAM_UNSPECIFIED: OutputStream
OUTPUT_STREAM_STDOUT: OutputStream
OUTPUT_STREAM_STDERR: OutputStream
CHECK_VERDICT_UNSPECIFIED: CheckVerdict
CHECK_VERDICT_PENDING: CheckVerdict
CHECK_VERDICT_PASSED: CheckVerdict
CHECK_VERDICT_WARNED: CheckVerdict
CHECK_VERDICT_FAILED: CheckVerdict
CHECK_CONSEQUENCE_UNSPECIFIED: CheckConsequence
CHECK_CONSEQUENCE_WARN: CheckConsequence
CHECK_CONSEQUENCE_DEGRADE: CheckConsequence
CHECK_CONSEQUENCE_DRAIN: CheckConsequence
TELEMETRY_MODE_UNSPECIFIED: TelemetryMode
TELEMETRY_MODE_PROD: TelemetryMode
TELEMETRY_MODE_DEBUG: TelemetryMode
TELEMETRY_MODE_AUDIT: TelemetryMode

class AgentMessage(_message.Message):
    __slots__ = ("register", "confirmed", "heartbeat", "run_report", "output_chunk", "step_report", "step_input_taken", "run_reports", "inventory", "health_report", "collected_beats", "measured", "start_progress", "images_told", "ping", "log_told", "telemetry_told", "run_figures", "checkpoint_report", "readiness", "sign_upload", "at_hand")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    RUN_REPORT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    STEP_REPORT_FIELD_NUMBER: _ClassVar[int]
    STEP_INPUT_TAKEN_FIELD_NUMBER: _ClassVar[int]
    RUN_REPORTS_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_REPORT_FIELD_NUMBER: _ClassVar[int]
    COLLECTED_BEATS_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    START_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_TOLD_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    LOG_TOLD_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_TOLD_FIELD_NUMBER: _ClassVar[int]
    RUN_FIGURES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REPORT_FIELD_NUMBER: _ClassVar[int]
    READINESS_FIELD_NUMBER: _ClassVar[int]
    SIGN_UPLOAD_FIELD_NUMBER: _ClassVar[int]
    AT_HAND_FIELD_NUMBER: _ClassVar[int]
    register: Register
    confirmed: Confirmed
    heartbeat: Heartbeat
    run_report: RunReport
    output_chunk: OutputChunk
    step_report: StepReport
    step_input_taken: StepInputTaken
    run_reports: RunReports
    inventory: Inventory
    health_report: HealthReport
    collected_beats: CollectedBeats
    measured: Measured
    start_progress: StartProgress
    images_told: ImagesTold
    ping: Ping
    log_told: LogTold
    telemetry_told: TelemetryTold
    run_figures: RunFigures
    checkpoint_report: CheckpointReport
    readiness: Readiness
    sign_upload: SignUpload
    at_hand: AtHand
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., confirmed: _Optional[_Union[Confirmed, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., run_report: _Optional[_Union[RunReport, _Mapping]] = ..., output_chunk: _Optional[_Union[OutputChunk, _Mapping]] = ..., step_report: _Optional[_Union[StepReport, _Mapping]] = ..., step_input_taken: _Optional[_Union[StepInputTaken, _Mapping]] = ..., run_reports: _Optional[_Union[RunReports, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., health_report: _Optional[_Union[HealthReport, _Mapping]] = ..., collected_beats: _Optional[_Union[CollectedBeats, _Mapping]] = ..., measured: _Optional[_Union[Measured, _Mapping]] = ..., start_progress: _Optional[_Union[StartProgress, _Mapping]] = ..., images_told: _Optional[_Union[ImagesTold, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., log_told: _Optional[_Union[LogTold, _Mapping]] = ..., telemetry_told: _Optional[_Union[TelemetryTold, _Mapping]] = ..., run_figures: _Optional[_Union[RunFigures, _Mapping]] = ..., checkpoint_report: _Optional[_Union[CheckpointReport, _Mapping]] = ..., readiness: _Optional[_Union[Readiness, _Mapping]] = ..., sign_upload: _Optional[_Union[SignUpload, _Mapping]] = ..., at_hand: _Optional[_Union[AtHand, _Mapping]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("welcome", "start_run", "stop_run", "update_run", "report_ack", "read_output", "stop_reading", "goodbye", "launch_step", "signal_step", "end_step", "step_input", "resize_step", "step_ack", "signal_run", "pause_run", "finish_run", "rejoin", "batch", "refresh_inventory", "collect", "report_to", "run_checks", "health_ack", "step_nodes_ended", "measure", "ask_images", "open_bulk", "pong", "ask_log", "ask_telemetry", "stop_telemetry", "checkpoint_run", "upload_signed", "drop_containers")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    START_RUN_FIELD_NUMBER: _ClassVar[int]
    STOP_RUN_FIELD_NUMBER: _ClassVar[int]
    UPDATE_RUN_FIELD_NUMBER: _ClassVar[int]
    REPORT_ACK_FIELD_NUMBER: _ClassVar[int]
    READ_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    STOP_READING_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_STEP_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_STEP_FIELD_NUMBER: _ClassVar[int]
    END_STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_INPUT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_ACK_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RUN_FIELD_NUMBER: _ClassVar[int]
    PAUSE_RUN_FIELD_NUMBER: _ClassVar[int]
    FINISH_RUN_FIELD_NUMBER: _ClassVar[int]
    REJOIN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REFRESH_INVENTORY_FIELD_NUMBER: _ClassVar[int]
    COLLECT_FIELD_NUMBER: _ClassVar[int]
    REPORT_TO_FIELD_NUMBER: _ClassVar[int]
    RUN_CHECKS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_ACK_FIELD_NUMBER: _ClassVar[int]
    STEP_NODES_ENDED_FIELD_NUMBER: _ClassVar[int]
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    ASK_IMAGES_FIELD_NUMBER: _ClassVar[int]
    OPEN_BULK_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    ASK_LOG_FIELD_NUMBER: _ClassVar[int]
    ASK_TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    STOP_TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_RUN_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_SIGNED_FIELD_NUMBER: _ClassVar[int]
    DROP_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    start_run: StartRun
    stop_run: StopRun
    update_run: UpdateRun
    report_ack: ReportAck
    read_output: ReadOutput
    stop_reading: StopReading
    goodbye: Goodbye
    launch_step: LaunchStep
    signal_step: SignalStep
    end_step: EndStep
    step_input: StepInput
    resize_step: ResizeStep
    step_ack: StepAck
    signal_run: SignalRun
    pause_run: PauseRun
    finish_run: FinishRun
    rejoin: Rejoin
    batch: Batch
    refresh_inventory: RefreshInventory
    collect: Collect
    report_to: ReportTo
    run_checks: RunChecks
    health_ack: HealthAck
    step_nodes_ended: StepNodesEnded
    measure: Measure
    ask_images: AskImages
    open_bulk: OpenBulk
    pong: Pong
    ask_log: AskLog
    ask_telemetry: AskTelemetry
    stop_telemetry: StopTelemetry
    checkpoint_run: CheckpointRun
    upload_signed: UploadSigned
    drop_containers: DropContainers
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., start_run: _Optional[_Union[StartRun, _Mapping]] = ..., stop_run: _Optional[_Union[StopRun, _Mapping]] = ..., update_run: _Optional[_Union[UpdateRun, _Mapping]] = ..., report_ack: _Optional[_Union[ReportAck, _Mapping]] = ..., read_output: _Optional[_Union[ReadOutput, _Mapping]] = ..., stop_reading: _Optional[_Union[StopReading, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., launch_step: _Optional[_Union[LaunchStep, _Mapping]] = ..., signal_step: _Optional[_Union[SignalStep, _Mapping]] = ..., end_step: _Optional[_Union[EndStep, _Mapping]] = ..., step_input: _Optional[_Union[StepInput, _Mapping]] = ..., resize_step: _Optional[_Union[ResizeStep, _Mapping]] = ..., step_ack: _Optional[_Union[StepAck, _Mapping]] = ..., signal_run: _Optional[_Union[SignalRun, _Mapping]] = ..., pause_run: _Optional[_Union[PauseRun, _Mapping]] = ..., finish_run: _Optional[_Union[FinishRun, _Mapping]] = ..., rejoin: _Optional[_Union[Rejoin, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., refresh_inventory: _Optional[_Union[RefreshInventory, _Mapping]] = ..., collect: _Optional[_Union[Collect, _Mapping]] = ..., report_to: _Optional[_Union[ReportTo, _Mapping]] = ..., run_checks: _Optional[_Union[RunChecks, _Mapping]] = ..., health_ack: _Optional[_Union[HealthAck, _Mapping]] = ..., step_nodes_ended: _Optional[_Union[StepNodesEnded, _Mapping]] = ..., measure: _Optional[_Union[Measure, _Mapping]] = ..., ask_images: _Optional[_Union[AskImages, _Mapping]] = ..., open_bulk: _Optional[_Union[OpenBulk, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., ask_log: _Optional[_Union[AskLog, _Mapping]] = ..., ask_telemetry: _Optional[_Union[AskTelemetry, _Mapping]] = ..., stop_telemetry: _Optional[_Union[StopTelemetry, _Mapping]] = ..., checkpoint_run: _Optional[_Union[CheckpointRun, _Mapping]] = ..., upload_signed: _Optional[_Union[UploadSigned, _Mapping]] = ..., drop_containers: _Optional[_Union[DropContainers, _Mapping]] = ...) -> None: ...

class OpenBulk(_message.Message):
    __slots__ = ("ticket", "purpose")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    purpose: str
    def __init__(self, ticket: _Optional[str] = ..., purpose: _Optional[str] = ...) -> None: ...

class BulkFrames(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[BulkFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[BulkFrame, _Mapping]]] = ...) -> None: ...

class BulkFrame(_message.Message):
    __slots__ = ("tunnel", "hello", "open", "opened", "data", "taken", "end", "closed")
    TUNNEL_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    tunnel: int
    hello: str
    open: OpenTunnel
    opened: TunnelOpened
    data: bytes
    taken: int
    end: bool
    closed: TunnelClosed
    def __init__(self, tunnel: _Optional[int] = ..., hello: _Optional[str] = ..., open: _Optional[_Union[OpenTunnel, _Mapping]] = ..., opened: _Optional[_Union[TunnelOpened, _Mapping]] = ..., data: _Optional[bytes] = ..., taken: _Optional[int] = ..., end: _Optional[bool] = ..., closed: _Optional[_Union[TunnelClosed, _Mapping]] = ...) -> None: ...

class OpenTunnel(_message.Message):
    __slots__ = ("key", "port")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    port: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., port: _Optional[int] = ...) -> None: ...

class TunnelOpened(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TunnelClosed(_message.Message):
    __slots__ = ("code", "text", "listening")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    listening: _containers.RepeatedCompositeFieldContainer[ListeningPort]
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ..., listening: _Optional[_Iterable[_Union[ListeningPort, _Mapping]]] = ...) -> None: ...

class ListeningPort(_message.Message):
    __slots__ = ("port", "address", "pid", "program")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    port: int
    address: str
    pid: int
    program: str
    def __init__(self, port: _Optional[int] = ..., address: _Optional[str] = ..., pid: _Optional[int] = ..., program: _Optional[str] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ServerMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ServerMessage, _Mapping]]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("node_id", "hardware", "address", "boot_id", "agent_version", "runs", "runs_as_root", "agent_user", "steps", "containers", "epoch", "takes_batches", "process", "metrics_address", "collector_address", "protocol")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    RUNS_AS_ROOT_FIELD_NUMBER: _ClassVar[int]
    AGENT_USER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TAKES_BATCHES_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    METRICS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    hardware: Hardware
    address: str
    boot_id: str
    agent_version: str
    runs: _containers.RepeatedCompositeFieldContainer[KnownRun]
    runs_as_root: bool
    agent_user: str
    steps: _containers.RepeatedCompositeFieldContainer[KnownStep]
    containers: _containers.RepeatedCompositeFieldContainer[RunKey]
    epoch: int
    takes_batches: bool
    process: int
    metrics_address: str
    collector_address: str
    protocol: Protocol
    def __init__(self, node_id: _Optional[str] = ..., hardware: _Optional[_Union[Hardware, _Mapping]] = ..., address: _Optional[str] = ..., boot_id: _Optional[str] = ..., agent_version: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[KnownRun, _Mapping]]] = ..., runs_as_root: _Optional[bool] = ..., agent_user: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[KnownStep, _Mapping]]] = ..., containers: _Optional[_Iterable[_Union[RunKey, _Mapping]]] = ..., epoch: _Optional[int] = ..., takes_batches: _Optional[bool] = ..., process: _Optional[int] = ..., metrics_address: _Optional[str] = ..., collector_address: _Optional[str] = ..., protocol: _Optional[_Union[Protocol, _Mapping]] = ...) -> None: ...

class Protocol(_message.Message):
    __slots__ = ("oldest", "newest", "features")
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    oldest: int
    newest: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, oldest: _Optional[int] = ..., newest: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class Hardware(_message.Message):
    __slots__ = ("cpus", "memory_mb", "gpus", "gpu_type", "group", "features", "unified_memory", "cxl_memory_mb", "power_w", "os", "cpu_speed", "virtual_memory_mb", "tmp_disk_mb")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    UNIFIED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    CXL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    CPU_SPEED_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    TMP_DISK_MB_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    group: str
    features: _containers.RepeatedScalarFieldContainer[str]
    unified_memory: bool
    cxl_memory_mb: int
    power_w: int
    os: str
    cpu_speed: float
    virtual_memory_mb: int
    tmp_disk_mb: int
    def __init__(self, cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., group: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., unified_memory: _Optional[bool] = ..., cxl_memory_mb: _Optional[int] = ..., power_w: _Optional[int] = ..., os: _Optional[str] = ..., cpu_speed: _Optional[float] = ..., virtual_memory_mb: _Optional[int] = ..., tmp_disk_mb: _Optional[int] = ...) -> None: ...

class RunKey(_message.Message):
    __slots__ = ("number", "run")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    number: int
    run: int
    def __init__(self, number: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class KnownRun(_message.Message):
    __slots__ = ("key", "phase", "epoch")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    phase: Phase
    epoch: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., phase: _Optional[_Union[Phase, str]] = ..., epoch: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("valid_runs", "heartbeat_interval_s", "down_after_s", "server_name", "session", "epoch", "takes_batches", "protocol", "signs_uploads", "held_by")
    VALID_RUNS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    DOWN_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TAKES_BATCHES_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SIGNS_UPLOADS_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    valid_runs: _containers.RepeatedCompositeFieldContainer[RunKey]
    heartbeat_interval_s: float
    down_after_s: float
    server_name: str
    session: int
    epoch: int
    takes_batches: bool
    protocol: Protocol
    signs_uploads: bool
    held_by: _containers.RepeatedCompositeFieldContainer[RunKey]
    def __init__(self, valid_runs: _Optional[_Iterable[_Union[RunKey, _Mapping]]] = ..., heartbeat_interval_s: _Optional[float] = ..., down_after_s: _Optional[float] = ..., server_name: _Optional[str] = ..., session: _Optional[int] = ..., epoch: _Optional[int] = ..., takes_batches: _Optional[bool] = ..., protocol: _Optional[_Union[Protocol, _Mapping]] = ..., signs_uploads: _Optional[bool] = ..., held_by: _Optional[_Iterable[_Union[RunKey, _Mapping]]] = ...) -> None: ...

class SignUpload(_message.Message):
    __slots__ = ("ticket", "prefix", "name", "grant", "method", "query")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    prefix: str
    name: str
    grant: str
    method: str
    query: str
    def __init__(self, ticket: _Optional[int] = ..., prefix: _Optional[str] = ..., name: _Optional[str] = ..., grant: _Optional[str] = ..., method: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class UploadSigned(_message.Message):
    __slots__ = ("ticket", "url", "headers", "authorities", "error")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TICKET_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    url: str
    headers: _containers.ScalarMap[str, str]
    authorities: str
    error: str
    def __init__(self, ticket: _Optional[int] = ..., url: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., authorities: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class Confirmed(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: int
    def __init__(self, session: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("seq", "running", "load1", "memory_used_mb", "gpus", "temperature_c", "memory_errors", "fingerprint", "failing_checks", "session")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    LOAD1_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ERRORS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FAILING_CHECKS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    seq: int
    running: int
    load1: float
    memory_used_mb: int
    gpus: int
    temperature_c: float
    memory_errors: int
    fingerprint: bytes
    failing_checks: int
    session: int
    def __init__(self, seq: _Optional[int] = ..., running: _Optional[int] = ..., load1: _Optional[float] = ..., memory_used_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., temperature_c: _Optional[float] = ..., memory_errors: _Optional[int] = ..., fingerprint: _Optional[bytes] = ..., failing_checks: _Optional[int] = ..., session: _Optional[int] = ...) -> None: ...

class StartProgress(_message.Message):
    __slots__ = ("key", "text", "copies")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    text: str
    copies: bool
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., text: _Optional[str] = ..., copies: _Optional[bool] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("document", "fingerprint")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    fingerprint: str
    def __init__(self, document: _Optional[bytes] = ..., fingerprint: _Optional[str] = ...) -> None: ...

class RefreshInventory(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ping(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class AskLog(_message.Message):
    __slots__ = ("ticket", "since_s")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    since_s: float
    def __init__(self, ticket: _Optional[int] = ..., since_s: _Optional[float] = ...) -> None: ...

class LogTold(_message.Message):
    __slots__ = ("ticket", "lines")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[int] = ..., lines: _Optional[_Iterable[str]] = ...) -> None: ...

class StartRun(_message.Message):
    __slots__ = ("key", "allocation_id", "name", "user", "cwd", "argv", "script", "script_args", "env", "nodes", "walltime_s", "grace_s", "cpus", "memory_mb", "gpus", "task_index", "task_group_id", "submit_dir", "token", "api_url", "fence", "tasks", "summary", "files", "early_signal", "umask", "submission", "images", "views", "node_cpus", "container", "scratch_mb", "no_defaults", "output_prefix", "exposes", "checkpoint", "data", "stage_out", "instance", "restart", "drain_s", "probes", "telemetry", "vcluster", "upload_grant", "holds", "memory_policy", "same_numa", "awaits", "read_mb_s", "write_mb_s")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    API_URL_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    EARLY_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    NODE_CPUS_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_MB_FIELD_NUMBER: _ClassVar[int]
    NO_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    EXPOSES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    STAGE_OUT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    DRAIN_S_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_GRANT_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_POLICY_FIELD_NUMBER: _ClassVar[int]
    SAME_NUMA_FIELD_NUMBER: _ClassVar[int]
    AWAITS_FIELD_NUMBER: _ClassVar[int]
    READ_MB_S_FIELD_NUMBER: _ClassVar[int]
    WRITE_MB_S_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    allocation_id: str
    name: str
    user: str
    cwd: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    script: bytes
    script_args: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    walltime_s: float
    grace_s: float
    cpus: int
    memory_mb: int
    gpus: int
    task_index: int
    task_group_id: str
    submit_dir: str
    token: str
    api_url: str
    fence: bool
    tasks: int
    summary: bool
    files: RunFiles
    early_signal: EarlySignal
    umask: int
    submission: str
    images: _containers.RepeatedCompositeFieldContainer[Image]
    views: _containers.RepeatedScalarFieldContainer[str]
    node_cpus: _containers.RepeatedScalarFieldContainer[int]
    container: Container
    scratch_mb: int
    no_defaults: bool
    output_prefix: str
    exposes: _containers.RepeatedCompositeFieldContainer[NamedPort]
    checkpoint: CheckpointSetup
    data: _containers.RepeatedCompositeFieldContainer[RunData]
    stage_out: _containers.RepeatedCompositeFieldContainer[RunStageOut]
    instance: int
    restart: str
    drain_s: float
    probes: _containers.RepeatedCompositeFieldContainer[Probe]
    telemetry: RunMode
    vcluster: str
    upload_grant: str
    holds: bool
    memory_policy: str
    same_numa: bool
    awaits: bool
    read_mb_s: int
    write_mb_s: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., allocation_id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., cwd: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., script: _Optional[bytes] = ..., script_args: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., nodes: _Optional[_Iterable[str]] = ..., walltime_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., task_index: _Optional[int] = ..., task_group_id: _Optional[str] = ..., submit_dir: _Optional[str] = ..., token: _Optional[str] = ..., api_url: _Optional[str] = ..., fence: _Optional[bool] = ..., tasks: _Optional[int] = ..., summary: _Optional[bool] = ..., files: _Optional[_Union[RunFiles, _Mapping]] = ..., early_signal: _Optional[_Union[EarlySignal, _Mapping]] = ..., umask: _Optional[int] = ..., submission: _Optional[str] = ..., images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ..., views: _Optional[_Iterable[str]] = ..., node_cpus: _Optional[_Iterable[int]] = ..., container: _Optional[_Union[Container, _Mapping]] = ..., scratch_mb: _Optional[int] = ..., no_defaults: _Optional[bool] = ..., output_prefix: _Optional[str] = ..., exposes: _Optional[_Iterable[_Union[NamedPort, _Mapping]]] = ..., checkpoint: _Optional[_Union[CheckpointSetup, _Mapping]] = ..., data: _Optional[_Iterable[_Union[RunData, _Mapping]]] = ..., stage_out: _Optional[_Iterable[_Union[RunStageOut, _Mapping]]] = ..., instance: _Optional[int] = ..., restart: _Optional[str] = ..., drain_s: _Optional[float] = ..., probes: _Optional[_Iterable[_Union[Probe, _Mapping]]] = ..., telemetry: _Optional[_Union[RunMode, _Mapping]] = ..., vcluster: _Optional[str] = ..., upload_grant: _Optional[str] = ..., holds: _Optional[bool] = ..., memory_policy: _Optional[str] = ..., same_numa: _Optional[bool] = ..., awaits: _Optional[bool] = ..., read_mb_s: _Optional[int] = ..., write_mb_s: _Optional[int] = ...) -> None: ...

class NamedPort(_message.Message):
    __slots__ = ("name", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: int
    def __init__(self, name: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class RunData(_message.Message):
    __slots__ = ("source", "target", "writable", "hot", "folder", "reason")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    HOT_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    writable: bool
    hot: bool
    folder: str
    reason: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., writable: _Optional[bool] = ..., hot: _Optional[bool] = ..., folder: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RunStageOut(_message.Message):
    __slots__ = ("source", "target", "grant", "made")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    grant: str
    made: bool
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., grant: _Optional[str] = ..., made: _Optional[bool] = ...) -> None: ...

class RunMode(_message.Message):
    __slots__ = ("mode", "interval_ms", "left_s")
    MODE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    mode: TelemetryMode
    interval_ms: int
    left_s: float
    def __init__(self, mode: _Optional[_Union[TelemetryMode, str]] = ..., interval_ms: _Optional[int] = ..., left_s: _Optional[float] = ...) -> None: ...

class Probe(_message.Message):
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
    kind: ProbeKind
    type: ProbeType
    port: int
    path: str
    period_s: float
    initial_delay_s: float
    timeout_s: float
    failure_threshold: int
    success_threshold: int
    command: _containers.RepeatedScalarFieldContainer[str]
    port_name: str
    def __init__(self, kind: _Optional[_Union[ProbeKind, str]] = ..., type: _Optional[_Union[ProbeType, str]] = ..., port: _Optional[int] = ..., path: _Optional[str] = ..., period_s: _Optional[float] = ..., initial_delay_s: _Optional[float] = ..., timeout_s: _Optional[float] = ..., failure_threshold: _Optional[int] = ..., success_threshold: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., port_name: _Optional[str] = ...) -> None: ...

class Readiness(_message.Message):
    __slots__ = ("key", "instance", "ready", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    instance: int
    ready: bool
    text: str
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., instance: _Optional[int] = ..., ready: _Optional[bool] = ..., text: _Optional[str] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("reference", "digest", "source", "mount", "size", "by_user", "kind", "signed_by")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    reference: str
    digest: str
    source: str
    mount: str
    size: int
    by_user: bool
    kind: str
    signed_by: str
    def __init__(self, reference: _Optional[str] = ..., digest: _Optional[str] = ..., source: _Optional[str] = ..., mount: _Optional[str] = ..., size: _Optional[int] = ..., by_user: _Optional[bool] = ..., kind: _Optional[str] = ..., signed_by: _Optional[str] = ...) -> None: ...

class Container(_message.Message):
    __slots__ = ("image", "binds", "writable", "workdir", "no_home", "name", "way")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    BINDS_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    NO_HOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAY_FIELD_NUMBER: _ClassVar[int]
    image: Image
    binds: _containers.RepeatedScalarFieldContainer[str]
    writable: bool
    workdir: str
    no_home: bool
    name: str
    way: str
    def __init__(self, image: _Optional[_Union[Image, _Mapping]] = ..., binds: _Optional[_Iterable[str]] = ..., writable: _Optional[bool] = ..., workdir: _Optional[str] = ..., no_home: _Optional[bool] = ..., name: _Optional[str] = ..., way: _Optional[str] = ...) -> None: ...

class RunFiles(_message.Message):
    __slots__ = ("stdout", "stderr", "stdin", "append")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    stdout: str
    stderr: str
    stdin: str
    append: bool
    def __init__(self, stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., stdin: _Optional[str] = ..., append: _Optional[bool] = ...) -> None: ...

class EarlySignal(_message.Message):
    __slots__ = ("signal", "before_s", "to")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_S_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    signal: int
    before_s: float
    to: str
    def __init__(self, signal: _Optional[int] = ..., before_s: _Optional[float] = ..., to: _Optional[str] = ...) -> None: ...

class SignalRun(_message.Message):
    __slots__ = ("key", "signal", "to")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    signal: int
    to: str
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., signal: _Optional[int] = ..., to: _Optional[str] = ...) -> None: ...

class FinishRun(_message.Message):
    __slots__ = ("key", "exit_code")
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    exit_code: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., exit_code: _Optional[int] = ...) -> None: ...

class PauseRun(_message.Message):
    __slots__ = ("key", "paused")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    paused: bool
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., paused: _Optional[bool] = ...) -> None: ...

class CheckpointSetup(_message.Message):
    __slots__ = ("strategy", "protocol", "signal", "directory", "root", "resume_from", "must_resume", "port", "objects", "grant", "is_awaited")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    MUST_RESUME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    IS_AWAITED_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    protocol: str
    signal: int
    directory: str
    root: str
    resume_from: str
    must_resume: bool
    port: int
    objects: str
    grant: str
    is_awaited: bool
    def __init__(self, strategy: _Optional[str] = ..., protocol: _Optional[str] = ..., signal: _Optional[int] = ..., directory: _Optional[str] = ..., root: _Optional[str] = ..., resume_from: _Optional[str] = ..., must_resume: _Optional[bool] = ..., port: _Optional[int] = ..., objects: _Optional[str] = ..., grant: _Optional[str] = ..., is_awaited: _Optional[bool] = ...) -> None: ...

class CheckpointRun(_message.Message):
    __slots__ = ("key", "n", "root", "path", "user", "timeout_s", "reason", "protocol", "signal", "apart", "seal", "keep", "nodes", "remove", "port", "max_deferral_s", "store", "objects", "grant", "probe")
    KEY_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    MAX_DEFERRAL_S_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    n: int
    root: str
    path: str
    user: str
    timeout_s: float
    reason: str
    protocol: str
    signal: int
    apart: bool
    seal: bool
    keep: _containers.RepeatedScalarFieldContainer[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    remove: bool
    port: int
    max_deferral_s: float
    store: bool
    objects: str
    grant: str
    probe: bool
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., n: _Optional[int] = ..., root: _Optional[str] = ..., path: _Optional[str] = ..., user: _Optional[str] = ..., timeout_s: _Optional[float] = ..., reason: _Optional[str] = ..., protocol: _Optional[str] = ..., signal: _Optional[int] = ..., apart: _Optional[bool] = ..., seal: _Optional[bool] = ..., keep: _Optional[_Iterable[int]] = ..., nodes: _Optional[_Iterable[str]] = ..., remove: _Optional[bool] = ..., port: _Optional[int] = ..., max_deferral_s: _Optional[float] = ..., store: _Optional[bool] = ..., objects: _Optional[str] = ..., grant: _Optional[str] = ..., probe: _Optional[bool] = ...) -> None: ...

class AtHand(_message.Message):
    __slots__ = ("images", "gpu_sets")
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    GPU_SETS_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedScalarFieldContainer[int]
    gpu_sets: _containers.RepeatedCompositeFieldContainer[GpuSet]
    def __init__(self, images: _Optional[_Iterable[int]] = ..., gpu_sets: _Optional[_Iterable[_Union[GpuSet, _Mapping]]] = ...) -> None: ...

class GpuSet(_message.Message):
    __slots__ = ("gbps", "near", "nics")
    GBPS_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    gbps: float
    near: int
    nics: int
    def __init__(self, gbps: _Optional[float] = ..., near: _Optional[int] = ..., nics: _Optional[int] = ...) -> None: ...

class CheckpointReport(_message.Message):
    __slots__ = ("key", "n", "phase", "bytes", "elapsed_s", "message")
    KEY_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    n: int
    phase: str
    bytes: int
    elapsed_s: float
    message: str
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., n: _Optional[int] = ..., phase: _Optional[str] = ..., bytes: _Optional[int] = ..., elapsed_s: _Optional[float] = ..., message: _Optional[str] = ...) -> None: ...

class StopRun(_message.Message):
    __slots__ = ("key", "grace_s", "why", "submission", "instance", "abandon")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    grace_s: float
    why: str
    submission: str
    instance: int
    abandon: bool
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., grace_s: _Optional[float] = ..., why: _Optional[str] = ..., submission: _Optional[str] = ..., instance: _Optional[int] = ..., abandon: _Optional[bool] = ...) -> None: ...

class UpdateRun(_message.Message):
    __slots__ = ("key", "walltime_s", "token", "telemetry")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    walltime_s: float
    token: str
    telemetry: RunMode
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., walltime_s: _Optional[float] = ..., token: _Optional[str] = ..., telemetry: _Optional[_Union[RunMode, _Mapping]] = ...) -> None: ...

class RunReports(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[RunReport]
    def __init__(self, reports: _Optional[_Iterable[_Union[RunReport, _Mapping]]] = ...) -> None: ...

class RunReport(_message.Message):
    __slots__ = ("key", "phase", "seq", "cause", "exit_code", "signal", "message", "cpu_s", "peak_memory_mb", "elapsed_s", "never_ran", "submission", "usage", "ports", "instance")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    NEVER_RAN_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    phase: Phase
    seq: int
    cause: EndCause
    exit_code: int
    signal: int
    message: str
    cpu_s: float
    peak_memory_mb: int
    elapsed_s: float
    never_ran: bool
    submission: str
    usage: Usage
    ports: _containers.RepeatedCompositeFieldContainer[NamedPort]
    instance: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., phase: _Optional[_Union[Phase, str]] = ..., seq: _Optional[int] = ..., cause: _Optional[_Union[EndCause, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., cpu_s: _Optional[float] = ..., peak_memory_mb: _Optional[int] = ..., elapsed_s: _Optional[float] = ..., never_ran: _Optional[bool] = ..., submission: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., ports: _Optional[_Iterable[_Union[NamedPort, _Mapping]]] = ..., instance: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("throttled_s", "read_bytes", "written_bytes", "peak_pids", "gpu_used_s", "gpu_held_s", "energy_j")
    THROTTLED_S_FIELD_NUMBER: _ClassVar[int]
    READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_PIDS_FIELD_NUMBER: _ClassVar[int]
    GPU_USED_S_FIELD_NUMBER: _ClassVar[int]
    GPU_HELD_S_FIELD_NUMBER: _ClassVar[int]
    ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    throttled_s: float
    read_bytes: int
    written_bytes: int
    peak_pids: int
    gpu_used_s: float
    gpu_held_s: float
    energy_j: float
    def __init__(self, throttled_s: _Optional[float] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., peak_pids: _Optional[int] = ..., gpu_used_s: _Optional[float] = ..., gpu_held_s: _Optional[float] = ..., energy_j: _Optional[float] = ...) -> None: ...

class Measure(_message.Message):
    __slots__ = ("ticket", "key")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    key: RunKey
    def __init__(self, ticket: _Optional[int] = ..., key: _Optional[_Union[RunKey, _Mapping]] = ...) -> None: ...

class Measured(_message.Message):
    __slots__ = ("ticket", "groups", "missing")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupUse]
    missing: _containers.RepeatedCompositeFieldContainer[MissingFeature]
    def __init__(self, ticket: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupUse, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[MissingFeature, _Mapping]]] = ...) -> None: ...

class MissingFeature(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GroupUse(_message.Message):
    __slots__ = ("key", "step", "cpu_s", "throttled_s", "memory_mb", "peak_memory_mb", "read_bytes", "written_bytes", "pids", "peak_pids", "cpus", "gpus")
    KEY_FIELD_NUMBER: _ClassVar[int]
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
    key: RunKey
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
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., step: _Optional[int] = ..., cpu_s: _Optional[float] = ..., throttled_s: _Optional[float] = ..., memory_mb: _Optional[float] = ..., peak_memory_mb: _Optional[float] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., peak_pids: _Optional[int] = ..., cpus: _Optional[_Iterable[int]] = ..., gpus: _Optional[_Iterable[int]] = ...) -> None: ...

class AskImages(_message.Message):
    __slots__ = ("ticket", "what", "image", "name", "key")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    what: str
    image: Image
    name: str
    key: RunKey
    def __init__(self, ticket: _Optional[int] = ..., what: _Optional[str] = ..., image: _Optional[_Union[Image, _Mapping]] = ..., name: _Optional[str] = ..., key: _Optional[_Union[RunKey, _Mapping]] = ...) -> None: ...

class ImagesTold(_message.Message):
    __slots__ = ("ticket", "error", "capacity", "used", "free", "images", "coming", "mounted", "changes")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    COMING_FIELD_NUMBER: _ClassVar[int]
    MOUNTED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    error: str
    capacity: int
    used: int
    free: int
    images: _containers.RepeatedCompositeFieldContainer[CachedImage]
    coming: _containers.RepeatedCompositeFieldContainer[ComingImage]
    mounted: _containers.RepeatedCompositeFieldContainer[MountedImage]
    changes: _containers.RepeatedCompositeFieldContainer[VariableChange]
    def __init__(self, ticket: _Optional[int] = ..., error: _Optional[str] = ..., capacity: _Optional[int] = ..., used: _Optional[int] = ..., free: _Optional[int] = ..., images: _Optional[_Iterable[_Union[CachedImage, _Mapping]]] = ..., coming: _Optional[_Iterable[_Union[ComingImage, _Mapping]]] = ..., mounted: _Optional[_Iterable[_Union[MountedImage, _Mapping]]] = ..., changes: _Optional[_Iterable[_Union[VariableChange, _Mapping]]] = ...) -> None: ...

class CachedImage(_message.Message):
    __slots__ = ("reference", "digest", "size", "idle_s", "pinned", "mounted")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    MOUNTED_FIELD_NUMBER: _ClassVar[int]
    reference: str
    digest: str
    size: int
    idle_s: float
    pinned: bool
    mounted: bool
    def __init__(self, reference: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., idle_s: _Optional[float] = ..., pinned: _Optional[bool] = ..., mounted: _Optional[bool] = ...) -> None: ...

class ComingImage(_message.Message):
    __slots__ = ("reference", "digest", "done", "total", "error")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    reference: str
    digest: str
    done: int
    total: int
    error: str
    def __init__(self, reference: _Optional[str] = ..., digest: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class MountedImage(_message.Message):
    __slots__ = ("reference", "digest", "mount", "size", "views")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    reference: str
    digest: str
    mount: str
    size: int
    views: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reference: _Optional[str] = ..., digest: _Optional[str] = ..., mount: _Optional[str] = ..., size: _Optional[int] = ..., views: _Optional[_Iterable[str]] = ...) -> None: ...

class VariableChange(_message.Message):
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

class ReportAck(_message.Message):
    __slots__ = ("key", "seq", "instance")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    seq: int
    instance: int
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., seq: _Optional[int] = ..., instance: _Optional[int] = ...) -> None: ...

class ReadOutput(_message.Message):
    __slots__ = ("reader", "key", "stream", "offset", "tail_lines", "follow", "step")
    READER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    reader: int
    key: RunKey
    stream: OutputStream
    offset: int
    tail_lines: int
    follow: bool
    step: int
    def __init__(self, reader: _Optional[int] = ..., key: _Optional[_Union[RunKey, _Mapping]] = ..., stream: _Optional[_Union[OutputStream, str]] = ..., offset: _Optional[int] = ..., tail_lines: _Optional[int] = ..., follow: _Optional[bool] = ..., step: _Optional[int] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("reader", "offset", "data", "eof", "error", "marks")
    READER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    reader: int
    offset: int
    data: bytes
    eof: bool
    error: str
    marks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, reader: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., error: _Optional[str] = ..., marks: _Optional[_Iterable[int]] = ...) -> None: ...

class StopReading(_message.Message):
    __slots__ = ("reader",)
    READER_FIELD_NUMBER: _ClassVar[int]
    reader: int
    def __init__(self, reader: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("why",)
    WHY_FIELD_NUMBER: _ClassVar[int]
    why: str
    def __init__(self, why: _Optional[str] = ...) -> None: ...

class Rejoin(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StepKey(_message.Message):
    __slots__ = ("run", "step")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run: RunKey
    step: int
    def __init__(self, run: _Optional[_Union[RunKey, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class StepTask(_message.Message):
    __slots__ = ("rank", "local_rank", "argv", "has_input", "stdin", "stdout", "stderr", "pty", "truncate")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    HAS_INPUT_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    argv: _containers.RepeatedScalarFieldContainer[str]
    has_input: bool
    stdin: str
    stdout: str
    stderr: str
    pty: bool
    truncate: bool
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., argv: _Optional[_Iterable[str]] = ..., has_input: _Optional[bool] = ..., stdin: _Optional[str] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., pty: _Optional[bool] = ..., truncate: _Optional[bool] = ...) -> None: ...

class LaunchStep(_message.Message):
    __slots__ = ("base", "step", "launch_id", "plan", "tasks", "size", "node_index", "nodes", "time_s", "rows", "columns", "cpus_per_task", "pmi", "master_host", "master_port", "terminal", "cpu_bind", "gpu_bind", "gpus_per_task", "overlap", "container")
    BASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    PMI_FIELD_NUMBER: _ClassVar[int]
    MASTER_HOST_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    CPU_BIND_FIELD_NUMBER: _ClassVar[int]
    GPU_BIND_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    base: StartRun
    step: int
    launch_id: str
    plan: bytes
    tasks: _containers.RepeatedCompositeFieldContainer[StepTask]
    size: int
    node_index: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    time_s: float
    rows: int
    columns: int
    cpus_per_task: int
    pmi: StepPmi
    master_host: str
    master_port: int
    terminal: StepTerminal
    cpu_bind: str
    gpu_bind: str
    gpus_per_task: int
    overlap: bool
    container: Container
    def __init__(self, base: _Optional[_Union[StartRun, _Mapping]] = ..., step: _Optional[int] = ..., launch_id: _Optional[str] = ..., plan: _Optional[bytes] = ..., tasks: _Optional[_Iterable[_Union[StepTask, _Mapping]]] = ..., size: _Optional[int] = ..., node_index: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., time_s: _Optional[float] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., pmi: _Optional[_Union[StepPmi, _Mapping]] = ..., master_host: _Optional[str] = ..., master_port: _Optional[int] = ..., terminal: _Optional[_Union[StepTerminal, _Mapping]] = ..., cpu_bind: _Optional[str] = ..., gpu_bind: _Optional[str] = ..., gpus_per_task: _Optional[int] = ..., overlap: _Optional[bool] = ..., container: _Optional[_Union[Container, _Mapping]] = ...) -> None: ...

class DropContainers(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ...) -> None: ...

class StepTerminal(_message.Message):
    __slots__ = ("keep_s", "ends_run")
    KEEP_S_FIELD_NUMBER: _ClassVar[int]
    ENDS_RUN_FIELD_NUMBER: _ClassVar[int]
    keep_s: float
    ends_run: bool
    def __init__(self, keep_s: _Optional[float] = ..., ends_run: _Optional[bool] = ...) -> None: ...

class StepPmi(_message.Message):
    __slots__ = ("kinds", "key", "host", "timeout_s", "counts", "cyclic", "heads", "head_hosts", "hidden")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CYCLIC_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    HEAD_HOSTS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    key: bytes
    host: str
    timeout_s: float
    counts: _containers.RepeatedScalarFieldContainer[int]
    cyclic: bool
    heads: _containers.RepeatedScalarFieldContainer[int]
    head_hosts: _containers.RepeatedScalarFieldContainer[str]
    hidden: bool
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., key: _Optional[bytes] = ..., host: _Optional[str] = ..., timeout_s: _Optional[float] = ..., counts: _Optional[_Iterable[int]] = ..., cyclic: _Optional[bool] = ..., heads: _Optional[_Iterable[int]] = ..., head_hosts: _Optional[_Iterable[str]] = ..., hidden: _Optional[bool] = ...) -> None: ...

class SignalStep(_message.Message):
    __slots__ = ("key", "signal")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    signal: int
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., signal: _Optional[int] = ...) -> None: ...

class StepNodesEnded(_message.Message):
    __slots__ = ("key", "places")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    places: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., places: _Optional[_Iterable[int]] = ...) -> None: ...

class EndStep(_message.Message):
    __slots__ = ("key", "grace_s", "why")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    grace_s: float
    why: str
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., grace_s: _Optional[float] = ..., why: _Optional[str] = ...) -> None: ...

class StepInput(_message.Message):
    __slots__ = ("key", "offset", "data", "eof", "ticket", "client", "task")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    offset: int
    data: bytes
    eof: bool
    ticket: int
    client: str
    task: int
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., ticket: _Optional[int] = ..., client: _Optional[str] = ..., task: _Optional[int] = ...) -> None: ...

class StepInputTaken(_message.Message):
    __slots__ = ("ticket", "upto", "error")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    upto: int
    error: str
    def __init__(self, ticket: _Optional[int] = ..., upto: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class ResizeStep(_message.Message):
    __slots__ = ("key", "rows", "columns", "client")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    rows: int
    columns: int
    client: str
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class TaskEnd(_message.Message):
    __slots__ = ("rank", "exit_code", "signal", "message", "cause")
    RANK_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    exit_code: int
    signal: int
    message: str
    cause: EndCause
    def __init__(self, rank: _Optional[int] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., cause: _Optional[_Union[EndCause, str]] = ...) -> None: ...

class StepReport(_message.Message):
    __slots__ = ("key", "launch_id", "ended", "tasks", "cpu_s", "peak_memory_mb", "elapsed_s", "message", "usage", "cause", "pmi", "was_ended")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PMI_FIELD_NUMBER: _ClassVar[int]
    WAS_ENDED_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    launch_id: str
    ended: bool
    tasks: _containers.RepeatedCompositeFieldContainer[TaskEnd]
    cpu_s: float
    peak_memory_mb: int
    elapsed_s: float
    message: str
    usage: Usage
    cause: EndCause
    pmi: StepPmiUse
    was_ended: bool
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., launch_id: _Optional[str] = ..., ended: _Optional[bool] = ..., tasks: _Optional[_Iterable[_Union[TaskEnd, _Mapping]]] = ..., cpu_s: _Optional[float] = ..., peak_memory_mb: _Optional[int] = ..., elapsed_s: _Optional[float] = ..., message: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., cause: _Optional[_Union[EndCause, str]] = ..., pmi: _Optional[_Union[StepPmiUse, _Mapping]] = ..., was_ended: _Optional[bool] = ...) -> None: ...

class StepPmiUse(_message.Message):
    __slots__ = ("kind", "met", "fences", "bytes", "slowest_s", "library", "wanted_spawn")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    FENCES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_S_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    WANTED_SPAWN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    met: int
    fences: int
    bytes: int
    slowest_s: float
    library: str
    wanted_spawn: bool
    def __init__(self, kind: _Optional[str] = ..., met: _Optional[int] = ..., fences: _Optional[int] = ..., bytes: _Optional[int] = ..., slowest_s: _Optional[float] = ..., library: _Optional[str] = ..., wanted_spawn: _Optional[bool] = ...) -> None: ...

class StepAck(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ...) -> None: ...

class KnownStep(_message.Message):
    __slots__ = ("key", "launch_id", "plan", "ended")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    launch_id: str
    plan: bytes
    ended: bool
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., launch_id: _Optional[str] = ..., plan: _Optional[bytes] = ..., ended: _Optional[bool] = ...) -> None: ...

class CheckStanding(_message.Message):
    __slots__ = ("name", "verdict", "text", "consequence", "required_for_ready", "failures", "age_s", "duration_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CONSEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FOR_READY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    verdict: CheckVerdict
    text: str
    consequence: CheckConsequence
    required_for_ready: bool
    failures: int
    age_s: float
    duration_s: float
    def __init__(self, name: _Optional[str] = ..., verdict: _Optional[_Union[CheckVerdict, str]] = ..., text: _Optional[str] = ..., consequence: _Optional[_Union[CheckConsequence, str]] = ..., required_for_ready: _Optional[bool] = ..., failures: _Optional[int] = ..., age_s: _Optional[float] = ..., duration_s: _Optional[float] = ...) -> None: ...

class HealthReport(_message.Message):
    __slots__ = ("checks", "seq", "tickets")
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    checks: _containers.RepeatedCompositeFieldContainer[CheckStanding]
    seq: int
    tickets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, checks: _Optional[_Iterable[_Union[CheckStanding, _Mapping]]] = ..., seq: _Optional[int] = ..., tickets: _Optional[_Iterable[int]] = ...) -> None: ...

class RunChecks(_message.Message):
    __slots__ = ("ticket", "names")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class HealthAck(_message.Message):
    __slots__ = ("seq", "server_time_ms")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    server_time_ms: int
    def __init__(self, seq: _Optional[int] = ..., server_time_ms: _Optional[int] = ...) -> None: ...

class Collect(_message.Message):
    __slots__ = ("generation", "interval_s", "limit_s", "members", "tickets")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    interval_s: float
    limit_s: float
    members: _containers.RepeatedScalarFieldContainer[int]
    tickets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, generation: _Optional[int] = ..., interval_s: _Optional[float] = ..., limit_s: _Optional[float] = ..., members: _Optional[_Iterable[int]] = ..., tickets: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportTo(_message.Message):
    __slots__ = ("generation", "collector", "address", "member", "ticket", "key", "interval_s")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    generation: int
    collector: str
    address: str
    member: int
    ticket: int
    key: bytes
    interval_s: float
    def __init__(self, generation: _Optional[int] = ..., collector: _Optional[str] = ..., address: _Optional[str] = ..., member: _Optional[int] = ..., ticket: _Optional[int] = ..., key: _Optional[bytes] = ..., interval_s: _Optional[float] = ...) -> None: ...

class CollectedBeats(_message.Message):
    __slots__ = ("shares",)
    SHARES_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.RepeatedCompositeFieldContainer[Gathered]
    def __init__(self, shares: _Optional[_Iterable[_Union[Gathered, _Mapping]]] = ...) -> None: ...

class Gathered(_message.Message):
    __slots__ = ("collector", "members", "ages_ms", "beats")
    COLLECTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    AGES_MS_FIELD_NUMBER: _ClassVar[int]
    BEATS_FIELD_NUMBER: _ClassVar[int]
    collector: str
    members: _containers.RepeatedScalarFieldContainer[int]
    ages_ms: _containers.RepeatedScalarFieldContainer[int]
    beats: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, collector: _Optional[str] = ..., members: _Optional[_Iterable[int]] = ..., ages_ms: _Optional[_Iterable[int]] = ..., beats: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AskTelemetry(_message.Message):
    __slots__ = ("ticket", "key", "since_ms", "metrics", "follow", "mode")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    key: RunKey
    since_ms: int
    metrics: _containers.RepeatedScalarFieldContainer[str]
    follow: bool
    mode: RunMode
    def __init__(self, ticket: _Optional[int] = ..., key: _Optional[_Union[RunKey, _Mapping]] = ..., since_ms: _Optional[int] = ..., metrics: _Optional[_Iterable[str]] = ..., follow: _Optional[bool] = ..., mode: _Optional[_Union[RunMode, _Mapping]] = ...) -> None: ...

class StopTelemetry(_message.Message):
    __slots__ = ("ticket",)
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    def __init__(self, ticket: _Optional[int] = ...) -> None: ...

class TelemetryTold(_message.Message):
    __slots__ = ("ticket", "error", "sources", "mode", "interval_ms", "now_ms", "series", "alerts", "ended", "missing")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    ALERTS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    error: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    mode: TelemetryMode
    interval_ms: int
    now_ms: int
    series: _containers.RepeatedCompositeFieldContainer[MetricSeries]
    alerts: _containers.RepeatedCompositeFieldContainer[MetricAlert]
    ended: bool
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[int] = ..., error: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[TelemetryMode, str]] = ..., interval_ms: _Optional[int] = ..., now_ms: _Optional[int] = ..., series: _Optional[_Iterable[_Union[MetricSeries, _Mapping]]] = ..., alerts: _Optional[_Iterable[_Union[MetricAlert, _Mapping]]] = ..., ended: _Optional[bool] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricSeries(_message.Message):
    __slots__ = ("metric", "device", "at_ms", "length_ms", "mean", "p50", "p95", "p99", "max", "count")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_MS_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    metric: str
    device: str
    at_ms: _containers.RepeatedScalarFieldContainer[int]
    length_ms: _containers.RepeatedScalarFieldContainer[int]
    mean: _containers.RepeatedScalarFieldContainer[float]
    p50: _containers.RepeatedScalarFieldContainer[float]
    p95: _containers.RepeatedScalarFieldContainer[float]
    p99: _containers.RepeatedScalarFieldContainer[float]
    max: _containers.RepeatedScalarFieldContainer[float]
    count: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, metric: _Optional[str] = ..., device: _Optional[str] = ..., at_ms: _Optional[_Iterable[int]] = ..., length_ms: _Optional[_Iterable[int]] = ..., mean: _Optional[_Iterable[float]] = ..., p50: _Optional[_Iterable[float]] = ..., p95: _Optional[_Iterable[float]] = ..., p99: _Optional[_Iterable[float]] = ..., max: _Optional[_Iterable[float]] = ..., count: _Optional[_Iterable[int]] = ...) -> None: ...

class MetricAlert(_message.Message):
    __slots__ = ("rule", "at_ms", "is_over", "metric", "device", "value", "text")
    RULE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    rule: str
    at_ms: int
    is_over: bool
    metric: str
    device: str
    value: float
    text: str
    def __init__(self, rule: _Optional[str] = ..., at_ms: _Optional[int] = ..., is_over: _Optional[bool] = ..., metric: _Optional[str] = ..., device: _Optional[str] = ..., value: _Optional[float] = ..., text: _Optional[str] = ...) -> None: ...

class RunFigures(_message.Message):
    __slots__ = ("runs", "alerts")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ALERTS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunFigure]
    alerts: _containers.RepeatedCompositeFieldContainer[NodeAlert]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunFigure, _Mapping]]] = ..., alerts: _Optional[_Iterable[_Union[NodeAlert, _Mapping]]] = ...) -> None: ...

class RunFigure(_message.Message):
    __slots__ = ("key", "metrics", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    metrics: _containers.RepeatedScalarFieldContainer[str]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., metrics: _Optional[_Iterable[str]] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class NodeAlert(_message.Message):
    __slots__ = ("key", "alert")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ALERT_FIELD_NUMBER: _ClassVar[int]
    key: RunKey
    alert: MetricAlert
    def __init__(self, key: _Optional[_Union[RunKey, _Mapping]] = ..., alert: _Optional[_Union[MetricAlert, _Mapping]] = ...) -> None: ...
