"""The function of each factor, which gives one float within the factor's range for each row of the queue.

A function has the name of its record in `core/model/site/weights.py`, which says everything else about the factor.
See docs/architecture/scheduler.md.
"""

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

FactorFunction = Callable[[Moment], Floats]

_FUNCTIONS: tuple[FactorFunction, ...] = (
    priority,
    wait_time,
    fair_share,
    topology,
    data_readiness,
    backlog,
    energy,
    checkpoint,
    conformance,
    expansion,
)
REGISTRY: dict[str, FactorFunction] = {function.__name__: function for function in _FUNCTIONS}
IN_ORDER: tuple[FactorFunction, ...] = tuple(REGISTRY[name] for name in FACTORS)
