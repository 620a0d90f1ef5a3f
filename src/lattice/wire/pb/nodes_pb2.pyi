from lattice.wire.pb import allocations_pb2 as _allocations_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListNodesRequest(_message.Message):
    __slots__ = ("state", "vcluster", "group", "limit", "cursor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VCLUSTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    vcluster: str
    group: str
    limit: int
    cursor: str
    def __init__(self, state: _Optional[_Iterable[str]] = ..., vcluster: _Optional[str] = ..., group: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class FreeView(_message.Message):
    __slots__ = ("cpus", "memory_mb", "gpus")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    memory_mb: int
    gpus: int
    def __init__(self, cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class NodeView(_message.Message):
    __slots__ = ("id", "state", "reason", "reason_by", "down_cause", "cpus", "memory_mb", "gpus", "gpu_type", "group", "features", "unified_memory", "cxl_memory_mb", "power_w", "address", "vcluster", "allocations", "free", "holding", "last_heartbeat_s", "load1", "registered_at", "changed_at")
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
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., reason_by: _Optional[str] = ..., down_cause: _Optional[str] = ..., cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., group: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., unified_memory: _Optional[bool] = ..., cxl_memory_mb: _Optional[int] = ..., power_w: _Optional[int] = ..., address: _Optional[str] = ..., vcluster: _Optional[str] = ..., allocations: _Optional[_Iterable[str]] = ..., free: _Optional[_Union[FreeView, _Mapping]] = ..., holding: _Optional[str] = ..., last_heartbeat_s: _Optional[float] = ..., load1: _Optional[float] = ..., registered_at: _Optional[str] = ..., changed_at: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("id", "ok", "state", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    ok: bool
    state: str
    error: _allocations_pb2.ErrorView
    def __init__(self, id: _Optional[str] = ..., ok: _Optional[bool] = ..., state: _Optional[str] = ..., error: _Optional[_Union[_allocations_pb2.ErrorView, _Mapping]] = ...) -> None: ...

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
