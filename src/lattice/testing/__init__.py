"""What tests of Lattice, and of things built on it, need: real clusters on one machine.

with LocalCluster(nodes=2) as cluster:
    allocation = cluster.run(["hostname"])
"""

from lattice.testing.local_cluster import QUICK_TIMINGS, CommandFailed, LocalCluster
from lattice.testing.waiting import NotInTime, eventually

__all__ = ["QUICK_TIMINGS", "CommandFailed", "LocalCluster", "NotInTime", "eventually"]
