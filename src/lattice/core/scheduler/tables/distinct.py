"""The values of a column, each once. See docs/architecture/scheduler.md."""

import numpy as np

from lattice.core.scheduler.tables.slots import Ints


def distinct(values: Ints) -> Ints:
    """In order. `np.unique` and its relatives import masked arrays when they are first used, which takes as long as a start of work."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]
