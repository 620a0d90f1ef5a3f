"""An agent without a node: its real decisions, over a shim that is only remembered."""

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import (
    AgentState,
    End,
    ForgetRun,
    Instruction,
    LaunchRun,
    PurgeRun,
    Run,
    RunEnded,
    RunRefused,
    RunStarted,
    ShimLost,
    ShimReady,
    Stimulus,
)
from lattice.ports.nodes.agents import Phase, RunKey, StartOrder

LOST = "the shim died"


class FakeAgent:
    """Nothing happens by itself: a test says what the shim and the server say.

    `alive` and `ended` are the runs that the shim knows; they outlive the agent, not the shim.
    """

    def __init__(self) -> None:
        self.state = AgentState()
        self.alive: dict[RunKey, float] = {}
        self.ended: dict[RunKey, End] = {}
        self._orders: dict[RunKey, StartOrder] = {}  # of runs that were launched: their folders

    def tell(self, stimulus: Stimulus) -> list[Instruction]:
        """Lets it happen; returns what the agent wants done."""
        match stimulus:
            case RunStarted(key=key, started_boot_s=started_boot_s):
                self.alive[key] = started_boot_s
            case RunEnded(key=key, end=end):
                self.alive.pop(key, None)
                self.ended[key] = end
            case RunRefused(key=key):
                self._orders.pop(key, None)
            case ShimLost():
                self.alive.clear()
                self.ended.clear()
            case _:
                pass
        instructions = step(self.state, stimulus)
        for each in instructions:
            if isinstance(each, LaunchRun):
                self._orders[each.order.key] = each.order
            elif isinstance(each, ForgetRun | PurgeRun):
                self.ended.pop(each.key, None)
                self._orders.pop(each.key, None)
        return instructions

    def answer(self) -> list[Instruction]:
        """The shim, or another one in its place, tells what it knows."""
        return self.tell(ShimReady(alive=dict(self.alive), ended=dict(self.ended), lost_message=LOST))

    def restart(self) -> None:
        """The agent forgets everything but the folders of its runs; `answer` is what follows.

        Ends whose acknowledgement had come are forgotten with the rest.
        """
        self.state = AgentState(retention=self.state.retention)
        for key, order in self._orders.items():
            self.state.runs[key] = Run(
                key=key,
                phase=Phase.STARTING,
                allocation_id=order.allocation_id,
                launched=True,
                fence=order.fence,
                summary=order.summary,
                epoch=order.epoch,
            )
            self.state.live[key.number] = key
            self.state.highest[key.number] = max(key.run, self.state.highest.get(key.number, 0))
