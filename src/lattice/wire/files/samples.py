"""Samples of mode debug in the object store: lines of JSON, compressed, one object for some seconds of a run on a node.

An object is called `TENANT/PROJECT/ALLOCATION/telemetry/run-N/NODE/TIME.jsonl.zst`, with the time of its first sample in ms;
`zstdcat` prints it. A line is `{"at_ms": ..., "interval_ms": ..., "figures": {"cpus_used": 1.5, "gpu_utilization:0": 97.0}}`.
What sensitive work touched (mode audit) lies beside them as `TIME.access.jsonl.zst`.
"""

import re
from collections.abc import Iterable

import zstandard

_DIGITS = 15
_NAME = re.compile(rf"(\d{{{_DIGITS}}})(\.access)?\.jsonl\.zst", re.ASCII)
_PART = r"[^/]+"
_RUN = re.compile(rf"({_PART}/{_PART}/a\d{{1,18}})/(logs|telemetry)/(run-\d{{1,9}})", re.ASCII)


def trace_prefix(output_prefix: str) -> str:
    """Below which the samples of a run are stored, from where its output is; empty for runs of release 0.1.0, which say no place."""
    match = _RUN.fullmatch(output_prefix)
    return f"{match[1]}/telemetry/{match[3]}" if match is not None and match[2] == "logs" else ""


def output_prefix(prefix: str) -> str:
    """Where the output of a run is stored, from where its samples are; empty for other places."""
    match = _RUN.fullmatch(prefix)
    return f"{match[1]}/logs/{match[3]}" if match is not None and match[2] == "telemetry" else ""


def trace_name(at_ms: int, *, of_access: bool = False) -> str:
    return f"{at_ms:0{_DIGITS}d}{'.access' if of_access else ''}.jsonl.zst"


def is_of_access(name: str) -> bool:
    """Whether the object says what sensitive work touched."""
    match = _NAME.fullmatch(name.rpartition("/")[2])
    return match is not None and match[2] is not None


def trace_time(name: str) -> int | None:
    """The time in the last part of an object's name, in ms; None for other objects."""
    match = _NAME.fullmatch(name.rpartition("/")[2])
    return None if match is None else int(match[1])


def pack_lines(lines: Iterable[bytes]) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(b"".join(lines))
