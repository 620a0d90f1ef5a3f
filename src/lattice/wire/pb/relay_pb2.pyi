from lattice.wire.pb import agent_pb2 as _agent_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RelayFrames(_message.Message):
    __slots__ = ("frames", "oldest_protocol", "newest_protocol")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    OLDEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[RelayFrame]
    oldest_protocol: int
    newest_protocol: int
    def __init__(self, frames: _Optional[_Iterable[_Union[RelayFrame, _Mapping]]] = ..., oldest_protocol: _Optional[int] = ..., newest_protocol: _Optional[int] = ...) -> None: ...

class RelayFrame(_message.Message):
    __slots__ = ("link", "opened", "closed", "payload", "taken")
    LINK_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    link: int
    opened: LinkOpened
    closed: LinkClosed
    payload: bytes
    taken: int
    def __init__(self, link: _Optional[int] = ..., opened: _Optional[_Union[LinkOpened, _Mapping]] = ..., closed: _Optional[_Union[LinkClosed, _Mapping]] = ..., payload: _Optional[bytes] = ..., taken: _Optional[int] = ...) -> None: ...

class LinkOpened(_message.Message):
    __slots__ = ("token", "register")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    token: str
    register: bytes
    def __init__(self, token: _Optional[str] = ..., register: _Optional[bytes] = ...) -> None: ...

class LinkClosed(_message.Message):
    __slots__ = ("code", "text")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    code: int
    text: str
    def __init__(self, code: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...
