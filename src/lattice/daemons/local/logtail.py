"""The end of a process's log, formatted for reading."""

import json
from pathlib import Path

TAIL_LINES = 15
TAIL_BYTES = 16384


def tail(path: Path, since: int = 0) -> str:
    """The last lines written after `since`, indented; JSON log lines are shown as level and message."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(since, end - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"  (cannot read it: {error.strerror})"
    lines = [plain(line) for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:]) or "  (nothing)"


def plain(line: str) -> str:
    try:
        entry = json.loads(line)
        return f"{entry['level'].lower()}: {entry['message']}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return line
