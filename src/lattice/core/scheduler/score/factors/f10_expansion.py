"""f10: the wait against the length of the work. Short work that waits long comes first; long work can bear a wait.

See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats


def expansion(moment: Moment) -> Floats:
    """With x = wait / length this is x / (1 + x); 0 for work without an end.

    The length is the walltime; where the profile learns, a part of the factor goes by what earlier runs took.
    """
    queue, wait = moment.snapshot.queue, moment.wait_s
    length: Floats = np.where(queue.walltime_s > 0, queue.walltime_s, np.inf)
    folded: Floats = wait / (wait + length)
    if any(moment.learns):
        predicted = wait / (wait + np.where(queue.expected_s > 0, np.minimum(queue.expected_s, length), length))
        folded += np.array(moment.learns)[queue.vcluster] * (predicted - folded)
    return folded
