"""The agent's hold on its shim: found or started, asked, lost, and found again.

A shim is met in two moves. `reach` connects and asks what it holds; `adopt` makes it the one that is asked. Between the two the agent
compares what it knows with that list, so a run that ends meanwhile is kept back, and told by `catch_up` when its run is known.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from lattice.agent import shim_client
from lattice.agent.shim_client import OnAnswer, OnStep, ShimClient, ShimMessage, ShimUnavailable
from lattice.ports.nodes.agents import RunKey

SHIM_RETRY_S = (0.1, 5.0)

_log = logging.getLogger(__name__)


class ShimLink:
    """One shim at a time; what is asked while there is none is dropped: `lost` was called, or will be."""

    def __init__(
        self,
        state_dir: Path,
        output_limit: int,
        pool: Executor,
        *,
        ended: Callable[[ShimMessage], None],
        lost: Callable[[], None],
        heard: OnStep,
    ) -> None:
        self._state_dir = state_dir
        self._output_limit = output_limit
        self._pool = pool
        self._ended = ended
        self._lost = lost
        self._heard = heard
        self.client: ShimClient | None = None  # the one that is asked: set by `adopt`, None from its loss to the next
        self.can = ShimMessage()  # what it said of itself; while there is none, what the last one said
        self._identity = ""  # which process that is, or was
        self._early: list[ShimMessage] = []  # ends that came before `adopt`; emptied by `catch_up` and the next `reach`

    @property
    def identity(self) -> str:
        """Which shim answers now; empty while none does."""
        return self._identity if self.client is not None else ""

    def request(self, body: dict[str, object], on_answer: OnAnswer | None = None) -> None:
        if self.client is not None:
            self.client.request(body, on_answer)

    def ask(self, operation: str, key: RunKey, **more: object) -> None:
        """About one run, without an answer."""
        self.request({"op": operation, "number": key.number, "run": key.run, **more})

    async def reach(self) -> tuple[ShimClient, ShimMessage]:
        """A connection and all that the shim knows; the shim is started when there is none. Raises ShimUnavailable."""
        try:
            client = await self._connect()
        except OSError:
            await shim_client.start(self._state_dir, self._output_limit, self._pool)
            try:
                client = await self._connect()
            except OSError as error:
                raise ShimUnavailable(f"the shim was started and does not listen: {error}") from error
        self._early.clear()
        return client, await client.list()

    async def reach_again(self) -> tuple[ShimClient, ShimMessage]:
        """As `reach`, tried until it succeeds."""
        delay_s, longest_s = SHIM_RETRY_S
        while True:
            try:
                return await self.reach()
            except (ShimUnavailable, OSError) as error:
                _log.error("no shim: %s", error)
                await asyncio.sleep(delay_s)
                delay_s = min(longest_s, delay_s * 2)

    async def _connect(self) -> ShimClient:
        return await shim_client.connect(self._state_dir, self._tell_end, self._tell_loss, self._heard)

    def adopt(self, client: ShimClient, listing: ShimMessage) -> None:
        self.client = client
        self._identity = shim_client.identity(self._state_dir, listing)
        self.can = msgspec.structs.replace(listing, runs=(), steps=())

    def catch_up(self) -> None:
        """Tells what happened between `reach` and now, when the runs that the shim listed are known."""
        early, self._early = self._early, []
        for message in early:
            self._tell_end(message)
        if self.client is not None and self.client.is_lost:  # it died before the agent was ready to notice
            self._tell_loss()

    def _tell_end(self, message: ShimMessage) -> None:
        if self.client is None:
            self._early.append(message)
        else:
            self._ended(message)

    def _tell_loss(self) -> None:
        if self.client is not None:
            self.client = None
            _log.error("the shim is gone")
            self._lost()
