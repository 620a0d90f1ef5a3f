"""How the tasks of a step find each other: what each node's order says about PMI, and the address at which other libraries meet.

The key of a launch follows from the launch id and a secret that all servers of the cluster have: a new leader that completes a launch
gives the remaining nodes the same one, and no state holds it.
"""

import math
import zlib
from collections.abc import Callable, Iterable

from msgspec import Struct

from lattice.control.steps.plan import StepPlan
from lattice.core.machine.state import State
from lattice.core.model.work.layout import Distribution
from lattice.ports.nodes.steps import LaunchRequest, PmiOrder, StepRefused

FENCE_TIMEOUT_S = 60.0
KINDS = {"auto": ("pmi1", "pmi2"), "pmi1": ("pmi1",), "pmi2": ("pmi2",), "pmix": ("pmix",)}
PMIX = "pmix"  # also the feature of a node that has it
NAMED_NODES = 5
STAR_NODES = 128  # of one step, whose fences its first node serves alone
# Below the ports that Linux gives to clients, and apart from those of the PMI services.
FIRST_PORT = 14_000
PORTS = 6_000


class Meeting(Struct, frozen=True, kw_only=True):
    """The part of a step's orders that is about its tasks as a whole."""

    pmi: PmiOrder | None = None
    host: str = ""
    port: int = 0


class WireUp:
    """`key_of` makes the key of a launch, `host_of` knows from which address a node was last heard; `hidden` where nodes are to encrypt
    what they exchange; up to `star_nodes` nodes of a step all give to the first of them."""

    def __init__(
        self,
        key_of: Callable[[str], bytes],
        host_of: Callable[[str], str],
        *,
        hidden: bool = False,
        star_nodes: int = 0,
    ) -> None:
        self._key_of = key_of
        self._hidden = hidden
        self._star_nodes = star_nodes or STAR_NODES
        self._host_of = host_of

    def meeting(self, state: State, plan: StepPlan, request: LaunchRequest) -> Meeting:
        layout = plan.layout
        heads = choose_heads(len(layout.nodes), self._star_nodes)
        host = self._host(state, layout.nodes[0])
        kinds = KINDS.get(request.pmi, ())
        if request.pmi == "auto" and not _without_pmix(state, layout.nodes):
            kinds = (*kinds, PMIX)
        pmi = PmiOrder(
            kinds=kinds,
            key=self._key_of(plan.launch_id),
            host=host,
            timeout_s=request.fence_timeout_s or FENCE_TIMEOUT_S,
            counts=layout.counts,
            cyclic=layout.distribution is Distribution.CYCLIC,
            heads=heads,
            hidden=self._hidden,
            head_hosts=tuple(self._host(state, layout.nodes[place]) for place in heads),
        )
        return Meeting(pmi=pmi if kinds else None, host=host, port=plan.port)

    @staticmethod
    def check(state: State, nodes: Iterable[str], request: LaunchRequest) -> None:
        """Raises StepRefused where a node cannot do what is asked for."""
        lacking = _without_pmix(state, nodes) if request.pmi == PMIX else []
        if not lacking:
            return
        more = f" and {len(lacking) - NAMED_NODES} more" if len(lacking) > NAMED_NODES else ""
        word = "node" if len(lacking) == 1 else "nodes"
        raise StepRefused(
            "infeasible",
            f"{word} {', '.join(lacking[:NAMED_NODES])}{more} without PMIx",
            hint="use --pmi=auto, leave them out with --nodelist, or ask your administrator to install libpmix there",
        )

    def _host(self, state: State, node: str) -> str:
        """Where others reach the node: as it says itself, as it was heard, or by its name."""
        for address in (state.nodes[node].address, self._host_of(node)):
            if address:
                host, colon, port = address.rpartition(":")
                return (host if colon and port.isdigit() else address).strip("[]")
        return node


def _without_pmix(state: State, nodes: Iterable[str]) -> list[str]:
    return [node for node in nodes if PMIX not in state.nodes[node].hardware.features]


def choose_heads(nodes: int, star_nodes: int = STAR_NODES) -> tuple[int, ...]:
    """Places of the nodes to which those after them give their part of a fence; none where all give to the first.

    As many branches as nodes in each: no node then has more than two square roots of their number to serve.
    """
    if nodes <= star_nodes:
        return ()
    branches = math.isqrt(nodes - 1)
    return tuple(1 + place * (nodes - 1) // branches for place in range(branches))


def choose_port(launch_id: str, taken: Iterable[int]) -> int:
    """A port for the step that no other one of its node has."""
    port = zlib.crc32(launch_id.encode()) % PORTS
    others = set(taken)
    for offset in range(PORTS):
        if FIRST_PORT + (port + offset) % PORTS not in others:
            return FIRST_PORT + (port + offset) % PORTS
    return FIRST_PORT + port
