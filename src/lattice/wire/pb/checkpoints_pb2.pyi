from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class CheckpointAsked(_message.Message):
    __slots__ = ("n", "path", "deadline", "reason", "may_defer_s")
    N_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MAY_DEFER_S_FIELD_NUMBER: _ClassVar[int]
    n: int
    path: str
    deadline: float
    reason: str
    may_defer_s: float
    def __init__(self, n: _Optional[int] = ..., path: _Optional[str] = ..., deadline: _Optional[float] = ..., reason: _Optional[str] = ..., may_defer_s: _Optional[float] = ...) -> None: ...

class CheckpointAnswer(_message.Message):
    __slots__ = ("n", "estimate_s", "per_mille", "defer_s", "done", "failed", "message")
    N_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_S_FIELD_NUMBER: _ClassVar[int]
    PER_MILLE_FIELD_NUMBER: _ClassVar[int]
    DEFER_S_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    n: int
    estimate_s: float
    per_mille: int
    defer_s: float
    done: bool
    failed: bool
    message: str
    def __init__(self, n: _Optional[int] = ..., estimate_s: _Optional[float] = ..., per_mille: _Optional[int] = ..., defer_s: _Optional[float] = ..., done: _Optional[bool] = ..., failed: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...
