"""Why an allocation waits and when it will start, on the wire."""

from msgspec import UNSET, Struct, UnsetType

from lattice.ports.scheduling import Outlook
from lattice.wire.text.times import rfc3339

_DIGITS = 6


class ExplanationView(Struct, frozen=True, kw_only=True):
    """`rank` 1 is the next in its vCluster; null if it is not in the queue: not pending, held, or waiting for its begin or others.

    `scores` maps each factor, and "total", to its value.
    """

    id: str | None
    state: str
    reason: str
    scores: dict[str, float]
    rank: int | None
    predicted_start: str | None
    predicted_nodes: tuple[str, ...]
    vcluster: str | UnsetType = UNSET  # of a dry run, as are the two below: where it would go
    chosen_by: str | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET


def explanation_view(outlook: Outlook, *, allocation_id: str | None, state: str, reason: str) -> ExplanationView:
    """The JSON shape of what the scheduler says of something that waits."""
    start = outlook.predicted_start
    return ExplanationView(
        id=allocation_id,
        state=state,
        reason=reason,
        scores={name: round(value, _DIGITS) for name, value in outlook.scores.items()},
        rank=None if outlook.starts_now else outlook.ahead + 1,
        predicted_start=None if start is None else rfc3339(start),
        predicted_nodes=outlook.predicted_nodes,
    )
