"""What a node offers to work, given what its shim, its kernel and its programs can do, and the reasons for what it lacks."""

from collections.abc import Iterable

from lattice.agent.checkpoints import watching
from lattice.agent.containers.node import FEATURE as CONTAINER_FEATURE
from lattice.agent.containers.node import FEATURES as CONTAINER_FEATURES
from lattice.agent.containers.node import NodeContainers
from lattice.agent.hooks.data import DIRECTORY_FEATURES, directory_features
from lattice.agent.images.node import FEATURE as UENV_FEATURE
from lattice.agent.images.node import NodeImages
from lattice.agent.launcher import START_FEATURES, start_features
from lattice.agent.pmix.building import FEATURE as PMIX_FEATURE
from lattice.agent.runs.limits import LIMIT_FEATURES, confinement_features
from lattice.agent.runs.missing import NO_GROUPS, missing_features
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimMessage
from lattice.agent.telemetry.access.watching import FEATURE as ACCESS_FEATURE
from lattice.agent.telemetry.node import NodeTelemetry
from lattice.ports.nodes.measures import MissingFeature

CGROUP_FEATURE = "cgroup"
# Found out here, whatever a configuration or an earlier shim made the node claim.
OWN_FEATURES = {CGROUP_FEATURE, UENV_FEATURE, PMIX_FEATURE} | CONTAINER_FEATURES | LIMIT_FEATURES | DIRECTORY_FEATURES
OWN_FEATURES |= {watching.FEATURE, ACCESS_FEATURE} | START_FEATURES


class NodeFeatures:
    """Found out again for every shim that answers."""

    def __init__(
        self, settings: Settings, images: NodeImages, containers: NodeContainers, telemetry: NodeTelemetry
    ) -> None:
        self._settings = settings
        self._images = images
        self._containers = containers
        self._telemetry = telemetry

    def offered(self, declared: Iterable[str], listing: ShimMessage, of_steps: set[str]) -> set[str]:
        """`declared` before; `of_steps` is what steps can use of this shim."""
        kinds, own = listing.mount_kinds, self._settings
        features = set(declared) - OWN_FEATURES | confinement_features(listing.limits) | of_steps
        features |= self._images.features(kinds) | self._containers.features(listing)
        features |= directory_features(own.scratch, kinds, own.data)
        features |= {watching.FEATURE} if listing.hints else set()
        features |= {CGROUP_FEATURE} if listing.cgroup else set()
        return features | self._telemetry.features(has_groups=listing.cgroup) | start_features(own, listing)

    def missing(self, listing: ShimMessage, offered: set[str]) -> tuple[MissingFeature, ...]:
        uenv, container = self._images.why_not(listing.mount_problem), self._containers.why_not()
        why_not = {UENV_FEATURE: uenv, CONTAINER_FEATURE: container} | self._settings.scratch.why_not()
        why_not[ACCESS_FEATURE] = self._telemetry.access.why_not or NO_GROUPS
        return missing_features(listing, offered, why_not, PMIX_FEATURE)
