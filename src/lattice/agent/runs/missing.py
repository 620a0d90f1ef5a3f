"""What a node could offer and does not, each with the reason, for operators who wonder why work avoids it."""

from collections.abc import Mapping

from lattice.agent.runs.limits import CONFINED_FEATURE, IO_FEATURE, what_lacks
from lattice.agent.shim_client import ShimMessage
from lattice.ports.nodes.measures import MissingFeature

CGROUP = "cgroup"
NO_THROTTLE = "the kernel has no control groups that slow reading and writing down"
NO_GROUPS = "control groups cannot be used here"
OLD_SHIM = "the shim that runs here is older than this agent; it is replaced when its work has ended"


def missing_features(
    listing: ShimMessage, offered: set[str], reasons: Mapping[str, str], pmix: str = ""
) -> tuple[MissingFeature, ...]:
    """`reasons` are those of images and containers, empty where only the shim can be the reason; `pmix` that of PMIx, by its name."""
    found = {
        CONFINED_FEATURE: what_lacks(listing.limits),
        IO_FEATURE: NO_THROTTLE,
        CGROUP: "" if listing.cgroup else NO_GROUPS,
        **{name: reason or OLD_SHIM for name, reason in reasons.items()},
        **({pmix: "libpmix or its headers, or a compiler, are not installed"} if pmix else {}),
    }
    return tuple(
        MissingFeature(name=name, reason=reason)
        for name, reason in sorted(found.items())
        if reason and name not in offered
    )
