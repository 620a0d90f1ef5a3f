"""State names as people type them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import AllocationState
from lattice.wire.text.problems import BadField

_S = TypeVar("_S", bound=StrEnum)


def parse_states(texts: Iterable[str]) -> frozenset[AllocationState]:
    """Allocation states in any case, each text perhaps a comma list. Raises BadField with the known ones."""
    return _parse(texts, AllocationState)


def parse_node_states(texts: Iterable[str]) -> frozenset[NodeState]:
    """The same for states of nodes."""
    return _parse(texts, NodeState)


def _parse(texts: Iterable[str], states: type[_S]) -> frozenset[_S]:
    by_name = {state.lower(): state for state in states}
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in by_name:
            raise BadField("state", f'unknown state "{word[:40]}"', hint=f"known: {', '.join(states)}")
    return frozenset(by_name[word.lower()] for word in words)
