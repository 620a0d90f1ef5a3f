"""JSON lines on stderr: timestamp, level, component, message, and what a call hands over in `extra`."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

LEVELS = ("debug", "info", "warning", "error", "critical")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per record; `fields` are put into every one."""

    def __init__(self, component: str, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._component = component
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "component": self._component,
            "message": record.getMessage(),
            **self._fields,
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(component: str, level: str, *, fields: Mapping[str, str] | None = None) -> None:
    """Send every record of this process from `level` on to stderr as JSON; replaces earlier handlers.

    Raises ValueError for a level that is none of LEVELS.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(component, fields or {}))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
