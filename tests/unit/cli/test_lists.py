"""Lists of every kind: chosen columns, another order, no header row, CSV, names alone."""

import fcntl
import io
import os
import struct
import termios

import pytest

from lattice.cli.context import Context, Process, Streams
from lattice.cli.flags import Flags
from lattice.cli.parsing import load_command
from lattice.cli.registry import COMMANDS, Branch
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi

NODES = {"items": [{"id": "n2", "state": "Ready", "cpus": 4}, {"id": "n10", "state": "Down", "cpus": 8}]}


def listing(branch: Branch, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of all commands that are called `list`."""
    found = []
    for word, entry in branch.entries.items():
        if isinstance(entry, Branch):
            found += listing(entry, (*words, word))
        elif word == "list":
            command = load_command(entry)
            found += [] if command.lists else [(*words, word)]
    return found


def test_every_list_can_be_arranged() -> None:
    assert listing(Branch("", COMMANDS)) == []


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (["--columns=state,node"], ["STATE  NODE", "Ready  n2", "Down   n10"]),
        (["--columns=node", "--no-headers"], ["n2", "n10"]),
        (["--columns=node,cpus", "-o", "csv"], ["NODE,CPUS", "n2,4", "n10,8"]),
        (["-o", "name"], ["n2", "n10"]),
    ],
)
def test_nodes_as_asked_for(api: FakeApi, cli: Cli, flags: list[str], lines: list[str]) -> None:
    api.on("GET", "/nodes", NODES)
    assert cli("nodes", *flags).lines == lines


def test_order_of_names(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/tenants", {"items": [{"name": "t2"}, {"name": "t10"}, {"name": "t1"}]})
    assert cli("admin", "tenant", "list", "--columns=tenant", "--no-headers", "--sort", "-tenant").lines == [
        "t10",
        "t2",
        "t1",
    ]


def test_an_unknown_column_is_refused_with_those_that_exist(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes", NODES)
    outcome = cli("nodes", "--columns=colour")
    assert outcome.code == 2
    assert 'there is no column "colour"' in outcome.err
    assert "NODE, STATE" in outcome.err


def test_a_list_without_names_says_so(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/checkpoints", {"items": []})
    outcome = cli("checkpoint", "list", "a17", "-o", "name")
    assert (outcome.code, "has no names" in outcome.err) == (2, True)


def test_a_terminal_that_knows_only_its_width_is_kept_to() -> None:
    primary, secondary = os.openpty()
    with open(primary, "rb"), open(secondary, "wb") as screen:
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("4H", 0, 60, 0, 0))
        streams = Streams(stdin=io.BytesIO(), stdout=screen, stderr=io.BytesIO())
        context = Context(process=Process(streams=streams), flags=Flags())
        assert (context.width, context.height) == (60, None)
