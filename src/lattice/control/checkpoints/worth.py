"""Whether a checkpoint is worth what it costs. Pure: figures in, a decision out.

Both sides are counted in unit-seconds, a unit being a GPU or, where there is none, a node. A checkpoint costs the time in which the work
writes instead of computing, and the room that it takes. It saves what was done since the last one, times the probability that this
would be lost: by a failure of a node, by a preemption, by the end of the walltime; and a deep queue is relieved by work that can
leave at once. With failures alone that is Young's rule: a checkpoint each sqrt(2 x write time x time between failures).
See docs/architecture/checkpoints.md.
"""

from collections.abc import Iterable

from msgspec import Struct

BANDWIDTH = 1e9  # bytes a second, until something was measured
UNKNOWN_S = 60.0  # to write one, where nothing is known
SHORTEST_S = 1.0
ROOM_S_PER_GB = 0.05  # unit-seconds that a gigabyte of storage is worth
SICK = 1000.0  # a node that fails checks or corrects more and more memory errors fails so much sooner
BACKLOG = 0.02  # of what was done since the last checkpoint, in a queue as deep as what runs
MARGIN_S = 120.0  # before the end of the walltime
RETRY_S = 60.0  # after the first failure, doubled by each further one
MAX_DOUBLINGS = 6


class Estimate(Struct, frozen=True, kw_only=True):
    """What a checkpoint of one run takes. Until it has written one: its memory, through the bandwidth of the others."""

    bytes: float
    seconds: float


class Standing(Struct, frozen=True, kw_only=True):
    """One run as the broker sees it."""

    number: int
    run: int
    units: int
    nodes: int
    since_s: float  # since its last complete checkpoint, or its start
    left_s: float | None  # until its walltime is over; None = it has none
    estimate: Estimate
    sick_nodes: int = 0
    demand: float = 0.0  # 0 to 1: how likely work of higher classes takes it
    failures: int = 0  # checkpoints that failed in a row
    failed_s: float = 0.0  # since the last of them


class Climate(Struct, frozen=True, kw_only=True):
    """What is the same for all."""

    backlog: float = 0.0  # f6
    node_mtbf_s: float = 3_600_000.0
    least_s: float = 60.0  # between two checkpoints of one run


def estimate_of(size: float, seconds: float, memory: float | None, bandwidth: float) -> Estimate:
    """`size` and `seconds` are those of its last complete checkpoint, 0 = there is none; `memory` is in use now, None = not known."""
    if bandwidth <= 0:
        return Estimate(bytes=size or memory or 0.0, seconds=float("inf"))
    if seconds > 0:
        return Estimate(bytes=size, seconds=max(SHORTEST_S, seconds))
    if memory is None:
        return Estimate(bytes=0.0, seconds=UNKNOWN_S)
    return Estimate(bytes=memory, seconds=max(SHORTEST_S, memory / bandwidth))


def rate_of(estimate: Estimate) -> float:
    """Bytes a second that it writes."""
    return estimate.bytes / max(estimate.seconds, SHORTEST_S)


def failure_probability(standing: Standing, climate: Climate) -> float:
    """That a node of it fails before as much time has passed again as since the last checkpoint, on average half of it."""
    if climate.node_mtbf_s <= 0:
        return 0.0
    healthy = standing.nodes - standing.sick_nodes
    rate = (healthy + SICK * standing.sick_nodes) / climate.node_mtbf_s
    return min(1.0, rate * standing.since_s / 2)


def is_near_walltime(standing: Standing) -> bool:
    """Whether this is the last moment for a checkpoint from which the next run continues, and none was written in it."""
    if standing.left_s is None:
        return False
    window_s = MARGIN_S + 3 * standing.estimate.seconds
    return standing.estimate.seconds < standing.left_s <= window_s and standing.since_s > window_s - standing.left_s


def value(standing: Standing, climate: Climate) -> float:
    """Unit-seconds that a checkpoint now is expected to save."""
    lost = 1.0 if is_near_walltime(standing) else failure_probability(standing, climate)
    share = min(1.0, lost + standing.demand) + BACKLOG * climate.backlog
    return standing.units * standing.since_s * share


def cost(standing: Standing) -> float:
    """Unit-seconds that a checkpoint now takes."""
    return standing.units * standing.estimate.seconds + ROOM_S_PER_GB * standing.estimate.bytes / 1e9


def is_worth_it(standing: Standing, climate: Climate) -> bool:
    if standing.since_s < climate.least_s:
        return False
    if standing.failures and standing.failed_s < RETRY_S * 2 ** min(standing.failures - 1, MAX_DOUBLINGS):
        return False
    return value(standing, climate) > cost(standing)


def chosen(standings: Iterable[Standing], climate: Climate, *, busy: float = 0.0, most: float = 0.0) -> list[Standing]:
    """Those that are asked now: what saves most for what it costs first, within the bandwidth `most` (0 = no limit).

    `busy` is what the open checkpoints take of it. One alone may take more than there is: it would never be asked otherwise.
    """
    worth = [each for each in standings if is_worth_it(each, climate)]
    worth.sort(key=lambda each: (-value(each, climate) / max(cost(each), 1e-9), each.number))
    found: list[Standing] = []
    for each in worth:
        rate = rate_of(each.estimate)
        if most and busy and busy + rate > most:
            continue
        busy += rate
        found.append(each)
    return found
