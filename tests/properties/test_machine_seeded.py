"""Hundreds of thousands of random commands: every invariant after each one, and the same digest from the same log."""

import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_state_chunks, encode_batch, encode_state_chunks
from lattice.core.machine.commands import Envelope
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from tests.conftest import IS_TRACED, SOAK, sized
from tests.properties.commands_generator import CommandGenerator
from tests.properties.witness import Witness

# Of 232 kinds of commands, events and refusals that the first ten walks see, these two together miss one.
EVERYDAY = (1, 3, 7) if IS_TRACED else (0, 7)  # the short walks of `make coverage` are others
ROUNDS = sized(10, 200)
COMMANDS_PER_ROUND = 4_000 if IS_TRACED else 20_000

_REPLAY = """
import sys
from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_batch
from lattice.core.machine.state import State
state = State.empty()
data = open(sys.argv[1], "rb").read()
place = 0
while place < len(data):
    size = int.from_bytes(data[place:place + 4], "big")
    for envelope in decode_batch(data[place + 4:place + 4 + size]).envelopes:
        apply(state, envelope)
    place += 4 + size
print(state.digest())
"""


@pytest.mark.timeout(7200 if SOAK or IS_TRACED else 300)
@pytest.mark.parametrize("seed", range(ROUNDS) if SOAK else EVERYDAY)
def test_random_commands_keep_every_invariant_and_replay_to_the_same_digest(seed: int, tmp_path: Path) -> None:
    state = State.empty()
    generator = CommandGenerator(seed, state)
    log = tmp_path / "log"
    kinds: set[str] = set()
    refused = 0
    with log.open("wb") as file:
        for envelope in generator.founding():
            apply(state, envelope)
            _write(file, envelope)
        witness = Witness(state)
        for _ in range(COMMANDS_PER_ROUND):
            envelope = generator.next()
            outcome = apply(state, envelope)
            findings = witness.judge(envelope, outcome)
            assert not findings, (envelope, outcome, findings)
            refused += isinstance(outcome, Rejected)
            if not isinstance(outcome, Rejected):
                kinds.update(type(event).__name__ for event in outcome.events)
            _write(file, envelope)
    assert refused < 0.7 * COMMANDS_PER_ROUND, "the generator mostly produces nonsense"
    assert len(kinds) >= 20, kinds
    assert _replayed_digest(log, hash_seed=seed + 1) == state.digest()
    assert decode_state_chunks(encode_state_chunks(state.frozen_view())).digest() == state.digest()


def _write(file: BinaryIO, envelope: Envelope) -> None:
    data = encode_batch("b", [envelope])
    file.write(len(data).to_bytes(4, "big") + data)


def _replayed_digest(log: Path, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", _REPLAY, str(log)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
