"""Faults: what is done to a cluster while it works. A fault is a function of the cluster and of chance, so that a
seed repeats its choices."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from lattice.testing import LocalCluster
from lattice.testing.local_cluster import start_of
from lattice.testing.waiting import eventually
from lattice_sdk.site.local_cluster import ClusterProcess
from tests.chaos.history import History

# Longer than a node's heartbeat time-out plus its grace period in tests.
LONG_STILL_S = 6.0
SHORT_STILL_S = 0.8


@dataclass(frozen=True)
class Kind:
    """`weight`: how often, compared with the others."""

    name: str
    weight: int
    loses_work: bool
    strike: Callable[["Nemesis"], str]


class Nemesis:
    """Strikes at random moments until told to stop, and leaves nothing stopped behind."""

    def __init__(
        self, cluster: LocalCluster, history: History, kinds: tuple[Kind, ...], *, seed: int, every_s: float
    ) -> None:
        self.cluster = cluster
        self.chance = random.Random(f"{seed}/nemesis")
        self._history = history
        self._kinds = kinds
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._rage)
        self._still: list[tuple[float, ClusterProcess]] = []
        self._struck: list[ClusterProcess] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._wake(everyone=True)
        # A server that was told to end serves on for a moment, and must not be taken for the next one.
        eventually(lambda: not any(map(is_alive, self._struck)), "all that was struck is gone", within_s=30)

    def pick(self, role: str) -> ClusterProcess | None:
        found = self.cluster.file.of_role(role)
        return self.chance.choice(found) if found else None

    def hit(self, role: str, number: int) -> str:
        """Signal one process of the role, the one that is meant and no other."""
        victim = self.pick(role)
        if victim is None or not send(victim, number):
            return f"no {role} there"
        self._struck.append(victim)
        return f"{role} {victim.name} (pid {victim.pid})"

    def hit_node(self) -> str:
        """Agent and shim of one node at once."""
        victim = self.pick("agent")
        if victim is None:
            return "no agent there"
        both = [process for process in self.cluster.file.processes if process.name == victim.name]
        return ", ".join(f"{process.role} {process.name}" for process in both if send(process, signal.SIGKILL))

    def hold_still(self, seconds: float) -> str:
        victim = self.pick("agent")
        if victim is None or any(victim == other for _, other in self._still) or not send(victim, signal.SIGSTOP):
            return "no agent there"
        self._still.append((time.monotonic() + seconds, victim))
        return f"agent {victim.name} for {seconds:g} s"

    def _rage(self) -> None:
        weights = [kind.weight for kind in self._kinds]
        while not self._stop.wait(self.chance.uniform(0.2, 2.0) * self._every_s):
            self._wake(everyone=False)
            kind = self.chance.choices(self._kinds, weights)[0]
            self._history.fault(f"{kind.name}: {kind.strike(self)}", loses_work=kind.loses_work)

    def _wake(self, *, everyone: bool) -> None:
        now = time.monotonic()
        for entry in [entry for entry in self._still if everyone or entry[0] <= now]:
            send(entry[1], signal.SIGCONT)
            self._still.remove(entry)


def is_alive(process: ClusterProcess) -> bool:
    return start_of(process.pid) == process.started


def send(process: ClusterProcess, number: int) -> bool:
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if start_of(process.pid) != process.started:
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


KILL_SERVER = Kind("kill server", 3, False, lambda nemesis: nemesis.hit("server", signal.SIGKILL))
TERMINATE_SERVER = Kind("terminate server", 1, False, lambda nemesis: nemesis.hit("server", signal.SIGTERM))
KILL_AGENT = Kind("kill agent", 3, False, lambda nemesis: nemesis.hit("agent", signal.SIGKILL))
PAUSE_AGENT = Kind("hold an agent for a moment", 1, False, lambda nemesis: nemesis.hold_still(SHORT_STILL_S))
KILL_SHIM = Kind("kill shim", 2, True, lambda nemesis: nemesis.hit("shim", signal.SIGKILL))
KILL_NODE = Kind("kill agent and shim", 1, True, lambda nemesis: nemesis.hit_node())
LOSE_NODE = Kind("hold an agent until its node is lost", 2, True, lambda nemesis: nemesis.hold_still(LONG_STILL_S))

DEATHS = (KILL_SERVER, TERMINATE_SERVER, KILL_AGENT, PAUSE_AGENT)
# Without deaths of servers, which give every node a fresh time-out, so that nodes are really given up.
LOSSES = (KILL_AGENT, KILL_SHIM, KILL_NODE, LOSE_NODE)
EVERYTHING = (*DEATHS, KILL_SHIM, KILL_NODE, LOSE_NODE)
