"""f7: how cheap electricity is at this moment. See docs/architecture/scheduler.md."""

from math import isfinite

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats

UNKNOWN = 0.5


def energy(moment: Moment) -> Floats:
    price = moment.snapshot.signals.energy_price
    cheapness = UNKNOWN if price is None or not isfinite(price) else 1.0 - min(1.0, max(0.0, price))
    return np.full(len(moment.snapshot.queue.number), cheapness)
