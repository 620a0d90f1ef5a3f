"""f6: how deep the queue is against what runs, in GPU-hours, or in node-hours where there are no GPUs and no requests for them.

The same for every row: it says something about the moment, and orders nothing. See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats
from lattice.core.scheduler.tables.snapshot import RUNNING, UNIT
from lattice.core.scheduler.tables.use import UNKNOWN_LENGTH_S


def backlog(moment: Moment) -> Floats:
    queue, running = moment.snapshot.queue, moment.snapshot.ledger.running
    length_s = np.where(queue.walltime_s > 0, queue.walltime_s, UNKNOWN_LENGTH_S)
    node_s = queue.count * queue.nodes * length_s
    queued = float((node_s * queue.gpus).sum())
    runs = float(running[RUNNING.index("gpu_walltime")].sum())
    if not queued and not runs:
        queued = float(node_s.sum())
        runs = float(running[RUNNING.index("unit_walltime")].sum()) / UNIT
    pressure = 0.0 if not queued else min(1.0, queued / runs) if runs else 1.0
    return np.full(len(queue.number), pressure)
