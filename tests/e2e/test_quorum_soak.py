"""Many faults of whole servers, one after the other and at random, each judged as the few in the everyday tests are.

LATTICE_SOAK_FAULTS: how many of each (50); LATTICE_SOAK_S: seconds of random schedules (3600); LATTICE_SOAK_SEED: their choices.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import require_program
from tests.e2e.quorum_load import Load, wait_agreeing, wait_healthy
from tests.e2e.server_hosts import HostCluster
from tests.e2e.test_partition import PATIENCE

FAULTS = int(os.environ.get("LATTICE_SOAK_FAULTS", "50"))
RANDOM_S = float(os.environ.get("LATTICE_SOAK_S", "3600"))
SEED = int(os.environ.get("LATTICE_SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
BATCH = 5  # faults in one load, which is judged afterwards
CLIENTS = 10

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.root, pytest.mark.timeout(4 * 3600)]

Fault = Callable[[HostCluster, str, random.Random], None]


@pytest.fixture(scope="module")
def hosts() -> Iterator[HostCluster]:
    require_program("etcd")
    require_program("nsenter")
    with HostCluster(settings=PATIENCE) as cluster:
        yield cluster


def kill(cluster: HostCluster, server: str, chance: random.Random) -> None:
    cluster.kill_server(server)


def terminate(cluster: HostCluster, server: str, chance: random.Random) -> None:
    cluster.kill_server(server, signal.SIGTERM)


def stand_still(cluster: HostCluster, server: str, chance: random.Random) -> None:
    with cluster.standing_still(server):
        time.sleep(chance.choice((1, 5, 10, 10)))


def cut_off(cluster: HostCluster, server: str, chance: random.Random) -> None:
    with cluster.cut_off(server):
        time.sleep(chance.choice((1, 5, 10, 15)))


def judge(cluster: HostCluster, load: Load) -> None:
    wait_healthy(cluster)
    load.check(within_s=180)
    wait_agreeing(cluster)
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready", within_s=60)


@pytest.mark.parametrize("fault", [kill, cut_off, stand_still])
def test_the_leader_is_struck_again_and_again(hosts: HostCluster, scratch: Path, fault: Fault) -> None:
    chance = random.Random(SEED)
    gaps: list[float] = []
    for done in range(0, FAULTS, BATCH):
        with Load(hosts, scratch, clients=CLIENTS, pause_s=0.5) as load:
            load.wait_for_more(CLIENTS)
            for _ in range(min(BATCH, FAULTS - done)):
                leader = hosts.leader()
                load.fault(f"{fault.__name__} {leader}", loses_work=fault is not kill)
                fault(hosts, leader, chance)
                load.wait_for_more(CLIENTS, within_s=60)
                wait_healthy(hosts)
        judge(hosts, load)
        gaps.append(load.longest_gap_s())
    print(f"\n{FAULTS} times {fault.__name__}: longest gap {max(gaps):.1f} s")  # noqa: T201


def test_random_schedules(hosts: HostCluster, scratch: Path) -> None:
    print(f"\nLATTICE_SOAK_SEED={SEED}")  # noqa: T201
    chance = random.Random(SEED)
    until = time.monotonic() + RANDOM_S
    count = 0
    while time.monotonic() < until:
        with Load(hosts, scratch, clients=CLIENTS, pause_s=0.5) as load:
            load.wait_for_more(CLIENTS, within_s=60)
            for _ in range(BATCH):
                # The next one may come before the last is over, and for a while there may be no majority.
                fault = chance.choice((kill, kill, terminate, stand_still, cut_off))
                victim = hosts.leader() if chance.random() < 0.6 else chance.choice(hosts.names)
                load.fault(f"{fault.__name__} {victim}", loses_work=True)
                fault(hosts, victim, chance)
                count += 1
                time.sleep(chance.uniform(0, 5))
        judge(hosts, load)
    print(f"{count} faults")  # noqa: T201
