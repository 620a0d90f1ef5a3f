from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TerminalInput(_message.Message):
    __slots__ = ("start", "stdin", "resize", "signal", "keepalive")
    START_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    start: TerminalStart
    stdin: bytes
    resize: TerminalResize
    signal: str
    keepalive: TerminalKeepalive
    def __init__(self, start: _Optional[_Union[TerminalStart, _Mapping]] = ..., stdin: _Optional[bytes] = ..., resize: _Optional[_Union[TerminalResize, _Mapping]] = ..., signal: _Optional[str] = ..., keepalive: _Optional[_Union[TerminalKeepalive, _Mapping]] = ...) -> None: ...

class TerminalStart(_message.Message):
    __slots__ = ("allocation", "session", "terminal", "node", "command", "keep", "rows", "columns", "term", "client", "offset", "after")
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    allocation: str
    session: str
    terminal: int
    node: str
    command: str
    keep: bool
    rows: int
    columns: int
    term: str
    client: str
    offset: int
    after: int
    def __init__(self, allocation: _Optional[str] = ..., session: _Optional[str] = ..., terminal: _Optional[int] = ..., node: _Optional[str] = ..., command: _Optional[str] = ..., keep: _Optional[bool] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., term: _Optional[str] = ..., client: _Optional[str] = ..., offset: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class TerminalResize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class TerminalKeepalive(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TerminalOutput(_message.Message):
    __slots__ = ("opened", "stdout", "screen", "taken", "notice", "exit", "error")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    SCREEN_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    opened: TerminalOpened
    stdout: TerminalStdout
    screen: TerminalScreen
    taken: TerminalTaken
    notice: TerminalNotice
    exit: TerminalExit
    error: TerminalError
    def __init__(self, opened: _Optional[_Union[TerminalOpened, _Mapping]] = ..., stdout: _Optional[_Union[TerminalStdout, _Mapping]] = ..., screen: _Optional[_Union[TerminalScreen, _Mapping]] = ..., taken: _Optional[_Union[TerminalTaken, _Mapping]] = ..., notice: _Optional[_Union[TerminalNotice, _Mapping]] = ..., exit: _Optional[_Union[TerminalExit, _Mapping]] = ..., error: _Optional[_Union[TerminalError, _Mapping]] = ...) -> None: ...

class TerminalOpened(_message.Message):
    __slots__ = ("id", "allocation", "terminal", "client", "read_only")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation: str
    terminal: int
    client: str
    read_only: bool
    def __init__(self, id: _Optional[str] = ..., allocation: _Optional[str] = ..., terminal: _Optional[int] = ..., client: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class TerminalStdout(_message.Message):
    __slots__ = ("data", "next")
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    next: int
    def __init__(self, data: _Optional[bytes] = ..., next: _Optional[int] = ...) -> None: ...

class TerminalScreen(_message.Message):
    __slots__ = ("data", "next", "rows", "columns")
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    next: int
    rows: int
    columns: int
    def __init__(self, data: _Optional[bytes] = ..., next: _Optional[int] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class TerminalTaken(_message.Message):
    __slots__ = ("upto",)
    UPTO_FIELD_NUMBER: _ClassVar[int]
    upto: int
    def __init__(self, upto: _Optional[int] = ...) -> None: ...

class TerminalNotice(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class TerminalExit(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class TerminalError(_message.Message):
    __slots__ = ("status", "code", "message", "hint")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    status: int
    code: str
    message: str
    hint: str
    def __init__(self, status: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...
