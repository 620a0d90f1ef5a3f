"""What a server's own figures were in the last hours, from its memory."""

from typing import Annotated

from msgspec import Meta, Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.observe.figures.ring import COMPONENTS, KEPT_S
from lattice.wire.text.times import rfc3339

ALL = "all"


class FigureQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    component: str = ALL
    duration_s: Annotated[int, Meta(ge=1, le=int(KEPT_S))] = 3600


class FigurePoint(Struct, frozen=True, kw_only=True):
    at: float  # seconds since 1970
    value: float


class FigureSeries(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str]
    points: list[FigurePoint]


class FigureHistory(Struct, frozen=True, kw_only=True):
    """`since` is the moment of the oldest sample that this server has; None before the first."""

    server: str
    component: str
    leader: bool
    since: str | None
    series: list[FigureSeries]


async def figure_history(context: Context, request: FigureQuery) -> FigureHistory:
    """Get what this server's public metrics were during the last hours, a sample a minute."""
    services = context.services
    if request.component != ALL and request.component not in COMPONENTS:
        known = ", ".join([ALL, *COMPONENTS])
        raise ApiError("invalid", f"there is no component {request.component[:40]!r}", hint=f"one of {known}")
    ring = services.figures
    if ring is None:
        raise ApiError("unavailable", "this server keeps no history of its metrics")
    prefixes = COMPONENTS.get(request.component, ("",))
    found = ring.since(services.wall_ms() / 1000 - request.duration_s, prefixes)
    began = ring.began_at
    return FigureHistory(
        server=services.server_name,
        component=request.component,
        leader=services.replica.is_leader,
        since=None if began is None else rfc3339(int(began * 1000)),
        series=[
            FigureSeries(
                name=each.name,
                labels=dict(each.labels),
                points=[FigurePoint(at=round(at, 3), value=value) for at, value in each.samples],
            )
            for each in found
        ],
    )
