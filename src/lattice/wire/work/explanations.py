"""Why an allocation waits and when it will start, on the wire."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType

from lattice.core.model.capacity.standing import Candidates, Standing
from lattice.ports.scheduling import Outlook, Prediction
from lattice.wire.text.times import rfc3339

_DIGITS = 6


class CandidatesView(Struct, frozen=True, kw_only=True):
    """Of the work that runs on nodes which suit it: how many it may preempt, how many others each protection keeps, and a sentence.

    `protected` by word: `class` (the same or higher, or never preempted), `leaving`, `vcluster`, `taken_often`, `young`, `ending`.
    """

    could_take: int
    protected: dict[str, int]
    text: str


class PenaltyView(Struct, frozen=True, kw_only=True):
    """What the tenant's soft quotas multiply the score by, and why, with figures."""

    factor: float
    text: str


class StandingView(Struct, frozen=True, kw_only=True):
    """How running work stands towards preemption. `safe_until` null: for good if `is_protected`, else not at all.

    `cost_hours` = hours of `unit` (GPU or node) that would be lost now, weighted by its progress. `notice_s` = of work on borrowed
    nodes: how soon their home has them back.
    """

    is_protected: bool
    safe_until: str | None
    cost_hours: float
    unit: str
    text: str
    notice_s: int | None = None


class PredictionView(Struct, frozen=True, kw_only=True):
    """At that moment it was predicted to start then."""

    at: str | None
    start: str | None


class ExplanationView(Struct, frozen=True, kw_only=True):
    """`rank` 1 is the next in its vCluster; null if it is not in the queue: not pending, held, or waiting for its begin or others.

    `scores` maps each factor, and "total", to its value. `predictions` has how the predicted start moved since the present leader
    watches, oldest first: the first prediction and the latest ones; empty where none is known.
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
    preemption: CandidatesView | UnsetType = UNSET  # of work that waits for room
    standing: StandingView | UnsetType = UNSET  # of work that runs
    penalty: PenaltyView | UnsetType = UNSET  # of work that waits, where soft quotas hold it back
    predictions: tuple[PredictionView, ...] | UnsetType = UNSET  # of work that waits
    images: str | UnsetType = (
        UNSET  # of work that waits and brings images, where nodes have some of them: on how many they are
    )


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
        penalty=_penalty_view(*outlook.penalty),
        images=outlook.images or UNSET,
        preemption=UNSET if outlook.candidates is None else _candidates_view(outlook.candidates),
    )


def prediction_views(points: Iterable[Prediction]) -> tuple[PredictionView, ...]:
    return tuple(PredictionView(at=rfc3339(each.at), start=rfc3339(each.start)) for each in points)


def _penalty_view(factor: float, text: str) -> PenaltyView | UnsetType:
    return PenaltyView(factor=round(factor, _DIGITS), text=text) if text else UNSET


def _candidates_view(found: Candidates) -> CandidatesView:
    return CandidatesView(could_take=found.could_take, protected=dict(found.protected), text=found.text)


def standing_view(found: Standing, unit: str) -> StandingView:
    """`unit` = what the cost is counted in, GPU or node."""
    cost_hours = round(found.cost / 3600, _DIGITS)
    return StandingView(
        is_protected=found.protection is not None,
        safe_until=None if found.safe_until is None else rfc3339(found.safe_until),
        cost_hours=cost_hours,
        unit=unit,
        text=_standing_text(found, f"{cost_hours:.1f} {unit}-hours"),
        notice_s=found.notice_s,
    )


def _standing_text(found: Standing, cost: str) -> str:
    if found.protection is None:
        said = f"work of a higher class may preempt it; {cost} would be lost now"
    elif found.safe_until is None:
        said = f"it is not preempted: it {found.protection}"
    else:
        said = f"it is not preempted before {rfc3339(found.safe_until)}: it {found.protection}"
    if found.notice_s is None:
        return said
    return f"{said}; it runs on borrowed nodes, which their vCluster may have back within {found.notice_s} s"
