"""f10: the wait against the length of the work. Short work that waits long comes first; long work can bear a wait."""

from lattice.core.scheduler.factors.moment import Moment
from lattice.core.scheduler.tables import Floats


def expansion(moment: Moment) -> Floats:
    """With x = wait / length this is x / (1 + x); 0 for work without an end."""
    wait, run = moment.wait_s, moment.run_s
    folded: Floats = wait / (wait + run)
    return folded
