"""Every `--help` page against its recorded text, so that a change of wording shows in the diff.

`pytest tests/unit/cli/test_help_pages.py --rewrite` records the pages.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lattice.cli.parsing import ROOT, build_parser, load_command, overview
from lattice.cli.registry import Branch, Leaf
from lattice.daemons.agent import hollow
from lattice.daemons.programs import agent, backup, replay, server

PAGES = Path(__file__).parent / "help"
DAEMONS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "lattice-server": server.build_parser,
    "lattice-agent": agent.build_parser,
    "lattice-agent-hollow": hollow.build_parser,
    "lattice-backup": backup.build_parser,
    "rm-replay": replay.build_parser,
}


def _entries(branch: Branch, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Leaf | Branch]]:
    yield words, branch
    for word, entry in branch.entries.items():
        if isinstance(entry, Branch):
            yield from _entries(entry, (*words, word))
        else:
            yield (*words, word), entry


COMMANDS = {"-".join(("lattice", *words)): (words, entry) for words, entry in _entries(ROOT, ())}


@pytest.fixture(autouse=True)
def _fixed_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "98")


def _compare(name: str, page: str, request: pytest.FixtureRequest) -> None:
    path = PAGES / f"{name}.txt"
    if request.config.getoption("rewrite"):
        path.write_text(page)
    assert path.exists(), f"{name} has no recorded help page; run this test with --rewrite"
    assert page == path.read_text(), f"the help of {name} changed; run this test with --rewrite and review the diff"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_the_recorded_one(name: str, request: pytest.FixtureRequest) -> None:
    words, entry = COMMANDS[name]
    if isinstance(entry, Branch):
        page = overview(entry, words)
    else:
        page = build_parser(words, entry, load_command(entry)).format_help()
    _compare(name, page, request)


def _all_pages(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _all_pages(inner)


@pytest.mark.parametrize("name", DAEMONS)
def test_the_help_of_a_program_is_the_recorded_one(name: str, request: pytest.FixtureRequest) -> None:
    _compare(name, "\n".join(_all_pages(DAEMONS[name]())), request)


def test_no_recorded_page_is_left_over() -> None:
    assert {path.stem for path in PAGES.iterdir()} == {*COMMANDS, *DAEMONS}


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_and_help_lines_are_lower_case_without_a_full_stop(name: str) -> None:
    words, entry = COMMANDS[name]
    texts = [entry.summary]
    if isinstance(entry, Leaf):
        parser = build_parser(words, entry, load_command(entry))
        texts += [action.help for action in parser._actions if action.help and action.help is not argparse.SUPPRESS]
    assert [text for text in texts if text.endswith(".") and not text.endswith("...")] == []
    assert [text for text in texts if text[0].isupper() and text[1].islower() and text.split()[0] not in NAMES] == []


NAMES = {"SlurmConf"}
