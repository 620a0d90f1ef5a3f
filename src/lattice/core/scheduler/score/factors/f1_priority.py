"""f1: the preemption class, 0 to 10, as a fraction. See docs/architecture/scheduler.md."""

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats

HIGHEST_CLASS = 10


def priority(moment: Moment) -> Floats:
    fraction: Floats = moment.snapshot.queue.preemption_class / HIGHEST_CLASS
    return np.minimum(fraction, 1.0)
