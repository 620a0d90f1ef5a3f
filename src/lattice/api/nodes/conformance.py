"""How a node stands to its baseline, in a word."""

from lattice.core.machine.state import State
from lattice.ports.nodes.conformance import ConformanceView


def conformance_of(view: ConformanceView | None, state: State, node: str) -> tuple[str, str]:
    """The node's fingerprint, and what is to be said of it; both empty on a server that follows."""
    if view is None:
        return "", ""
    fingerprint = view.fingerprints().get(node, "")
    drift = state.drift.drifts.get(node)
    if drift is not None:
        standing = "escalated" if drift.escalated_at else "drifted"
        return fingerprint, "waits for approval" if drift.verified_at else standing
    if not fingerprint:
        return "", "unknown"
    return fingerprint, "" if view.verdict(node) is None else "baseline"
