"""Whether a service that follows its load gets a node, gives one back, or stays as it is. Pure.

Conservative on purpose: one node at a time, only after the metric was on one side for a whole window, never right after the last step, and
never without a metric. See docs/architecture/scaling.md.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from lattice.core.model.services.scaling import ScalePolicy

MAX_ALTERNATIONS = 5
MAX_REJECTIONS = 3


class Sample(NamedTuple):
    at: int
    value: float


class Verdict(Struct, frozen=True, gc=False):
    """`step` is +1, -1 or 0; the reason is for the user."""

    step: int
    reason: str


def judge(policy: ScalePolicy, size: int, settled_at: int, samples: Sequence[Sample], now: int) -> Verdict:
    """What to do with a service of `size` nodes that started, or was scaled last, at `settled_at`. Samples are in order of time."""
    if not samples or samples[-1].at != now:
        return Verdict(0, f"{policy.metric} is not known: the size stays")
    value = samples[-1].value
    shown = f"{policy.metric} is {value:.4g}, the target {policy.target:.4g}"
    low = policy.target * policy.down_threshold
    if low <= value <= policy.target:
        return Verdict(0, shown)
    left_s = policy.cooldown_s - (now - settled_at) // 1000
    is_up = value > policy.target
    if is_up and size >= policy.max_nodes:
        return Verdict(0, f"{shown}; it has its maximum of {policy.max_nodes} nodes")
    if not is_up and size <= policy.min_nodes:
        return Verdict(0, f"{shown}; it has its minimum of {policy.min_nodes} nodes")
    if left_s > 0:
        return Verdict(0, f"{shown}; no step within {policy.cooldown_s} s of the last, {left_s} s more")
    window_s = policy.up_window_s if is_up else policy.down_window_s
    since = _since(samples, low, policy.target, is_up=is_up)
    if now - since < window_s * 1000:
        side = "above the target" if is_up else f"below {low:.4g}"
        return Verdict(0, f"{shown}; {side} for {(now - since) // 1000} of {window_s} s")
    return Verdict(1 if is_up else -1, shown)


def _since(samples: Sequence[Sample], low: float, high: float, *, is_up: bool) -> int:
    """From when on every sample was on this side."""
    since = samples[-1].at
    for sample in reversed(samples):
        if not (sample.value > high if is_up else sample.value < low):
            break
        since = sample.at
    return since


def alternates(steps: Sequence[int]) -> bool:
    """Whether the last steps went up and down in turn, more often than the load could."""
    recent = steps[-(MAX_ALTERNATIONS + 1) :]
    return len(recent) > MAX_ALTERNATIONS and all(a != b for a, b in pairwise(recent))
