"""Watching a real cluster: every change, by the command line and the client library, also across deaths of the server."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Event, LatticeError

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def watched() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1) as cluster:
        yield cluster


class Watcher:
    """Collects what the client library hears, in a thread of its own, over as many connections as it takes."""

    def __init__(self, cluster: LocalCluster, **filters: object) -> None:
        self.events: list[Event] = []
        self._client = cluster.client(retry_for_s=60)
        self._stream = self._client.watch(**filters)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()
        eventually(lambda: self._stream._reader._last_id, "the server has said where the log is")

    def _collect(self) -> None:
        # The cluster is stopped while this still listens.
        with suppress(LatticeError):
            for event in self._stream:
                self.events.append(event)

    def has_seen_end_of(self, allocation_id: str) -> bool:
        return "ended" in self.kinds_of(allocation_id)

    def kinds_of(self, allocation_id: str) -> list[str]:
        return [event.kind for event in list(self.events) if event.id == allocation_id]


def shown(cluster: LocalCluster, allocation_id: str, let_go: Callable[[], object]) -> list[dict[str, Any]]:
    """What `lattice watch ID` shows until it ends by itself; work is let go once it watches."""
    program = subprocess.Popen(
        [str(cluster._program), "watch", allocation_id, "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
        cwd=cluster.directory,
    )
    assert program.stdout is not None
    first = program.stdout.readline()
    let_go()
    out, _ = program.communicate(timeout=30)
    assert program.returncode == 0
    return [json.loads(line) for line in (first + out).splitlines()]


def test_a_named_allocation_is_shown_until_its_end(watched: LocalCluster, scratch: Path) -> None:
    submitted = watched.submit(f"while [ ! -e {scratch}/go ]; do sleep 0.05; done; exit 3")
    events = shown(watched, submitted["id"], (scratch / "go").touch)
    assert events[0]["kind"] == "now"
    assert (events[-1]["kind"], events[-1]["state"], events[-1]["exit_code"]) == ("ended", "Failed", 3)


def test_a_group_is_watched_to_its_end(watched: LocalCluster) -> None:
    group = watched.submit(["true"], tasks="0-2", hold=True)["id"]
    events = shown(watched, group, lambda: watched.post(f"/allocations/{group}/release"))
    assert [event["kind"] for event in events if event["id"] == group] == ["now", "released", "started", "ended"]
    assert events[-1]["id"] == group
    assert events[-1]["state"] == "Completed"
    assert len([event for event in events if event["kind"] == "ended"]) == 4
    again = watched.cli("watch", group, "-o", "json")
    assert len(again.stdout.splitlines()) == 1


def test_nothing_is_missed_or_shown_twice_while_the_server_dies_and_comes_back(watched: LocalCluster) -> None:
    watcher = Watcher(watched, project="lhc")
    before = [watched.submit(["true"], project="lhc")["id"] for _ in range(3)]
    watched.wait_replaced(watched.kill("server"))
    watched.wait_serving()
    after = [watched.submit(["true"], project="lhc")["id"] for _ in range(3)]
    watched.submit(["true"])
    for allocation_id in (*before, *after):
        watched.wait_end(allocation_id)
        eventually(partial(watcher.has_seen_end_of, allocation_id), f"the end of {allocation_id}")
    for allocation_id in (*before, *after):
        kinds = watcher.kinds_of(allocation_id)
        # What began and ended while nobody listened has no moment at which it was seen to run.
        assert kinds in (["submitted", "placed", "started", "ended"], ["submitted", "placed", "ended"]), allocation_id
    assert {event.project for event in watcher.events} == {"lhc"}
    indices = [event.index for event in watcher.events]
    assert indices == sorted(indices)


def test_a_watcher_that_saw_nothing_yet_misses_nothing_either(watched: LocalCluster) -> None:
    watcher = Watcher(watched, tags=("run=quiet",))
    watched.wait_replaced(watched.kill("server"))
    watched.wait_serving()
    quiet = watched.run(["true"], tags={"run": "quiet"})
    eventually(lambda: "ended" in watcher.kinds_of(quiet["id"]), "the end")
    assert watcher.kinds_of(quiet["id"]) == ["submitted", "placed", "started", "ended"]
    assert not [event for event in watcher.events if event.kind == "gap"]


def test_a_place_in_the_log_is_found_again_by_the_next_server(watched: LocalCluster) -> None:
    first = watched.run(["true"], name="first")
    last = Watcher(watched, since=0)
    eventually(lambda: "ended" in last.kinds_of(first["id"]), "all that is kept")
    place = max(event.index for event in last.events)
    second = watched.run(["true"], name="second")
    watched.wait_replaced(watched.kill("server"))
    watched.wait_serving()
    resumed = Watcher(watched, since=place)
    eventually(lambda: "ended" in resumed.kinds_of(second["id"]), "what came after")
    assert resumed.kinds_of(first["id"]) == []
    assert resumed.kinds_of(second["id"]) == ["submitted", "placed", "started", "ended"]
