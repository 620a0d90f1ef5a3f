"""How an instance of a service stands by its probes. Pure: answers and times come from outside; docs/architecture/services.md.

What holds: every count starts again with each attempt. Until the startup probe has passed the other two wait. A liveness or startup
probe that failed as often in a row as its threshold says ends the attempt. An instance is ready while its readiness probe passes; without
one, when its startup probe has passed; without both, from its start.
"""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from lattice.ports.nodes.agents import NamedPort, StartOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder

_ENDING = (ProbeKind.LIVENESS, ProbeKind.STARTUP)


def addressed(order: StartOrder, ports: Collection[NamedPort]) -> StartOrder:
    """The order whose probes ask the ports that this node chose for the attempt."""
    if not any(probe.port_name for probe in order.probes):
        return order
    numbers = {each.name: each.port for each in ports}
    return replace(
        order, probes=tuple(replace(each, port=numbers.get(each.port_name, each.port)) for each in order.probes)
    )


class Course(NamedTuple):
    """One probe of one attempt; counts are in a row."""

    order: ProbeOrder
    due_s: float  # of the next question
    failures: int = 0
    successes: int = 0
    passed: bool = False  # as often as its threshold says, and not failed since


class Health(NamedTuple):
    """All probes of one attempt, and what follows from them."""

    courses: tuple[Course, ...]
    why_ended: str = ""  # not empty: the attempt has to end
    text: str = ""  # the last failure of what keeps it from being ready

    @property
    def ready(self) -> bool:
        if self.why_ended:
            return False
        return all(course.passed for course in self.courses if course.order.kind is not ProbeKind.LIVENESS)

    @property
    def is_starting(self) -> bool:
        """The startup probe has not passed yet."""
        return any(course.order.kind is ProbeKind.STARTUP and not course.passed for course in self.courses)


def begun(probes: tuple[ProbeOrder, ...], now_s: float) -> Health:
    """Of an attempt that starts now."""
    return Health(tuple(Course(order, now_s + order.initial_delay_s) for order in probes))


def due(health: Health, now_s: float) -> list[int]:
    """Which probes are to be asked now; of an attempt that has to end none."""
    if health.why_ended:
        return []
    return [place for place, course in enumerate(health.courses) if _is_asked(health, course) and course.due_s <= now_s]


def next_due_s(health: Health, but: Collection[int] = ()) -> float | None:
    """When the next question is due, but for the probes at these places; None when there is none any more."""
    courses = [course for place, course in enumerate(health.courses) if place not in but]
    asked = [course.due_s for course in courses if _is_asked(health, course)]
    return None if health.why_ended or not asked else min(asked)


def _is_asked(health: Health, course: Course) -> bool:
    is_startup = course.order.kind is ProbeKind.STARTUP
    return not course.passed if is_startup else not health.is_starting


def unasked(health: Health, place: int, why: str, now_s: float) -> Health:
    """The health after a probe that the node cannot ask: no count changes, so it neither passes nor ends anything."""
    course = health.courses[place]
    later = course._replace(due_s=now_s + course.order.period_s)
    courses = tuple(later if each == place else other for each, other in enumerate(health.courses))
    keeps = course.order.kind is not ProbeKind.LIVENESS and not course.passed
    return health._replace(courses=courses, text=why if keeps else health.text)


def answered(health: Health, place: int, failure: str, now_s: float) -> Health:
    """The health after an answer to one probe; an empty failure = it passed."""
    course = health.courses[place]
    order = course.order
    if failure:
        failures = course.failures + 1
        is_over = failures >= order.failure_threshold
        changed = course._replace(
            failures=failures, successes=0, passed=course.passed and not is_over, due_s=now_s + order.period_s
        )
    else:
        successes = course.successes + 1
        changed = course._replace(
            failures=0,
            successes=successes,
            passed=course.passed or successes >= order.success_threshold,
            due_s=now_s + order.period_s,
        )
        is_over = False
    courses = tuple(changed if each == place else other for each, other in enumerate(health.courses))
    if not is_over:
        return health._replace(courses=courses, text="" if not failure else health.text)
    # The same words however long it fails: agents send only what is new.
    told = f"{order.kind.value} probe failed {order.failure_threshold} times in a row: {failure}"
    return health._replace(courses=courses, text=told, why_ended=told if order.kind in _ENDING else "")
