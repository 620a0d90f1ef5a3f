"""f2: how long a row has waited. It always grows, ever more slowly, so that no row starves and none dominates the queue.

See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats


def wait_time(moment: Moment) -> Floats:
    reference_s = max(1e-3, moment.snapshot.tuning.reference_wait_s)
    grown: Floats = np.log1p(moment.wait_s / reference_s)
    return grown / (1.0 + grown)
