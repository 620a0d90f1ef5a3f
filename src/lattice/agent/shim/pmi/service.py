"""The service of a step on one node: a process of the step's user that its ranks speak to.

It reads from ranks, links and the shim, and never waits for one of them. What happened goes to the shim before it is answered, so that
nothing is lost when the service is killed with the step. It ends when the shim closes its pipe.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable

from lattice.agent.shim.loop import Loop, Timer, boot_now, complain
from lattice.agent.shim.pmi.early import READY, REQUEST
from lattice.agent.shim.pmi.exchange import make_exchange
from lattice.agent.shim.pmi.layout import ranks_text
from lattice.agent.shim.pmi.libraries import LOOK_AFTER_S, loaded_library
from lattice.agent.shim.pmi.plan import PmiPlan
from lattice.agent.shim.pmi.pmix import Events, PmixRanks, step_text
from lattice.agent.shim.pmi.ranks import PMIX, Aborted, LocalRanks, Session
from lattice.agent.shim.pmi.requests import BadRank
from lattice.agent.shim.pmi.space import BadBlob
from lattice.agent.shim.pmi.star import SHOWN_NODES

READ_BYTES = 1 << 16
# Between the end of a rank's connection and the verdict that others wait in vain: its exit code says more, and comes first.
LEFT_S = 0.5


class Service:
    """`sockets` are our ends by rank; `control` is the shim's; `folder` is the step's cgroup, empty where there is none; `listener` is for
    ranks that speak PMIx, `nodes` for other nodes; the step began at `since_s`."""

    def __init__(
        self,
        plan: PmiPlan,
        sockets: dict[int, int],
        control: int,
        folder: str = "",
        listener: socket.socket | None = None,
        nodes: socket.socket | None = None,
        *,
        since_s: float = 0.0,
    ) -> None:
        self._plan = plan
        self._sockets = sockets
        self._control = control
        self._folder = folder
        self._since_s = since_s or boot_now()
        self._stalled: set[int] = set()  # sockets of ranks that have not taken all of their answers
        self._early: set[int] = set()  # ranks that asked for the PMIx server before they started
        self._library = ""  # the MPI library of ranks that have not used this service
        self._loop = Loop(self._faulted)
        self._ranks = LocalRanks(plan.name, plan.node_ranks, plan.place, plan.kinds)
        # The fence that is open: begun by the first rank or node that enters it, over when every node gave what its ranks put.
        self._began_s = 0.0  # when the open fence began, 0 = there is none
        self._has_given = False  # this node's part of it was sent, which happens once: when all ranks here have entered
        self._is_over = False  # failed, or aborted: the shim has the verdict, and nothing is answered any more
        self._fence_timer: Timer | None = None  # runs exactly while a fence is open
        self._left_timer: Timer | None = None  # a rank is gone in the middle of a fence; its exit code may explain it
        # For the shim, which shows it to users: counted up and never reset.
        self._fences = self._bytes = 0
        self._slowest_s = 0.0
        self._told: dict[str, object] = {}  # as it was sent last; nothing is sent twice
        self._inbox = bytearray()  # from the shim, up to the next line
        self._ended: set[int] = set()  # places of nodes whose ranks have all ended
        self._exchange = make_exchange(self, self._loop, plan, nodes)
        self._pmix = self._make_pmix(listener)

    def run(self) -> None:
        for rank, fd in self._sockets.items():
            os.set_blocking(fd, False)
            self._loop.watch(fd, select.EPOLLIN, self._reader(rank, fd))
        self._loop.watch(self._control, select.EPOLLIN, self._from_shim)
        if self._folder and self._ranks.size > 1:
            self._look_later(self._since_s, 0)
        self._loop.run()

    def _look_later(self, began_s: float, place: int) -> None:
        if place < len(LOOK_AFTER_S):
            self._loop.call_at(began_s + LOOK_AFTER_S[place], lambda: self._look(began_s, place))

    def _look(self, began_s: float, place: int) -> None:
        if self._ranks.met:
            return
        self._library = loaded_library(self._folder)
        if self._library:
            self._tell_news()
        else:
            self._look_later(began_s, place + 1)

    def _make_pmix(self, listener: socket.socket | None) -> PmixRanks | None:
        plan = self._plan
        if listener is None or plan.pmix is None:
            return None
        step = step_text(plan.pmix.space, plan.nodes, plan.node_ranks, plan.place, plan.pmix.directory)
        events = Events(self._met_pmix, self._give_pmix, self._aborted_pmix, self._failed_pmix, self._spawn_pmix)
        ranks = len(plan.node_ranks[plan.place])
        return PmixRanks(self._loop, listener, plan.pmix.program, step, events, ranks)

    # The shim.

    def _from_shim(self, _mask: int) -> None:
        data = os.read(self._control, READ_BYTES)
        if not data:
            self._loop.stop()
        self._inbox += data
        while (end := self._inbox.find(b"\n")) >= 0:
            places = json.loads(self._inbox[:end]).get("ended") or []
            del self._inbox[: end + 1]
            self._ended |= {place for place in places if place in range(len(self._plan.nodes))}
        self._judge_ended()

    def _judge_ended(self) -> None:
        """A fence that is open waits in vain for nodes whose ranks have all ended."""
        places = sorted(self._ended & self._exchange.awaited()) if self._began_s and self._ended else []
        if places:
            plan = self._plan
            named = [f"{ranks_text(plan.node_ranks[place])} on {plan.nodes[place]}" for place in places[:SHOWN_NODES]]
            more = f" and others on {len(places) - SHOWN_NODES} more nodes" if len(places) > SHOWN_NODES else ""
            self.fail(f"{', '.join(named)}{more} ended while others waited in a PMI fence")

    def _tell(self, message: dict[str, object]) -> None:
        view = memoryview(json.dumps(message).encode() + b"\n")
        while view:
            view = view[os.write(self._control, view) :]

    def _tell_news(self) -> None:
        news: dict[str, object] = {
            "kind": self._ranks.kind,
            "met": self._ranks.met,
            "fences": self._fences,
            "bytes": self._bytes,
            "slowest_s": round(self._slowest_s, 6),
            "library": self._library,
            "wanted_spawn": self._ranks.wanted_spawn,
        }
        if news != self._told and (self._ranks.met or self._library):
            self._told = news
            self._tell({"news": news})

    # The ranks.

    def _reader(self, rank: int, fd: int) -> Callable[[int], None]:
        return lambda _mask: self._from_rank(rank, fd)

    def _from_rank(self, rank: int, fd: int) -> None:
        session = self._ranks.sessions[rank]
        if self._is_over:
            self._loop.unwatch(fd)
            return
        if session.output:
            self._write(session, fd)
            return
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if session.wire is None and not session.first_line and data.startswith(REQUEST):
            data = data[len(REQUEST) :]
            self._ask_early(session, fd)
            if not data:
                return
        was_met = self._ranks.met
        if data:
            try:
                self._ranks.receive(rank, data)
            except BadRank as problem:
                self.fail(f"rank {rank} on {self._plan.node} {problem}")
                return
        else:
            self._loop.unwatch(fd)
            self._ranks.closed(rank)
        if self._ranks.met > was_met:
            self._exchange.met()
        self._advance()
        if session.output:
            self._write(session, fd)

    def _write(self, session: Session, fd: int) -> None:
        """What the rank takes now; it is not read before it has taken everything."""
        try:
            written = os.write(fd, session.output)
            del session.output[:written]
        except BlockingIOError:
            pass
        except OSError:
            session.output.clear()
        if not session.has_ended and bool(session.output) != (fd in self._stalled):
            self._stalled ^= {fd}
            mask = select.EPOLLOUT if session.output else select.EPOLLIN
            self._loop.watch(fd, mask, self._reader(session.rank, fd))

    def _advance(self) -> None:
        """Whatever happened: what follows from it."""
        ranks = self._ranks
        aborted = ranks.aborted
        self._tell_news()
        if aborted is not None and not self._is_over:
            self._is_over = True
            self._tell({"abort": aborted.code, "rank": aborted.rank})
            self._exchange.end(f"rank {aborted.rank} on {self._plan.node} called MPI_Abort with code {aborted.code}")
            return
        if not ranks.is_waiting:
            return
        self.began()
        if ranks.gone() and self._left_timer is None:
            self._left_timer = self._loop.call_at(boot_now() + LEFT_S, self._judge_left)
        if ranks.is_full and not self._has_given:
            self._has_given = True
            blob = ranks.space.take_fresh()
            self._bytes += len(blob)
            self._exchange.give(ranks.kind, blob)

    def _judge_left(self) -> None:
        self._left_timer = None
        gone = self._ranks.gone()
        if self._ranks.is_waiting and gone:
            self.fail(f"{ranks_text(gone)} on {self._plan.node} ended while others waited in a PMI fence")

    # Ranks that speak PMIx.

    def _ask_early(self, session: Session, fd: int) -> None:
        """The task that will be this rank wants to start. It may ask in vain: its user set the variable that it goes by."""
        if self._pmix is None:
            self._answer_early(session, fd)
        elif session.rank not in self._early:
            self._early.add(session.rank)
            self._pmix.prepare(lambda: self._answer_early(session, fd))

    def _answer_early(self, session: Session, fd: int) -> None:
        """The task may start; one that gave up waiting, and speaks now, expects no such answer."""
        if not session.has_ended and session.wire is None:
            session.output += READY
            self._write(session, fd)

    def _met_pmix(self, rank: int) -> None:
        try:
            self._ranks.meet_pmix(rank)
        except BadRank as problem:
            self.fail(f"rank {rank} on {self._plan.node} {problem}")
            return
        self._exchange.met()
        self._tell_news()

    def _give_pmix(self, blob: bytes) -> None:
        self._ranks.enter_all()
        self.began()
        self._has_given = True
        self._bytes += len(blob)
        self._exchange.give(PMIX, blob)

    def _aborted_pmix(self, rank: int, code: int) -> None:
        if self._ranks.aborted is None:
            self._ranks.aborted = Aborted(rank, code & 0xFF)
        self._advance()

    def _spawn_pmix(self) -> None:
        self._ranks.wanted_spawn = True
        self._tell_news()

    def _failed_pmix(self, why: str) -> None:
        self.fail(f"PMIx on {self._plan.node}: {why}")

    # The fence.

    def missing(self) -> list[int]:
        return self._ranks.missing()

    def began(self) -> None:
        if not self._began_s:
            self._began_s = boot_now()
            self._fence_timer = self._loop.call_at(self._began_s + self._plan.timeout_s, self._late)
            self._judge_ended()

    def _late(self) -> None:
        self._fence_timer = None
        if not self._is_over:
            self._exchange.late()

    def done(self, result: bytes) -> None:
        if self._pmix is not None and self._ranks.kind == PMIX:
            self._pmix.complete(result)
        else:
            try:
                self._ranks.space.apply(result)
            except BadBlob as problem:
                self.fail(f"PMI: a node sent keys that cannot be read: {problem}")
                return
        self._fences += 1
        self._slowest_s = max(self._slowest_s, boot_now() - self._began_s)
        self._began_s = 0.0
        self._has_given = False
        if self._fence_timer is not None:
            self._fence_timer.cancel()
            self._fence_timer = None
        self._ranks.release()
        self._tell_news()
        for rank, session in self._ranks.sessions.items():
            if session.output and not session.has_ended:
                self._write(session, self._sockets[rank])

    def _faulted(self, error: Exception) -> None:
        complain(error)
        self.fail(f"the PMI service on {self._plan.node} failed: {error}")

    def fail(self, text: str) -> None:
        """The step ends here and on the other nodes."""
        if self._is_over:
            return
        self._is_over = True
        self._tell_news()
        self._exchange.end(text)
        self._tell({"failed": text})
