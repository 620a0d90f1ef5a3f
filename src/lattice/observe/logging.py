"""JSON lines on stderr or in a file: timestamp, level, component, message, and what a call passes in `extra`.

A line costs what an agent pays for each run that it starts, so nothing is gathered that no line shows.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Mapping
from typing import TextIO

import msgspec

from lattice.observe.log_files import LogFile, LogFileHandler
from lattice.observe.recent_lines import RECENT, RecentLines

LIMIT_BYTES = 16 << 20
LINES_UNCHECKED = 200
LEVELS = ("debug", "info", "warning", "error", "critical")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_encode = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    """One JSON object per record; `fields` are put into every one. `recent` gets a copy of each line."""

    def __init__(self, component: str, fields: Mapping[str, str], recent: RecentLines | None = None) -> None:
        super().__init__()
        self._recent = recent
        self._component = component
        self._fields = dict(fields)
        self._second = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": self._moment(record.created),
            "level": record.levelname.lower(),
            "component": self._component,
            "message": record.getMessage(),
            **self._fields,
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = _text(line)
        if self._recent is not None:
            self._recent.add(record.created, text)
        return text

    def _moment(self, created: float) -> str:
        milliseconds = int(created * 1000)
        second, rest = divmod(milliseconds, 1000)
        if second != self._second[0]:
            self._second = (second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)))
        return f"{self._second[1]}.{rest:03d}Z"


def _text(line: dict[str, object]) -> str:
    try:
        return _encode(line).decode()
    except (UnicodeEncodeError, ValueError, TypeError):
        # A file name that is no text, or a key that is none: said as far as it can be.
        return _encode({_plain(name): _plain(value) for name, value in line.items()}).decode()


def _plain(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream; where that is a plain file it is kept below a limit: its content moves to FILE.1, and it starts empty.

    Other processes may write to the same file; all of them append.
    """

    def __init__(self, stream: TextIO, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(stream)
        self._limit = limit_bytes
        self._unchecked = 0
        self._fd = _plain_file(stream)

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._unchecked += 1
        if self._fd >= 0 and self._unchecked >= LINES_UNCHECKED:
            self._unchecked = 0
            with contextlib.suppress(OSError):
                self._cut()

    def _cut(self) -> None:
        if os.fstat(self._fd).st_size <= self._limit:
            return
        name = os.readlink(f"/proc/self/fd/{self._fd}")
        if os.path.samestat(os.stat(name), os.fstat(self._fd)):
            shutil.copyfile(name, f"{name}.1")
            os.chmod(f"{name}.1", stat.S_IMODE(os.fstat(self._fd).st_mode))
        os.ftruncate(self._fd, 0)


def _plain_file(stream: TextIO) -> int:
    """The stream's descriptor when it is a file of its own, told to append from now on; -1 otherwise."""
    try:
        fd = stream.fileno()
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return -1
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    except (OSError, ValueError):
        return -1
    return fd


def configure(
    component: str, level: str, *, fields: Mapping[str, str] | None = None, file: LogFile | None = None
) -> None:
    """Send every record of this process from `level` on to the file or stderr as JSON; replaces earlier handlers.

    SIGHUP reopens the file. Raises ValueError for a level that is none of LEVELS, OSError for a file that cannot be written.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    handler: logging.Handler = BoundedHandler(sys.stderr)
    if file is not None:
        handler = written = LogFileHandler(file)
        written.reopen_on(signal.SIGHUP)
    handler.setFormatter(JsonFormatter(component, fields or {}, RECENT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What the library would look up for each record and no line shows (the manual of `logging`, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
