"""What the agent asks of a step's service; ValueError says what cannot be meant."""

from __future__ import annotations

from lattice.agent.shim.launch import mapping, seconds
from lattice.agent.shim.pmi.ranks import KINDS, PMIX
from lattice.agent.shim.pmi.seal import Veil
from lattice.agent.shim.pmi.tree import Tree

DEFAULT_TIMEOUT_S = 60.0
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64


class PmixPlan:
    """`program` serves, in `directory`; `variables` are those of a rank, with `{rank}` and `{port}` in their values."""

    __slots__ = ("directory", "program", "space", "variables")

    def __init__(self, asked: dict[str, object]) -> None:
        self.program, self.space, self.directory = (str(asked.get(each) or "") for each in ("program", "space", "dir"))
        if not (self.program.startswith("/") and self.space and self.directory.startswith("/")):
            raise ValueError("pmi.pmix has no program, space or directory")
        self.variables = {str(name): str(value) for name, value in mapping(asked, "env").items()}


class PmiPlan:
    """`node_ranks` are the ranks of each of `nodes`, `place` is this node's; `hosts` say by place where nodes are reached to which
    others give: the first one, and in a large step the heads of branches."""

    __slots__ = ("hosts", "key", "kinds", "name", "node_ranks", "nodes", "place", "pmix", "timeout_s", "tree", "veil")

    def __init__(self, asked: dict[str, object]) -> None:
        self.kinds = tuple(str(kind) for kind in _items(asked, "kinds"))
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            raise ValueError(f"pmi.kinds is not a part of {', '.join(KINDS)}: {self.kinds}")
        self.name = str(asked.get("name") or "")
        self.nodes = [str(name) for name in _items(asked, "nodes")]
        self.node_ranks = [_ranks(spans) for spans in _items(asked, "ranks")]
        place = asked.get("place")
        if not isinstance(place, int) or not 0 <= place < len(self.nodes) == len(self.node_ranks):
            raise ValueError("pmi.place names no node")
        self.place = place
        self.hosts = {0: str(asked.get("host") or "")} | dict(_heads(asked))
        self.tree = Tree(len(self.nodes), sorted(self.hosts)[1:])
        self.key = bytes.fromhex(str(asked.get("key") or ""))
        if len(self.nodes) > 1 and not (MIN_KEY_BYTES <= len(self.key) <= MAX_KEY_BYTES and all(self.hosts.values())):
            raise ValueError("pmi has no key, or no host")
        self.veil = Veil(self.key if asked.get("hidden") is True else b"")
        self.pmix = PmixPlan(mapping(asked, "pmix")) if PMIX in self.kinds else None
        self.timeout_s = seconds(asked, "timeout_s", DEFAULT_TIMEOUT_S) or DEFAULT_TIMEOUT_S

    @property
    def node(self) -> str:
        return self.nodes[self.place]


def plan_of(request: dict[str, object]) -> PmiPlan | None:
    """None when the step wants no service."""
    asked = mapping(request, "pmi")
    return PmiPlan(asked) if asked else None


def _heads(asked: dict[str, object]) -> list[tuple[int, str]]:
    found = []
    for pair in _items({"heads": [], **asked}, "heads"):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int) and pair[0] > 0):
            raise ValueError(f"pmi.heads has no place and host at {pair!r}")
        found.append((pair[0], str(pair[1])))
    return found


def _items(asked: dict[str, object], name: str) -> list[object]:
    value = asked.get(name)
    if not isinstance(value, list):
        raise ValueError(f"pmi.{name} is not a list")
    return value


def _ranks(found: object) -> list[int]:
    """From first and last of each run of ranks."""
    if not isinstance(found, list):
        raise ValueError("pmi.ranks is not a list")
    ranks: list[int] = []
    for span in found:
        if not (isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) for end in span)):
            raise ValueError(f"pmi.ranks has no run of ranks at {span!r}")
        ranks += range(span[0], span[1] + 1)
    return ranks
