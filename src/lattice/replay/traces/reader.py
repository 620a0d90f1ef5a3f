"""Reads a trace, whatever it is written in and packed with, a line at a time."""

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

from lattice.replay.traces.entries import BadLine, Trace, TraceError
from lattice.replay.traces.recorded import RecordedLines
from lattice.replay.traces.sacct import SacctLines
from lattice.replay.traces.swf import SwfLines


class Lines(Protocol):
    """Turns lines into entries of the trace it was made for."""

    def take(self, line: str) -> None:
        """Raises BadLine."""
        ...

    def finish(self) -> None: ...


FORMATS: dict[str, Callable[[Trace], Lines]] = {"swf": SwfLines, "jsonl": RecordedLines, "sacct": SacctLines}
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_SUFFIXES = {".swf": "swf", ".jsonl": "jsonl", ".ndjson": "jsonl", ".sacct": "sacct"}
_PACKED = (".gz", ".xz")


def read_trace(path: Path, *, written_in: str | None = None, skip_bad: bool = False) -> Trace:
    """The whole trace. Raises TraceError, which names the file and the line.

    `written_in` is one of FORMATS; None looks at the name and, where that says nothing, at the first line.
    """
    trace = Trace(name=_bare_name(path))
    lines: Lines | None = FORMATS[written_in](trace) if written_in else _by_name(path, trace)
    for number, line in enumerate(_lines(path), start=1):
        try:
            if lines is None:
                if not line.strip():
                    continue
                lines = _by_first_line(line, trace)
            lines.take(line)
        except BadLine as error:
            if not skip_bad:
                raise TraceError(f"{path}:{number}: {error}") from None
            trace.skipped += 1
    if lines is not None:
        lines.finish()
    return trace


def listed_procs(path: Path) -> int:
    """Processors of the trace's machine by the `manifest.json` in its folder; 0 when it says nothing."""
    manifest = path.parent / "manifest.json"
    try:
        listed = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise TraceError(f"{manifest}: {error}") from None
    rows = listed if isinstance(listed, list) else []
    found = [row.get("procs") for row in rows if isinstance(row, dict) and row.get("file") == path.name]
    return found[0] if found and isinstance(found[0], int) else 0


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):  # noqa: B007  the number is for the complaint
                yield line
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path}: damaged after line {number}: {error}") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        magic = file.read(len(_XZ))
    if magic.startswith(_GZIP):
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    if magic == _XZ:
        return lzma.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _bare_name(path: Path) -> str:
    name = path.name
    for suffix in (*_PACKED, *_SUFFIXES):
        name = name.removesuffix(suffix)
    return name


def _by_name(path: Path, trace: Trace) -> Lines | None:
    suffixes = [suffix for suffix in path.suffixes if suffix not in _PACKED]
    written_in = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    return FORMATS[written_in](trace) if written_in else None


def _by_first_line(line: str, trace: Trace) -> Lines:
    if line.lstrip().startswith("{"):
        return RecordedLines(trace)
    return SacctLines(trace) if "|" in line and not line.startswith(";") else SwfLines(trace)
