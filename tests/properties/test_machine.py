"""A rule-based machine over `apply`: hypothesis chooses the order of commands and shrinks what breaks."""

from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lattice.core.machine import commands as cmd
from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_batch, encode_batch
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from tests.conftest import IS_TRACED, sized
from tests.properties.commands_generator import CommandGenerator
from tests.properties.witness import Witness

SEEDS = st.integers(min_value=0, max_value=2**32)
EXAMPLES, STEPS = 15 if IS_TRACED else sized(100, 2_000), sized(100, 200)


class Machine(RuleBasedStateMachine):
    """Every step is one command; its invariants are those of the witness."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State.empty()
        self.generator = CommandGenerator(0, self.state)
        self.log: list[cmd.Envelope] = []
        self.witness = Witness(self.state)
        for envelope in self.generator.founding():
            self._apply(envelope)

    def _apply(self, envelope: cmd.Envelope) -> None:
        outcome = apply(self.state, envelope)
        self.log.append(envelope)
        findings = self.witness.judge(envelope, outcome)
        assert not findings, (envelope, outcome, findings)

    def _do(self, maker: str, seed: int) -> None:
        self.generator.random = Random(seed)
        self.generator.at += seed % 700
        command = getattr(self.generator, maker)()
        self._apply(cmd.Envelope(at=self.generator.at, command=command, actor="root"))

    @rule(seed=SEEDS)
    def submit(self, seed: int) -> None:
        self._do("submit", seed)

    @rule(seed=SEEDS)
    def place(self, seed: int) -> None:
        self._do("place", seed)

    @rule(seed=SEEDS)
    def node_arrives(self, seed: int) -> None:
        self._do("register", seed)
        self._do("confirm", seed)

    @rule(
        maker=st.sampled_from(
            ["report", "cancel", "notify", "archive", "lose", "resize", "revise", "dag", "deadline", "telling"]
        ),
        seed=SEEDS,
    )
    def live(self, maker: str, seed: int) -> None:
        self._do(maker, seed)

    @rule(maker=st.sampled_from(["node_trouble", "operator", "administration", "site_files"]), seed=SEEDS)
    def trouble(self, maker: str, seed: int) -> None:
        self._do(maker, seed)

    @rule(command_id=st.sampled_from(["a", "b", "c"]), seed=SEEDS)
    def repeat(self, command_id: str, seed: int) -> None:
        """A command with an id, sent twice: the second time nothing happens and the answer is the same."""
        self.generator.random = Random(seed)
        command = self.generator.submit()
        envelope = cmd.Envelope(at=self.generator.at, command=command, command_id=f"{command_id}{seed}")
        first = apply(self.state, envelope)
        digest = self.state.digest()
        again = apply(self.state, envelope)
        self.log += [envelope, envelope]
        assert self.state.digest() == digest
        if isinstance(first, Accepted):
            assert again == Accepted(number=first.number, repeated=True)
        else:
            assert again == first
        assert not self.witness.judge(envelope, first)

    def teardown(self) -> None:
        replayed = State.empty()
        for envelope in decode_batch(encode_batch("all", self.log)).envelopes:
            apply(replayed, envelope)
        assert replayed.digest() == self.state.digest()


def _configured(machine: Any) -> Any:  # noqa: ANN401 - hypothesis makes the test class
    machine.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    return machine.TestCase


TestMachine = _configured(Machine)
