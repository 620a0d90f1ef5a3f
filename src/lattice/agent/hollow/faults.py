"""Which hollow nodes misbehave, how, and when: drawn from a seed, so that the same options give the same faults.

A node has one fault at most. `silence=1%` lets one node in a hundred fall silent for good, `silence=1%:20s` for 20 s; `flap=1%:10s` cuts
its stream for 10 s, lets it be for 10 s, and so on; `slow-boot=1%:30s` keeps it from confirming its registration for 30 s;
`drift=1%:10s` lets its hardware become another one 10 s after it was ready.
"""

import enum
import random
from collections.abc import Sequence

from msgspec import Struct

from lattice.agent.hollow.durations import NotASpan, span_s

# Faults begin within this many seconds of a node's first confirmation.
WITHIN_S = 5.0


class FaultKind(enum.Enum):
    SILENCE = "silence"
    FLAP = "flap"
    SLOW_BOOT = "slow-boot"
    DRIFT = "drift"


_USUAL_S = {FaultKind.SILENCE: 0.0, FaultKind.FLAP: 10.0, FaultKind.SLOW_BOOT: 30.0, FaultKind.DRIFT: 0.0}


class BadFault(ValueError):
    """The option cannot be read; the text says why."""


class Fault(Struct, frozen=True, kw_only=True):
    """What a share of the nodes does; `for_s` 0 = permanently, or immediately where it is a delay."""

    kind: FaultKind
    share: float
    for_s: float


class Misfortune(Struct, frozen=True, kw_only=True):
    """What one node does; `after_s` counts from its first confirmation."""

    kind: FaultKind
    for_s: float
    after_s: float


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Reads `KIND=SHARE%[:SPAN],...`; raises BadFault."""
    return tuple(_parse(word.strip()) for word in text.split(",") if word.strip())


def _parse(word: str) -> Fault:
    name, equals, rest = word.partition("=")
    share, colon, span = rest.partition(":")
    known = ", ".join(kind.value for kind in FaultKind)
    try:
        kind = FaultKind(name)
    except ValueError:
        raise BadFault(f"{name!r} is no fault; known: {known}") from None
    if not equals or not share.endswith("%"):
        raise BadFault(f"{word!r}: say how many nodes, as in {name}=1%")
    try:
        percent = float(share[:-1])
        for_s = span_s(span) if colon else _USUAL_S[kind]
    except (NotASpan, ValueError) as error:
        raise BadFault(f"{word!r}: {error}") from error
    if not 0 <= percent <= 100:
        raise BadFault(f"{word!r}: a share lies between 0% and 100%")
    if kind is FaultKind.FLAP and for_s <= 0:
        raise BadFault(f"{word!r}: a node that flaps is away for some time")
    return Fault(kind=kind, share=percent / 100, for_s=for_s)


def draw_faults(nodes: Sequence[str], faults: Sequence[Fault], seed: int) -> dict[str, Misfortune]:
    """Which node has which fault; a share that is not nothing hits one node at least."""
    source = random.Random(seed)  # noqa: S311 - repeatable on purpose
    left = list(nodes)
    source.shuffle(left)
    drawn: dict[str, Misfortune] = {}
    for fault in faults:
        wanted = max(1, round(len(nodes) * fault.share)) if fault.share else 0
        for _ in range(min(wanted, len(left))):
            after_s = source.uniform(0.0, WITHIN_S)
            drawn[left.pop()] = Misfortune(kind=fault.kind, for_s=fault.for_s, after_s=after_s)
    return drawn
