"""Stored output and samples of mode debug go when their time is over: object by object, by the time in its name.

Files of release 0.1.0 go by the end of their work.

Reads names, deletes objects, proposes nothing. Harmless when run twice: what is gone is not listed.
"""

import asyncio
import logging
import re
from collections.abc import Collection

from lattice.control.loop import Guard, keep_turning
from lattice.core.model.work.allocations import Allocation
from lattice.ports.clock import Clock
from lattice.ports.quorum.object_store import ObjectStore
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.retention import LogRetention
from lattice.wire.files.chunks import place_of
from lattice.wire.files.retained import KEPT
from lattice.wire.files.samples import is_of_access, trace_time

ACTOR = "log retention"
EVERY_S = 3600.0
_log = logging.getLogger(__name__)
_CHUNK = re.compile(r"([^/]+)/[^/]+/a(\d{1,18})/logs/run-\d+/(?:stdout|stderr|step-\d+/journal)/[^/]+/[^/]+", re.ASCII)
_TRACE = re.compile(r"[^/]+/[^/]+/a(\d{1,18})/telemetry/run-\d+/[^/]+/[^/]+", re.ASCII)
_FILE = re.compile(r"logs/(\d{1,18})/\d+/[^/]+\.(?:stdout|stderr)(?:\.base)?", re.ASCII)


def _is_of(name: str, numbers: Collection[str]) -> bool:
    """Whether it is output of one of these allocations."""
    if match := _CHUNK.fullmatch(name):
        return match[2] in numbers
    if match := _TRACE.fullmatch(name):
        return match[1] in numbers
    return bool((match := _FILE.fullmatch(name)) and match[1] in numbers)


class LogDeletion:
    """The loop; `retention` says how long output is kept."""

    def __init__(self, replica: Replica, clock: Clock, objects: ObjectStore, retention: LogRetention) -> None:
        self._replica, self._clock = replica, clock
        self._objects, self._retention = objects, retention
        self._guard = Guard(ACTOR)

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await self.delete_old()
        await asyncio.sleep(EVERY_S)

    async def delete_old(self) -> int:
        """Deletes what is over; returns how many objects."""
        count, known = 0, dict[int, Allocation | None]()
        kept = {name.removeprefix(KEPT)[1:] async for name in self._objects.names(KEPT)}
        for prefix in (*sorted(self._replica.state.tenants), "logs"):
            async for name in self._objects.names(f"{prefix}/"):
                with self._guard.item(name.rpartition("/")[0]):
                    if not _is_of(name, kept) and await self._is_over(name, known):
                        await self._objects.delete(name)
                        count += 1
        if count:
            _log.info("%d objects with output or samples were older than kept: deleted", count)
        return count

    async def _is_over(self, name: str, known: dict[int, Allocation | None]) -> bool:
        if match := _CHUNK.fullmatch(name):
            place = place_of(name)
            if place is None or place.at_ms > self._clock.now_ms() - self._retention.shortest_s * 1000:
                return False
            asks = self._retention.asks_vclusters or bool(self._replica.state.audit.sensitive)
            record = await self._record(int(match[2]), known) if asks else None
            return self._is_due(place.at_ms, match[1], record.vcluster if record is not None else "")
        if _TRACE.fullmatch(name):
            at_ms = trace_time(name)
            kept_s = self._retention.access_s if is_of_access(name) else self._retention.telemetry_s
            return at_ms is not None and kept_s > 0 and at_ms <= self._clock.now_ms() - kept_s * 1000
        if match := _FILE.fullmatch(name):
            record = await self._record(int(match[1]), known)
            if record is None or not record.is_terminal or not record.ended_at:
                return False
            return self._is_due(record.ended_at, record.tenant, record.vcluster)
        return False

    def _is_due(self, at_ms: int, tenant: str, vcluster: str) -> bool:
        """Output of sensitive work is kept unless its vCluster says for how long."""
        if vcluster in self._replica.state.audit.sensitive and vcluster not in self._retention.vclusters:
            return False
        return at_ms <= self._clock.now_ms() - self._retention.seconds(tenant, vcluster) * 1000

    async def _record(self, number: int, known: dict[int, Allocation | None]) -> Allocation | None:
        """The work that wrote it, in the state or in the archive."""
        if number not in known:
            found = self._replica.state.find(number) or await self._replica.archived(number)
            known[number] = found if isinstance(found, Allocation) else None
        return known[number]
