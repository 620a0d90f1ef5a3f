"""JSON lines on stderr: timestamp, level, component, message, and what a call hands over in `extra`.

A line costs what an agent pays for each run that it starts, so nothing is gathered that no line shows.
"""

import logging
import sys
import time
from collections.abc import Mapping

import msgspec

LEVELS = ("debug", "info", "warning", "error", "critical")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_encode = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    """One JSON object per record; `fields` are put into every one."""

    def __init__(self, component: str, fields: Mapping[str, str]) -> None:
        super().__init__()
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
        return _text(line)

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


def configure(component: str, level: str, *, fields: Mapping[str, str] | None = None) -> None:
    """Send every record of this process from `level` on to stderr as JSON; replaces earlier handlers.

    Raises ValueError for a level that is none of LEVELS.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(component, fields or {}))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What the library would look up for each record and no line shows (the manual of `logging`, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
