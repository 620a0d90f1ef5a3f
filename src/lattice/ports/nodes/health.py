"""What the nodes' own checks say, and how to have them run now."""

from collections.abc import Sequence
from typing import Protocol

from lattice.core.model.nodes.health import CheckStanding, HealthReport


class CheckLinks(Protocol):
    """The agents, as far as their checks are concerned. Nodes that are not confirmed yet are reached as well."""

    async def run_checks(self, node: str, names: Sequence[str], *, within_s: float) -> HealthReport:
        """Runs the named checks of the node, all without a name, and returns how they stand then; raises AgentUnreachable."""
        ...

    def is_connected(self, node: str) -> bool:
        """Whether the node's stream is open and confirmed."""
        ...


class HealthService(Protocol):
    """The last report of each node; held by the leader."""

    def checks_of(self, node: str) -> tuple[CheckStanding, ...]:
        """How the node's checks stand; empty when it has not said."""
        ...

    def unfit_because(self, node: str) -> str:
        """Why a node that boots is not Ready yet, as far as checks are the reason."""
        ...

    async def run_now(self, node: str, names: Sequence[str] = ()) -> tuple[CheckStanding, ...]:
        """Has the checks run and returns how they stand; raises AgentUnreachable."""
        ...
