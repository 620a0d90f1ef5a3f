"""A run in mode audit: what it touches is read from before its first process on, or it does not start here."""

from lattice.agent.hooks.protocol import NOTHING_LEFT, Finished, Launch, RunImpossible
from lattice.agent.telemetry.access.watching import READY_WITHIN_S, AccessWatch, is_audited
from lattice.ports.nodes.agents import StartOrder


class AccessHook:
    """`watch` is the agent's own."""

    name = "access"
    timeout_s = 2 * READY_WITHIN_S
    undoes_unrecorded = False

    def __init__(self, watch: AccessWatch) -> None:
        self._watch = watch

    def applies(self, order: StartOrder) -> bool:
        return is_audited(order)

    async def prepare(self, launch: Launch) -> None:
        launch.leave(NOTHING_LEFT)
        if why := await self._watch.asked(launch.order):
            raise RunImpossible(why)

    async def undo(self, finished: Finished) -> None:
        self._watch.forget(finished.key)
