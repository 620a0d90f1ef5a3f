"""Stimuli one after the other: what carrying out one causes waits for its turn (docs/architecture/agent.md)."""

from collections import deque
from collections.abc import Callable

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import AgentState, Instruction, Stimulus


class StimulusQueue:
    """`state` is asked for each time, because recovery replaces it; `perform` may feed again, from within."""

    def __init__(self, state: Callable[[], AgentState], perform: Callable[[Instruction], None]) -> None:
        self._state = state
        self._perform = perform
        self._waiting: deque[Stimulus] = deque()
        self._is_feeding = False

    def append(self, stimulus: Stimulus) -> None:
        """Leave a stimulus for the next call of `feed`, or for the one that is running."""
        self._waiting.append(stimulus)

    def feed(self, stimulus: Stimulus) -> None:
        """Fold a stimulus in and do what follows from it, after what is being done already."""
        self._waiting.append(stimulus)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._waiting:
                for instruction in step(self._state(), self._waiting.popleft()):
                    self._perform(instruction)
        finally:
            self._is_feeding = False
