"""The log of what was done to the hollow nodes: one JSON object per line, to be compared with what the servers recorded."""

import time
from pathlib import Path
from typing import Protocol

import msgspec


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """`at` in seconds since 1970; `what` is a fault's beginning (`silence`, `flap`, `slow-boot`, `drift`) or its end (`...-over`)."""

    at: float
    node: str
    what: str


class Injections(Protocol):
    def note(self, node: str, what: str) -> None: ...


class InjectionFile:
    """Every line is in the file when `note` returns."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("ab", buffering=0)
        self._encoder = msgspec.json.Encoder()

    def note(self, node: str, what: str) -> None:
        if self._file is not None:
            self._file.write(self._encoder.encode(Injection(at=time.time(), node=node, what=what)) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_injections(path: Path) -> list[Injection]:
    """All that was noted so far."""
    decoder = msgspec.json.Decoder(Injection)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
