"""Logs in files of our own: bounded in size and number, reopened on request, with repeats folded."""

import logging
import os
import signal
from typing import NamedTuple

FOLDED_S = 60.0


class LogFile(NamedTuple):
    """Where lines go, and how much of them is kept: `files` files of `limit_bytes` each."""

    path: str
    limit_bytes: int = 1 << 30
    files: int = 7


class LogFileHandler(logging.Handler):
    """Writes to FILE; a full one becomes FILE.1, that one FILE.2 and so on. Raises OSError when FILE cannot be opened."""

    def __init__(self, file: LogFile) -> None:
        super().__init__()
        self._file = file
        self._is_moved = False  # set by a signal at any moment; acted on before the next line
        self._fd = -1
        self._size = 0
        self._open()
        self.addFilter(Folding())

    def reopen_on(self, number: signal.Signals) -> None:
        """For programs that move log files away: after the signal, lines go to a new file."""
        signal.signal(number, lambda _number, _frame: self._note_moved())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
            if self._is_moved:
                self._is_moved = False
                self._open()
            if self._size and self._size + len(data) > self._file.limit_bytes:
                self._begin_next()
            self._size += os.write(self._fd, data)
        except OSError:
            self.handleError(record)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        super().close()

    def _note_moved(self) -> None:
        self._is_moved = True

    def _open(self) -> None:
        fd = os.open(self._file.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size = fd, os.fstat(fd).st_size

    def _begin_next(self) -> None:
        path = self._file.path
        for number in range(self._file.files - 1, 1, -1):
            older = f"{path}.{number - 1}"
            if os.path.exists(older):
                os.replace(older, f"{path}.{number}")
        if self._file.files > 1:
            os.replace(path, f"{path}.1")
        else:
            os.truncate(path, 0)
        self._open()


class Folding(logging.Filter):
    """Lets the first of several equal messages pass, and then one a minute, with `repeated`: how many came in between."""

    def __init__(self, every_s: float = FOLDED_S) -> None:
        super().__init__()
        self._every_s = every_s
        self._last: tuple[str, int, str] | None = None
        self._told_at = 0.0
        self._folded = 0

    def filter(self, record: logging.LogRecord) -> bool:
        message = (record.name, record.levelno, record.getMessage())
        if message == self._last and record.created - self._told_at < self._every_s:
            self._folded += 1
            return False
        if self._folded:
            name = "repeated" if message == self._last else "last_message_repeated"
            setattr(record, name, self._folded)
        self._last, self._told_at, self._folded = message, record.created, 0
        return True
