"""Load on several servers, and what has to be true of it afterwards, as somebody outside could find out."""

import http.client
import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client, LatticeError, LifecycleRequest, Submission
from tests.chaos.checker import check
from tests.chaos.generator import Observer
from tests.chaos.history import History, read_journal, recording, seen
from tests.chaos.history import Submission as Sent

CLIENTS = 6
# Submissions that are waited for before and after something is done to the servers.
MANY = 20
# Each look at the servers costs them a question to all the others.
LOOK_EVERY_S = 0.25
UNFINISHED = "Pending,Starting,Running,Stopping"


class Load:
    """Clients that submit one allocation after the other until told to stop, each with the servers in another order.

    Every run writes into a journal when it begins and ends, so that one that was started twice is seen.
    """

    def __init__(self, cluster: LocalCluster, scratch: Path, *, clients: int = CLIENTS, pause_s: float = 0.5) -> None:
        self._cluster = cluster
        self._journal = scratch / f"journal-{secrets.token_hex(3)}"
        self._prefix = secrets.token_hex(4)
        self._pause_s = pause_s
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.history = History()
        self.acknowledged: dict[str, str] = {}
        self.times: list[float] = []
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(clients)]
        self._observer = Observer(_AnyServer(cluster), self.history, every_s=1.0)

    def __enter__(self) -> "Load":
        self._observer.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._observer.stop()

    def _submit(self, number: int) -> None:
        urls = list(self._cluster.urls.values())
        first = number % len(urls)
        with Client(urls[first:] + urls[:first], token=self._cluster.token, retry_for=60, insecure_http=True) as client:
            for count in itertools.count(1):
                if self._over.wait(self._pause_s):
                    return
                self._submit_one(client, f"{self._prefix}-{number}-{count}")

    def _submit_one(self, client: Client, name: str) -> None:
        lifecycle = LifecycleRequest(walltime="5m", requeue="on_node_failure", max_requeue=100)
        work = Submission(entrypoint=recording(self._journal, 0, 0), name=name, lifecycle=lifecycle)
        try:
            done = client.submit(work, request_id=name)
        except LatticeError as error:
            self.problems.append(f"{name}: {error}")
            self.history.submitted(Sent(name, None))
            return
        with self._lock:
            self.acknowledged[name] = done.id
            self.times.append(time.monotonic())
        self.history.submitted(Sent(name, done.number))

    def wait_for_more(self, count: int, *, within_s: float = 30) -> None:
        goal = len(self.times) + count
        eventually(lambda: len(self.times) >= goal, f"{count} more submissions", within_s=within_s)

    def longest_gap_s(self) -> float:
        return max((after - before for before, after in itertools.pairwise(self.times)), default=0.0)

    def fault(self, what: str, *, loses_work: bool = False) -> None:
        """Notes what was done to the cluster. `loses_work`: a node may rightly have been given up for it."""
        self.history.fault(what, loses_work=loses_work)

    def check(self, *, within_s: float = 60) -> None:
        """Everything acknowledged is there once and ran once per run number, and no node was held twice."""
        cluster = self._cluster
        assert not self.problems
        eventually(
            lambda: cluster.get(f"/allocations/count?state={UNFINISHED}")["total"] == 0,
            "everything has ended",
            within_s=within_s,
        )
        mine = [item for item in all_allocations(cluster) if item["name"].startswith(self._prefix)]
        assert {item["name"]: item["id"] for item in mine} == self.acknowledged
        assert len(mine) == len(self.acknowledged)
        assert {item["state"] for item in mine} == {"Completed"}
        self.history.final = tuple(map(seen, mine))
        numbers = {item["number"] for item in mine}
        self.history.listings = [
            type(listing)(listing.at, tuple(one for one in listing.allocations if one.number in numbers))
            for listing in self.history.listings
        ]
        self.history.executions = read_journal(self._journal)
        assert not (violations := check(self.history)), violations
        if not any(fault.loses_work for fault in self.history.faults):
            assert {item["run"] for item in mine} == {1}


class _AnyServer(LocalCluster):
    """Asks whichever server answers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._asked = cluster

    def request(self, method: str, path: str, *arguments: Any, **options: Any) -> tuple[int, Any]:  # noqa: ANN401
        for server in self._asked.urls:
            try:
                status, answer = self._asked.request(method, path, *arguments, server=server, **options)
            except (OSError, http.client.HTTPException):
                continue
            if status == 200:
                return status, answer
        raise OSError("no server answers")


def all_allocations(cluster: LocalCluster) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = cluster.get("/allocations?all=true&limit=1000" + (f"&cursor={cursor}" if cursor else ""))
        yield from page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            return


def raft_status(cluster: LocalCluster) -> dict[str, Any] | None:
    """As the first server says that answers."""
    for server in cluster.urls:
        try:
            status, answer = cluster.request("GET", "/raft/status", server=server, timeout_s=10)
        except (OSError, http.client.HTTPException):
            continue
        if status == 200:
            return dict(answer)
    return None


def all_healthy(cluster: LocalCluster) -> bool:
    status = raft_status(cluster)
    return status is not None and all(member["healthy"] for member in status["members"])


def wait_healthy(cluster: LocalCluster) -> None:
    eventually(
        lambda: all_healthy(cluster) and cluster.leader(), "all servers are back", within_s=60, every_s=LOOK_EVERY_S
    )


def wait_agreeing(cluster: LocalCluster, count: int = 3) -> dict[str, Any]:
    """The status once so many servers have come equally far, with equal digests."""

    def look() -> dict[str, Any] | None:
        status = raft_status(cluster)
        if status is None:
            return None
        members = [member for member in status["members"] if member["healthy"]]
        digests = {member["digest"] for member in members}
        indexes = {member["digest_index"] for member in members}
        assert None in digests or len(digests) == 1, status
        return status if len(members) == count and None not in digests and len(indexes) == 1 else None

    return eventually(look, f"{count} servers agree", within_s=60, every_s=LOOK_EVERY_S)


def kill_both(cluster: LocalCluster, server: str) -> None:
    cluster.kill("etcd", server)
    cluster.kill("server", server)
