"""The part of the state that holds declared baselines, what sensitive nodes have to stay, and the nodes that were noticed to differ.

Written by `evolve` and the codec alone. What a node is at this moment is not here: that is observed, and only what was noticed of it and
made known is kept. See docs/architecture/nodes.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.nodes.drift import AcceptedFingerprint, Baseline, Drift


class DriftRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.drifts: dict[str, Drift] = {}  # by node
        self.baselines: dict[str, Baseline] = {}  # by vCluster
        self.accepted: dict[str, AcceptedFingerprint] = {}  # by node

    def put(self, drift: Drift) -> None:
        old = self.drifts.get(drift.node)
        if old is not None:
            self._digest.remove(b"drift", old)
        self._digest.add(b"drift", drift)
        self.drifts[drift.node] = drift

    def drop(self, node: str) -> None:
        self._digest.remove(b"drift", self.drifts.pop(node))

    def forget(self, node: str) -> None:
        """Nothing is kept of a deleted node."""
        if node in self.drifts:
            self.drop(node)
        self.drop_accepted(node)

    def put_baseline(self, baseline: Baseline) -> None:
        old = self.baselines.get(baseline.vcluster)
        if old is not None:
            self._digest.remove(b"baseline", old)
        self._digest.add(b"baseline", baseline)
        self.baselines[baseline.vcluster] = baseline

    def drop_baseline(self, vcluster: str) -> None:
        self._digest.remove(b"baseline", self.baselines.pop(vcluster))

    def put_accepted(self, accepted: AcceptedFingerprint) -> None:
        self.drop_accepted(accepted.node)
        self._digest.add(b"accepted", accepted)
        self.accepted[accepted.node] = accepted

    def drop_accepted(self, node: str) -> None:
        old = self.accepted.pop(node, None)
        if old is not None:
            self._digest.remove(b"accepted", old)
