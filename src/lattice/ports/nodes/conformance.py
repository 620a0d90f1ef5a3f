"""What is known of the nodes' configurations, and what they should be."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from lattice.core.model.nodes.drift import Peers, Verdict


class ConformanceStatus(Struct, frozen=True):
    """Input of the scheduler: fresh fingerprints, nodes to avoid, and by vCluster nodes that may not be used."""

    fingerprints: Mapping[str, str]
    drifted: frozenset[str]
    excluded: Mapping[str, frozenset[str]]


NO_STANDING = ConformanceStatus({}, frozenset(), {})


class Fingerprints(Protocol):
    """What the nodes last said of themselves."""

    def fingerprints(self) -> Mapping[str, str]:
        """By node, fresh ones only. The same object as long as nothing changed."""
        ...

    def components(self, node: str) -> Mapping[str, str]:
        """What the node's fingerprint is made of; empty when it has said nothing."""
        ...

    def refresh(self, node: str) -> bool:
        """Asks the node to look at itself again; False when its agent cannot be reached."""
        ...


class ConformanceView(Fingerprints, Protocol):
    """The same, and who differs from what."""

    def verdict(self, node: str) -> Verdict | None:
        """What the node should be; None when nothing is expected of it, or nothing known."""
        ...

    def majorities(self) -> Mapping[Peers, str]:
        """The fingerprint that counts where none is declared."""
        ...

    def components_of(self, fingerprint: str) -> Mapping[str, str]:
        """What a fingerprint stands for, if any node has it or a baseline says it; else empty."""
        ...
