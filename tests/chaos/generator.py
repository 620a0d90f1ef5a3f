"""Load: submissions from several threads, each repeated under its request id until it is answered."""

import http.client
import random
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from lattice.testing import LocalCluster
from tests.chaos.history import History, Submission, recording

TICKS = (0, 0, 1, 3, 6, 12, 20)  # tenths of a second that a command lives
BACKLOG = 15  # enough to keep every node busy, little enough to come to an end
GIVE_UP_S = 30.0
POLICIES = ("on_node_failure", "on_node_failure", "never")


class Generator:
    """Submits until told to stop, then finishes what it began."""

    def __init__(self, cluster: LocalCluster, history: History, journal: Path, *, seed: int, pause_s: float) -> None:
        self._cluster = cluster
        self._history = history
        self._journal = journal
        self._seed = seed
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._submit_all, args=(worker,)) for worker in range(2)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _submit_all(self, worker: int) -> None:
        chance = random.Random(f"{self._seed}/{worker}")
        while not self._stop.is_set():
            request_id = str(uuid.uuid4())
            body = {
                "request_id": request_id,
                "entrypoint": recording(self._journal, chance.choice(TICKS), chance.choice((0, 0, 0, 3))),
                "lifecycle": {
                    "type": "bounded",
                    "walltime": "1m",
                    "requeue": chance.choice(POLICIES),
                    "max_requeue": 100,
                },
            }
            self._history.submitted(Submission(request_id, self._submit(body)))
            self._stop.wait(chance.uniform(0, 2 * self._pause_s))
            while self._history.backlog() > BACKLOG and not self._stop.wait(0.1):
                pass

    def _submit(self, body: Mapping[str, object]) -> int | None:
        """The number, or None when nobody answered for a long time."""
        until = time.monotonic() + GIVE_UP_S
        while time.monotonic() < until:
            try:
                status, answer = self._cluster.request("POST", "/allocations", body, timeout_s=5)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if status == 201:
                return int(answer["number"])
            if status not in {503, 507}:
                raise AssertionError(f"refused: {status} {answer}")
            time.sleep(0.05)
        return None


class Observer:
    """Lists everything again and again, for as long as the servers answer."""

    def __init__(self, cluster: LocalCluster, history: History, *, every_s: float = 0.2) -> None:
        self._cluster = cluster
        self._history = history
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                # One answer is one moment; several pages would not be.
                status, answer = self._cluster.request("GET", "/allocations?limit=10000", timeout_s=5)
            except (OSError, http.client.HTTPException):
                continue
            if status == 200:
                self._history.listed(answer["items"])
