"""A rolling upgrade of agents or servers: its record, its lifecycle, and the sizes of its batches. See docs/architecture/upgrades.md."""

import re
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class UpgradeKind(StrEnum):
    AGENTS = "agents"
    SERVERS = "servers"


class UpgradePhase(StrEnum):
    CANARY = "canary"  # the first batch; a failure here rolls back automatically
    ROLLING = "rolling"
    PAUSED = "paused"  # starts nothing new; nodes whose software was replaced still return to service
    ROLLING_BACK = "rolling_back"
    DONE = "done"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"  # a node did not return from the rollback; it stays drained


class UpgradeTrigger(StrEnum):
    CANARIES_PASSED = "canaries_passed"
    PAUSE = "pause"
    RESUME = "resume"
    ROLL_BACK = "roll_back"
    FINISH = "finish"
    FAIL = "fail"


_P, _T = UpgradePhase, UpgradeTrigger
# Every move that exists. Resume returns to the phase that was paused, so its row names only that it is possible.
MOVES: dict[tuple[UpgradePhase, UpgradeTrigger], UpgradePhase] = {
    (_P.CANARY, _T.CANARIES_PASSED): _P.ROLLING,
    (_P.CANARY, _T.PAUSE): _P.PAUSED,
    (_P.CANARY, _T.ROLL_BACK): _P.ROLLING_BACK,
    (_P.CANARY, _T.FINISH): _P.DONE,
    (_P.ROLLING, _T.PAUSE): _P.PAUSED,
    (_P.ROLLING, _T.ROLL_BACK): _P.ROLLING_BACK,
    (_P.ROLLING, _T.FINISH): _P.DONE,
    (_P.PAUSED, _T.RESUME): _P.ROLLING,
    (_P.PAUSED, _T.ROLL_BACK): _P.ROLLING_BACK,
    (_P.ROLLING_BACK, _T.FINISH): _P.ROLLED_BACK,
    (_P.ROLLING_BACK, _T.FAIL): _P.FAILED,
    (_P.DONE, _T.ROLL_BACK): _P.ROLLING_BACK,
    (_P.FAILED, _T.ROLL_BACK): _P.ROLLING_BACK,
}
OPEN_PHASES = frozenset({_P.CANARY, _P.ROLLING, _P.PAUSED, _P.ROLLING_BACK})


class NodeStep(StrEnum):
    WAITING = "waiting"
    DRAINING = "draining"
    CALLED = "called"  # the site's program was, or is about to be, told to replace the software
    DONE = "done"


class NodeUpgrade(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    node: str  # or the server
    former: str  # the release that a rollback returns to
    batch: int = 0  # 0 = canary
    step: NodeStep = NodeStep.WAITING
    is_replaced: bool = False  # the program was called for it, so a rollback must call it again
    stays_drained: bool = False  # an operator had drained it before


class FiguresBefore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Shares of the time before an upgrade, in parts per million: what the figures during it are compared with."""

    rejected_ppm: int = 0  # of the placements that were proposed
    errors_ppm: int = 0  # of the API requests, those answered with 5xx
    failures_ppm: int = 0  # of the runs that ended, those that their node failed


class Upgrade(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The newest upgrade. Times in milliseconds since 1970."""

    target: str
    by: str
    began_at: int
    level: int  # of the cluster at the start: above it there is no way back
    observe_s: int
    nodes: tuple[NodeUpgrade, ...] = ()
    within: str = ""  # a reservation; batches start only in its window
    urgent: bool = False
    phase: UpgradePhase = UpgradePhase.CANARY
    paused_in: UpgradePhase = UpgradePhase.ROLLING
    reason: str = ""
    stepped_at: int = 0
    ended_at: int = 0
    before: FiguresBefore = FiguresBefore()
    kind: UpgradeKind = UpgradeKind.AGENTS

    @property
    def is_open(self) -> bool:
        return self.phase in OPEN_PHASES

    def wanted(self, node: NodeUpgrade) -> str:
        """The release that the node is to run now."""
        return node.former if self.phase is UpgradePhase.ROLLING_BACK else self.target


def turned(upgrade: Upgrade, trigger: UpgradeTrigger, reason: str, at: int) -> Upgrade | None:
    """The upgrade after the move; None if there is no such move."""
    phase = MOVES.get((upgrade.phase, trigger))
    if phase is None:
        return None
    if trigger is UpgradeTrigger.RESUME:
        phase = upgrade.paused_in
    paused_in = upgrade.phase if trigger is UpgradeTrigger.PAUSE else upgrade.paused_in
    nodes = upgrade.nodes
    if trigger is UpgradeTrigger.ROLL_BACK:
        nodes = tuple(_taken_back(node) for node in nodes)
    return replace(
        upgrade,
        phase=phase,
        paused_in=paused_in,
        nodes=nodes,
        # What led to a rollback is still what one wants to know when it is over.
        reason=reason or (upgrade.reason if phase is UpgradePhase.ROLLED_BACK else ""),
        stepped_at=at,
        ended_at=0 if phase in OPEN_PHASES else at,
    )


def _taken_back(node: NodeUpgrade) -> NodeUpgrade:
    """Nodes that were drained or replaced begin again, towards the former release; the others are done with."""
    is_touched = node.is_replaced or node.step in (NodeStep.DRAINING, NodeStep.CALLED)
    return replace(node, step=NodeStep.WAITING if is_touched else NodeStep.DONE)


def stepped(upgrade: Upgrade, names: frozenset[str], step: NodeStep, at: int) -> Upgrade:
    """These nodes have reached the step."""

    def after(node: NodeUpgrade) -> NodeUpgrade:
        if node.node not in names:
            return node
        return replace(node, step=step, is_replaced=node.is_replaced or step is NodeStep.CALLED)

    return replace(upgrade, nodes=tuple(after(node) for node in upgrade.nodes), stepped_at=at)


def default_sizes(nodes: int) -> tuple[int, int]:
    """Canaries and nodes per batch for a cluster of this size."""
    if nodes < 50:
        return 1, 5
    return (2, 25) if nodes < 500 else (5, 50)


def batch_of(place: int, canaries: int, size: int) -> int:
    """The batch of the node at this place of the order."""
    return 0 if place < canaries else 1 + (place - canaries) // size


_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})")


def is_skipping(former: str, target: str) -> bool:
    """Whether a release lies between the two, so that they share no protocol version; false if one of them has no numbers."""
    old, new = _RELEASE.match(former), _RELEASE.match(target)
    if old is None or new is None:
        return False
    (old_major, old_minor), (new_major, new_minor) = (tuple(map(int, each.groups())) for each in (old, new))
    if old_major == new_major:
        return abs(new_minor - old_minor) > 1
    # Which release was the last before a new major number is not known; its first one is x.0.
    newer_minor = new_minor if new_major > old_major else old_minor
    return abs(new_major - old_major) > 1 or newer_minor > 0


_NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")


def is_older(release: str, than: str) -> bool:
    """Whether the first release came before the second; false if one of them has no numbers."""
    first, second = _NUMBERS.match(release), _NUMBERS.match(than)
    if first is None or second is None:
        return False
    one, other = (tuple(int(number or 0) for number in each.groups()) for each in (first, second))
    return one < other
