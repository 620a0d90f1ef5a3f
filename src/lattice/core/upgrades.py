"""Decides the next steps of an upgrade of the agents. Pure: what was observed comes as arguments. See docs/architecture/upgrades.md."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lattice.core.machine.commands import AnyCommand, DrainNode, StepUpgrade, TurnUpgrade, UndrainNode
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.site.upgrades import NodeStep, NodeUpgrade, Upgrade, UpgradePhase, UpgradeTrigger

# What a node that does not return in time leads to.
_LATE: dict[UpgradePhase, UpgradeTrigger] = {  # partial: a paused upgrade waits, and the others are over
    UpgradePhase.CANARY: UpgradeTrigger.ROLL_BACK,
    UpgradePhase.ROLLING: UpgradeTrigger.PAUSE,
    UpgradePhase.ROLLING_BACK: UpgradeTrigger.FAIL,
}


class Seen(NamedTuple):
    """What the leader observes. `told`: for which nodes and releases it called the site's program in this term."""

    now: int
    heard: frozenset[str]
    told: frozenset[tuple[str, str]] = frozenset()
    in_window: bool = True
    return_within_s: int = 600


class Due(NamedTuple):
    """Commands to propose, in this order, and then the nodes to call the site's program for, with the release of each."""

    commands: tuple[AnyCommand, ...] = ()
    tell: tuple[tuple[str, str], ...] = ()


def next_steps(upgrade: Upgrade, nodes: Mapping[str, Node], seen: Seen) -> Due:
    """Whatever is due now; harmless when proposed again."""
    if not upgrade.is_open:
        return Due()
    left = [node for node in upgrade.nodes if node.step is not NodeStep.DONE]
    batch = [node for node in left if node.batch == left[0].batch]
    if not _is_begun(upgrade, batch):
        turn = _between_batches(upgrade, batch, seen)
        if turn is not None or upgrade.phase is UpgradePhase.PAUSED or not _may_begin(upgrade, seen):
            return Due((turn,) if turn is not None else ())
    commands: list[AnyCommand] = []
    tell: list[tuple[str, str]] = []
    for each in batch:
        node, wanted = nodes.get(each.node), upgrade.wanted(each)
        if each.step is NodeStep.CALLED and node is not None and _must_tell(upgrade, each, node, seen):
            tell.append((each.node, wanted))
        else:
            commands += _of_node(upgrade, each, node, seen)
    return Due(tuple(commands), tuple(tell))


def turn_for(upgrade: Upgrade, reason: str) -> TurnUpgrade | None:
    """What a failure leads to: canaries are rolled back, a later batch pauses, a rollback has failed; None if it is over or paused."""
    trigger = _LATE.get(upgrade.phase)
    return None if trigger is None else TurnUpgrade(trigger=trigger, reason=reason)


def _is_begun(upgrade: Upgrade, batch: list[NodeUpgrade]) -> bool:
    """Whether some node of the batch has left its first step; one that was done is no longer among them."""
    number = batch[0].batch if batch else -1
    return any(node.step is not NodeStep.WAITING for node in upgrade.nodes if node.batch == number)


def is_observed(upgrade: Upgrade, now: int) -> bool:
    """The batch before, if there was one, was watched for long enough."""
    is_first = all(node.step is NodeStep.WAITING for node in upgrade.nodes)
    return is_first or now >= upgrade.stepped_at + upgrade.observe_s * 1000


def _may_begin(upgrade: Upgrade, seen: Seen) -> bool:
    """A rollback waits neither for the window nor for an observation."""
    return upgrade.phase is UpgradePhase.ROLLING_BACK or (seen.in_window and is_observed(upgrade, seen.now))


def _between_batches(upgrade: Upgrade, batch: list[NodeUpgrade], seen: Seen) -> TurnUpgrade | None:
    if upgrade.phase is UpgradePhase.PAUSED:
        return None
    if not batch:
        is_over = upgrade.phase is UpgradePhase.ROLLING_BACK or is_observed(upgrade, seen.now)
        return TurnUpgrade(trigger=UpgradeTrigger.FINISH) if is_over else None
    if upgrade.phase is UpgradePhase.CANARY and batch[0].batch > 0 and is_observed(upgrade, seen.now):
        return TurnUpgrade(trigger=UpgradeTrigger.CANARIES_PASSED)
    return None


def _must_tell(upgrade: Upgrade, each: NodeUpgrade, node: Node, seen: Seen) -> bool:
    """Once a term. In a rollback even if the node shows the former release: the replacement may not have taken effect yet."""
    wanted = upgrade.wanted(each)
    if upgrade.phase is UpgradePhase.PAUSED or (each.node, wanted) in seen.told:
        return False
    if upgrade.phase is UpgradePhase.ROLLING_BACK:
        return node.state is NodeState.DRAINED
    return node.agent_version != wanted


def _of_node(upgrade: Upgrade, each: NodeUpgrade, node: Node | None, seen: Seen) -> Iterator[AnyCommand]:
    is_paused = upgrade.phase is UpgradePhase.PAUSED
    if node is None:
        yield StepUpgrade(nodes=(each.node,), step=NodeStep.DONE)  # it was deleted
    elif each.step is NodeStep.CALLED:
        yield from _of_called(upgrade, each, node, seen)
    elif is_paused:
        return
    elif each.step is NodeStep.WAITING or node.state is NodeState.READY:
        # Ready while it should drain: the leader ended between two commands, or somebody undrained it.
        yield DrainNode(node=each.node, reason=f"upgrade to {upgrade.wanted(each)}", urgent=upgrade.urgent)
        yield StepUpgrade(nodes=(each.node,), step=NodeStep.DRAINING)
    elif node.state is NodeState.DRAINED:
        if node.agent_version == upgrade.wanted(each) and not each.is_replaced:
            yield from _returned(each, node)
        else:
            yield StepUpgrade(nodes=(each.node,), step=NodeStep.CALLED)
    elif node.state is NodeState.DOWN and seen.now >= upgrade.stepped_at + seen.return_within_s * 1000:
        trigger = UpgradeTrigger.FAIL if upgrade.phase is UpgradePhase.ROLLING_BACK else UpgradeTrigger.PAUSE
        yield TurnUpgrade(
            trigger=trigger, reason=f"node {each.node} is down and cannot be drained: repair or delete it"
        )


def _of_called(upgrade: Upgrade, each: NodeUpgrade, node: Node, seen: Seen) -> Iterator[AnyCommand]:
    wanted = upgrade.wanted(each)
    if node.agent_version == wanted and each.node in seen.heard and node.state in (NodeState.DRAINED, NodeState.READY):
        yield from _returned(each, node)
    elif upgrade.phase in _LATE and seen.now >= upgrade.stepped_at + seen.return_within_s * 1000:
        reason = f"node {each.node} did not return with {wanted} within {seen.return_within_s} s: "
        reason += f"it is {node.state} with {node.agent_version or 'no release'}"
        yield TurnUpgrade(trigger=_LATE[upgrade.phase], reason=reason)


def _returned(each: NodeUpgrade, node: Node) -> Iterator[AnyCommand]:
    """Back into service, unless an operator had drained it before; a leader may have ended between the two commands."""
    if node.state is NodeState.DRAINED and not each.stays_drained:
        yield UndrainNode(node=each.node, is_heard=True, reason="upgraded")
    yield StepUpgrade(nodes=(each.node,), step=NodeStep.DONE)
