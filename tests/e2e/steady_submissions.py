"""Submissions at a steady rate over several clients, and what became of them."""

import itertools
import threading
import time

from lattice.testing import LocalCluster
from lattice_sdk import Client, LatticeError, Submission


class Steady:
    """Held work, so that nothing but the servers is measured. Each client knows every server and keeps to its own beat."""

    def __init__(self, cluster: LocalCluster, *, per_second: float, clients: int) -> None:
        self._cluster = cluster
        self._every_s = clients / per_second
        self._over = threading.Event()
        self.answered: list[float] = []
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(clients)]

    def __enter__(self) -> "Steady":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _submit(self, number: int) -> None:
        urls = list(self._cluster.urls.values())
        first = number % len(urls)
        with Client(urls[first:] + urls[:first], token=self._cluster.token, retry_for=60, insecure_http=True) as client:
            due = time.monotonic()
            for count in itertools.count():
                due += self._every_s
                if self._over.wait(max(0.0, due - time.monotonic())):
                    return
                try:
                    client.submit(Submission(entrypoint=["true"], hold=True), request_id=f"steady-{number}-{count}")
                except LatticeError as error:
                    self.failed.append(str(error))
                else:
                    self.answered.append(time.monotonic())

    def longest_gap_s(self) -> float:
        """Without any answer to any client."""
        return max((after - before for before, after in itertools.pairwise(sorted(self.answered))), default=0.0)
