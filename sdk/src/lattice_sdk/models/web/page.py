"""Answers for the web page."""

from typing import Literal

from msgspec import Struct


class WebLink(Struct, frozen=True, kw_only=True):
    """`path` belongs behind the address of any server. It is good once and for `expires_in_s`."""

    path: str
    expires_in_s: float


class WebLinkUse(Struct, frozen=True, kw_only=True):
    user: str


class VclusterWeights(Struct, frozen=True, kw_only=True):
    """`order` is `fifo` where the queue does not go by weights."""

    vcluster: str
    profile: str
    order: Literal["score", "fifo"]
    weights: dict[str, float]


class Alert(Struct, frozen=True, kw_only=True):
    """Something that needs attention now. `command` shows more about it."""

    severity: Literal["critical", "warning"]
    name: str
    text: str
    command: str


class TimelineBar(Struct, frozen=True, kw_only=True):
    """`end` of what runs or is expected is that of its walltime, None where it has none. `nodes` is folded, as in n[1-4].

    `tasks` is None, or how many tasks of the group `id` follow one another here; `failed` of them failed.
    """

    id: str
    name: str
    user: str
    own: bool
    kind: Literal["past", "running", "predicted"]
    state: str
    group_id: str | None
    start: str | None
    end: str | None
    nodes: str
    tasks: int | None = None
    failed: int | None = None


class TimelineReservation(Struct, frozen=True, kw_only=True):
    """Without nodes it is about all of them."""

    name: str
    start: str | None
    end: str | None
    nodes: str
    maintenance: bool


class TimelineNode(Struct, frozen=True):
    name: str
    state: str


class Timeline(Struct, frozen=True, kw_only=True):
    """`left_out` counts bars beyond the limit."""

    now: str | None
    since: str | None
    until: str | None
    nodes: tuple[TimelineNode, ...]
    bars: tuple[TimelineBar, ...]
    reservations: tuple[TimelineReservation, ...]
    left_out: int
