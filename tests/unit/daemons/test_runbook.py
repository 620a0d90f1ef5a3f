"""What the runbook tells people to type can be typed."""

import shlex
from pathlib import Path

import pytest

from lattice.cli.context import Process, Streams
from lattice.cli.parsing import find_command, load_command, read_options
from lattice.daemons import server

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbooks" / "disaster-recovery.md"
COMMANDS = sorted(
    {line for line in RUNBOOK.read_text().splitlines() if line.startswith(("lattice ", "lattice-server "))}
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_runbook_is_understood(line: str) -> None:
    program, *words = shlex.split(line)
    if program == "lattice-server":
        assert server.build_parser().parse_args(words).config
        return
    found = find_command(words)
    options, _ = read_options(found, load_command(found.leaf), Process(streams=Streams.of_process()))
    assert options is not None


def test_the_runbook_has_the_commands_of_every_step() -> None:
    text = "\n".join(COMMANDS)
    for words in (
        "backup create",
        "backup verify",
        "backup restore",
        "--from-object-store",
        "--recover-from",
        "raft status",
    ):
        assert words in text
