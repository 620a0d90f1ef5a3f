"""Scenarios of the agent's machine.

`agent` begins: a node whose shim answers and which no server has welcomed. Then any stimulus of agent/machine/state.py in
small letters, the run as its argument (`stop_order 7.1 grace_s=30 why=cancelled`), and shorthands: `start 7.1`, `ended 7.1
exit_code=3`, `shim_ready` with what the shim knows, `restart` of the agent, `tick 100 heard=95`.
"""

import re
from typing import get_args

import msgspec

from lattice.agent.machine.state import End, Instruction, Run, RunEnded, Stimulus, Tick, Welcomed
from lattice.ports.nodes.agents import EndCause, RunKey, StartOrder
from lattice.testing import FakeAgent
from tests.scenarios.script import Malformed, Operation, Words
from tests.scenarios.wording import Wording


def _small(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


STIMULI = {_small(kind.__name__): kind for kind in get_args(Stimulus)}
NOISE = ("key", "phase", "allocation_id", "sent_s", "kept_since_s", "stored_bytes", "started_boot_s")


class Agent:
    """One scenario's agent; `perform` carries out an operation and returns what is to be read."""

    def __init__(self, begin: Words) -> None:
        self._agent = FakeAgent()
        self._agent.answer()
        self._wording = Wording(0)

    async def perform(self, operation: Operation) -> str:
        before = {**self._agent.state.runs}
        said = [self._instruction(each) for each in self._do(operation)]
        if operation.words.options:
            raise Malformed(f"{operation.text}: no such option: {', '.join(operation.words.options)}")
        now = self._agent.state.runs
        said += [f"  -> {self._run(run)}" for key, run in now.items() if before.get(key) != run]
        said += [f"  -> {key} is closed" for key in before if key not in now]
        return "\n".join(said) or "nothing to do"

    def _do(self, operation: Operation) -> list[Instruction]:
        words = operation.words
        match words.name:
            case "agent":
                return []
            case "restart":
                self._agent.restart()
                return []
            case "shim_ready":
                return self._agent.answer()
            case _:
                return self._agent.tell(self._stimulus(words))

    def _stimulus(self, words: Words) -> Stimulus:
        key = [_key(text) for text in words.arguments if "." in text]
        match words.name:
            case "start":
                return msgspec.convert({"key": _pair(key[0]), "argv": ["true"], **words.rest()}, StartOrder)
            case "ended":
                return RunEnded(key=key[0], end=msgspec.convert({"cause": EndCause.EXIT.value, **words.rest()}, End))
            case "welcomed":
                valid = frozenset(_key(text) for text in words.names("valid"))
                fields = {"session": 1, "heartbeat_interval_s": 10.0, "down_after_s": 90.0, **words.rest()}
                greeting = {**fields, "valid_runs": [_pair(each) for each in valid]}
                return msgspec.convert({"greeting": greeting}, Welcomed)
            case "tick":
                now = float(words.arguments[0])
                return Tick(now_s=now, heard_s=float(str(words.take("heard", now))), wall_s=now)
            case name if name in STIMULI:
                fields = {**({"key": _pair(key[0])} if key else {}), **words.rest()}
                stimulus: Stimulus = msgspec.convert(fields, STIMULI[name])
                return stimulus
            case _:
                raise Malformed(f"no such operation: {words.name}")

    def _instruction(self, instruction: Instruction) -> str:
        return self._wording.line(instruction)

    def _run(self, run: Run) -> str:
        return self._wording.line(run, f"{run.key} {run.phase.value}", leave=NOISE)


def _key(text: str) -> RunKey:
    number, _, run = text.partition(".")
    return RunKey(int(number), int(run))


def _pair(key: RunKey) -> dict[str, int]:
    return {"number": key.number, "run": key.run}
