"""The messages between a client and a terminal, the same on WebSocket and gRPC. docs/reference/terminal-protocol.md describes them."""

import base64
import signal as signals
from typing import Literal

import msgspec
from msgspec import Struct

from lattice.wire.bounds import Argument, Short
from lattice.wire.work.steps import MAX_CELLS

MAX_INPUT_BYTES = 1 << 20  # of one message
MAX_CLIENT = 64
DEFAULT_TERM = "xterm-256color"
SignalName = Literal["SIGINT", "SIGTSTP", "SIGHUP", "SIGQUIT"]


class BadMessage(Exception):
    """The client sent something that is no message; the text says what."""


class AttachStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which terminal. `terminal` is one that is open; without it a new one is opened, on `node` and with `command`.

    `client` and `offset` continue this client's own input, `after` the output behind a position that it has seen.
    """

    terminal: int | None = None
    node: Short = ""
    command: Argument = ""
    keep: bool = False
    rows: int = 0
    columns: int = 0
    term: Short = DEFAULT_TERM
    client: Short = ""
    offset: int = 0
    after: int = -1

    def checked(self) -> "AttachStart":
        """The same, if its parts go together. Raises BadMessage."""
        if self.offset < 0 or (self.terminal is not None and self.terminal < 0):
            raise BadMessage("terminal and offset cannot be negative")
        if self.terminal is not None and (self.node or self.command or self.keep):
            raise BadMessage("node, command and keep are for a new terminal: leave them or `terminal` out")
        if len(self.client) > MAX_CLIENT:
            raise BadMessage(f"the name of a client has at most {MAX_CLIENT} characters")
        return self


class StdinData(Struct, frozen=True, tag="stdin", forbid_unknown_fields=True):
    """Bytes that were typed, in base64; over WebSocket a binary frame says the same."""

    data: str

    def bytes(self) -> bytes:
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError:
            raise BadMessage("the data of stdin is not base64") from None


class Resize(Struct, frozen=True, tag="resize", forbid_unknown_fields=True):
    rows: int
    columns: int


class Signal(Struct, frozen=True, tag="signal", forbid_unknown_fields=True):
    signal: SignalName

    @property
    def number(self) -> int:
        return signals.Signals[self.signal].value


class Keepalive(Struct, frozen=True, tag="keepalive", forbid_unknown_fields=True):
    """Says that the client is there; connections without a word for 90 s may be cut on the way."""


ClientMessage = bytes | Resize | Signal | Keepalive
_decode = msgspec.json.Decoder(StdinData | Resize | Signal | Keepalive).decode


class Opened(Struct, frozen=True, tag="opened"):
    """Comes first. `terminal` and `client` are what to ask for after the connection was lost; at a terminal that is
    `read_only` nothing is passed on."""

    id: str
    allocation: str
    terminal: int
    client: str
    read_only: bool = False


class Position(Struct, frozen=True, tag="position"):
    """Where the output stands once the bytes that come next were shown. Ask for what is `after` it."""

    next: int


class Screen(Struct, frozen=True, tag="screen"):
    """The bytes that come next draw the screen as it is now, whatever was shown before."""

    rows: int
    columns: int
    next: int


class Taken(Struct, frozen=True, tag="taken"):
    """How many bytes of this client the terminal has taken since the first."""

    upto: int


class Notice(Struct, frozen=True, tag="notice"):
    """A sentence for the person at the terminal; it is no output."""

    text: str


class ExitCode(Struct, frozen=True, tag="exit"):
    """What ran in the terminal has ended. Nothing follows."""

    code: int
    message: str = ""


class Error(Struct, frozen=True, tag="error"):
    """Nothing follows. `status` is that of the same refusal over HTTP."""

    status: int
    code: str
    message: str
    hint: str = ""


ServerMessage = Opened | Position | Screen | Taken | Notice | ExitCode | Error
encode = msgspec.json.Encoder().encode


def read_message(text: str) -> ClientMessage:
    """A text frame of a client. Raises BadMessage."""
    try:
        message = _decode(text)
    except msgspec.MsgspecError as error:
        raise BadMessage(f"not a message of this protocol: {error}") from None
    return checked(message.bytes() if isinstance(message, StdinData) else message)


def signal_named(name: str) -> Signal:
    """Raises BadMessage for one that terminals do not pass on."""
    try:
        return msgspec.convert({"type": "signal", "signal": name}, Signal)
    except msgspec.ValidationError:
        raise BadMessage("terminals pass on SIGINT, SIGTSTP, SIGHUP and SIGQUIT") from None


def checked(message: ClientMessage) -> ClientMessage:
    """The message, if it keeps to the bounds. Raises BadMessage."""
    if isinstance(message, bytes) and len(message) > MAX_INPUT_BYTES:
        raise BadMessage(f"{len(message):,} bytes of input; send at most {MAX_INPUT_BYTES:,} in one message")
    if isinstance(message, Resize) and not (0 < message.rows <= MAX_CELLS and 0 < message.columns <= MAX_CELLS):
        raise BadMessage(f"{message.rows} rows and {message.columns} columns are not the size of a terminal")
    return message
