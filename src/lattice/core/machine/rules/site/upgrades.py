"""Judges rolling upgrades: one at a time, along the table of its phases.

What holds: its nodes, their batches and the releases that they had are fixed at the beginning; later only phases and steps change.
Nothing is carried out here: the loop of upgrades does what the phase says, and proposes the step that came of it. The way back is
open while the cluster has the level of the beginning, because the release before cannot read what a higher level lets into the log.
See docs/architecture/upgrades.md.
"""

import re

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.upgrades import (
    NodeUpgrade,
    Upgrade,
    UpgradeKind,
    UpgradeTrigger,
    batch_of,
    stepped,
    turned,
)

Events = tuple[ev.AnyEvent, ...]
UpgradeOrder = cmd.BeginUpgrade | cmd.TurnUpgrade
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!-]{0,62}")
_STATUS = "lattice admin upgrade status"


def begin(state: State, command: cmd.BeginUpgrade, actor: str, at: int) -> Events | Rejected:
    refusal = _unfit(state, command)
    if refusal is not None:
        return refusal
    upgrade = Upgrade(
        target=command.target,
        by=actor,
        began_at=at,
        level=state.level,
        observe_s=command.observe_s,
        nodes=_servers(command) if command.kind is UpgradeKind.SERVERS else _nodes(state, command),
        within=command.within,
        urgent=command.urgent,
        stepped_at=at,
        before=command.before,
        kind=command.kind,
    )
    return (ev.UpgradeChanged(upgrade=upgrade),)


def _nodes(state: State, command: cmd.BeginUpgrade) -> tuple[NodeUpgrade, ...]:
    return tuple(
        NodeUpgrade(
            node=name,
            former=state.nodes[name].agent_version,
            batch=batch_of(place, command.canaries, command.batch),
            stays_drained=state.nodes[name].drain_wanted,
        )
        for place, name in enumerate(command.nodes)
    )


def _servers(command: cmd.BeginUpgrade) -> tuple[NodeUpgrade, ...]:
    """Each is a batch of its own; which comes next depends on who leads then."""
    named = zip(command.nodes, command.formers, strict=True)
    return tuple(NodeUpgrade(node=name, former=former, batch=place) for place, (name, former) in enumerate(named))


def _unfit(state: State, command: cmd.BeginUpgrade) -> Rejected | None:
    running = state.upgrades.newest
    if running is not None and running.is_open:
        message = f"an upgrade to {running.target} is {running.phase} already; there is one at a time"
        return Rejected(code="conflict", message=message, hint=_STATUS)
    if not _VERSION.fullmatch(command.target):
        return Rejected(code="invalid", message=f'"{command.target[:64]}" is not a version', hint="For example 0.2.0.")
    if command.canaries < 0 or command.batch < 1 or command.observe_s < 0:
        return Rejected(code="invalid", message="a batch has at least one node, and no size or time is negative")
    if not command.nodes or len(set(command.nodes)) != len(command.nodes):
        return Rejected(code="invalid", message="an upgrade names at least one node, and each node once")
    if command.within and command.within not in state.reservations:
        return Rejected(code="not_found", message=f'unknown reservation "{command.within}"')
    return _unfit_servers(command) if command.kind is UpgradeKind.SERVERS else _unfit_nodes(state, command)


def _unfit_servers(command: cmd.BeginUpgrade) -> Rejected | None:
    if command.urgent:
        return Rejected(code="invalid", message="nothing runs on servers, so their upgrade cannot be urgent")
    if len(command.formers) != len(command.nodes) or not all(command.formers):
        return Rejected(code="invalid", message="the upgrade of a server names the release that it runs now")
    return None


def _unfit_nodes(state: State, command: cmd.BeginUpgrade) -> Rejected | None:
    if command.formers:
        return Rejected(code="invalid", message="the releases of agents are those that they registered with")
    unknown = next((name for name in command.nodes if name not in state.nodes), "")
    if unknown:
        return Rejected(code="not_found", message=f'unknown node "{unknown}"')
    nameless = next((name for name in command.nodes if not state.nodes[name].agent_version), "")
    if nameless:
        message = f"the release of node {nameless} is not known, so it could not be rolled back"
        return Rejected(code="conflict", message=message, hint="Leave it out until its agent has registered.")
    return None


def turn(state: State, command: cmd.TurnUpgrade, at: int) -> Events | Rejected:
    upgrade = state.upgrades.newest
    if upgrade is None:
        return Rejected(code="not_found", message="there is no upgrade", hint=_STATUS)
    if command.trigger is UpgradeTrigger.ROLL_BACK and state.level > upgrade.level:
        return Rejected(
            code="conflict",
            message=f"the upgrade to {upgrade.target} was finalized, and there is no way back from that",
            current=f"level {state.level}",
            requested=f"level {upgrade.level}",
        )
    after = turned(upgrade, command.trigger, command.reason, at)
    if after is None:
        message = f"the upgrade to {upgrade.target} is {upgrade.phase}: {command.trigger} is not possible"
        return Rejected(code="conflict", message=message, hint=_STATUS)
    return (ev.UpgradeChanged(upgrade=after),)


def step(state: State, command: cmd.StepUpgrade, at: int) -> Events | Rejected:
    upgrade = state.upgrades.newest
    if upgrade is None or not upgrade.is_open:
        return Rejected(code="stale", message="no upgrade is open")
    names = frozenset(command.nodes)
    if not names <= {node.node for node in upgrade.nodes}:
        return Rejected(code="stale", message="the upgrade does not have these nodes")
    if all(node.step is command.step for node in upgrade.nodes if node.node in names):
        return ()  # a repeated step is none: time limits count from the last one
    return (ev.UpgradeChanged(upgrade=stepped(upgrade, names, command.step, at)),)


def order_note(command: UpgradeOrder, actor: str) -> AuditNote:
    if isinstance(command, cmd.BeginUpgrade):
        detail = f"{len(command.nodes)} nodes, {command.canaries} canaries, batches of {command.batch}"
        if command.kind is UpgradeKind.SERVERS:
            detail = f"servers {', '.join(command.nodes)}"
        return AuditNote(kind="upgrade.start", actor=actor, subject=command.target, detail=detail)
    return AuditNote(kind=f"upgrade.{command.trigger}", actor=actor, subject="upgrade", detail=command.reason)
