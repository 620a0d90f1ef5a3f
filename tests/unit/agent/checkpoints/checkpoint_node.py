"""A node with one run that can be asked for checkpoints, without servers and without a shim."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from lattice.agent.checkpoints.doors import Doors
from lattice.agent.checkpoints.watching import Checkpointing
from lattice.agent.results.checkpoints import CheckpointStore
from lattice.agent.runs.signed_store import SignedStore
from lattice.agent.shim_client import ShimMessage
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.checkpoints import CheckpointOrder, CheckpointReport
from lattice.wire.agents.messages import CHECKPOINT_REPORT, order_message
from lattice.wire.pb import agent_pb2 as pb

KEY = RunKey(7, 1)
OWNER = (os.getuid(), os.getgid())


class Node:
    """A node with one run; `hinted` is called when a signal goes out, `caught` says how many processes catch it."""

    def __init__(self, folder: Path, caught: int = 1, members: int = 2) -> None:
        self.state, self.root = folder / "state", folder / "root"
        for each in (self.state / "checkpoints" / "7.1", self.root):
            each.mkdir(parents=True, exist_ok=True)
        self.store: Path | None = None  # the object store, where it is a directory
        self.caught, self.members, self.hints = caught, members, 0
        self.on_hint: Callable[[Path], None] = lambda path: None
        self.alive = True
        self.port, self.inode = 0, 1
        self.reports: list[CheckpointReport] = []
        self.said = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.made = self.agent()

    def agent(self) -> Checkpointing:
        """Another agent on the same node."""
        self.doors = Doors(self.state, self._listens)
        return Checkpointing(
            self.state,
            "n1",
            lambda user: OWNER,
            self._ask,
            self._post,
            self._spawn,
            lambda key: self.alive,
            self.doors,
            CheckpointStore(self.store, SignedStore),
        )

    async def _listens(self, key: RunKey, port: int) -> tuple[str, int]:
        if port != self.port:
            raise OSError(f"no process of it listens on port {port} alone")
        return "127.0.0.1", self.inode

    @property
    def path(self) -> Path:
        return self.root / "physics/-/a7/checkpoints/1"

    def order(self, **changes: Any) -> CheckpointOrder:  # noqa: ANN401 - as the record has them
        fields = {"n": 1, "root": str(self.root), "path": str(self.path), "timeout_s": 30.0, **changes}
        fields = {"reason": "user", "protocol": "signal", "signal": 10, **fields}
        return CheckpointOrder(key=KEY, user="ada", **fields)

    async def answer(self, order: CheckpointOrder, agent: Checkpointing | None = None) -> CheckpointReport:
        self.said.clear()
        assert (agent or self.made).received(order_message(order))
        async with asyncio.timeout(60):
            await self.said.wait()
        return self.reports[-1]

    def _ask(self, body: dict[str, object], take: Callable[[ShimMessage], None] | None) -> None:
        assert take is not None
        if body["signal"] and not body.get("dry"):
            self.hints += 1
            self.on_hint(self.path)
        pids = tuple(range(self.caught)) if body["signal"] else ()
        take(ShimMessage(ok=True, pids=pids, members=self.members))

    def _post(self, message: pb.AgentMessage) -> None:
        self.reports.append(CHECKPOINT_REPORT.read(message.checkpoint_report))
        self.said.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
