"""f5: the part of the row's input that is on the hot tier. See docs/architecture/scheduler.md."""

from lattice.core.scheduler.score.factors.known import spread_over_rows
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats

UNKNOWN = 0.5


def data_readiness(moment: Moment) -> Floats:
    return spread_over_rows(moment, moment.snapshot.signals.data_readiness, UNKNOWN).clip(0.0, 1.0)
