"""What a cluster cannot do without, made when its state has none of it."""

from msgspec import Struct

from lattice.core.machine.commands import RaiseLevel, SetSetting, SetTenant, SetVcluster
from lattice.core.machine.levels import NEWEST
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.admission import APPROVE, POLICY
from lattice.core.machine.rules.admission import SINCE_LEVEL as ADMISSION_SINCE
from lattice.core.machine.rules.node_wipes import REQUIRE_WIPE
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.checkpoints import ROOT
from lattice.core.model.work.checkpoints import SINCE_LEVEL as CHECKPOINTS_SINCE
from lattice.ports.quorum.replica import Replica

ACTOR = "server"


class Defaults(Struct, frozen=True, kw_only=True):
    tenant: str = "default"
    vcluster: str = "default"
    walltime_s: int = 3600


async def begin_at_newest_level(replica: Replica) -> None:
    """A cluster whose log is empty was never run by an older release: it writes from the beginning all that this one can."""
    if replica.applied_index:
        return
    for level in range(replica.state.level + 1, NEWEST + 1):
        outcome = await replica.propose(RaiseLevel(level=level), actor=ACTOR)
        if isinstance(outcome, Rejected):
            raise RuntimeError(f"level {level} was refused: {outcome.message}")


async def make_defaults(replica: Replica, defaults: Defaults) -> None:
    """Creates the default tenant and a vCluster over all nodes where there is no tenant or no vCluster at all."""
    commands: list[SetTenant | SetVcluster] = []
    if not replica.state.tenants:
        commands.append(SetTenant(tenant=Tenant(name=defaults.tenant), create=True))
    if not replica.state.vclusters:
        vcluster = Vcluster(name=defaults.vcluster, default_walltime_s=defaults.walltime_s)
        commands.append(SetVcluster(vcluster=vcluster, create=True))
    if not commands:
        return
    for outcome in await replica.propose_many(commands, ACTOR):
        if isinstance(outcome, Rejected) and outcome.code != "already_exists":
            raise RuntimeError(f"the defaults were refused: {outcome.message}")


async def make_safe(replica: Replica, *, is_production: bool) -> None:
    """Settles what must not be left open: sensitive work leaves nodes through a wipe, unknown nodes wait in production.

    In production the wipe is not a matter of choice. What an administrator of a cluster in dev mode chose stays.
    """
    state = replica.state
    commands: list[SetSetting] = []
    wipe = state.settings.get(REQUIRE_WIPE)
    if wipe is None or (is_production and wipe != "true"):
        commands.append(SetSetting(key=REQUIRE_WIPE, value="true"))
    if POLICY not in state.settings and state.level >= ADMISSION_SINCE:
        commands.append(SetSetting(key=POLICY, value=APPROVE if is_production else "open"))
    for outcome in await replica.propose_many(commands, ACTOR) if commands else ():
        if isinstance(outcome, Rejected):
            raise RuntimeError(f"a setting was refused: {outcome.message}")


async def make_place(replica: Replica, root: str) -> None:
    """Settles where checkpoints lie, unless an administrator has done it or an older server would not understand it."""
    state = replica.state
    if not root or ROOT in state.settings or state.level < CHECKPOINTS_SINCE:
        return
    outcome = await replica.propose(SetSetting(key=ROOT, value=root), actor=ACTOR)
    if isinstance(outcome, Rejected):
        raise RuntimeError(f"checkpoint.root was refused: {outcome.message}")
