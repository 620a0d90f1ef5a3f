"""A person at a terminal: a window of tmux that types into programs and reads what they show."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from lattice.testing import LocalCluster, eventually
from lattice.testing.waiting import NotInTime

BIN = str(Path(sys.executable).parent)


class Window:
    """A shell in a window; `lattice` in it is the one under test."""

    def __init__(self, cluster: LocalCluster, rows: int = 24, columns: int = 80) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._socket = f"{self._folder.name}/tmux"
        environment = {**cluster.environment(), "PATH": f"{BIN}:{os.environ['PATH']}", "PS1": "here> "}
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", environment=environment)

    def _tmux(self, *words: str, environment: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", self._socket, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def type(self, text: str) -> None:
        """A line, as a person types it: with Enter at its end."""
        self.keys(text)
        self._tmux("send-keys", "Enter")

    def keys(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def resize(self, rows: int, columns: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p", "-J")

    def until(self, *texts: str) -> str:
        """The screen, when it shows all of these."""

        try:
            return eventually(lambda: self._shows(texts), f"{texts} on the screen", within_s=30)
        except NotInTime as late:
            raise NotInTime(f"{late}\n{self.shown()}") from None

    def _shows(self, texts: tuple[str, ...]) -> str:
        shown = self.shown()
        return shown if all(text in shown for text in texts) else ""

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
