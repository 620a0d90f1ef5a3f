"""What a command may use: streams, clock, environment, global flags, the client."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, Protocol

from lattice.cli.config import Settings, load_settings
from lattice.cli.errors import UsageError
from lattice.cli.flags import Flags
from lattice_sdk.client import DEFAULT_TIMEOUT_S, Client
from lattice_sdk.retry import DEFAULT_RETRY_FOR_S


class Clock(Protocol):
    def now(self) -> float: ...
    def pause(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(kw_only=True)
class Streams:
    """Bytes in and out; texts are written as UTF-8, whatever the locale."""

    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO

    @staticmethod
    def of_process() -> "Streams":
        _open_missing()
        # Buffered files of our own: PYTHONUNBUFFERED makes those of `sys` cut writes short.
        return Streams(
            stdin=open(0, "rb", closefd=False),
            stdout=open(1, "wb", closefd=False),
            stderr=open(2, "wb", closefd=False),
        )

    def write(self, text: str) -> None:
        self.stdout.write(text.encode("utf-8", "surrogateescape"))

    def complain(self, text: str) -> None:
        self.stdout.flush()
        self.stderr.write(text.encode("utf-8", "surrogateescape"))
        self.stderr.flush()

    @property
    def is_interactive(self) -> bool:
        return self.stdin.isatty() and self.stdout.isatty()


def _open_missing() -> None:
    """Open a closed standard stream as /dev/null, so that no socket gets its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


READ_RETRY_FOR_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the program was started with."""

    streams: Streams
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: Callable[[], str] = os.getcwd
    clock: Clock = field(default_factory=SystemClock)
    program: str = field(default_factory=lambda: sys.argv[0] if sys.argv else "lattice")


@dataclass(kw_only=True)
class Context:
    """Passed to every command; settings and client are created on first use."""

    process: Process
    flags: Flags
    is_read: bool = False  # the command only shows something
    has_raw_terminal: bool = False  # while keys go to a task and lines need their own carriage return
    _noted: str = ""  # the last note on a raw terminal

    @property
    def streams(self) -> Streams:
        return self.process.streams

    @property
    def clock(self) -> Clock:
        return self.process.clock

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.flags, self.process.environment, self.note)

    @cached_property
    def client(self) -> Client:
        return self.connect()

    def each_server(self) -> list[Client]:
        """A client for each address that is configured, which asks that server alone."""
        return [self.connect(api_url=url) for url in self.settings.place().api_url.split(",") if url]

    def connect(self, *, answer_within_s: float | None = None, api_url: str = "") -> Client:
        """A new client: for another thread, for one server, or one that gives up early and says nothing of it."""
        place = self.settings.place()
        if self.flags.verbose:
            self.streams.complain(f"Using {place.api_url} ({place.origin})\n")
        try:
            return Client(
                api_url or place.api_url,
                token=place.token,
                token_file=place.token_file,
                tenant=self.settings.tenant,
                retry_for=self.retry_for_s() if answer_within_s is None else 0.0,
                timeout=answer_within_s or DEFAULT_TIMEOUT_S,
                stale=self.flags.stale,
                note=self.note,
                ca_file=self.settings.ca_file or None,
                insecure_http=self.settings.insecure_http,
                traceparent=self.process.environment.get("TRACEPARENT", ""),
            )
        except ValueError as error:
            raise UsageError(f"{place.origin}: {error}") from None

    def retry_for_s(self) -> float:
        """How long to ask a server that does not answer; a person at a terminal does not wait for a minute."""
        if self.flags.retry_for is not None:
            return self.flags.retry_for
        return READ_RETRY_FOR_S if self.is_read and self.streams.stdout.isatty() else DEFAULT_RETRY_FOR_S

    @property
    def output(self) -> str:
        """table, wide, json or yaml; of lists also csv or name."""
        return self.flags.output or self.settings.output_format

    @property
    def is_coloured(self) -> bool:
        if self.flags.no_color or self.process.environment.get("NO_COLOR"):
            return False
        return self.streams.stdout.isatty() and self.settings.is_coloured

    @property
    def is_stderr_coloured(self) -> bool:
        if self.flags.no_color or self.process.environment.get("NO_COLOR"):
            return False
        return self.streams.stderr.isatty() and self.settings.is_coloured

    @property
    def width(self) -> int | None:
        """Cells in a line of the terminal that stdout is; None where it is none."""
        return self._terminal_size()[0] or None

    @property
    def height(self) -> int | None:
        return self._terminal_size()[1] or None

    def _terminal_size(self) -> tuple[int, int]:
        """Zeros where there is no terminal, or one that does not know."""
        if not self.streams.stdout.isatty():
            return 0, 0
        try:
            columns, lines = os.get_terminal_size(self.streams.stdout.fileno())
        except (OSError, ValueError):
            return 0, 0
        return columns, lines

    def say(self, text: str) -> None:
        """Print a line for people; omitted with --quiet."""
        if not self.flags.quiet:
            self.streams.write(text + "\n")

    def note(self, text: str) -> None:
        """Print a note to stderr. Behind a raw terminal it gets a line of its own, once however many clients notice."""
        if self.flags.quiet:
            return
        if not self.has_raw_terminal:
            self.streams.complain(f"note: {text}\n")
        elif text.split(";")[0] != self._noted:
            self._noted = text.split(";")[0]
            self.streams.complain(f"\r\n[lattice] {text}\r\n")

    def warn(self, text: str) -> None:
        self.streams.complain(f"warning: {text}\n")

    def renew(self) -> None:
        """Give up the connection after an interrupt: an answer may be half read."""
        self.close()
        self.__dict__.pop("client", None)

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()
