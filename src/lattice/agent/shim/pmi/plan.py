"""What the agent asks of a step's service; ValueError says what cannot be meant."""

from __future__ import annotations

from lattice.agent.shim.launch import mapping, seconds
from lattice.agent.shim.pmi.ranks import KINDS, PMIX

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
    """`node_ranks` are the ranks of each of `nodes`, `place` is this node's; `host` is where the first node is reached."""

    __slots__ = ("host", "key", "kinds", "name", "node_ranks", "nodes", "place", "pmix", "timeout_s")

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
        self.host = str(asked.get("host") or "")
        self.key = bytes.fromhex(str(asked.get("key") or ""))
        if len(self.nodes) > 1 and not (MIN_KEY_BYTES <= len(self.key) <= MAX_KEY_BYTES and self.host):
            raise ValueError("pmi has no key, or no host")
        self.pmix = PmixPlan(mapping(asked, "pmix")) if PMIX in self.kinds else None
        self.timeout_s = seconds(asked, "timeout_s", DEFAULT_TIMEOUT_S) or DEFAULT_TIMEOUT_S

    @property
    def node(self) -> str:
        return self.nodes[self.place]


def plan_of(request: dict[str, object]) -> PmiPlan | None:
    """None when the step wants no service."""
    asked = mapping(request, "pmi")
    return PmiPlan(asked) if asked else None


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
