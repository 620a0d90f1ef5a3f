"""Commands about rolling upgrades. See docs/architecture/upgrades.md."""

from lattice.core.machine.vocabulary.shape import Command
from lattice.core.model.site.upgrades import FiguresBefore, NodeStep, UpgradeKind, UpgradeTrigger


class BeginUpgrade(Command, tag="begin_upgrade", frozen=True, kw_only=True):
    """Upgrade the agents of these nodes, in this order; or these servers, whose releases `formers` has: the log does not know them."""

    target: str
    nodes: tuple[str, ...]
    canaries: int
    batch: int
    observe_s: int
    within: str = ""
    urgent: bool = False
    before: FiguresBefore = FiguresBefore()
    kind: UpgradeKind = UpgradeKind.AGENTS
    formers: tuple[str, ...] = ()


class TurnUpgrade(Command, tag="turn_upgrade", frozen=True, kw_only=True):
    trigger: UpgradeTrigger
    reason: str = ""


class StepUpgrade(Command, tag="step_upgrade", frozen=True, kw_only=True):
    """These nodes have reached the step."""

    nodes: tuple[str, ...]
    step: NodeStep
