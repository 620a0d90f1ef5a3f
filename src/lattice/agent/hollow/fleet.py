"""Many hollow nodes in one process: a few channels, a stream per node, and the faults that happen to some of them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import grpc.aio
from msgspec import Struct

from lattice.agent.connection import Connector
from lattice.agent.hollow.faults import FaultKind, Misfortune
from lattice.agent.hollow.hardware import HollowHardware
from lattice.agent.hollow.injections import Injections
from lattice.agent.hollow.node import HollowNode
from lattice.core.model.nodes.inventory import UnusableInventory

STREAMS_PER_CHANNEL = 200  # a server takes 256 at a time from one connection
# Registrations under way: more of them would only wait for each other, and then be tried again.
CONCURRENCY = 200
TICK_S = 1.0
PROGRESS_S = 5.0

_log = logging.getLogger(__name__)


class FleetSettings(Struct, frozen=True, kw_only=True):
    endpoints: tuple[str, ...]
    at_once: int = CONCURRENCY
    streams_per_channel: int = STREAMS_PER_CHANNEL


class Channels:
    """For each server as many channels as the streams need; they stay open."""

    def __init__(self, open_channel: Callable[[str], grpc.aio.Channel], nodes: int, settings: FleetSettings) -> None:
        self._open = open_channel
        self._count = -(-nodes // settings.streams_per_channel)
        self._channels: dict[tuple[str, int], grpc.aio.Channel] = {}

    def get(self, endpoint: str, place: int) -> grpc.aio.Channel:
        key = (endpoint, place % self._count)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self._open(endpoint)
        return channel

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)


class Fleet:
    """All nodes of this process."""

    def __init__(
        self,
        nodes: Sequence[HollowNode],
        settings: FleetSettings,
        token: Callable[[], str],
        open_channel: Callable[[str], grpc.aio.Channel],
        injections: Injections,
        hardware: HollowHardware,
    ) -> None:
        self._nodes = nodes
        self._hardware = hardware
        self._streams: dict[str, asyncio.Task[None]] = {}  # of nodes that may be cut off
        self._settings = settings
        self._token = token
        self._channels = Channels(open_channel, len(nodes), settings)
        self._gate = asyncio.Semaphore(settings.at_once)
        self._injections = injections

    async def run(self) -> None:
        """Never returns."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._channels.close)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch())
                for place, node in enumerate(self._nodes):
                    group.create_task(self._live(node, place))

    async def _watch(self) -> None:
        """Repeats reports, and says from time to time how many nodes are confirmed."""
        told, begun = -1, time.monotonic()
        next_s = begun
        while True:
            now = time.monotonic()
            self._look_at_hardware()
            for node in self._nodes:
                node.tick(now)
            confirmed = sum(node.confirmed.is_set() for node in self._nodes)
            if now >= next_s and confirmed != told:
                _log.info("%d of %d hollow nodes confirmed after %.1f s", confirmed, len(self._nodes), now - begun)
                told, next_s = confirmed, now + PROGRESS_S
            await asyncio.sleep(TICK_S)

    def _look_at_hardware(self) -> None:
        try:
            self._hardware.look(self._announce_all)
        except UnusableInventory as error:
            _log.error("the hardware stays as it was: %s", error)

    def _announce_all(self) -> None:
        for node in self._nodes:
            node.announce()

    async def _live(self, node: HollowNode, place: int) -> None:
        misfortune = node.misfortune
        is_simple = misfortune is None or misfortune.kind is FaultKind.SLOW_BOOT
        if is_simple and not node.facts.collector_address:
            await self._connect(node, place)
            return
        self._begin(node, place)
        try:
            if misfortune is not None and not is_simple:
                await node.confirmed.wait()
                await asyncio.sleep(misfortune.after_s)
                await self._strike(node, place, misfortune)
            while True:
                await asyncio.gather(self._streams[node.name], return_exceptions=True)
                await node.audible.wait()
                self._begin(node, place)
        finally:
            self._streams[node.name].cancel()

    def _begin(self, node: HollowNode, place: int) -> None:
        self._streams[node.name] = asyncio.create_task(self._connect(node, place))

    async def _cut(self, node: HollowNode) -> None:
        stream = self._streams[node.name]
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)

    async def _strike(self, node: HollowNode, place: int, misfortune: Misfortune) -> None:
        match misfortune.kind:
            case FaultKind.SILENCE:
                await self._fall_silent(node, misfortune)
            case FaultKind.DRIFT:
                await asyncio.sleep(misfortune.for_s)
                self._injections.note(node.name, "drift")
                node.drift()
            case FaultKind.FLAP:
                while True:
                    self._injections.note(node.name, "flap")
                    await self._cut(node)
                    await asyncio.sleep(misfortune.for_s)
                    self._injections.note(node.name, "flap-over")
                    self._begin(node, place)
                    await node.confirmed.wait()
                    await asyncio.sleep(misfortune.for_s)

    def lose_collector(self) -> None:
        """Cuts the next collector off for good."""
        for node in self._nodes:
            if node.facts.collector_address and node.audible.is_set():
                node.audible.clear()
                self._injections.note(node.name, "collector-lost")
                self._streams[node.name].cancel()
                return

    async def _fall_silent(self, node: HollowNode, misfortune: Misfortune) -> None:
        """A last beat says from when on the time counts."""
        node.beat_now()
        self._injections.note(node.name, "silence")
        node.audible.clear()
        if misfortune.for_s:
            await asyncio.sleep(misfortune.for_s)
            self._injections.note(node.name, "silence-over")
            node.audible.set()
            node.beat_now()

    async def _connect(self, node: HollowNode, place: int) -> None:
        @asynccontextmanager
        async def open_when_due(endpoint: str) -> AsyncIterator[grpc.aio.Channel]:
            await node.audible.wait()
            await self._gate.acquire()
            node.at_welcome = self._gate.release
            try:
                yield self._channels.get(endpoint, place)
            finally:
                node.pass_on()

        await Connector(self._settings.endpoints, self._token, node, node.name, open_when_due).run()
