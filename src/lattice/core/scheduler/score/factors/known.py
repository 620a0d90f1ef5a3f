"""Figures that are known for some allocations, as a column over the whole queue. See docs/architecture/scheduler.md."""

from collections.abc import Mapping

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats


def spread_over_rows(moment: Moment, known: Mapping[int, float], unknown: float) -> Floats:
    """The figure of each row by its number, `unknown` where there is none or it is no number."""
    column: Floats = np.full(len(moment.snapshot.queue.number), unknown)
    if not known or not len(column):
        return column
    numbers, rows = moment.by_number
    wanted = np.fromiter(known, np.int64, len(known))
    figures = np.fromiter(known.values(), np.float64, len(known))
    places = np.searchsorted(numbers, wanted).clip(0, len(numbers) - 1)
    good = (numbers[places] == wanted) & ~np.isnan(figures)
    column[rows[places[good]]] = figures[good]
    return column
