"""What tests of Lattice, and of things built on it, need: real clusters on one machine, and fakes for its ports.

with LocalCluster(nodes=2) as cluster:
    allocation = cluster.run(["hostname"])
"""

from lattice.testing.agent import FakeAgent
from lattice.testing.clock import HandClock
from lattice.testing.coroutines import scenario
from lattice.testing.links import FakeLinks
from lattice.testing.local_cluster import QUICK_TIMINGS, CommandFailed, LocalCluster
from lattice.testing.replica import FakeReplica
from lattice.testing.waiting import NotInTime, eventually

__all__ = [
    "QUICK_TIMINGS",
    "CommandFailed",
    "FakeAgent",
    "FakeLinks",
    "FakeReplica",
    "HandClock",
    "LocalCluster",
    "NotInTime",
    "eventually",
    "scenario",
]
