"""Which servers an upgrade of the servers replaces, and what forbids it."""

from collections.abc import Sequence
from typing import NamedTuple

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.machine.levels import FIRST_RELEASES
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.upgrades import is_older, is_skipping
from lattice.core.server_upgrades import FEWEST
from lattice.ports.quorum.servers import ServerState

_IN_SERVICE = frozenset({NodeState.READY, NodeState.DEGRADED, NodeState.DRAINING, NodeState.DRAINED})


class ChosenServers(NamedTuple):
    """`names` in the order in which they are replaced if leadership does not move, with the release of each."""

    names: tuple[str, ...]
    formers: tuple[str, ...]
    left_out: tuple[str, ...]


def choose_servers(context: Context, target: str, states: Sequence[ServerState]) -> ChosenServers:
    """Raises ApiError for what would take the majority away, skip a release, or come before its time."""
    _check_number(states)
    releases = _releases(states)
    chosen = sorted(name for name, release in releases.items() if release != target)
    if not chosen:
        raise ApiError("conflict", f"every server runs {target} already")
    for name in chosen:
        check_release(f"server {name} runs", releases[name], target)
    _check_level(context.state.level, target)
    if any(is_older(releases[name], target) for name in chosen):
        _check_agents(context.state, target)
    leader = context.services.server_name
    names = tuple(sorted(chosen, key=lambda name: (name == leader, name)))
    return ChosenServers(names, tuple(releases[name] for name in names), tuple(sorted(set(releases) - set(chosen))))


def check_release(who: str, release: str, target: str) -> None:
    if is_skipping(release, target):
        raise ApiError(
            "conflict",
            f"{who} {release}, and a release lies between that and {target}: agents and servers may differ by one",
            current=release,
            requested=target,
            hint="upgrade agents and servers to the release in between first",
        )


def _check_number(states: Sequence[ServerState]) -> None:
    if len(states) < FEWEST:
        raise ApiError(
            "conflict",
            f"with {len(states)} server{'s' if len(states) > 1 else ''} the cluster stops while one is replaced",
            current=f"{len(states)} servers",
            requested=f"{FEWEST} servers",
            hint="replace the package and restart the server by hand: work keeps running, and clients wait for the server",
        )


def _releases(states: Sequence[ServerState]) -> dict[str, str]:
    """By server; all of them answer, are well and say what they run."""
    found: dict[str, str] = {}
    for state in states:
        problem = state.problem or "no answer"
        if state.replica is not None:
            problem = state.replica.problem or (
                "" if state.replica.release else "it does not say which release it runs"
            )
        if state.replica is None or problem:
            raise ApiError(
                "conflict",
                f"server {state.name} cannot take part: {problem}; an upgrade begins with all servers",
                hint="lattice admin raft status",
            )
        found[state.name] = state.replica.release
    return found


def _check_level(level: int, target: str) -> None:
    first = FIRST_RELEASES[level]
    if is_older(target, first):
        raise ApiError(
            "conflict",
            f"the cluster was finalized at level {level}, which servers before {first} cannot read: there is no way back",
            current=f"level {level}",
            requested=target,
        )


def _check_agents(state: State, target: str) -> None:
    """Agents first: a server never meets an agent that is older than the release before it (docs/admin/upgrades.md)."""
    nodes = sorted(name for name, node in state.nodes.items() if node.state in _IN_SERVICE)
    behind = [name for name in nodes if is_older(state.nodes[name].agent_version, target)]
    if behind:
        shown = ", ".join(behind[:5]) + (f" and {len(behind) - 5} more" if len(behind) > 5 else "")
        raise ApiError(
            "conflict",
            f"agents are upgraded before servers, and {len(behind)} of {len(nodes)} in service run an older release: {shown}",
            current=state.nodes[behind[0]].agent_version,
            requested=target,
            hint=f"lattice admin upgrade start --to {target} --agents",
        )
