"""Counts of durations by size, as `bpf/lattice.bpf.c` keeps them: four buckets for each power of two of microseconds. Pure."""

from collections.abc import Sequence

BUCKETS = 128


def middle_us(bucket: int) -> float:
    """What a duration in this bucket is taken for; wrong by an eighth at most."""
    if bucket < 4:
        return bucket + 0.5
    power, quarter = divmod(bucket + 4, 4)
    return (4 + quarter + 0.5) * 2.0 ** (power - 2)


def percentile_us(counts: Sequence[int], share: float) -> float | None:
    """The bucket in which this share of all durations is reached; None of none."""
    total = sum(counts)
    if total <= 0:
        return None
    seen, wanted = 0, share * total
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return middle_us(bucket)
    return None


def since(before: Sequence[int] | None, now: Sequence[int]) -> list[int]:
    """What was added; what went back says nothing."""
    if before is None or len(before) != len(now):
        return [0] * len(now)
    return [max(0, later - earlier) for earlier, later in zip(before, now, strict=True)]
