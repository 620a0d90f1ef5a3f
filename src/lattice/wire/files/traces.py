"""The trace of a cluster as JSON lines: what was submitted, started and ended when, and the nodes there were.

One object a line, told apart by `type`. Readers must ignore fields that they do not know; a new `type` is a new format.
"""

from typing import Any

import msgspec
from msgspec import Struct

Moment = str | float  # RFC 3339, or seconds since 1970
Span = str | float  # as in 30m or 72h, or seconds


class TracedAllocation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for. Figures are per node; `procs` is the whole size where nodes do not matter."""

    id: str
    nodes: int = 1
    procs: int = 0
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    walltime: Span = 0.0
    name: str = ""
    user: str = ""
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    priority: int = 5


class TracedNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    cpus: int = 1
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    group: str = ""
    features: tuple[str, ...] = ()


class Submitted(Struct, frozen=True, kw_only=True, tag_field="type", tag="submit"):
    ts: Moment
    alloc: TracedAllocation


class Started(Struct, frozen=True, kw_only=True, tag_field="type", tag="start", omit_defaults=True):
    ts: Moment
    alloc_id: str
    nodes: tuple[str, ...] = ()
    staging: Span = 0.0  # from the submission until its data was on the hot tier


class Completed(Struct, frozen=True, kw_only=True, tag_field="type", tag="complete", omit_defaults=True):
    """The end for good. Without a `duration` the run lasted from its `start` line on."""

    ts: Moment
    alloc_id: str
    duration: Span | None = None
    exit: int | None = None
    cause: str = ""


class NodeListed(Struct, frozen=True, kw_only=True, tag_field="type", tag="node"):
    ts: Moment
    node: TracedNode


TraceLine = Submitted | Started | Completed | NodeListed

_decoder = msgspec.json.Decoder(TraceLine)
_encoder = msgspec.json.Encoder()


class BadTraceLine(ValueError):
    """Not a line of a trace; the text says why."""


def decode_trace_line(line: str) -> TraceLine:
    try:
        found: TraceLine = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadTraceLine(_with_type(line, str(error))) from None
    except msgspec.DecodeError as error:
        raise BadTraceLine(f"not JSON: {error}") from None
    return found


def encode_trace_line(line: TraceLine) -> str:
    return _encoder.encode(line).decode() + "\n"


def _with_type(line: str, complaint: str) -> str:
    """Adds the type of the line, which the decoder leaves out."""
    found: Any = msgspec.json.decode(line)
    kind = found.get("type") if isinstance(found, dict) else None
    return f"type {kind}: {complaint}" if isinstance(kind, str) else complaint
