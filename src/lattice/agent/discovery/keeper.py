"""Keeps the node's inventory: looks at start, every few hours, on request and when the synthetic-hardware file changes, and tells
the server what is new. Scans run in a thread, one at a time; one that hangs blocks nothing else.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

import msgspec

from lattice.agent.discovery.discover import complete, discover
from lattice.agent.discovery.hardware_file import HardwareFile
from lattice.core.model.nodes.inventory import (
    MAX_DOCUMENT_BYTES,
    Inventory,
    encode_inventory,
    inventory_fingerprint,
)
from lattice.wire.pb import agent_pb2 as pb

LOOK_EVERY_S = 6 * 3600.0
POLL_S = 1.0
LOOK_WITHIN_S = 120.0
AGAIN_S = 5.0  # after a look in which a source failed that had not before
TRIES = 3
TROUBLED_S = 600.0  # between looks while a source fails
MARK_BYTES = 8
_LONG_PARTS = ("scratch", "drives", "nics", "gpu_links", "problems")

_log = logging.getLogger(__name__)


class InventoryKeeper:
    """`inventory` is the newest. `run` for good; `announce` after each registration; `refresh` when the server asks."""

    def __init__(
        self,
        first: Inventory,
        post: Callable[[pb.AgentMessage], None],
        *,
        hardware: HardwareFile | None = None,
        every_s: float = LOOK_EVERY_S,
        look: Callable[[], Inventory] = discover,
        poll_s: float = POLL_S,
        again_s: float = AGAIN_S,
        troubled_s: float = TROUBLED_S,
    ) -> None:
        self._post = post
        self._hardware = hardware
        self._every_s = every_s
        self._look = look
        self._poll_s = poll_s
        self._again_s = again_s
        self._troubled_s = troubled_s
        self._asked = asyncio.Event()
        self._hand_over(first)

    def _hand_over(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.fingerprint = inventory_fingerprint(inventory)
        # For heartbeats: a server that knows another one asks.
        self.mark = bytes.fromhex(self.fingerprint)[:MARK_BYTES]
        self._document = document_of(inventory)

    def announce(self) -> None:
        """Sends what is known; the server has lost it, or never had it."""
        self._post(pb.AgentMessage(inventory=pb.Inventory(document=self._document, fingerprint=self.fingerprint)))

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for the keeper."""
        if not message.HasField("refresh_inventory"):
            return False
        self.refresh()
        return True

    def refresh(self) -> None:
        """Look again as soon as possible, and send what is found whether or not it is new."""
        self._asked.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        await self._take(lambda: complete(self.inventory))
        due_s = loop.time() + self._pause_s()
        while True:
            wait_s = max(0.0, due_s - loop.time())
            try:
                async with asyncio.timeout(min(wait_s, self._poll_s) if self._hardware else wait_s):
                    await self._asked.wait()
            except TimeoutError:
                if loop.time() < due_s and not (self._hardware and self._hardware.has_changed()):
                    continue
            is_wanted = self._asked.is_set() or loop.time() >= due_s
            self._asked.clear()
            if not await self._take(self._whole) and is_wanted:
                self.announce()
            due_s = loop.time() + self._pause_s()

    def _pause_s(self) -> float:
        """Sooner while some source fails: until it answers, the node may look like another one."""
        return min(self._every_s, self._troubled_s) if self.inventory.problems else self._every_s

    def _whole(self) -> Inventory:
        found = complete(self._look())
        return self._hardware.laid_over(found) if self._hardware else found

    async def _take(self, look: Callable[[], Inventory]) -> bool:
        """Looks, and sends when something is different; what cannot be used changes nothing. Whether something was sent."""
        try:
            found = await in_thread(look, LOOK_WITHIN_S)
            for _ in range(TRIES - 1):
                if set(found.problems) <= set(self.inventory.problems):
                    break
                # A driver that did not answer for once is no other configuration: a node that drifts may be drained.
                await asyncio.sleep(self._again_s)
                found = await in_thread(look, LOOK_WITHIN_S)
        except Exception as error:  # noqa: BLE001 - the loop's edge: whatever the hardware reports, the agent continues
            _log.error("the inventory stays as it was: %s", str(error) or "looking took too long")
            return False
        if found == self.inventory:
            return False
        was = self.fingerprint
        self._hand_over(found)
        if self.fingerprint != was:
            _log.warning("what this node is made of has changed: fingerprint %s, was %s", self.fingerprint, was)
        self.announce()
        return True


async def in_thread(look: Callable[[], Inventory], within_s: float) -> Inventory:
    """The result of the call; raises TimeoutError. The thread of a call that never ends is left behind."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Inventory] = loop.create_future()

    def settle(found: Inventory | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        elif found is not None:
            answer.set_result(found)

    def work() -> None:
        found, failure = None, None
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - passed to the waiting callers
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nothing waits any more
            loop.call_soon_threadsafe(settle, found, failure)

    threading.Thread(target=work, name="inventory", daemon=True).start()
    async with asyncio.timeout(within_s):
        return await answer


def document_of(inventory: Inventory) -> bytes:
    """The document, without its longest lists where it would be too long to be taken."""
    document = encode_inventory(inventory)
    for part in _LONG_PARTS:
        if len(document) <= MAX_DOCUMENT_BYTES:
            break
        inventory = msgspec.structs.replace(
            inventory, **{part: ()}, problems=(*inventory.problems[:8], f"{part}: too long to be sent")
        )
        document = encode_inventory(inventory)
    return document
