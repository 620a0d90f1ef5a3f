"""Fences of many nodes in one process: every node's side of the exchange, on one loop, over real connections."""

import os
from collections.abc import Callable, Sequence
from typing import Self

from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.pmi.exchange import make_exchange
from lattice.agent.shim.pmi.plan import PmiPlan
from lattice.control.steps.wireup import choose_heads


class PlayedNode:
    """The service of a node, as far as the exchange knows it; `absent` are its ranks that do not come."""

    def __init__(self, nodes: "PlayedNodes", plan: PmiPlan) -> None:
        self._nodes = nodes
        self.plan = plan
        self.absent: list[int] = []
        self.result = b""
        self.failure = ""
        self.exchange = make_exchange(self, nodes.loop, plan)

    def missing(self) -> list[int]:
        return self.absent

    def began(self) -> None:
        return

    def done(self, result: bytes) -> None:
        self.result = result
        self._nodes.settled()

    def fail(self, text: str) -> None:
        if not self.failure:
            self.failure = text
            self.exchange.end(text)
            self._nodes.settled()


class PlayedNodes:
    """`ranks` of each of `count` nodes, in a star or, above its bound, in a tree."""

    def __init__(self, count: int, ranks: int, *, hidden: bool = False) -> None:
        self.loop = Loop()
        self._unsettled = 0
        key = os.urandom(32)
        layout = [[[place * ranks, place * ranks + ranks - 1]] for place in range(count)]
        asked: dict[str, object] = {
            "kinds": ["pmi1", "pmi2"],
            "name": "a1.0",
            "nodes": [f"n{place}" for place in range(count)],
            "ranks": layout,
            "host": "127.0.0.1",
            "heads": [[head, "127.0.0.1"] for head in choose_heads(count)],
            "key": key.hex(),
            "hidden": hidden,
        }
        self.nodes = [PlayedNode(self, PmiPlan({**asked, "place": place})) for place in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.exchange.close()

    def settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self.loop.stop()

    def fence(
        self, blobs: Sequence[bytes], kind: Callable[[int], str] = lambda place: "pmi1", within_s: float = 60.0
    ) -> None:
        """Every node without absent ranks gives its blob; returns when each has the result, or has failed. Raises TimeoutError."""
        self._unsettled = len(self.nodes)
        for place, (node, blob) in enumerate(zip(self.nodes, blobs, strict=True)):
            if not node.absent and not node.failure:
                node.exchange.give(kind(place), blob)
        self.settle(within_s)

    def settle(self, within_s: float) -> None:
        timer = self.loop.call_at(boot_now() + within_s, self.loop.stop)
        self.loop.run()
        timer.cancel()
        if self._unsettled > 0:
            raise TimeoutError(f"{self._unsettled} nodes wait in the fence")
