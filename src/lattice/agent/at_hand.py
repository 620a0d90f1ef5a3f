"""Tells servers what this node has at hand: the images in its cache, and what sets of GPUs are free. Told again only when it is different.

Agents of one machine may share a cache, so changes by others count as well: its directory shows that something came or went.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from lattice.agent.images.cache import ImageCache
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.runs.devices import DeviceTable
from lattice.core.model.nodes.at_hand import MAX_IMAGES, AtHand, image_key
from lattice.core.model.nodes.gpus import GpuSet, best_sets
from lattice.core.model.site.protocols import AT_HAND as FEATURE
from lattice.ports.nodes.agents import RunKey
from lattice.wire.agents.messages import AT_HAND
from lattice.wire.pb import agent_pb2 as pb

LOOK_EVERY_S = 1.0  # while the images or the runs of this node change
IDLE_S = 10.0  # for what other agents do in a shared cache, otherwise
AGAIN_S = 300.0  # what was dropped from a full queue is not missing for good
SETTLED_NS = 1_000_000_000  # a directory that changed later than that may change again without showing it
MAX_KNOWN_SETS = 256

_log = logging.getLogger(__name__)


class AtHandTeller:
    """`run` for good; `look` when a run may have started or ended; `heard` gets every message of a server."""

    def __init__(
        self,
        fetcher: ImageFetcher | None,
        devices: DeviceTable,
        is_alive: Callable[[RunKey], bool],
        post: Callable[[pb.AgentMessage], None],
        *,
        look_every_s: float = LOOK_EVERY_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = None if fetcher is None else fetcher.cache
        if fetcher is not None:
            fetcher.on_change = self.look
        self._devices = devices
        self._is_alive = is_alive
        self._post = post
        self._look_every_s = look_every_s
        self._now_s = now_s
        self._asked = asyncio.Event()
        self._is_heard = False  # by a server that knows what to do with it
        self._told: AtHand | None = None
        self._told_s = 0.0
        self._images: tuple[int, ...] = ()
        self._seen_ns = 0  # when the cache's directory had changed last, as `_images` has it; 0 = look again
        self._sets: dict[frozenset[int], tuple[GpuSet, ...]] = {}

    def heard(self, message: pb.ServerMessage) -> None:
        """A server that welcomes the node knows nothing of it yet."""
        if message.HasField("welcome"):
            self._is_heard, self._told = FEATURE in message.welcome.protocol.features, None
            self.look()

    def look(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        if self._cache is None and not self._devices.gpu_count:
            return
        rest_s = self._look_every_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._asked.wait()
            is_asked = self._asked.is_set()
            self._asked.clear()
            is_new = self._is_heard and await self._tell()
            is_settled = self._cache is None or self._seen_ns or not self._is_heard
            rest_s = self._look_every_s if is_asked or is_new or not is_settled else max(IDLE_S, self._look_every_s)

    async def _tell(self) -> bool:
        """Returns whether there was something new to tell."""
        free = self._devices.free_gpus(self._is_alive)
        try:
            found = await asyncio.to_thread(self._found, free)
        except OSError as error:
            _log.warning("cannot look at the image cache: %s", error)
            found = AtHand(gpu_sets=self._sets_of(free))
        if found != self._told or self._now_s() - self._told_s > AGAIN_S:
            self._told, self._told_s = found, self._now_s()
            self._post(pb.AgentMessage(at_hand=AT_HAND.write(found)))
            return True
        return False

    def _found(self, free: frozenset[int]) -> AtHand:
        return AtHand(images=() if self._cache is None else self._images_of(self._cache), gpu_sets=self._sets_of(free))

    def _images_of(self, cache: ImageCache) -> tuple[int, ...]:
        changed_ns = cache.changed_ns()
        if changed_ns != self._seen_ns:
            self._images = tuple(sorted(image_key(digest) for digest in cache.newest(MAX_IMAGES)))
            self._seen_ns = changed_ns if time.time_ns() - changed_ns > SETTLED_NS else 0
        return self._images

    def _sets_of(self, free: frozenset[int]) -> tuple[GpuSet, ...]:
        if free not in self._sets:
            if len(self._sets) >= MAX_KNOWN_SETS:
                self._sets.clear()
            self._sets[free] = best_sets(self._devices.gpu_topology, free)
        return self._sets[free]
