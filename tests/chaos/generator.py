"""Load: submissions from several threads, each repeated under its request id until it is answered."""

import http.client
import random
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lattice.testing import LocalCluster
from tests.chaos.history import History, Submission, recording

TICKS = (0, 0, 1, 3, 6, 12, 20, 80)  # tenths of a second that a command lives; the longest outlives its node
BACKLOG = 10  # enough to keep every node busy, little enough to come to an end
GIVE_UP_S = 30.0
POLICIES = ("on_node_failure", "on_node_failure", "never")
# Some callers hang up before they are answered, and ask again: a lost answer without a dead server.
IMPATIENCE = 0.2
IMPATIENT_S = 0.003


class Generator:
    """Submits until told to stop, then finishes what it began."""

    def __init__(self, cluster: LocalCluster, history: History, journal: Path, *, seed: int, pause_s: float) -> None:
        self._cluster = cluster
        self._history = history
        self._journal = journal
        self._seed = seed
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._submit_work, args=("first",)),
            threading.Thread(target=self._submit_work, args=("second",)),
            threading.Thread(target=self._submit_and_cancel, args=("canceller",)),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _submit_work(self, worker: str) -> None:
        chance = random.Random(f"{self._seed}/{worker}")
        while not self._stop.wait(chance.uniform(0, 2 * self._pause_s)):
            if self._history.backlog() > BACKLOG:
                continue
            command = recording(self._journal, chance.choice(TICKS), chance.choice((0, 0, 0, 3)))
            lifecycle = {"walltime": "1m", "requeue": chance.choice(POLICIES), "max_requeue": 100}
            self._submit(chance, {"entrypoint": command, "lifecycle": {"type": "bounded", **lifecycle}})

    def _submit_and_cancel(self, worker: str) -> None:
        """Many short histories without a node, so that some of them are being written whenever a server dies."""
        chance = random.Random(f"{self._seed}/{worker}")
        while not self._stop.wait(chance.uniform(0, self._pause_s / 2)):
            work = {"entrypoint": recording(self._journal, 0, 0), "hold": True}
            is_group = chance.random() < 0.3
            number = self._submit(chance, {**work, "tasks": "0-9"} if is_group else work)
            if number is None:
                continue
            path = f"/allocations/a{number}"
            # A group in two pieces, the second of which is all that is left.
            parts = (f"{path}_2-5", path) if is_group else (path,)
            answers = [self._ask(chance, "DELETE", part, None, new_request_id(chance)) for part in parts]
            if None not in answers:
                self._history.cancelled_while_held(number)

    def _submit(self, chance: random.Random, work: Mapping[str, object]) -> int | None:
        request_id = new_request_id(chance)
        answer = self._ask(chance, "POST", "/allocations", work, request_id)
        number = None if answer is None else int(answer["number"])
        self._history.submitted(Submission(request_id, number))
        return number

    def _ask(
        self, chance: random.Random, method: str, path: str, body: object, request_id: str
    ) -> dict[str, Any] | None:
        """The answer, or None when nobody answered for a long time."""
        until = time.monotonic() + GIVE_UP_S
        patience_s = IMPATIENT_S if chance.random() < IMPATIENCE else 5.0
        while time.monotonic() < until:
            try:
                status, answer = self._cluster.request(method, path, body, request_id=request_id, timeout_s=patience_s)
            except (OSError, http.client.HTTPException):
                status, answer = 503, {}
            if status < 300:
                return dict(answer)
            if status not in {503, 507}:
                raise AssertionError(f"refused: {status} {answer}")
            patience_s = 5.0
            time.sleep(0.05)
        return None


def new_request_id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


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
