"""f8: how cheaply the row could be interrupted once it runs. See docs/architecture/scheduler.md."""

from lattice.core.scheduler.score.factors.known import spread_over_rows
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats

UNKNOWN_MINUTES = 1.0  # gives 0.5, neither good nor bad


def checkpoint(moment: Moment) -> Floats:
    minutes = spread_over_rows(moment, moment.snapshot.signals.checkpoint_minutes, UNKNOWN_MINUTES)
    return 1.0 / (1.0 + minutes.clip(0.0))
