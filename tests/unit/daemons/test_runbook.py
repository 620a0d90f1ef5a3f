"""What the runbooks tell people to type can be typed."""

import shlex
from pathlib import Path

import pytest

from lattice.cli.context import Process, Streams
from lattice.cli.parsing import find_command, load_command, read_options
from lattice.daemons.programs import server

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks"


def commands(file: Path) -> set[str]:
    return {line for line in file.read_text().splitlines() if line.startswith(("lattice ", "lattice-server "))}


COMMANDS = sorted(commands(RUNBOOKS / "disaster-recovery.md"))
ALL_COMMANDS = sorted(set().union(*map(commands, RUNBOOKS.glob("*.md"))))


@pytest.mark.parametrize("line", ALL_COMMANDS)
def test_a_command_of_a_runbook_is_understood(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
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
