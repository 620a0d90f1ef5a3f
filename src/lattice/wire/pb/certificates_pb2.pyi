from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SignNodeRequest(_message.Message):
    __slots__ = ("node_id", "signing_request")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    signing_request: bytes
    def __init__(self, node_id: _Optional[str] = ..., signing_request: _Optional[bytes] = ...) -> None: ...

class SignNodeAnswer(_message.Message):
    __slots__ = ("certificate", "authority")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    authority: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., authority: _Optional[bytes] = ...) -> None: ...
