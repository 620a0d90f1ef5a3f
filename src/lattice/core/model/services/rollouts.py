"""Revisions of a service, and the way from one to the next. See docs/architecture/services.md.

A revision is everything that an instance runs: program, environment, image, probes. The first has the number 0; users see one more.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

KEPT_REVISIONS = 10


class RolloutPhase(StrEnum):
    ROLLING = "rolling"  # to the target, node by node
    TAKING_BACK = "taking_back"  # an instance of the target did not become ready, or its user asked
    DONE = "done"
    TAKEN_BACK = "taken_back"


OPEN_PHASES = frozenset({RolloutPhase.ROLLING, RolloutPhase.TAKING_BACK})


class Rollout(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The newest change of what a service runs."""

    target: int
    former: int  # what runs again when the target does not work
    began_at: int
    max_unavailable: int = 1
    ready_within_s: int = 120  # for each instance
    phase: RolloutPhase = RolloutPhase.ROLLING
    stepped_at: int = 0  # when the last instance was started by it
    ended_at: int = 0
    reason: str = ""  # why it is taken back
    target_probed: bool = False  # nodes say when an instance of it is ready
    former_probed: bool = False
    updated: tuple[str, ...] = ()  # nodes whose instance has the target; all others have the former revision
    renewing: tuple[str, ...] = ()  # nodes whose instance is being ended, to start again there as wanted

    @property
    def is_open(self) -> bool:
        return self.phase in OPEN_PHASES

    @property
    def wanted(self) -> int:
        """The revision that instances are to have now."""
        return self.target if self.phase in (RolloutPhase.ROLLING, RolloutPhase.DONE) else self.former

    def revision_of(self, node: str) -> int:
        """What the instance on the node has while this is open."""
        return self.target if node in self.updated else self.former

    def is_probed(self, revision: int) -> bool:
        return self.target_probed if revision == self.target else self.former_probed


def started(rollout: Rollout, nodes: tuple[str, ...]) -> Rollout:
    """Instances on these nodes start with the revision that is wanted."""
    others = tuple(node for node in rollout.updated if node not in nodes)
    return replace(
        rollout,
        updated=(*others, *nodes) if rollout.phase is RolloutPhase.ROLLING else others,
        renewing=tuple(node for node in rollout.renewing if node not in nodes),
    )


def without(rollout: Rollout, node: str) -> Rollout:
    """The node has left."""
    return replace(
        rollout,
        updated=tuple(each for each in rollout.updated if each != node),
        renewing=tuple(each for each in rollout.renewing if each != node),
    )


class ServiceRevision(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a service runs, or ran; opaque to the core."""

    number: int  # of the allocation
    revision: int
    at: int
    by: str
    payload: bytes = b""
    probed: bool = False
    note: str = ""  # what was changed, in words
    taken_back: str = ""  # why it does not run
