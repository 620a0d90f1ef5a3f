"""Events about what services run. See docs/architecture/services.md."""

from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.services.rollouts import Rollout, ServiceRevision
from lattice.core.model.work.allocations import Part


class ServiceRevised(Event, tag="service_revised", frozen=True, kw_only=True):
    """The service is to run another revision."""

    number: int
    revision: ServiceRevision
    rollout: Rollout


class RolloutChanged(Event, tag="rollout_changed", frozen=True, kw_only=True):
    """It is taken back, or over."""

    number: int
    rollout: Rollout


class InstanceRenewed(Event, tag="instance_renewed", frozen=True, kw_only=True):
    """An instance has ended and starts again on its node, as another one; `gone` is what it was."""

    number: int
    gone: Part
    part: Part
