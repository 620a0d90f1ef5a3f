"""The factors by name, in the order of their weights. A factor gives one float in [0, 1] for each row of the queue."""

from collections.abc import Callable

from lattice.core.model.site.weights import FACTORS
from lattice.core.scheduler.score.factors.f1_priority import priority
from lattice.core.scheduler.score.factors.f2_wait_time import wait_time
from lattice.core.scheduler.score.factors.f3_fair_share import fair_share
from lattice.core.scheduler.score.factors.f4_topology import topology
from lattice.core.scheduler.score.factors.f5_data_readiness import data_readiness
from lattice.core.scheduler.score.factors.f6_backlog import backlog
from lattice.core.scheduler.score.factors.f7_energy import energy
from lattice.core.scheduler.score.factors.f8_checkpoint import checkpoint
from lattice.core.scheduler.score.factors.f9_conformance import conformance
from lattice.core.scheduler.score.factors.f10_expansion import expansion
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats

Factor = Callable[[Moment], Floats]

REGISTRY: dict[str, Factor] = {
    "priority": priority,
    "wait_time": wait_time,
    "fair_share": fair_share,
    "topology": topology,
    "data_readiness": data_readiness,
    "backlog": backlog,
    "energy": energy,
    "checkpoint": checkpoint,
    "conformance": conformance,
    "expansion": expansion,
}
IN_ORDER: tuple[Factor, ...] = tuple(REGISTRY[name] for name in FACTORS)
