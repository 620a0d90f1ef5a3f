"""Decides the next steps of an upgrade of the servers: one at a time, the leader last. Pure: what was observed comes as arguments.

A server is replaced only while it follows and all the others are well, so that a majority always stands. The order is decided again
at every step, because leadership may have moved meanwhile. See docs/architecture/upgrades.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lattice.core.machine.commands import AnyCommand, StepUpgrade, TurnUpgrade
from lattice.core.model.site.upgrades import NodeStep, NodeUpgrade, Upgrade, UpgradePhase, UpgradeTrigger
from lattice.core.upgrades import is_observed, turn_for

FEWEST = 3  # with fewer servers, the restart of one takes the majority away


class ServerSeen(NamedTuple):
    """One server as it answered: `problem` says why it is of no use, `lag` how many entries it is behind."""

    release: str = ""
    problem: str = ""
    lag: int = 0


class ServersSeen(NamedTuple):
    """What the leader observes. `told`: to which servers and releases it called the site's program in this term.

    `unwell_s` is for how long a server has been unwell without pause.
    """

    now: int
    leader: str
    servers: Mapping[str, ServerSeen]
    told: frozenset[tuple[str, str]] = frozenset()
    in_window: bool = True
    return_within_s: int = 600
    unwell_s: float = 0


class ServersDue(NamedTuple):
    """At most one of the three: a command, the server and release to call the program for, the server that is to lead."""

    command: AnyCommand | None = None
    tell: tuple[str, str] | None = None
    successor: str = ""


_NOTHING = ServersDue()
_MAX_LAG = 100  # entries; a server that follows is a few behind while work is submitted


def next_server_steps(upgrade: Upgrade, seen: ServersSeen) -> ServersDue:
    """Whatever is due now; harmless when done again."""
    if not upgrade.is_open:
        return _NOTHING
    called = [each for each in upgrade.nodes if each.step is NodeStep.CALLED]
    if called:
        return _of_called(upgrade, called[0], seen)
    left = [each for each in upgrade.nodes if each.step is not NodeStep.DONE]
    if upgrade.phase is UpgradePhase.PAUSED or not _may_go_on(upgrade, left, seen):
        return _NOTHING
    if not left:
        return ServersDue(TurnUpgrade(trigger=UpgradeTrigger.FINISH))
    if upgrade.phase is UpgradePhase.CANARY and len(left) < len(upgrade.nodes):
        return ServersDue(TurnUpgrade(trigger=UpgradeTrigger.CANARIES_PASSED))
    return _of_next(upgrade, left, seen)


def unwell(upgrade: Upgrade, seen: ServersSeen) -> str:
    """Why no further server may be stopped; empty if all are well. The one that is being replaced is left out."""
    called = {each.node for each in upgrade.nodes if each.step is NodeStep.CALLED}
    for name in sorted(set(seen.servers) - called):
        problem = _problem(seen.servers[name])
        if problem:
            return f"server {name} {problem}"
    return ""


def _problem(server: ServerSeen) -> str:
    if server.problem:
        return f"is not well: {server.problem}"
    return f"is {server.lag} entries behind" if server.lag > _MAX_LAG else ""


def _may_go_on(upgrade: Upgrade, left: list[NodeUpgrade], seen: ServersSeen) -> bool:
    """A rollback waits neither for the window nor for an observation; the last observation needs no window."""
    if upgrade.phase is UpgradePhase.ROLLING_BACK:
        return True
    return is_observed(upgrade, seen.now) and (seen.in_window or not left)


def _of_next(upgrade: Upgrade, left: list[NodeUpgrade], seen: ServersSeen) -> ServersDue:
    problem = unwell(upgrade, seen)
    if problem:
        is_late = seen.unwell_s >= seen.return_within_s
        return ServersDue(turn_for(upgrade, f"no server may be stopped: {problem}") if is_late else None)
    following = [each for each in left if each.node != seen.leader]
    if not following:
        return _hand_over(seen)
    each = following[0]
    server = seen.servers.get(each.node)
    is_there = server is not None and server.release == upgrade.wanted(each) and not each.is_replaced
    step = NodeStep.DONE if server is None or is_there else NodeStep.CALLED
    return ServersDue(StepUpgrade(nodes=(each.node,), step=step))


def _hand_over(seen: ServersSeen) -> ServersDue:
    """To the server that has come furthest."""
    others = sorted(name for name in seen.servers if name != seen.leader)
    return ServersDue(successor=min(others, key=lambda name: seen.servers[name].lag)) if others else _NOTHING


def _of_called(upgrade: Upgrade, each: NodeUpgrade, seen: ServersSeen) -> ServersDue:
    server, wanted = seen.servers.get(each.node), upgrade.wanted(each)
    # In a rollback even a server that shows the former release: its replacement may not have taken effect yet.
    was_told = (each.node, wanted) in seen.told
    must_be_told = upgrade.phase is UpgradePhase.ROLLING_BACK and not was_told
    if server is None:
        return ServersDue(StepUpgrade(nodes=(each.node,), step=NodeStep.DONE))  # it was removed
    if server.release == wanted and not _problem(server) and not must_be_told:
        return ServersDue(StepUpgrade(nodes=(each.node,), step=NodeStep.DONE))
    if upgrade.phase is UpgradePhase.PAUSED:
        return _NOTHING
    if each.node == seen.leader:
        return _NOTHING if unwell(upgrade, seen) else _hand_over(seen)  # it took the lead after it was chosen
    if not was_told and (server.release != wanted or must_be_told):
        return ServersDue(tell=(each.node, wanted))
    if seen.now >= upgrade.stepped_at + seen.return_within_s * 1000:
        reason = f"server {each.node} did not return with {wanted} within {seen.return_within_s} s: it "
        reason += _problem(server) or f"runs {server.release or 'an unknown release'}"
        return ServersDue(turn_for(upgrade, reason))
    return _NOTHING
