"""What the nodes' checks say, and what follows: a node that boots becomes Ready when they pass, others are degraded or drained.

Reports are kept in memory, the newest of each node; the log hears only of their consequences. Every decision is made from the newest
report and the node's record together (`core/model/nodes/health.py`), so that it can be made again by a server that takes over: the
agent reports to it again. A report of an earlier stream is shown, and decides nothing.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.loop import Guard, keep_turning
from lattice.core.machine.commands import AnyCommand, ConfirmNode, DegradeNode, DrainNode, Envelope, RecoverNode
from lattice.core.machine.events import AnyEvent, NodeMoved
from lattice.core.model.nodes.health import Action, CheckStanding, Decision, HealthReport, decide_action, unfit_because
from lattice.core.model.nodes.nodes import DegradeCause, Node, NodeState
from lattice.ports.clock import Clock
from lattice.ports.nodes.health import CheckLinks
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import Replica, ReplicaStopped

_log = logging.getLogger(__name__)

LOOP = "health"
RETRY_S = 1.0
RUN_WITHIN_S = 60.0
BATCH = 256


class _Known(Struct, frozen=True, kw_only=True):
    report: HealthReport
    heard_at: float
    is_current: bool = True  # of the stream that is open now


class HealthRegistry:
    """Implements `HealthService`. `on_failed` receives the name of each check that starts to fail on a node."""

    def __init__(
        self, replica: Replica, links: CheckLinks, clock: Clock, on_failed: Callable[[str], None] = lambda check: None
    ) -> None:
        self._replica = replica
        self._links = links
        self._clock = clock
        self._on_failed = on_failed
        self._guard = Guard(LOOP)
        self._known: dict[str, _Known] = {}
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        replica.subscribe(self._note, of=(NodeMoved,))

    def reset(self) -> None:
        """Forget all reports: agents report again to a new leader."""
        self._known.clear()

    # What agents say.

    def begin(self, node: str) -> None:
        """A stream of the node begins: what it said before does not count any more."""
        known = self._known.get(node)
        if known is not None:
            self._known[node] = replace(known, is_current=False)

    def take(self, node: str, report: HealthReport) -> None:
        """Notes a report; what follows from it follows soon."""
        before = {each.name for each in self.checks_of(node) if each.is_failed}
        self._known[node] = _Known(report=report, heard_at=self._clock.monotonic_s())
        for each in report.checks:
            if each.is_failed and each.name not in before:
                _log.warning("%s", each.sentence, extra={"node_id": node})
                self._on_failed(each.name)
        self._look_at(node)

    def is_fit(self, node: str) -> bool:
        """Whether nothing that the node said on this stream keeps it from becoming Ready, or from staying so: such a node is confirmed here."""
        known = self._known.get(node)
        if known is None or not known.is_current:
            return True
        return not unfit_because(known.report.checks) and _next(known.report).action is Action.NONE

    def opened(self, node: str) -> None:
        """The node's stream is confirmed: what it said before can be settled now."""
        if node in self._known:
            self._look_at(node)

    # What others ask.

    def checks_of(self, node: str) -> tuple[CheckStanding, ...]:
        known = self._known.get(node)
        if known is None:
            return ()
        older_s = self._clock.monotonic_s() - known.heard_at
        return tuple(replace(each, age_s=each.age_s + older_s) for each in known.report.checks)

    def unfit_because(self, node: str) -> str:
        known = self._known.get(node)
        return unfit_because(known.report.checks) if known is not None and known.is_current else ""

    async def run_now(self, node: str, names: Sequence[str] = ()) -> tuple[CheckStanding, ...]:
        report = await self._links.run_checks(node, names, within_s=RUN_WITHIN_S)
        return report.checks

    # What follows.

    async def run(self) -> None:
        for node in self._known:
            self._look_at(node)
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        try:
            await self.settle()
        except Exception:
            asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)
            raise

    async def settle(self) -> None:
        """Propose what the newest reports require, in batches: one file server may have failed for all nodes."""
        failed: list[str] = []
        while self._due:
            names = list(itertools.islice(self._due, BATCH))
            for name in names:
                del self._due[name]
            done = await asyncio.gather(*map(self._settled, names), return_exceptions=True)
            failed += [name for name, is_settled in zip(names, done, strict=True) if is_settled is False]
            errors = [error for error in done if isinstance(error, BaseException)]
            if errors:
                self._due |= dict.fromkeys(failed)
                raise errors[0]
        if failed:
            self._due |= dict.fromkeys(failed)
            asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def _settled(self, name: str) -> bool:
        """False when the node itself is the trouble; the others continue."""
        with self._guard.item(name):
            await self._settle(name)
            return True
        return False

    async def _settle(self, name: str) -> None:
        node, known = self._replica.state.nodes.get(name), self._known.get(name)
        decided = Decision() if node is None or known is None else self._decide(node, known)
        if decided.action is Action.NONE:
            return
        # A node that boots with a failed check is never Ready for a moment: the scheduler would use it.
        then = _next(known.report) if known is not None and decided.action is Action.CONFIRM else Decision()
        steps = [decided] if then.action is Action.NONE else [decided, then]
        check = then.check or decided.check
        try:
            # A refusal means that the record has moved on: its next event brings the node here again.
            await self._replica.propose_many(
                [_command(name, step) for step in steps], f"check/{check}" if check else f"node/{name}"
            )
        except (LogError, ReplicaStopped):
            self._due[name] = None
            raise

    def _decide(self, node: Node, known: _Known) -> Decision:
        if not known.is_current or (node.state is NodeState.BOOTING and not self._links.is_connected(node.id)):
            return Decision()
        by_check = node.state is NodeState.DEGRADED and node.degrade_cause is DegradeCause.CHECK
        return decide_action(known.report.checks, node.state, is_degraded_by_check=by_check)

    def _look_at(self, node: str) -> None:
        self._due[node] = None
        self._wake.set()

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, NodeMoved) and event.node in self._known:
                self._look_at(event.node)


def _next(report: HealthReport) -> Decision:
    """What the report asks for as soon as the node is Ready."""
    return decide_action(report.checks, NodeState.READY, is_degraded_by_check=False)


def _command(node: str, decided: Decision) -> AnyCommand:
    match decided.action:
        case Action.DEGRADE:
            return DegradeNode(node=node, reason=decided.reason, cause=DegradeCause.CHECK)
        case Action.RECOVER:
            return RecoverNode(node=node, cause=DegradeCause.CHECK)
        case Action.DRAIN:
            return DrainNode(node=node, reason=decided.reason)
        case _:
            return ConfirmNode(node=node)
