"""f3: how far the row's account is below what is its own, see `fairshare`. See docs/architecture/scheduler.md."""

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.score.fairshare import deficits
from lattice.core.scheduler.tables.slots import Floats


def fair_share(moment: Moment) -> Floats:
    return deficits(moment.snapshot, moment.now).take(moment.snapshot.queue.account)
