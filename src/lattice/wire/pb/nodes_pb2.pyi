from lattice.wire.pb import allocations_pb2 as _allocations_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeStatusRequest(_message.Message):
    __slots__ = ("fields", "sort", "filter", "nodes", "limit", "cursor")
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    fields: str
    sort: str
    filter: _containers.RepeatedScalarFieldContainer[str]
    nodes: str
    limit: int
    cursor: str
    def __init__(self, fields: _Optional[str] = ..., sort: _Optional[str] = ..., filter: _Optional[_Iterable[str]] = ..., nodes: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("Name", "OS", "CPUs", "Speed", "RealMemory", "VirtualMemory", "TmpDisk", "Partition", "LastResponse", "State", "NodeState", "Reason", "Position", "vCluster", "Group", "GPUs", "GPUType", "Features", "Address", "Held", "Allocations", "Load")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    REALMEMORY_FIELD_NUMBER: _ClassVar[int]
    VIRTUALMEMORY_FIELD_NUMBER: _ClassVar[int]
    TMPDISK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LASTRESPONSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODESTATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUTYPE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    Name: str
    OS: str
    CPUs: int
    Speed: float
    RealMemory: int
    VirtualMemory: int
    TmpDisk: int
    Partition: str
    LastResponse: int
    State: str
    NodeState: str
    Reason: str
    Position: int
    vCluster: str
    Group: str
    GPUs: int
    GPUType: str
    Features: str
    Address: str
    Held: str
    Allocations: int
    Load: float
    def __init__(self, Name: _Optional[str] = ..., OS: _Optional[str] = ..., CPUs: _Optional[int] = ..., Speed: _Optional[float] = ..., RealMemory: _Optional[int] = ..., VirtualMemory: _Optional[int] = ..., TmpDisk: _Optional[int] = ..., Partition: _Optional[str] = ..., LastResponse: _Optional[int] = ..., State: _Optional[str] = ..., NodeState: _Optional[str] = ..., Reason: _Optional[str] = ..., Position: _Optional[int] = ..., vCluster: _Optional[str] = ..., Group: _Optional[str] = ..., GPUs: _Optional[int] = ..., GPUType: _Optional[str] = ..., Features: _Optional[str] = ..., Address: _Optional[str] = ..., Held: _Optional[str] = ..., Allocations: _Optional[int] = ..., Load: _Optional[float] = ...) -> None: ...

class NodeStatusResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class NodeSummaryRequest(_message.Message):
    __slots__ = ("filter", "nodes")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    filter: _containers.RepeatedScalarFieldContainer[str]
    nodes: str
    def __init__(self, filter: _Optional[_Iterable[str]] = ..., nodes: _Optional[str] = ...) -> None: ...

class NodeSummary(_message.Message):
    __slots__ = ("State", "NodeState", "count", "nodes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODESTATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    State: str
    NodeState: str
    count: int
    nodes: str
    def __init__(self, State: _Optional[str] = ..., NodeState: _Optional[str] = ..., count: _Optional[int] = ..., nodes: _Optional[str] = ...) -> None: ...

class NodeSummaryResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeSummary]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[NodeSummary, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ConfFile(_message.Message):
    __slots__ = ("path", "text", "problem")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    path: str
    text: str
    problem: str
    def __init__(self, path: _Optional[str] = ..., text: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class ImportNodesRequest(_message.Message):
    __slots__ = ("files", "dry_run", "request_id")
    FILES_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[ConfFile]
    dry_run: bool
    request_id: str
    def __init__(self, files: _Optional[_Iterable[_Union[ConfFile, _Mapping]]] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ImportChange(_message.Message):
    __slots__ = ("what", "name", "change")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    what: str
    name: str
    change: str
    def __init__(self, what: _Optional[str] = ..., name: _Optional[str] = ..., change: _Optional[str] = ...) -> None: ...

class NodeImportView(_message.Message):
    __slots__ = ("needs", "dry_run", "nodes", "added", "changed", "unchanged", "changes", "unfit", "warnings")
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    needs: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    nodes: int
    added: int
    changed: int
    unchanged: int
    changes: _containers.RepeatedCompositeFieldContainer[ImportChange]
    unfit: _containers.RepeatedCompositeFieldContainer[ImportChange]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, needs: _Optional[_Iterable[str]] = ..., dry_run: _Optional[bool] = ..., nodes: _Optional[int] = ..., added: _Optional[int] = ..., changed: _Optional[int] = ..., unchanged: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[ImportChange, _Mapping]]] = ..., unfit: _Optional[_Iterable[_Union[ImportChange, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("state", "vcluster", "group", "nodes", "filter", "sort", "limit", "cursor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    vcluster: str
    group: str
    nodes: str
    filter: _containers.RepeatedScalarFieldContainer[str]
    sort: str
    limit: int
    cursor: str
    def __init__(self, state: _Optional[_Iterable[str]] = ..., vcluster: _Optional[str] = ..., group: _Optional[str] = ..., nodes: _Optional[str] = ..., filter: _Optional[_Iterable[str]] = ..., sort: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class FreeView(_message.Message):
    __slots__ = ("cpus", "memory_mb", "gpus")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    memory_mb: int
    gpus: int
    def __init__(self, cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class VitalsView(_message.Message):
    __slots__ = ("gpus", "temperature_c", "memory_errors", "failing_checks")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ERRORS_FIELD_NUMBER: _ClassVar[int]
    FAILING_CHECKS_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    temperature_c: float
    memory_errors: int
    failing_checks: int
    def __init__(self, gpus: _Optional[int] = ..., temperature_c: _Optional[float] = ..., memory_errors: _Optional[int] = ..., failing_checks: _Optional[int] = ...) -> None: ...

class CheckView(_message.Message):
    __slots__ = ("name", "verdict", "text", "consequence", "required_for_ready", "failures", "since_s", "duration_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CONSEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FOR_READY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    verdict: str
    text: str
    consequence: str
    required_for_ready: bool
    failures: int
    since_s: float
    duration_s: float
    def __init__(self, name: _Optional[str] = ..., verdict: _Optional[str] = ..., text: _Optional[str] = ..., consequence: _Optional[str] = ..., required_for_ready: _Optional[bool] = ..., failures: _Optional[int] = ..., since_s: _Optional[float] = ..., duration_s: _Optional[float] = ...) -> None: ...

class NodeView(_message.Message):
    __slots__ = ("id", "state", "reason", "reason_by", "down_cause", "cpus", "memory_mb", "gpus", "gpu_type", "group", "features", "unified_memory", "cxl_memory_mb", "power_w", "address", "vcluster", "allocations", "free", "holding", "last_heartbeat_s", "load1", "registered_at", "changed_at", "status", "last_response", "os", "speed", "virtual_memory_mb", "tmp_disk_mb", "partitions", "position", "shortfall", "reports_through", "fingerprint", "conformance", "vitals", "checks", "home", "lent_since")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_BY_FIELD_NUMBER: _ClassVar[int]
    DOWN_CAUSE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    UNIFIED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    CXL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    LOAD1_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    TMP_DISK_MB_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SHORTFALL_FIELD_NUMBER: _ClassVar[int]
    REPORTS_THROUGH_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CONFORMANCE_FIELD_NUMBER: _ClassVar[int]
    VITALS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    LENT_SINCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    reason: str
    reason_by: str
    down_cause: str
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    group: str
    features: _containers.RepeatedScalarFieldContainer[str]
    unified_memory: bool
    cxl_memory_mb: int
    power_w: int
    address: str
    vcluster: str
    allocations: _containers.RepeatedScalarFieldContainer[str]
    free: FreeView
    holding: str
    last_heartbeat_s: float
    load1: float
    registered_at: str
    changed_at: str
    status: str
    last_response: int
    os: str
    speed: float
    virtual_memory_mb: int
    tmp_disk_mb: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    position: int
    shortfall: str
    reports_through: str
    fingerprint: str
    conformance: str
    vitals: VitalsView
    checks: _containers.RepeatedCompositeFieldContainer[CheckView]
    home: str
    lent_since: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., reason_by: _Optional[str] = ..., down_cause: _Optional[str] = ..., cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., group: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., unified_memory: _Optional[bool] = ..., cxl_memory_mb: _Optional[int] = ..., power_w: _Optional[int] = ..., address: _Optional[str] = ..., vcluster: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ..., free: _Optional[_Union[FreeView, _Mapping]] = ..., holding: _Optional[str] = ..., last_heartbeat_s: _Optional[float] = ..., load1: _Optional[float] = ..., registered_at: _Optional[str] = ..., changed_at: _Optional[str] = ..., status: _Optional[str] = ..., last_response: _Optional[int] = ..., os: _Optional[str] = ..., speed: _Optional[float] = ..., virtual_memory_mb: _Optional[int] = ..., tmp_disk_mb: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., position: _Optional[int] = ..., shortfall: _Optional[str] = ..., reports_through: _Optional[str] = ..., fingerprint: _Optional[str] = ..., conformance: _Optional[str] = ..., vitals: _Optional[_Union[VitalsView, _Mapping]] = ..., checks: _Optional[_Iterable[_Union[CheckView, _Mapping]]] = ..., home: _Optional[str] = ..., lent_since: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[NodeView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteNodeRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Deleted(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class NodeUsageRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RunDevicesView(_message.Message):
    __slots__ = ("id", "cpus", "gpus")
    ID_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    cpus: _containers.RepeatedScalarFieldContainer[int]
    gpus: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[str] = ..., cpus: _Optional[_Iterable[int]] = ..., gpus: _Optional[_Iterable[int]] = ...) -> None: ...

class MissingFeatureView(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class NodeUsageView(_message.Message):
    __slots__ = ("node", "runs", "missing")
    NODE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    node: str
    runs: _containers.RepeatedCompositeFieldContainer[RunDevicesView]
    missing: _containers.RepeatedCompositeFieldContainer[MissingFeatureView]
    def __init__(self, node: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[RunDevicesView, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[MissingFeatureView, _Mapping]]] = ...) -> None: ...

class NodeMetricsRequest(_message.Message):
    __slots__ = ("id", "duration", "metric", "points")
    ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    duration: str
    metric: _containers.RepeatedScalarFieldContainer[str]
    points: bool
    def __init__(self, id: _Optional[str] = ..., duration: _Optional[str] = ..., metric: _Optional[_Iterable[str]] = ..., points: _Optional[bool] = ...) -> None: ...

class GetNodeInventoryRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Cpus(_message.Message):
    __slots__ = ("model", "vendor", "architecture", "sockets", "cores", "threads", "mhz", "microcode")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    MHZ_FIELD_NUMBER: _ClassVar[int]
    MICROCODE_FIELD_NUMBER: _ClassVar[int]
    model: str
    vendor: str
    architecture: str
    sockets: int
    cores: int
    threads: int
    mhz: int
    microcode: str
    def __init__(self, model: _Optional[str] = ..., vendor: _Optional[str] = ..., architecture: _Optional[str] = ..., sockets: _Optional[int] = ..., cores: _Optional[int] = ..., threads: _Optional[int] = ..., mhz: _Optional[int] = ..., microcode: _Optional[str] = ...) -> None: ...

class MemoryDomain(_message.Message):
    __slots__ = ("id", "domain_type", "capacity_bytes", "numa_node", "attached_cpus", "attached_gpus", "part_of")
    ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_TYPE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_CPUS_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_GPUS_FIELD_NUMBER: _ClassVar[int]
    PART_OF_FIELD_NUMBER: _ClassVar[int]
    id: int
    domain_type: str
    capacity_bytes: int
    numa_node: int
    attached_cpus: _containers.RepeatedScalarFieldContainer[int]
    attached_gpus: _containers.RepeatedScalarFieldContainer[int]
    part_of: int
    def __init__(self, id: _Optional[int] = ..., domain_type: _Optional[str] = ..., capacity_bytes: _Optional[int] = ..., numa_node: _Optional[int] = ..., attached_cpus: _Optional[_Iterable[int]] = ..., attached_gpus: _Optional[_Iterable[int]] = ..., part_of: _Optional[int] = ...) -> None: ...

class MemoryInterconnect(_message.Message):
    __slots__ = ("domain_a", "domain_b", "link_type", "bandwidth_gbps", "latency_ns")
    DOMAIN_A_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_B_FIELD_NUMBER: _ClassVar[int]
    LINK_TYPE_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_GBPS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    domain_a: int
    domain_b: int
    link_type: str
    bandwidth_gbps: float
    latency_ns: int
    def __init__(self, domain_a: _Optional[int] = ..., domain_b: _Optional[int] = ..., link_type: _Optional[str] = ..., bandwidth_gbps: _Optional[float] = ..., latency_ns: _Optional[int] = ...) -> None: ...

class MemoryTopology(_message.Message):
    __slots__ = ("domains", "interconnects", "total_capacity_bytes")
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    INTERCONNECTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    domains: _containers.RepeatedCompositeFieldContainer[MemoryDomain]
    interconnects: _containers.RepeatedCompositeFieldContainer[MemoryInterconnect]
    total_capacity_bytes: int
    def __init__(self, domains: _Optional[_Iterable[_Union[MemoryDomain, _Mapping]]] = ..., interconnects: _Optional[_Iterable[_Union[MemoryInterconnect, _Mapping]]] = ..., total_capacity_bytes: _Optional[int] = ...) -> None: ...

class GpuPartition(_message.Message):
    __slots__ = ("profile", "uuid", "memory_bytes", "gpu_instance", "compute_instance", "devices")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    profile: str
    uuid: str
    memory_bytes: int
    gpu_instance: int
    compute_instance: int
    devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, profile: _Optional[str] = ..., uuid: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., gpu_instance: _Optional[int] = ..., compute_instance: _Optional[int] = ..., devices: _Optional[_Iterable[str]] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("index", "vendor", "model", "uuid", "memory_bytes", "compute_capability", "firmware", "pci_address", "numa_node", "nic", "memory_node", "partitions", "devices")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    FIRMWARE_FIELD_NUMBER: _ClassVar[int]
    PCI_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    NIC_FIELD_NUMBER: _ClassVar[int]
    MEMORY_NODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    index: int
    vendor: str
    model: str
    uuid: str
    memory_bytes: int
    compute_capability: str
    firmware: str
    pci_address: str
    numa_node: int
    nic: str
    memory_node: int
    partitions: _containers.RepeatedCompositeFieldContainer[GpuPartition]
    devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., vendor: _Optional[str] = ..., model: _Optional[str] = ..., uuid: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., compute_capability: _Optional[str] = ..., firmware: _Optional[str] = ..., pci_address: _Optional[str] = ..., numa_node: _Optional[int] = ..., nic: _Optional[str] = ..., memory_node: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[GpuPartition, _Mapping]]] = ..., devices: _Optional[_Iterable[str]] = ...) -> None: ...

class GpuLink(_message.Message):
    __slots__ = ("gpu_a", "gpu_b", "link_type", "bandwidth_gbps")
    GPU_A_FIELD_NUMBER: _ClassVar[int]
    GPU_B_FIELD_NUMBER: _ClassVar[int]
    LINK_TYPE_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_GBPS_FIELD_NUMBER: _ClassVar[int]
    gpu_a: int
    gpu_b: int
    link_type: str
    bandwidth_gbps: float
    def __init__(self, gpu_a: _Optional[int] = ..., gpu_b: _Optional[int] = ..., link_type: _Optional[str] = ..., bandwidth_gbps: _Optional[float] = ...) -> None: ...

class Nic(_message.Message):
    __slots__ = ("name", "driver", "firmware", "speed_mbps", "numa_node", "pci_address", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    FIRMWARE_FIELD_NUMBER: _ClassVar[int]
    SPEED_MBPS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    PCI_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    driver: str
    firmware: str
    speed_mbps: int
    numa_node: int
    pci_address: str
    kind: str
    def __init__(self, name: _Optional[str] = ..., driver: _Optional[str] = ..., firmware: _Optional[str] = ..., speed_mbps: _Optional[int] = ..., numa_node: _Optional[int] = ..., pci_address: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class Board(_message.Message):
    __slots__ = ("vendor", "product", "board_vendor", "board", "board_version", "bios_vendor", "bios_version", "bios_date", "bmc_version")
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    BOARD_VENDOR_FIELD_NUMBER: _ClassVar[int]
    BOARD_FIELD_NUMBER: _ClassVar[int]
    BOARD_VERSION_FIELD_NUMBER: _ClassVar[int]
    BIOS_VENDOR_FIELD_NUMBER: _ClassVar[int]
    BIOS_VERSION_FIELD_NUMBER: _ClassVar[int]
    BIOS_DATE_FIELD_NUMBER: _ClassVar[int]
    BMC_VERSION_FIELD_NUMBER: _ClassVar[int]
    vendor: str
    product: str
    board_vendor: str
    board: str
    board_version: str
    bios_vendor: str
    bios_version: str
    bios_date: str
    bmc_version: str
    def __init__(self, vendor: _Optional[str] = ..., product: _Optional[str] = ..., board_vendor: _Optional[str] = ..., board: _Optional[str] = ..., board_version: _Optional[str] = ..., bios_vendor: _Optional[str] = ..., bios_version: _Optional[str] = ..., bios_date: _Optional[str] = ..., bmc_version: _Optional[str] = ...) -> None: ...

class Software(_message.Message):
    __slots__ = ("os", "kernel", "kernel_build", "boot_parameters", "base_image")
    OS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    KERNEL_BUILD_FIELD_NUMBER: _ClassVar[int]
    BOOT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    BASE_IMAGE_FIELD_NUMBER: _ClassVar[int]
    os: str
    kernel: str
    kernel_build: str
    boot_parameters: str
    base_image: str
    def __init__(self, os: _Optional[str] = ..., kernel: _Optional[str] = ..., kernel_build: _Optional[str] = ..., boot_parameters: _Optional[str] = ..., base_image: _Optional[str] = ...) -> None: ...

class Drive(_message.Message):
    __slots__ = ("name", "model", "firmware", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FIRMWARE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: str
    firmware: str
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., model: _Optional[str] = ..., firmware: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Scratch(_message.Message):
    __slots__ = ("path", "filesystem", "size_bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILESYSTEM_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    filesystem: str
    size_bytes: int
    def __init__(self, path: _Optional[str] = ..., filesystem: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class InventoryDocument(_message.Message):
    __slots__ = ("cpus", "memory_mb", "swap_mb", "memory", "gpus", "gpu_links", "drivers", "nics", "board", "software", "drives", "scratch", "runtimes", "sources", "problems")
    class DriversEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RuntimesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    SWAP_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_LINKS_FIELD_NUMBER: _ClassVar[int]
    DRIVERS_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    BOARD_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    DRIVES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    RUNTIMES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    cpus: Cpus
    memory_mb: int
    swap_mb: int
    memory: MemoryTopology
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    gpu_links: _containers.RepeatedCompositeFieldContainer[GpuLink]
    drivers: _containers.ScalarMap[str, str]
    nics: _containers.RepeatedCompositeFieldContainer[Nic]
    board: Board
    software: Software
    drives: _containers.RepeatedCompositeFieldContainer[Drive]
    scratch: _containers.RepeatedCompositeFieldContainer[Scratch]
    runtimes: _containers.ScalarMap[str, str]
    sources: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cpus: _Optional[_Union[Cpus, _Mapping]] = ..., memory_mb: _Optional[int] = ..., swap_mb: _Optional[int] = ..., memory: _Optional[_Union[MemoryTopology, _Mapping]] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., gpu_links: _Optional[_Iterable[_Union[GpuLink, _Mapping]]] = ..., drivers: _Optional[_Mapping[str, str]] = ..., nics: _Optional[_Iterable[_Union[Nic, _Mapping]]] = ..., board: _Optional[_Union[Board, _Mapping]] = ..., software: _Optional[_Union[Software, _Mapping]] = ..., drives: _Optional[_Iterable[_Union[Drive, _Mapping]]] = ..., scratch: _Optional[_Iterable[_Union[Scratch, _Mapping]]] = ..., runtimes: _Optional[_Mapping[str, str]] = ..., sources: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeInventoryView(_message.Message):
    __slots__ = ("node", "fingerprint", "components", "received_at", "age_s", "is_stale", "inventory")
    class ComponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    IS_STALE_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    node: str
    fingerprint: str
    components: _containers.ScalarMap[str, str]
    received_at: str
    age_s: float
    is_stale: bool
    inventory: InventoryDocument
    def __init__(self, node: _Optional[str] = ..., fingerprint: _Optional[str] = ..., components: _Optional[_Mapping[str, str]] = ..., received_at: _Optional[str] = ..., age_s: _Optional[float] = ..., is_stale: _Optional[bool] = ..., inventory: _Optional[_Union[InventoryDocument, _Mapping]] = ...) -> None: ...

class NodeEventsRequest(_message.Message):
    __slots__ = ("id", "since")
    ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    since: str
    def __init__(self, id: _Optional[str] = ..., since: _Optional[str] = ...) -> None: ...

class NodeEventView(_message.Message):
    __slots__ = ("at", "trigger", "previous", "state", "by", "reason", "allocations")
    AT_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    at: str
    trigger: str
    previous: str
    state: str
    by: str
    reason: str
    allocations: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, at: _Optional[str] = ..., trigger: _Optional[str] = ..., previous: _Optional[str] = ..., state: _Optional[str] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeEventsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeEventView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[NodeEventView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class SetNodeTelemetryRequest(_message.Message):
    __slots__ = ("id", "mode", "duration", "interval")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    id: str
    mode: str
    duration: str
    interval: str
    def __init__(self, id: _Optional[str] = ..., mode: _Optional[str] = ..., duration: _Optional[str] = ..., interval: _Optional[str] = ...) -> None: ...

class NodeTelemetryView(_message.Message):
    __slots__ = ("node", "mode", "interval_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    node: str
    mode: str
    interval_s: float
    def __init__(self, node: _Optional[str] = ..., mode: _Optional[str] = ..., interval_s: _Optional[float] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "urgent", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    urgent: bool
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., urgent: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndrainNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DisableNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class EnableNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RebootNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FaultNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class WipeNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "force", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    force: bool
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., force: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class DrainNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "urgent", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    urgent: bool
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., urgent: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class NodeAnswer(_message.Message):
    __slots__ = ("id", "ok", "state", "error", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    ok: bool
    state: str
    error: _allocations_pb2.ErrorView
    note: str
    def __init__(self, id: _Optional[str] = ..., ok: _Optional[bool] = ..., state: _Optional[str] = ..., error: _Optional[_Union[_allocations_pb2.ErrorView, _Mapping]] = ..., note: _Optional[str] = ...) -> None: ...

class NodeAnswers(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeAnswer]
    def __init__(self, items: _Optional[_Iterable[_Union[NodeAnswer, _Mapping]]] = ...) -> None: ...

class UndrainNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DisableNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class EnableNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RebootNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FaultNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class WipeNodeSetRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "reason", "force", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    force: bool
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., force: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class CheckNodeRequest(_message.Message):
    __slots__ = ("id", "checks")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    id: str
    checks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., checks: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeChecksView(_message.Message):
    __slots__ = ("node", "state", "ok", "checks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    state: str
    ok: bool
    checks: _containers.RepeatedCompositeFieldContainer[CheckView]
    def __init__(self, node: _Optional[str] = ..., state: _Optional[str] = ..., ok: _Optional[bool] = ..., checks: _Optional[_Iterable[_Union[CheckView, _Mapping]]] = ...) -> None: ...

class DiffNodesRequest(_message.Message):
    __slots__ = ("id", "other")
    ID_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    id: str
    other: str
    def __init__(self, id: _Optional[str] = ..., other: _Optional[str] = ...) -> None: ...

class DifferenceView(_message.Message):
    __slots__ = ("component", "expected", "actual")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    component: str
    expected: str
    actual: str
    def __init__(self, component: _Optional[str] = ..., expected: _Optional[str] = ..., actual: _Optional[str] = ...) -> None: ...

class NodeDiffView(_message.Message):
    __slots__ = ("first", "second", "is_same", "first_fingerprint", "second_fingerprint", "differences")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    IS_SAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SECOND_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    is_same: bool
    first_fingerprint: str
    second_fingerprint: str
    differences: _containers.RepeatedCompositeFieldContainer[DifferenceView]
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ..., is_same: _Optional[bool] = ..., first_fingerprint: _Optional[str] = ..., second_fingerprint: _Optional[str] = ..., differences: _Optional[_Iterable[_Union[DifferenceView, _Mapping]]] = ...) -> None: ...

class ApproveNodeRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdmitNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdmissionView(_message.Message):
    __slots__ = ("node", "standing", "state", "by", "since", "valid_from")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    node: str
    standing: str
    state: str
    by: str
    since: str
    valid_from: str
    def __init__(self, node: _Optional[str] = ..., standing: _Optional[str] = ..., state: _Optional[str] = ..., by: _Optional[str] = ..., since: _Optional[str] = ..., valid_from: _Optional[str] = ...) -> None: ...

class RevokeNodeRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class NodeLogRequest(_message.Message):
    __slots__ = ("id", "since_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    since_s: int
    def __init__(self, id: _Optional[str] = ..., since_s: _Optional[int] = ...) -> None: ...

class NodeLog(_message.Message):
    __slots__ = ("node", "log")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    node: str
    log: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., log: _Optional[_Iterable[str]] = ...) -> None: ...
