"""Runs command lines inside the test: streams in memory, a clock that stands still, an environment of one's own."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lattice.cli.context import Process, Streams
from lattice.cli.main import execute

NOON = 1772712000.0  # 2026-03-05T12:00:00Z


class Pipe(io.BytesIO):
    """Bytes that say whether they are a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        super().__init__(data)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@dataclass
class StandingClock:
    """Tells one moment for ever; `after` pauses it interrupts like a person."""

    after: int = 1
    pauses: list[float] = field(default_factory=list)

    def now(self) -> float:
        return NOON

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) >= self.after:
            raise KeyboardInterrupt


@dataclass(frozen=True, kw_only=True)
class Outcome:
    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.raw)

    def table(self) -> list[list[str]]:
        return [line.split() for line in self.lines]


@dataclass(kw_only=True)
class Cli:
    """`cli("status", "a17")` runs `lattice status a17`."""

    folder: Path
    environment: dict[str, str]
    clock: StandingClock = field(default_factory=StandingClock)
    stdin: bytes = b""
    is_terminal: bool = False
    is_stderr_terminal: bool = False
    stdout: Pipe = field(default_factory=Pipe)

    def __call__(self, *line: str, **variables: str) -> Outcome:
        self.stdout = Pipe(is_terminal=self.is_terminal)
        stderr = Pipe(is_terminal=self.is_stderr_terminal)
        streams = Streams(stdin=Pipe(self.stdin, is_terminal=self.is_terminal), stdout=self.stdout, stderr=stderr)
        process = Process(
            streams=streams,
            environment=self._environment(variables),
            directory=self._directory(),
            clock=self.clock,
        )
        code = execute(line, process)
        return Outcome(code=code, raw=self.stdout.getvalue(), err=stderr.getvalue().decode())

    def write(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {**self.environment, **variables}

    def _directory(self) -> Callable[[], str]:
        return lambda: str(self.folder)


def allocation(number: int = 17, **fields: object) -> dict[str, object]:
    """An allocation as the API shows it."""
    plain: dict[str, object] = {
        "id": f"a{number}",
        "number": number,
        "name": "train",
        "state": "Running",
        "reason": "",
        "cause": None,
        "exit_code": None,
        "signal": None,
        "nodes": ["n1"],
        "node_count": 1,
        "user": "alice",
        "tenant": "default",
        "project": "",
        "vcluster": "default",
        "walltime_s": 3600,
        "elapsed_s": 754,
        "submitted_at": "2026-03-05T10:00:00.123Z",
        "started_at": "2026-03-05T10:00:01.000Z",
        "completed_at": None,
        "resources": {"nodes": 1},
    }
    return {**plain, **fields}


def ended(number: int = 17, **fields: object) -> dict[str, object]:
    over = {"state": "Completed", "cause": "exit", "exit_code": 0, "completed_at": "2026-03-05T11:00:00Z"}
    return allocation(number, **{**over, **fields})
