"""How an explanation reads: why it waits, its place, when and where it will start, its score."""

from datetime import datetime

from msgspec import UNSET

from lattice.cli.times import local_text, local_with_distance, span_text, with_local_times
from lattice_sdk.models.records import Explanation

SHOWN_NODES = 16
TOTAL = "total"


def explanation_pairs(why: Explanation, now: float) -> list[tuple[str, str]]:
    """Name and value of each thing that is known of something that waits; times are local."""
    reason = with_local_times(why.reason, now)
    if why.rank is None:
        start = local_with_distance(why.predicted_start, now)
        if not start and why.state in ("Pending", "Suspended"):
            start = "not known"
        shown = (("Reason", reason), ("Predicted start", start), ("Preemption", _preemption(why, now)))
        return [(name, text) for name, text in shown if text]
    pairs = [
        ("Reason", reason),
        ("Place in queue", str(why.rank)),
        ("Predicted start", local_with_distance(why.predicted_start, now) or "not known"),
        ("Moved", moved_text(why, now) if why.predicted_start else ""),
        ("Predicted nodes", _nodes(why)),
        ("Preemption", _preemption(why, now)),
        ("Images", "" if why.images is UNSET else why.images),
        ("Score", _total(why)),
        ("Budget", "" if why.penalty is UNSET else why.penalty.text),
    ]
    return [(name, text) for name, text in pairs if text]


def moved_text(why: Explanation, now: float) -> str:
    """How the predicted start moved since the present leader watches."""
    if why.predictions is UNSET:
        return ""
    if not why.predictions:
        return "not known: nothing was predicted since this server leads"
    first, last = why.predictions[0], why.predictions[-1]
    since = f"since {local_text(first.at, now)}"
    by_s = _moment_s(last.start) - _moment_s(first.start)
    if not by_s:
        return f"not {since}"
    return f"{span_text(abs(by_s))} {'later' if by_s > 0 else 'earlier'} {since}, when it was {local_text(first.start, now)}"


def _moment_s(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def outlook_text(why: Explanation, now: float) -> str:
    """What a dry run found out."""
    if why.rank is None:
        return f"It would start now on {_nodes(why)}\n"
    lines = [f"It would wait: {with_local_times(why.reason, now)}", f"Place in queue: {why.rank}"]
    start = f"Predicted start: {local_with_distance(why.predicted_start, now) or 'not known'}"
    nodes = _nodes(why)
    lines += [f"{start} on {nodes}" if nodes else start]
    preemption = _preemption(why, now)
    lines += [f"Preemption: {preemption}"] if preemption else []
    lines += [f"Budget: {why.penalty.text}"] if why.penalty is not UNSET else []
    return "".join(f"{line}\n" for line in lines)


def _preemption(why: Explanation, now: float) -> str:
    """Whom it could take, or how safe it is where it runs."""
    known = why.preemption if why.preemption is not UNSET else why.standing
    return "" if known is UNSET else with_local_times(known.text, now)


def _nodes(why: Explanation) -> str:
    named = ",".join(why.predicted_nodes[:SHOWN_NODES])
    more = len(why.predicted_nodes) - SHOWN_NODES
    return f"{named},+{more}" if more > 0 else named


def _total(why: Explanation) -> str:
    """The total and what it is made of."""
    if TOTAL not in why.scores:
        return ""
    factors = ", ".join(f"{name} {value:.3f}" for name, value in why.scores.items() if name != TOTAL)
    return f"{why.scores[TOTAL]:.4f}" + (f" ({factors})" if factors else "")
