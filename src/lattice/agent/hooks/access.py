"""A run in mode audit: what it touches is read from before its first process on, or it does not start here."""

from lattice.agent.hooks.protocol import NOTHING_LEFT, Finished, Launch, RunImpossible
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.steps.driver import StepDriver
from lattice.agent.telemetry.access.watching import READY_WITHIN_S, AccessWatch, is_audited
from lattice.agent.telemetry.node import NodeTelemetry
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


def watch_starts(telemetry: NodeTelemetry, hooks: HookRunner, steps: StepDriver) -> NodeTelemetry:
    """What runs touch is read from before their start, and from before steps where the allocation runs no script."""
    hooks.add(AccessHook(telemetry.access))
    steps.audited = telemetry.access.asked
    return telemetry
