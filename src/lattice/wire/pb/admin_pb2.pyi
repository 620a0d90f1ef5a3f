from lattice.wire.pb import allocations_pb2 as _allocations_pb2
from lattice.wire.pb import nodes_pb2 as _nodes_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompareRequest(_message.Message):
    __slots__ = ("ids", "metrics", "align")
    IDS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    ALIGN_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    metrics: _containers.RepeatedScalarFieldContainer[str]
    align: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., metrics: _Optional[_Iterable[str]] = ..., align: _Optional[str] = ...) -> None: ...

class Compared(_message.Message):
    __slots__ = ("id", "name", "state", "started_at", "elapsed_s", "source", "note", "resolution_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    started_at: str
    elapsed_s: float
    source: str
    note: str
    resolution_s: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., started_at: _Optional[str] = ..., elapsed_s: _Optional[float] = ..., source: _Optional[str] = ..., note: _Optional[str] = ..., resolution_s: _Optional[float] = ...) -> None: ...

class ComparedPoint(_message.Message):
    __slots__ = ("t_s", "length_s", "mean")
    T_S_FIELD_NUMBER: _ClassVar[int]
    LENGTH_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    t_s: float
    length_s: float
    mean: float
    def __init__(self, t_s: _Optional[float] = ..., length_s: _Optional[float] = ..., mean: _Optional[float] = ...) -> None: ...

class ComparedSeries(_message.Message):
    __slots__ = ("id", "mean", "max", "count", "points")
    ID_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    mean: float
    max: float
    count: int
    points: _containers.RepeatedCompositeFieldContainer[ComparedPoint]
    def __init__(self, id: _Optional[str] = ..., mean: _Optional[float] = ..., max: _Optional[float] = ..., count: _Optional[int] = ..., points: _Optional[_Iterable[_Union[ComparedPoint, _Mapping]]] = ...) -> None: ...

class ComparedMetric(_message.Message):
    __slots__ = ("metric", "unit", "series")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    metric: str
    unit: str
    series: _containers.RepeatedCompositeFieldContainer[ComparedSeries]
    def __init__(self, metric: _Optional[str] = ..., unit: _Optional[str] = ..., series: _Optional[_Iterable[_Union[ComparedSeries, _Mapping]]] = ...) -> None: ...

class CompareView(_message.Message):
    __slots__ = ("align", "source", "allocations", "items")
    ALIGN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    align: str
    source: str
    allocations: _containers.RepeatedCompositeFieldContainer[Compared]
    items: _containers.RepeatedCompositeFieldContainer[ComparedMetric]
    def __init__(self, align: _Optional[str] = ..., source: _Optional[str] = ..., allocations: _Optional[_Iterable[_Union[Compared, _Mapping]]] = ..., items: _Optional[_Iterable[_Union[ComparedMetric, _Mapping]]] = ...) -> None: ...

class ListServicesRequest(_message.Message):
    __slots__ = ("tenant", "limit", "cursor")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    limit: int
    cursor: str
    def __init__(self, tenant: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class RegisteredService(_message.Message):
    __slots__ = ("name", "tenant", "user", "allocations", "ready", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    user: str
    allocations: _containers.RepeatedScalarFieldContainer[str]
    ready: int
    size: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ..., ready: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class ListServicesResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RegisteredService]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[RegisteredService, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class LookupServiceRequest(_message.Message):
    __slots__ = ("name", "tenant", "version", "timeout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    version: str
    timeout: float
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., version: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class EndpointView(_message.Message):
    __slots__ = ("id", "run", "node", "port", "ready")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    id: str
    run: int
    node: str
    port: int
    ready: bool
    def __init__(self, id: _Optional[str] = ..., run: _Optional[int] = ..., node: _Optional[str] = ..., port: _Optional[int] = ..., ready: _Optional[bool] = ...) -> None: ...

class ServiceLookup(_message.Message):
    __slots__ = ("name", "tenant", "user", "allocations", "ready", "size", "endpoints", "shared", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    user: str
    allocations: _containers.RepeatedScalarFieldContainer[str]
    ready: int
    size: int
    endpoints: _containers.RepeatedCompositeFieldContainer[EndpointView]
    shared: bool
    version: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ..., ready: _Optional[int] = ..., size: _Optional[int] = ..., endpoints: _Optional[_Iterable[_Union[EndpointView, _Mapping]]] = ..., shared: _Optional[bool] = ..., version: _Optional[str] = ...) -> None: ...

class OpenServiceRequest(_message.Message):
    __slots__ = ("name", "request_id", "tenant", "path", "keep_path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEEP_PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    tenant: str
    path: str
    keep_path: bool
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., tenant: _Optional[str] = ..., path: _Optional[str] = ..., keep_path: _Optional[bool] = ...) -> None: ...

class OpenedService(_message.Message):
    __slots__ = ("url", "expires_in_s")
    URL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_S_FIELD_NUMBER: _ClassVar[int]
    url: str
    expires_in_s: float
    def __init__(self, url: _Optional[str] = ..., expires_in_s: _Optional[float] = ...) -> None: ...

class SlurmCommandRequest(_message.Message):
    __slots__ = ("program", "argv", "cwd", "environment", "script", "script_path", "host", "uid", "gid", "umask", "resume", "request_id")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_PATH_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    program: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    environment: _containers.ScalarMap[str, str]
    script: str
    script_path: str
    host: str
    uid: int
    gid: int
    umask: int
    resume: str
    request_id: str
    def __init__(self, program: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., environment: _Optional[_Mapping[str, str]] = ..., script: _Optional[str] = ..., script_path: _Optional[str] = ..., host: _Optional[str] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., umask: _Optional[int] = ..., resume: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SlurmStep(_message.Message):
    __slots__ = ("allocation", "step", "tasks", "label", "stdin", "fed", "pty", "stdout", "stderr", "append", "resume", "detaches", "only_stdout", "only_stderr", "only_stdin")
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    FED_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    DETACHES_FIELD_NUMBER: _ClassVar[int]
    ONLY_STDOUT_FIELD_NUMBER: _ClassVar[int]
    ONLY_STDERR_FIELD_NUMBER: _ClassVar[int]
    ONLY_STDIN_FIELD_NUMBER: _ClassVar[int]
    allocation: str
    step: int
    tasks: int
    label: bool
    stdin: str
    fed: bool
    pty: bool
    stdout: str
    stderr: str
    append: bool
    resume: str
    detaches: bool
    only_stdout: int
    only_stderr: int
    only_stdin: int
    def __init__(self, allocation: _Optional[str] = ..., step: _Optional[int] = ..., tasks: _Optional[int] = ..., label: _Optional[bool] = ..., stdin: _Optional[str] = ..., fed: _Optional[bool] = ..., pty: _Optional[bool] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., append: _Optional[bool] = ..., resume: _Optional[str] = ..., detaches: _Optional[bool] = ..., only_stdout: _Optional[int] = ..., only_stderr: _Optional[int] = ..., only_stdin: _Optional[int] = ...) -> None: ...

class SlurmProgram(_message.Message):
    __slots__ = ("argv", "environment", "resume")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    resume: str
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., resume: _Optional[str] = ...) -> None: ...

class SlurmAnswer(_message.Message):
    __slots__ = ("stdout", "stderr", "code", "needs", "path", "resume", "attend", "spawn")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    ATTEND_FIELD_NUMBER: _ClassVar[int]
    SPAWN_FIELD_NUMBER: _ClassVar[int]
    stdout: str
    stderr: str
    code: int
    needs: str
    path: str
    resume: str
    attend: SlurmStep
    spawn: SlurmProgram
    def __init__(self, stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., code: _Optional[int] = ..., needs: _Optional[str] = ..., path: _Optional[str] = ..., resume: _Optional[str] = ..., attend: _Optional[_Union[SlurmStep, _Mapping]] = ..., spawn: _Optional[_Union[SlurmProgram, _Mapping]] = ...) -> None: ...

class ConformanceStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConformanceGroupView(_message.Message):
    __slots__ = ("fingerprint", "size", "nodes", "baseline_of", "differences")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BASELINE_OF_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    size: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    baseline_of: _containers.RepeatedScalarFieldContainer[str]
    differences: _containers.RepeatedCompositeFieldContainer[_nodes_pb2.DifferenceView]
    def __init__(self, fingerprint: _Optional[str] = ..., size: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., baseline_of: _Optional[_Iterable[str]] = ..., differences: _Optional[_Iterable[_Union[_nodes_pb2.DifferenceView, _Mapping]]] = ...) -> None: ...

class BaselineView(_message.Message):
    __slots__ = ("vcluster", "source", "fingerprint", "kind", "node", "set_by", "set_at", "components")
    class ComponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    SET_AT_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    vcluster: str
    source: str
    fingerprint: str
    kind: str
    node: str
    set_by: str
    set_at: str
    components: _containers.ScalarMap[str, str]
    def __init__(self, vcluster: _Optional[str] = ..., source: _Optional[str] = ..., fingerprint: _Optional[str] = ..., kind: _Optional[str] = ..., node: _Optional[str] = ..., set_by: _Optional[str] = ..., set_at: _Optional[str] = ..., components: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DriftView(_message.Message):
    __slots__ = ("node", "state", "vcluster", "expected", "actual", "since", "differences", "is_sensitive", "given_up_at", "escalated_at", "verified_at")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    IS_SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_AT_FIELD_NUMBER: _ClassVar[int]
    ESCALATED_AT_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    node: str
    state: str
    vcluster: str
    expected: str
    actual: str
    since: str
    differences: _containers.RepeatedCompositeFieldContainer[_nodes_pb2.DifferenceView]
    is_sensitive: bool
    given_up_at: str
    escalated_at: str
    verified_at: str
    def __init__(self, node: _Optional[str] = ..., state: _Optional[str] = ..., vcluster: _Optional[str] = ..., expected: _Optional[str] = ..., actual: _Optional[str] = ..., since: _Optional[str] = ..., differences: _Optional[_Iterable[_Union[_nodes_pb2.DifferenceView, _Mapping]]] = ..., is_sensitive: _Optional[bool] = ..., given_up_at: _Optional[str] = ..., escalated_at: _Optional[str] = ..., verified_at: _Optional[str] = ...) -> None: ...

class ConformanceView(_message.Message):
    __slots__ = ("nodes", "groups", "unknown", "baselines", "drifted")
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    BASELINES_FIELD_NUMBER: _ClassVar[int]
    DRIFTED_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    groups: _containers.RepeatedCompositeFieldContainer[ConformanceGroupView]
    unknown: _containers.RepeatedScalarFieldContainer[str]
    baselines: _containers.RepeatedCompositeFieldContainer[BaselineView]
    drifted: _containers.RepeatedCompositeFieldContainer[DriftView]
    def __init__(self, nodes: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[ConformanceGroupView, _Mapping]]] = ..., unknown: _Optional[_Iterable[str]] = ..., baselines: _Optional[_Iterable[_Union[BaselineView, _Mapping]]] = ..., drifted: _Optional[_Iterable[_Union[DriftView, _Mapping]]] = ...) -> None: ...

class RefreshConformanceRequest(_message.Message):
    __slots__ = ("nodes_text", "nodes", "request_id")
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class RefreshView(_message.Message):
    __slots__ = ("asked", "unreachable")
    ASKED_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    asked: _containers.RepeatedScalarFieldContainer[str]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, asked: _Optional[_Iterable[str]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class GetBaselineRequest(_message.Message):
    __slots__ = ("vcluster",)
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    vcluster: str
    def __init__(self, vcluster: _Optional[str] = ...) -> None: ...

class SetBaselineRequest(_message.Message):
    __slots__ = ("vcluster", "node", "fingerprint", "request_id")
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    vcluster: str
    node: str
    fingerprint: str
    request_id: str
    def __init__(self, vcluster: _Optional[str] = ..., node: _Optional[str] = ..., fingerprint: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnsetBaselineRequest(_message.Message):
    __slots__ = ("vcluster", "request_id")
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    vcluster: str
    request_id: str
    def __init__(self, vcluster: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListImagesRequest(_message.Message):
    __slots__ = ("find",)
    FIND_FIELD_NUMBER: _ClassVar[int]
    find: str
    def __init__(self, find: _Optional[str] = ...) -> None: ...

class ListedImageView(_message.Message):
    __slots__ = ("image", "name", "version", "tag", "size")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    image: str
    name: str
    version: str
    tag: str
    size: int
    def __init__(self, image: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., tag: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class ListedImagesView(_message.Message):
    __slots__ = ("items", "directory")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ListedImageView]
    directory: str
    def __init__(self, items: _Optional[_Iterable[_Union[ListedImageView, _Mapping]]] = ..., directory: _Optional[str] = ...) -> None: ...

class GetImageRequest(_message.Message):
    __slots__ = ("image",)
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    image: str
    def __init__(self, image: _Optional[str] = ...) -> None: ...

class PatchView(_message.Message):
    __slots__ = ("variable", "operation", "values")
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    variable: str
    operation: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, variable: _Optional[str] = ..., operation: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class ViewOfImage(_message.Message):
    __slots__ = ("name", "description", "patches")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PATCHES_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    patches: _containers.RepeatedCompositeFieldContainer[PatchView]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., patches: _Optional[_Iterable[_Union[PatchView, _Mapping]]] = ...) -> None: ...

class ImageView(_message.Message):
    __slots__ = ("image", "digest", "size", "source", "signed_by", "mount", "description", "views")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    size: int
    source: str
    signed_by: str
    mount: str
    description: str
    views: _containers.RepeatedCompositeFieldContainer[ViewOfImage]
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., source: _Optional[str] = ..., signed_by: _Optional[str] = ..., mount: _Optional[str] = ..., description: _Optional[str] = ..., views: _Optional[_Iterable[_Union[ViewOfImage, _Mapping]]] = ...) -> None: ...

class ListDataRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class CopyView(_message.Message):
    __slots__ = ("source", "state", "tenant", "size", "files", "generation", "bytes_done", "percent", "bytes_per_s", "seconds_left", "tries", "reason", "checked_at", "used_at", "allocations", "users")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKED_AT_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    source: str
    state: str
    tenant: str
    size: int
    files: int
    generation: int
    bytes_done: int
    percent: float
    bytes_per_s: float
    seconds_left: float
    tries: int
    reason: str
    checked_at: str
    used_at: str
    allocations: _containers.RepeatedScalarFieldContainer[str]
    users: int
    def __init__(self, source: _Optional[str] = ..., state: _Optional[str] = ..., tenant: _Optional[str] = ..., size: _Optional[int] = ..., files: _Optional[int] = ..., generation: _Optional[int] = ..., bytes_done: _Optional[int] = ..., percent: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., seconds_left: _Optional[float] = ..., tries: _Optional[int] = ..., reason: _Optional[str] = ..., checked_at: _Optional[str] = ..., used_at: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ..., users: _Optional[int] = ...) -> None: ...

class ListDataResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CopyView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[CopyView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class DataTierRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class TierView(_message.Message):
    __slots__ = ("capacity", "used", "movers", "waiting")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    MOVERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    capacity: int
    used: int
    movers: int
    waiting: int
    def __init__(self, capacity: _Optional[int] = ..., used: _Optional[int] = ..., movers: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class StageDataRequest(_message.Message):
    __slots__ = ("source", "tenant", "request_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    source: str
    tenant: str
    request_id: str
    def __init__(self, source: _Optional[str] = ..., tenant: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class EvictDataRequest(_message.Message):
    __slots__ = ("source", "request_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    source: str
    request_id: str
    def __init__(self, source: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CopyProgress(_message.Message):
    __slots__ = ("key", "generation", "bytes_done", "bytes_total", "bytes_per_s")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    key: str
    generation: int
    bytes_done: int
    bytes_total: int
    bytes_per_s: float
    def __init__(self, key: _Optional[str] = ..., generation: _Optional[int] = ..., bytes_done: _Optional[int] = ..., bytes_total: _Optional[int] = ..., bytes_per_s: _Optional[float] = ...) -> None: ...

class AskForDataWorkRequest(_message.Message):
    __slots__ = ("mover", "slots", "wait_s", "progress", "hot_total", "hot_free", "request_id")
    MOVER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    HOT_TOTAL_FIELD_NUMBER: _ClassVar[int]
    HOT_FREE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    mover: str
    slots: int
    wait_s: float
    progress: _containers.RepeatedCompositeFieldContainer[CopyProgress]
    hot_total: int
    hot_free: int
    request_id: str
    def __init__(self, mover: _Optional[str] = ..., slots: _Optional[int] = ..., wait_s: _Optional[float] = ..., progress: _Optional[_Iterable[_Union[CopyProgress, _Mapping]]] = ..., hot_total: _Optional[int] = ..., hot_free: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CopyTask(_message.Message):
    __slots__ = ("key", "source", "generation", "present", "version", "tries", "accounts")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    key: str
    source: str
    generation: int
    present: int
    version: str
    tries: int
    accounts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., source: _Optional[str] = ..., generation: _Optional[int] = ..., present: _Optional[int] = ..., version: _Optional[str] = ..., tries: _Optional[int] = ..., accounts: _Optional[_Iterable[str]] = ...) -> None: ...

class OldGeneration(_message.Message):
    __slots__ = ("key", "generation")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    key: str
    generation: int
    def __init__(self, key: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class MoverTasks(_message.Message):
    __slots__ = ("tasks", "remove", "stop", "bytes_per_s")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[CopyTask]
    remove: _containers.RepeatedCompositeFieldContainer[OldGeneration]
    stop: _containers.RepeatedScalarFieldContainer[str]
    bytes_per_s: float
    def __init__(self, tasks: _Optional[_Iterable[_Union[CopyTask, _Mapping]]] = ..., remove: _Optional[_Iterable[_Union[OldGeneration, _Mapping]]] = ..., stop: _Optional[_Iterable[str]] = ..., bytes_per_s: _Optional[float] = ...) -> None: ...

class CopyReport(_message.Message):
    __slots__ = ("key", "generation", "phase", "size", "files", "version", "reason", "readers", "denied")
    class DeniedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    key: str
    generation: int
    phase: str
    size: int
    files: int
    version: str
    reason: str
    readers: _containers.RepeatedScalarFieldContainer[str]
    denied: _containers.ScalarMap[str, str]
    def __init__(self, key: _Optional[str] = ..., generation: _Optional[int] = ..., phase: _Optional[str] = ..., size: _Optional[int] = ..., files: _Optional[int] = ..., version: _Optional[str] = ..., reason: _Optional[str] = ..., readers: _Optional[_Iterable[str]] = ..., denied: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ReportDataWorkRequest(_message.Message):
    __slots__ = ("mover", "reports", "request_id")
    MOVER_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    mover: str
    reports: _containers.RepeatedCompositeFieldContainer[CopyReport]
    request_id: str
    def __init__(self, mover: _Optional[str] = ..., reports: _Optional[_Iterable[_Union[CopyReport, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReportAnswer(_message.Message):
    __slots__ = ("key", "go_on", "reason")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GO_ON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    key: str
    go_on: bool
    reason: str
    def __init__(self, key: _Optional[str] = ..., go_on: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class ReportAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ReportAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ReportAnswer, _Mapping]]] = ...) -> None: ...

class ListRetentionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RetainedView(_message.Message):
    __slots__ = ("id", "user", "checkpoints", "bytes", "ended_at", "until", "kept", "kept_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    KEPT_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    user: str
    checkpoints: int
    bytes: int
    ended_at: str
    until: str
    kept: bool
    kept_by: str
    def __init__(self, id: _Optional[str] = ..., user: _Optional[str] = ..., checkpoints: _Optional[int] = ..., bytes: _Optional[int] = ..., ended_at: _Optional[str] = ..., until: _Optional[str] = ..., kept: _Optional[bool] = ..., kept_by: _Optional[str] = ...) -> None: ...

class RetentionView(_message.Message):
    __slots__ = ("logs_s", "checkpoints_s", "traces_s", "output_s", "items")
    LOGS_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_S_FIELD_NUMBER: _ClassVar[int]
    TRACES_S_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_S_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    logs_s: float
    checkpoints_s: float
    traces_s: float
    output_s: float
    items: _containers.RepeatedCompositeFieldContainer[RetainedView]
    def __init__(self, logs_s: _Optional[float] = ..., checkpoints_s: _Optional[float] = ..., traces_s: _Optional[float] = ..., output_s: _Optional[float] = ..., items: _Optional[_Iterable[_Union[RetainedView, _Mapping]]] = ...) -> None: ...

class KeepRetainedRequest(_message.Message):
    __slots__ = ("id", "keep", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    keep: bool
    request_id: str
    def __init__(self, id: _Optional[str] = ..., keep: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class CacheStatusRequest(_message.Message):
    __slots__ = ("nodes", "group")
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    nodes: str
    group: str
    def __init__(self, nodes: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class CachedImageView(_message.Message):
    __slots__ = ("image", "digest", "size", "idle_s", "pinned", "mounted")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    MOUNTED_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    size: int
    idle_s: float
    pinned: bool
    mounted: bool
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., idle_s: _Optional[float] = ..., pinned: _Optional[bool] = ..., mounted: _Optional[bool] = ...) -> None: ...

class ComingImageView(_message.Message):
    __slots__ = ("image", "digest", "done", "total", "error")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    done: int
    total: int
    error: str
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class NodeCacheView(_message.Message):
    __slots__ = ("node", "capacity", "used", "free", "images", "coming", "error")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    COMING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    node: str
    capacity: int
    used: int
    free: int
    images: _containers.RepeatedCompositeFieldContainer[CachedImageView]
    coming: _containers.RepeatedCompositeFieldContainer[ComingImageView]
    error: str
    def __init__(self, node: _Optional[str] = ..., capacity: _Optional[int] = ..., used: _Optional[int] = ..., free: _Optional[int] = ..., images: _Optional[_Iterable[_Union[CachedImageView, _Mapping]]] = ..., coming: _Optional[_Iterable[_Union[ComingImageView, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class CacheView(_message.Message):
    __slots__ = ("items", "digest")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeCacheView]
    digest: str
    def __init__(self, items: _Optional[_Iterable[_Union[NodeCacheView, _Mapping]]] = ..., digest: _Optional[str] = ...) -> None: ...

class WarmCacheRequest(_message.Message):
    __slots__ = ("image", "nodes_text", "nodes", "group")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    image: str
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, image: _Optional[str] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class EvictImageRequest(_message.Message):
    __slots__ = ("image", "all", "nodes_text", "nodes", "group")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    image: str
    all: bool
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, image: _Optional[str] = ..., all: _Optional[bool] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class PinImageRequest(_message.Message):
    __slots__ = ("image", "nodes_text", "nodes", "group")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    image: str
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, image: _Optional[str] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class UnpinImageRequest(_message.Message):
    __slots__ = ("image", "nodes_text", "nodes", "group")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    image: str
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    group: str
    def __init__(self, image: _Optional[str] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UseView(_message.Message):
    __slots__ = ("nodes", "allocations")
    NODES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    allocations: int
    def __init__(self, nodes: _Optional[int] = ..., allocations: _Optional[int] = ...) -> None: ...

class TenantView(_message.Message):
    __slots__ = ("name", "max_nodes", "max_concurrent_allocations", "max_class", "on_quota", "max_running_per_user", "max_pending_per_user", "gpu_hours_budget", "node_hours_budget", "fair_share_target", "burst_allowance", "created_at", "members", "admins", "in_use", "visibility")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_CLASS_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_TARGET_FIELD_NUMBER: _ClassVar[int]
    BURST_ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ADMINS_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_nodes: int
    max_concurrent_allocations: int
    max_class: int
    on_quota: str
    max_running_per_user: int
    max_pending_per_user: int
    gpu_hours_budget: float
    node_hours_budget: float
    fair_share_target: float
    burst_allowance: float
    created_at: str
    members: _containers.RepeatedScalarFieldContainer[str]
    admins: _containers.RepeatedScalarFieldContainer[str]
    in_use: UseView
    visibility: str
    def __init__(self, name: _Optional[str] = ..., max_nodes: _Optional[int] = ..., max_concurrent_allocations: _Optional[int] = ..., max_class: _Optional[int] = ..., on_quota: _Optional[str] = ..., max_running_per_user: _Optional[int] = ..., max_pending_per_user: _Optional[int] = ..., gpu_hours_budget: _Optional[float] = ..., node_hours_budget: _Optional[float] = ..., fair_share_target: _Optional[float] = ..., burst_allowance: _Optional[float] = ..., created_at: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., admins: _Optional[_Iterable[str]] = ..., in_use: _Optional[_Union[UseView, _Mapping]] = ..., visibility: _Optional[str] = ...) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TenantView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[TenantView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("name", "request_id", "max_nodes", "max_concurrent_allocations", "max_class", "on_quota", "max_running_per_user", "max_pending_per_user", "gpu_hours_budget", "node_hours_budget", "fair_share_target", "burst_allowance", "members", "admins", "visibility", "cleared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_CLASS_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_TARGET_FIELD_NUMBER: _ClassVar[int]
    BURST_ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ADMINS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    max_nodes: int
    max_concurrent_allocations: int
    max_class: int
    on_quota: str
    max_running_per_user: int
    max_pending_per_user: int
    gpu_hours_budget: float
    node_hours_budget: float
    fair_share_target: float
    burst_allowance: float
    members: _containers.RepeatedScalarFieldContainer[str]
    admins: _containers.RepeatedScalarFieldContainer[str]
    visibility: str
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., max_nodes: _Optional[int] = ..., max_concurrent_allocations: _Optional[int] = ..., max_class: _Optional[int] = ..., on_quota: _Optional[str] = ..., max_running_per_user: _Optional[int] = ..., max_pending_per_user: _Optional[int] = ..., gpu_hours_budget: _Optional[float] = ..., node_hours_budget: _Optional[float] = ..., fair_share_target: _Optional[float] = ..., burst_allowance: _Optional[float] = ..., members: _Optional[_Iterable[str]] = ..., admins: _Optional[_Iterable[str]] = ..., visibility: _Optional[str] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTenantRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UpdateTenantRequest(_message.Message):
    __slots__ = ("name", "request_id", "max_nodes", "max_concurrent_allocations", "max_class", "on_quota", "max_running_per_user", "max_pending_per_user", "gpu_hours_budget", "node_hours_budget", "fair_share_target", "burst_allowance", "members", "admins", "visibility", "cleared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_CLASS_FIELD_NUMBER: _ClassVar[int]
    ON_QUOTA_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_PER_USER_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_TARGET_FIELD_NUMBER: _ClassVar[int]
    BURST_ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ADMINS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    max_nodes: int
    max_concurrent_allocations: int
    max_class: int
    on_quota: str
    max_running_per_user: int
    max_pending_per_user: int
    gpu_hours_budget: float
    node_hours_budget: float
    fair_share_target: float
    burst_allowance: float
    members: _containers.RepeatedScalarFieldContainer[str]
    admins: _containers.RepeatedScalarFieldContainer[str]
    visibility: str
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., max_nodes: _Optional[int] = ..., max_concurrent_allocations: _Optional[int] = ..., max_class: _Optional[int] = ..., on_quota: _Optional[str] = ..., max_running_per_user: _Optional[int] = ..., max_pending_per_user: _Optional[int] = ..., gpu_hours_budget: _Optional[float] = ..., node_hours_budget: _Optional[float] = ..., fair_share_target: _Optional[float] = ..., burst_allowance: _Optional[float] = ..., members: _Optional[_Iterable[str]] = ..., admins: _Optional[_Iterable[str]] = ..., visibility: _Optional[str] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteTenantRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class TenantUsageRequest(_message.Message):
    __slots__ = ("name", "days", "user", "project")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    name: str
    days: int
    user: str
    project: str
    def __init__(self, name: _Optional[str] = ..., days: _Optional[int] = ..., user: _Optional[str] = ..., project: _Optional[str] = ...) -> None: ...

class UserUse(_message.Message):
    __slots__ = ("user", "tenant", "node_hours", "gpu_hours", "running")
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    user: str
    tenant: str
    node_hours: float
    gpu_hours: float
    running: int
    def __init__(self, user: _Optional[str] = ..., tenant: _Optional[str] = ..., node_hours: _Optional[float] = ..., gpu_hours: _Optional[float] = ..., running: _Optional[int] = ...) -> None: ...

class UsageView(_message.Message):
    __slots__ = ("tenant", "user", "project", "days", "since", "node_hours", "gpu_hours", "running", "node_hours_budget", "gpu_hours_budget", "node_hours_fraction", "gpu_hours_fraction", "users")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_BUDGET_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_FRACTION_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_FRACTION_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    user: str
    project: str
    days: int
    since: str
    node_hours: float
    gpu_hours: float
    running: int
    node_hours_budget: float
    gpu_hours_budget: float
    node_hours_fraction: float
    gpu_hours_fraction: float
    users: _containers.RepeatedCompositeFieldContainer[UserUse]
    def __init__(self, tenant: _Optional[str] = ..., user: _Optional[str] = ..., project: _Optional[str] = ..., days: _Optional[int] = ..., since: _Optional[str] = ..., node_hours: _Optional[float] = ..., gpu_hours: _Optional[float] = ..., running: _Optional[int] = ..., node_hours_budget: _Optional[float] = ..., gpu_hours_budget: _Optional[float] = ..., node_hours_fraction: _Optional[float] = ..., gpu_hours_fraction: _Optional[float] = ..., users: _Optional[_Iterable[_Union[UserUse, _Mapping]]] = ...) -> None: ...

class UserUsageRequest(_message.Message):
    __slots__ = ("days", "user", "project")
    DAYS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    days: int
    user: str
    project: str
    def __init__(self, days: _Optional[int] = ..., user: _Optional[str] = ..., project: _Optional[str] = ...) -> None: ...

class UsageReportRequest(_message.Message):
    __slots__ = ("by", "since", "until", "tenant", "user", "project", "vcluster", "tag")
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    by: str
    since: str
    until: str
    tenant: str
    user: str
    project: str
    vcluster: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, by: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., project: _Optional[str] = ..., vcluster: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportRow(_message.Message):
    __slots__ = ("name", "tenant", "allocations", "completed", "failed", "cancelled", "node_hours", "gpu_hours", "cpu_hours", "wait_mean_s", "wait_p50_s", "wait_p95_s", "cpu_efficiency", "memory_efficiency")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    NODE_HOURS_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_FIELD_NUMBER: _ClassVar[int]
    CPU_HOURS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MEAN_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_P50_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_P95_S_FIELD_NUMBER: _ClassVar[int]
    CPU_EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    allocations: int
    completed: int
    failed: int
    cancelled: int
    node_hours: float
    gpu_hours: float
    cpu_hours: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    cpu_efficiency: float
    memory_efficiency: float
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., allocations: _Optional[int] = ..., completed: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., node_hours: _Optional[float] = ..., gpu_hours: _Optional[float] = ..., cpu_hours: _Optional[float] = ..., wait_mean_s: _Optional[float] = ..., wait_p50_s: _Optional[float] = ..., wait_p95_s: _Optional[float] = ..., cpu_efficiency: _Optional[float] = ..., memory_efficiency: _Optional[float] = ...) -> None: ...

class UsageReport(_message.Message):
    __slots__ = ("by", "since", "until", "rows", "total")
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    by: str
    since: str
    until: str
    rows: _containers.RepeatedCompositeFieldContainer[ReportRow]
    total: ReportRow
    def __init__(self, by: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[ReportRow, _Mapping]]] = ..., total: _Optional[_Union[ReportRow, _Mapping]] = ...) -> None: ...

class ListVclustersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoanView(_message.Message):
    __slots__ = ("node", "vcluster", "since")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    node: str
    vcluster: str
    since: str
    def __init__(self, node: _Optional[str] = ..., vcluster: _Optional[str] = ..., since: _Optional[str] = ...) -> None: ...

class LendingView(_message.Message):
    __slots__ = ("lends", "lend_to", "max_lent", "lend_after_s", "borrows", "max_borrowed", "borrow_priority", "max_borrow_duration_s", "return_grace_s", "base", "lent", "borrowed")
    LENDS_FIELD_NUMBER: _ClassVar[int]
    LEND_TO_FIELD_NUMBER: _ClassVar[int]
    MAX_LENT_FIELD_NUMBER: _ClassVar[int]
    LEND_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    BORROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROWED_FIELD_NUMBER: _ClassVar[int]
    BORROW_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROW_DURATION_S_FIELD_NUMBER: _ClassVar[int]
    RETURN_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    lends: str
    lend_to: _containers.RepeatedScalarFieldContainer[str]
    max_lent: int
    lend_after_s: int
    borrows: bool
    max_borrowed: int
    borrow_priority: int
    max_borrow_duration_s: int
    return_grace_s: int
    base: int
    lent: _containers.RepeatedCompositeFieldContainer[LoanView]
    borrowed: _containers.RepeatedCompositeFieldContainer[LoanView]
    def __init__(self, lends: _Optional[str] = ..., lend_to: _Optional[_Iterable[str]] = ..., max_lent: _Optional[int] = ..., lend_after_s: _Optional[int] = ..., borrows: _Optional[bool] = ..., max_borrowed: _Optional[int] = ..., borrow_priority: _Optional[int] = ..., max_borrow_duration_s: _Optional[int] = ..., return_grace_s: _Optional[int] = ..., base: _Optional[int] = ..., lent: _Optional[_Iterable[_Union[LoanView, _Mapping]]] = ..., borrowed: _Optional[_Iterable[_Union[LoanView, _Mapping]]] = ...) -> None: ...

class VclusterView(_message.Message):
    __slots__ = ("name", "scheduler", "tenants", "nodes", "node_sharing", "fencing", "default_walltime_s", "max_walltime_s", "max_nodes", "up", "profile", "weights", "backfill_depth", "default_uenv", "require_signed", "confinement", "idle_end_s", "preemption", "lending", "read_mb_s", "write_mb_s", "created_at", "pending", "running")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_SHARING_FIELD_NUMBER: _ClassVar[int]
    FENCING_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_DEPTH_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_UENV_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_SIGNED_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    LENDING_FIELD_NUMBER: _ClassVar[int]
    READ_MB_S_FIELD_NUMBER: _ClassVar[int]
    WRITE_MB_S_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    name: str
    scheduler: str
    tenants: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    node_sharing: str
    fencing: str
    default_walltime_s: int
    max_walltime_s: int
    max_nodes: int
    up: bool
    profile: str
    weights: _containers.ScalarMap[str, float]
    backfill_depth: int
    default_uenv: str
    require_signed: bool
    confinement: str
    idle_end_s: int
    preemption: str
    lending: LendingView
    read_mb_s: int
    write_mb_s: int
    created_at: str
    pending: int
    running: int
    def __init__(self, name: _Optional[str] = ..., scheduler: _Optional[str] = ..., tenants: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., node_sharing: _Optional[str] = ..., fencing: _Optional[str] = ..., default_walltime_s: _Optional[int] = ..., max_walltime_s: _Optional[int] = ..., max_nodes: _Optional[int] = ..., up: _Optional[bool] = ..., profile: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ..., backfill_depth: _Optional[int] = ..., default_uenv: _Optional[str] = ..., require_signed: _Optional[bool] = ..., confinement: _Optional[str] = ..., idle_end_s: _Optional[int] = ..., preemption: _Optional[str] = ..., lending: _Optional[_Union[LendingView, _Mapping]] = ..., read_mb_s: _Optional[int] = ..., write_mb_s: _Optional[int] = ..., created_at: _Optional[str] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ...) -> None: ...

class ListVclustersResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[VclusterView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[VclusterView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CreateVclusterRequest(_message.Message):
    __slots__ = ("name", "request_id", "scheduler", "tenants", "nodes", "node_sharing", "fencing", "default_walltime", "default_walltime_s", "max_walltime", "max_walltime_s", "max_nodes", "up", "profile", "weights", "backfill_depth", "default_uenv", "require_signed", "confinement", "idle_end", "idle_end_s", "preemption", "lends", "lend_to", "max_lent", "lend_after", "borrows", "max_borrowed", "borrow_priority", "max_borrow_duration", "return_grace", "read_mb_s", "write_mb_s", "cleared")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_SHARING_FIELD_NUMBER: _ClassVar[int]
    FENCING_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WALLTIME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_WALLTIME_FIELD_NUMBER: _ClassVar[int]
    MAX_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_DEPTH_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_UENV_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_SIGNED_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    LENDS_FIELD_NUMBER: _ClassVar[int]
    LEND_TO_FIELD_NUMBER: _ClassVar[int]
    MAX_LENT_FIELD_NUMBER: _ClassVar[int]
    LEND_AFTER_FIELD_NUMBER: _ClassVar[int]
    BORROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROWED_FIELD_NUMBER: _ClassVar[int]
    BORROW_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROW_DURATION_FIELD_NUMBER: _ClassVar[int]
    RETURN_GRACE_FIELD_NUMBER: _ClassVar[int]
    READ_MB_S_FIELD_NUMBER: _ClassVar[int]
    WRITE_MB_S_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    scheduler: str
    tenants: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    node_sharing: str
    fencing: str
    default_walltime: str
    default_walltime_s: str
    max_walltime: str
    max_walltime_s: str
    max_nodes: int
    up: bool
    profile: str
    weights: _containers.ScalarMap[str, float]
    backfill_depth: int
    default_uenv: str
    require_signed: bool
    confinement: str
    idle_end: str
    idle_end_s: str
    preemption: str
    lends: str
    lend_to: _containers.RepeatedScalarFieldContainer[str]
    max_lent: int
    lend_after: str
    borrows: bool
    max_borrowed: int
    borrow_priority: int
    max_borrow_duration: str
    return_grace: str
    read_mb_s: int
    write_mb_s: int
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., scheduler: _Optional[str] = ..., tenants: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., node_sharing: _Optional[str] = ..., fencing: _Optional[str] = ..., default_walltime: _Optional[str] = ..., default_walltime_s: _Optional[str] = ..., max_walltime: _Optional[str] = ..., max_walltime_s: _Optional[str] = ..., max_nodes: _Optional[int] = ..., up: _Optional[bool] = ..., profile: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ..., backfill_depth: _Optional[int] = ..., default_uenv: _Optional[str] = ..., require_signed: _Optional[bool] = ..., confinement: _Optional[str] = ..., idle_end: _Optional[str] = ..., idle_end_s: _Optional[str] = ..., preemption: _Optional[str] = ..., lends: _Optional[str] = ..., lend_to: _Optional[_Iterable[str]] = ..., max_lent: _Optional[int] = ..., lend_after: _Optional[str] = ..., borrows: _Optional[bool] = ..., max_borrowed: _Optional[int] = ..., borrow_priority: _Optional[int] = ..., max_borrow_duration: _Optional[str] = ..., return_grace: _Optional[str] = ..., read_mb_s: _Optional[int] = ..., write_mb_s: _Optional[int] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class GetVclusterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UpdateVclusterRequest(_message.Message):
    __slots__ = ("name", "request_id", "scheduler", "tenants", "nodes", "node_sharing", "fencing", "default_walltime", "default_walltime_s", "max_walltime", "max_walltime_s", "max_nodes", "up", "profile", "weights", "backfill_depth", "default_uenv", "require_signed", "confinement", "idle_end", "idle_end_s", "preemption", "lends", "lend_to", "max_lent", "lend_after", "borrows", "max_borrowed", "borrow_priority", "max_borrow_duration", "return_grace", "read_mb_s", "write_mb_s", "cleared")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_SHARING_FIELD_NUMBER: _ClassVar[int]
    FENCING_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WALLTIME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_WALLTIME_FIELD_NUMBER: _ClassVar[int]
    MAX_WALLTIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_DEPTH_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_UENV_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_SIGNED_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_FIELD_NUMBER: _ClassVar[int]
    IDLE_END_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    LENDS_FIELD_NUMBER: _ClassVar[int]
    LEND_TO_FIELD_NUMBER: _ClassVar[int]
    MAX_LENT_FIELD_NUMBER: _ClassVar[int]
    LEND_AFTER_FIELD_NUMBER: _ClassVar[int]
    BORROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROWED_FIELD_NUMBER: _ClassVar[int]
    BORROW_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BORROW_DURATION_FIELD_NUMBER: _ClassVar[int]
    RETURN_GRACE_FIELD_NUMBER: _ClassVar[int]
    READ_MB_S_FIELD_NUMBER: _ClassVar[int]
    WRITE_MB_S_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    scheduler: str
    tenants: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    node_sharing: str
    fencing: str
    default_walltime: str
    default_walltime_s: str
    max_walltime: str
    max_walltime_s: str
    max_nodes: int
    up: bool
    profile: str
    weights: _containers.ScalarMap[str, float]
    backfill_depth: int
    default_uenv: str
    require_signed: bool
    confinement: str
    idle_end: str
    idle_end_s: str
    preemption: str
    lends: str
    lend_to: _containers.RepeatedScalarFieldContainer[str]
    max_lent: int
    lend_after: str
    borrows: bool
    max_borrowed: int
    borrow_priority: int
    max_borrow_duration: str
    return_grace: str
    read_mb_s: int
    write_mb_s: int
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., scheduler: _Optional[str] = ..., tenants: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., node_sharing: _Optional[str] = ..., fencing: _Optional[str] = ..., default_walltime: _Optional[str] = ..., default_walltime_s: _Optional[str] = ..., max_walltime: _Optional[str] = ..., max_walltime_s: _Optional[str] = ..., max_nodes: _Optional[int] = ..., up: _Optional[bool] = ..., profile: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ..., backfill_depth: _Optional[int] = ..., default_uenv: _Optional[str] = ..., require_signed: _Optional[bool] = ..., confinement: _Optional[str] = ..., idle_end: _Optional[str] = ..., idle_end_s: _Optional[str] = ..., preemption: _Optional[str] = ..., lends: _Optional[str] = ..., lend_to: _Optional[_Iterable[str]] = ..., max_lent: _Optional[int] = ..., lend_after: _Optional[str] = ..., borrows: _Optional[bool] = ..., max_borrowed: _Optional[int] = ..., borrow_priority: _Optional[int] = ..., max_borrow_duration: _Optional[str] = ..., return_grace: _Optional[str] = ..., read_mb_s: _Optional[int] = ..., write_mb_s: _Optional[int] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteVclusterRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class VclusterWeightsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WeightsView(_message.Message):
    __slots__ = ("vcluster", "profile", "order", "weights")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    vcluster: str
    profile: str
    order: str
    weights: _containers.ScalarMap[str, float]
    def __init__(self, vcluster: _Optional[str] = ..., profile: _Optional[str] = ..., order: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ...) -> None: ...

class VclusterQueueRequest(_message.Message):
    __slots__ = ("name", "limit", "cursor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    cursor: str
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class VclusterQueueResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_allocations_pb2.AllocationView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_allocations_pb2.AllocationView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ListProjectsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ProjectView(_message.Message):
    __slots__ = ("tenant", "name", "max_nodes", "created_at")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    max_nodes: int
    created_at: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., max_nodes: _Optional[int] = ..., created_at: _Optional[str] = ...) -> None: ...

class ListProjectsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ProjectView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[ProjectView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CreateProjectRequest(_message.Message):
    __slots__ = ("name", "tenant", "request_id", "max_nodes", "cleared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    request_id: str
    max_nodes: int
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., request_id: _Optional[str] = ..., max_nodes: _Optional[int] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateProjectRequest(_message.Message):
    __slots__ = ("name", "tenant", "request_id", "max_nodes", "cleared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    request_id: str
    max_nodes: int
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., request_id: _Optional[str] = ..., max_nodes: _Optional[int] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteProjectRequest(_message.Message):
    __slots__ = ("tenant", "name", "request_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    request_id: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReservationView(_message.Message):
    __slots__ = ("name", "start", "end", "nodes", "tenants", "users", "repeat_s", "until", "reason", "created_by", "created_at", "state", "next_start", "next_end")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    REPEAT_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEXT_START_FIELD_NUMBER: _ClassVar[int]
    NEXT_END_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: str
    end: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    repeat_s: int
    until: str
    reason: str
    created_by: str
    created_at: str
    state: str
    next_start: str
    next_end: str
    def __init__(self, name: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., tenants: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., repeat_s: _Optional[int] = ..., until: _Optional[str] = ..., reason: _Optional[str] = ..., created_by: _Optional[str] = ..., created_at: _Optional[str] = ..., state: _Optional[str] = ..., next_start: _Optional[str] = ..., next_end: _Optional[str] = ...) -> None: ...

class ListReservationsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ReservationView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[ReservationView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CreateReservationRequest(_message.Message):
    __slots__ = ("name", "start", "request_id", "end", "duration", "nodes_text", "nodes", "tenants", "users", "repeat", "until", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    NODES_TEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: str
    request_id: str
    end: str
    duration: str
    nodes_text: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    repeat: str
    until: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., start: _Optional[str] = ..., request_id: _Optional[str] = ..., end: _Optional[str] = ..., duration: _Optional[str] = ..., nodes_text: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., tenants: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., repeat: _Optional[str] = ..., until: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GetReservationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteReservationRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListSettingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SettingView(_message.Message):
    __slots__ = ("key", "value", "default", "help")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    default: str
    help: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., default: _Optional[str] = ..., help: _Optional[str] = ...) -> None: ...

class ListSettingsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SettingView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[SettingView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GetSettingRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class SetSettingRequest(_message.Message):
    __slots__ = ("key", "value", "request_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    request_id: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SchedulerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SchedulerView(_message.Message):
    __slots__ = ("server", "leader", "applied_index", "cycles", "last_cycle_at", "last_cycle_ms", "last_placements", "placements", "failed_cycles", "last_error", "pending", "running", "nodes")
    class NodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SERVER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    CYCLES_FIELD_NUMBER: _ClassVar[int]
    LAST_CYCLE_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_CYCLE_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_CYCLES_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    server: str
    leader: bool
    applied_index: int
    cycles: int
    last_cycle_at: str
    last_cycle_ms: float
    last_placements: int
    placements: int
    failed_cycles: int
    last_error: str
    pending: int
    running: int
    nodes: _containers.ScalarMap[str, int]
    def __init__(self, server: _Optional[str] = ..., leader: _Optional[bool] = ..., applied_index: _Optional[int] = ..., cycles: _Optional[int] = ..., last_cycle_at: _Optional[str] = ..., last_cycle_ms: _Optional[float] = ..., last_placements: _Optional[int] = ..., placements: _Optional[int] = ..., failed_cycles: _Optional[int] = ..., last_error: _Optional[str] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., nodes: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListAlertsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AlertNowView(_message.Message):
    __slots__ = ("severity", "name", "text", "command")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    severity: str
    name: str
    text: str
    command: str
    def __init__(self, severity: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., command: _Optional[str] = ...) -> None: ...

class ListAlertsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AlertNowView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[AlertNowView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class FigureHistoryRequest(_message.Message):
    __slots__ = ("component", "duration_s")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    component: str
    duration_s: int
    def __init__(self, component: _Optional[str] = ..., duration_s: _Optional[int] = ...) -> None: ...

class FigurePoint(_message.Message):
    __slots__ = ("at", "value")
    AT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    at: float
    value: float
    def __init__(self, at: _Optional[float] = ..., value: _Optional[float] = ...) -> None: ...

class FigureSeries(_message.Message):
    __slots__ = ("name", "labels", "points")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    points: _containers.RepeatedCompositeFieldContainer[FigurePoint]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., points: _Optional[_Iterable[_Union[FigurePoint, _Mapping]]] = ...) -> None: ...

class FigureHistory(_message.Message):
    __slots__ = ("server", "component", "leader", "since", "series")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    server: str
    component: str
    leader: bool
    since: str
    series: _containers.RepeatedCompositeFieldContainer[FigureSeries]
    def __init__(self, server: _Optional[str] = ..., component: _Optional[str] = ..., leader: _Optional[bool] = ..., since: _Optional[str] = ..., series: _Optional[_Iterable[_Union[FigureSeries, _Mapping]]] = ...) -> None: ...

class ServerDiagnosticsRequest(_message.Message):
    __slots__ = ("since_s",)
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    since_s: int
    def __init__(self, since_s: _Optional[int] = ...) -> None: ...

class ServerDiagnostics(_message.Message):
    __slots__ = ("server", "version", "leader", "applied_index", "problem", "warning", "configuration", "log")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    server: str
    version: str
    leader: bool
    applied_index: int
    problem: str
    warning: str
    configuration: str
    log: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, server: _Optional[str] = ..., version: _Optional[str] = ..., leader: _Optional[bool] = ..., applied_index: _Optional[int] = ..., problem: _Optional[str] = ..., warning: _Optional[str] = ..., configuration: _Optional[str] = ..., log: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricTargetsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetricTarget(_message.Message):
    __slots__ = ("node", "address", "group")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    group: str
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class TargetLeftOut(_message.Message):
    __slots__ = ("node", "why")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    node: str
    why: str
    def __init__(self, node: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class MetricTargets(_message.Message):
    __slots__ = ("targets", "left_out")
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    targets: _containers.RepeatedCompositeFieldContainer[MetricTarget]
    left_out: _containers.RepeatedCompositeFieldContainer[TargetLeftOut]
    def __init__(self, targets: _Optional[_Iterable[_Union[MetricTarget, _Mapping]]] = ..., left_out: _Optional[_Iterable[_Union[TargetLeftOut, _Mapping]]] = ...) -> None: ...

class RaftStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MemberView(_message.Message):
    __slots__ = ("name", "healthy", "applied_index", "digest", "digest_index", "problem", "certificate_serial", "certificate_expires_at", "clock_skew_ms", "warning")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_INDEX_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SERIAL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SKEW_MS_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    name: str
    healthy: bool
    applied_index: int
    digest: str
    digest_index: int
    problem: str
    certificate_serial: str
    certificate_expires_at: str
    clock_skew_ms: int
    warning: str
    def __init__(self, name: _Optional[str] = ..., healthy: _Optional[bool] = ..., applied_index: _Optional[int] = ..., digest: _Optional[str] = ..., digest_index: _Optional[int] = ..., problem: _Optional[str] = ..., certificate_serial: _Optional[str] = ..., certificate_expires_at: _Optional[str] = ..., clock_skew_ms: _Optional[int] = ..., warning: _Optional[str] = ...) -> None: ...

class QuorumStatusView(_message.Message):
    __slots__ = ("leader", "server", "digest_index", "members")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    leader: str
    server: str
    digest_index: int
    members: _containers.RepeatedCompositeFieldContainer[MemberView]
    def __init__(self, leader: _Optional[str] = ..., server: _Optional[str] = ..., digest_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberView, _Mapping]]] = ...) -> None: ...

class TransferLeaderRequest(_message.Message):
    __slots__ = ("to", "request_id")
    TO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    to: str
    request_id: str
    def __init__(self, to: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListServersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerView(_message.Message):
    __slots__ = ("name", "role", "healthy", "rest", "grpc", "peer", "etcd_version", "database_bytes", "certificate_serial", "certificate_expires_at", "invited_until", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ETCD_VERSION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SERIAL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    INVITED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    healthy: bool
    rest: str
    grpc: str
    peer: str
    etcd_version: str
    database_bytes: int
    certificate_serial: str
    certificate_expires_at: str
    invited_until: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., healthy: _Optional[bool] = ..., rest: _Optional[str] = ..., grpc: _Optional[str] = ..., peer: _Optional[str] = ..., etcd_version: _Optional[str] = ..., database_bytes: _Optional[int] = ..., certificate_serial: _Optional[str] = ..., certificate_expires_at: _Optional[str] = ..., invited_until: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class ListServersResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ServerView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[ServerView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class InviteServerRequest(_message.Message):
    __slots__ = ("name", "valid_for_s", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_S_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    valid_for_s: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., valid_for_s: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class InvitationView(_message.Message):
    __slots__ = ("name", "token", "expires_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    expires_at: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., expires_at: _Optional[str] = ...) -> None: ...

class RemoveServerRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RemoveServerResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ServerView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[ServerView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class PromoteServerRequest(_message.Message):
    __slots__ = ("name", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PromoteServerResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ServerView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[ServerView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class RenewCertificatesRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class RenewedView(_message.Message):
    __slots__ = ("name", "renewed", "certificate_serial", "certificate_expires_at", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SERIAL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    renewed: bool
    certificate_serial: str
    certificate_expires_at: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., renewed: _Optional[bool] = ..., certificate_serial: _Optional[str] = ..., certificate_expires_at: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class RenewCertificatesResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RenewedView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[RenewedView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class UpgradeStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerLevels(_message.Message):
    __slots__ = ("name", "newest_level", "newest_protocol", "problem", "release")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    newest_level: int
    newest_protocol: int
    problem: str
    release: str
    def __init__(self, name: _Optional[str] = ..., newest_level: _Optional[int] = ..., newest_protocol: _Optional[int] = ..., problem: _Optional[str] = ..., release: _Optional[str] = ...) -> None: ...

class AgentProtocols(_message.Message):
    __slots__ = ("protocol", "nodes")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    nodes: int
    def __init__(self, protocol: _Optional[int] = ..., nodes: _Optional[int] = ...) -> None: ...

class NodeUpgradeView(_message.Message):
    __slots__ = ("node", "former", "batch", "step")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    node: str
    former: str
    batch: int
    step: str
    def __init__(self, node: _Optional[str] = ..., former: _Optional[str] = ..., batch: _Optional[int] = ..., step: _Optional[str] = ...) -> None: ...

class AgentUpgradeView(_message.Message):
    __slots__ = ("target", "phase", "by", "began_at", "ended_at", "reason", "observe_s", "within", "urgent", "done", "waits_for", "nodes", "kind")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_S_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    target: str
    phase: str
    by: str
    began_at: str
    ended_at: str
    reason: str
    observe_s: int
    within: str
    urgent: bool
    done: int
    waits_for: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeUpgradeView]
    kind: str
    def __init__(self, target: _Optional[str] = ..., phase: _Optional[str] = ..., by: _Optional[str] = ..., began_at: _Optional[str] = ..., ended_at: _Optional[str] = ..., reason: _Optional[str] = ..., observe_s: _Optional[int] = ..., within: _Optional[str] = ..., urgent: _Optional[bool] = ..., done: _Optional[int] = ..., waits_for: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeUpgradeView, _Mapping]]] = ..., kind: _Optional[str] = ...) -> None: ...

class UpgradeView(_message.Message):
    __slots__ = ("level", "next_level", "blocked_by", "servers", "agents", "rollout")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEVEL_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    level: int
    next_level: int
    blocked_by: str
    servers: _containers.RepeatedCompositeFieldContainer[ServerLevels]
    agents: _containers.RepeatedCompositeFieldContainer[AgentProtocols]
    rollout: AgentUpgradeView
    def __init__(self, level: _Optional[int] = ..., next_level: _Optional[int] = ..., blocked_by: _Optional[str] = ..., servers: _Optional[_Iterable[_Union[ServerLevels, _Mapping]]] = ..., agents: _Optional[_Iterable[_Union[AgentProtocols, _Mapping]]] = ..., rollout: _Optional[_Union[AgentUpgradeView, _Mapping]] = ...) -> None: ...

class PlanUpgradeRequest(_message.Message):
    __slots__ = ("to", "canary", "batch", "observe_s", "within", "urgent", "kind", "request_id")
    TO_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_S_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    to: str
    canary: int
    batch: str
    observe_s: int
    within: str
    urgent: bool
    kind: str
    request_id: str
    def __init__(self, to: _Optional[str] = ..., canary: _Optional[int] = ..., batch: _Optional[str] = ..., observe_s: _Optional[int] = ..., within: _Optional[str] = ..., urgent: _Optional[bool] = ..., kind: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpgradeBatch(_message.Message):
    __slots__ = ("batch", "nodes")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    batch: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, batch: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class LeftOut(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UpgradePlan(_message.Message):
    __slots__ = ("target", "canaries", "batch", "observe_s", "batches", "left_out", "within", "urgent", "kind")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CANARIES_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_S_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    target: str
    canaries: int
    batch: int
    observe_s: int
    batches: _containers.RepeatedCompositeFieldContainer[UpgradeBatch]
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOut]
    within: str
    urgent: bool
    kind: str
    def __init__(self, target: _Optional[str] = ..., canaries: _Optional[int] = ..., batch: _Optional[int] = ..., observe_s: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[UpgradeBatch, _Mapping]]] = ..., left_out: _Optional[_Iterable[_Union[LeftOut, _Mapping]]] = ..., within: _Optional[str] = ..., urgent: _Optional[bool] = ..., kind: _Optional[str] = ...) -> None: ...

class StartUpgradeRequest(_message.Message):
    __slots__ = ("to", "canary", "batch", "observe_s", "within", "urgent", "kind", "request_id")
    TO_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_S_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    to: str
    canary: int
    batch: str
    observe_s: int
    within: str
    urgent: bool
    kind: str
    request_id: str
    def __init__(self, to: _Optional[str] = ..., canary: _Optional[int] = ..., batch: _Optional[str] = ..., observe_s: _Optional[int] = ..., within: _Optional[str] = ..., urgent: _Optional[bool] = ..., kind: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseUpgradeRequest(_message.Message):
    __slots__ = ("reason", "to", "kind", "request_id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    to: str
    kind: str
    request_id: str
    def __init__(self, reason: _Optional[str] = ..., to: _Optional[str] = ..., kind: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeUpgradeRequest(_message.Message):
    __slots__ = ("reason", "to", "kind", "request_id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    to: str
    kind: str
    request_id: str
    def __init__(self, reason: _Optional[str] = ..., to: _Optional[str] = ..., kind: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RollBackUpgradeRequest(_message.Message):
    __slots__ = ("reason", "to", "kind", "request_id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    to: str
    kind: str
    request_id: str
    def __init__(self, reason: _Optional[str] = ..., to: _Optional[str] = ..., kind: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FinalizeUpgradeRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CreateBackupRequest(_message.Message):
    __slots__ = ("path", "request_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    request_id: str
    def __init__(self, path: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class BackupView(_message.Message):
    __slots__ = ("path", "created_at", "server", "index", "epoch", "digest", "size_bytes", "held_by")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    path: str
    created_at: str
    server: str
    index: int
    epoch: int
    digest: str
    size_bytes: int
    held_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., created_at: _Optional[str] = ..., server: _Optional[str] = ..., index: _Optional[int] = ..., epoch: _Optional[int] = ..., digest: _Optional[str] = ..., size_bytes: _Optional[int] = ..., held_by: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBackupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBackupsResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[BackupView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[BackupView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class VerifyBackupRequest(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class FetchBackupRequest(_message.Message):
    __slots__ = ("path", "server", "to", "request_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    server: str
    to: str
    request_id: str
    def __init__(self, path: _Optional[str] = ..., server: _Optional[str] = ..., to: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RestoreBackupRequest(_message.Message):
    __slots__ = ("path", "request_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    request_id: str
    def __init__(self, path: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RestoreView(_message.Message):
    __slots__ = ("path", "index", "message")
    PATH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    path: str
    index: int
    message: str
    def __init__(self, path: _Optional[str] = ..., index: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class QueryAuditRequest(_message.Message):
    __slots__ = ("user", "allocation", "node", "tenant", "type", "since", "until", "limit", "cursor")
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    user: str
    allocation: str
    node: str
    tenant: str
    type: str
    since: str
    until: str
    limit: int
    cursor: str
    def __init__(self, user: _Optional[str] = ..., allocation: _Optional[str] = ..., node: _Optional[str] = ..., tenant: _Optional[str] = ..., type: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class AuditView(_message.Message):
    __slots__ = ("seq", "at", "type", "actor", "outcome", "subject", "user", "tenant", "allocation", "nodes", "detail", "count")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: str
    type: str
    actor: str
    outcome: str
    subject: str
    user: str
    tenant: str
    allocation: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    detail: str
    count: int
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[str] = ..., type: _Optional[str] = ..., actor: _Optional[str] = ..., outcome: _Optional[str] = ..., subject: _Optional[str] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., allocation: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., detail: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class QueryAuditResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AuditView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[AuditView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ExportAuditRequest(_message.Message):
    __slots__ = ("user", "allocation", "node", "tenant", "type", "since", "until")
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    user: str
    allocation: str
    node: str
    tenant: str
    type: str
    since: str
    until: str
    def __init__(self, user: _Optional[str] = ..., allocation: _Optional[str] = ..., node: _Optional[str] = ..., tenant: _Optional[str] = ..., type: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ...) -> None: ...

class ListAuditKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AuditKeyView(_message.Message):
    __slots__ = ("id", "public", "server", "added_at", "retired_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    ADDED_AT_FIELD_NUMBER: _ClassVar[int]
    RETIRED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    public: str
    server: str
    added_at: str
    retired_at: str
    def __init__(self, id: _Optional[str] = ..., public: _Optional[str] = ..., server: _Optional[str] = ..., added_at: _Optional[str] = ..., retired_at: _Optional[str] = ...) -> None: ...

class ListAuditKeysResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AuditKeyView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[AuditKeyView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class RotateAuditKeyRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class HistoryRequest(_message.Message):
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

class HistoryResponse(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_allocations_pb2.AllocationView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_allocations_pb2.AllocationView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class NotifySettingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NotifySettingsView(_message.Message):
    __slots__ = ("user", "on", "to", "each_task", "channels", "own_address", "waiting", "warnings")
    USER_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    EACH_TASK_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    OWN_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    user: str
    on: _containers.RepeatedScalarFieldContainer[str]
    to: _containers.RepeatedScalarFieldContainer[str]
    each_task: bool
    channels: _containers.RepeatedScalarFieldContainer[str]
    own_address: str
    waiting: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user: _Optional[str] = ..., on: _Optional[_Iterable[str]] = ..., to: _Optional[_Iterable[str]] = ..., each_task: _Optional[bool] = ..., channels: _Optional[_Iterable[str]] = ..., own_address: _Optional[str] = ..., waiting: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class SetNotifyDefaultRequest(_message.Message):
    __slots__ = ("on", "to", "each_task", "request_id")
    ON_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    EACH_TASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    on: _containers.RepeatedScalarFieldContainer[str]
    to: _containers.RepeatedScalarFieldContainer[str]
    each_task: bool
    request_id: str
    def __init__(self, on: _Optional[_Iterable[str]] = ..., to: _Optional[_Iterable[str]] = ..., each_task: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ClearNotifyDefaultRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class WebhookKeyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WebhookKeyView(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class WhoamiRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SelfView(_message.Message):
    __slots__ = ("user", "account", "tenant", "tenants", "roles", "kind", "allocation", "expires_at")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    user: str
    account: str
    tenant: str
    tenants: _containers.RepeatedScalarFieldContainer[str]
    roles: _containers.RepeatedScalarFieldContainer[str]
    kind: str
    allocation: int
    expires_at: str
    def __init__(self, user: _Optional[str] = ..., account: _Optional[str] = ..., tenant: _Optional[str] = ..., tenants: _Optional[_Iterable[str]] = ..., roles: _Optional[_Iterable[str]] = ..., kind: _Optional[str] = ..., allocation: _Optional[int] = ..., expires_at: _Optional[str] = ...) -> None: ...

class TimelineRequest(_message.Message):
    __slots__ = ("since", "until", "nodes", "user", "limit", "tasks")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    since: str
    until: str
    nodes: str
    user: str
    limit: int
    tasks: bool
    def __init__(self, since: _Optional[str] = ..., until: _Optional[str] = ..., nodes: _Optional[str] = ..., user: _Optional[str] = ..., limit: _Optional[int] = ..., tasks: _Optional[bool] = ...) -> None: ...

class TimelineNode(_message.Message):
    __slots__ = ("name", "state")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class TimelineBar(_message.Message):
    __slots__ = ("id", "name", "user", "own", "kind", "state", "group_id", "start", "end", "nodes", "tasks", "failed")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    user: str
    own: bool
    kind: str
    state: str
    group_id: str
    start: str
    end: str
    nodes: str
    tasks: int
    failed: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., own: _Optional[bool] = ..., kind: _Optional[str] = ..., state: _Optional[str] = ..., group_id: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., nodes: _Optional[str] = ..., tasks: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class TimelineReservation(_message.Message):
    __slots__ = ("name", "start", "end", "nodes", "maintenance")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: str
    end: str
    nodes: str
    maintenance: bool
    def __init__(self, name: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., nodes: _Optional[str] = ..., maintenance: _Optional[bool] = ...) -> None: ...

class TimelineView(_message.Message):
    __slots__ = ("now", "since", "until", "nodes", "bars", "reservations", "left_out")
    NOW_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BARS_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    now: str
    since: str
    until: str
    nodes: _containers.RepeatedCompositeFieldContainer[TimelineNode]
    bars: _containers.RepeatedCompositeFieldContainer[TimelineBar]
    reservations: _containers.RepeatedCompositeFieldContainer[TimelineReservation]
    left_out: int
    def __init__(self, now: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[TimelineNode, _Mapping]]] = ..., bars: _Optional[_Iterable[_Union[TimelineBar, _Mapping]]] = ..., reservations: _Optional[_Iterable[_Union[TimelineReservation, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class MakeWebLinkRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class WebLinkView(_message.Message):
    __slots__ = ("path", "expires_in_s")
    PATH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_S_FIELD_NUMBER: _ClassVar[int]
    path: str
    expires_in_s: float
    def __init__(self, path: _Optional[str] = ..., expires_in_s: _Optional[float] = ...) -> None: ...

class UseWebLinkRequest(_message.Message):
    __slots__ = ("code", "request_id")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    code: str
    request_id: str
    def __init__(self, code: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UsedWebLink(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...
