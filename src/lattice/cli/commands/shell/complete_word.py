"""`lattice complete-word`: what could stand in place of the last word; called by the shells."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.flags import FORMATS
from lattice.cli.parsing import build_parser, load_command
from lattice.cli.recent import Recent, read_recent
from lattice.cli.registry import COMMANDS, Branch, Leaf

ALLOCATION_WORDS = frozenset(
    {"status", "explain", "wait", "logs", "watch", "cancel", "hold", "release", "requeue", "update"}
)
NODE_FLAGS = frozenset({"--node", "--nodelist", "--exclude"})
STATES = ("Pending", "Running", "Completed", "Failed", "Cancelled")


@dataclass(frozen=True, kw_only=True)
class Options:
    tail: tuple[str, ...] | None = None


def run(options: Options, context: Context) -> int:
    """The words typed so far come after `--`, the unfinished one last, perhaps empty."""
    words = list(options.tail or ("",))
    for candidate in candidates(words[:-1], words[-1], read_recent(context.process.environment)):
        context.streams.write(f"{candidate}\n")
    return OK


def candidates(before: list[str], word: str, recent: Recent) -> list[str]:
    """Everything that begins like `word` and may stand there."""
    entry, path = _reached(before)
    if len(before) > 1 and before[-1] == "=":  # bash cuts words there
        before = before[:-1]
    flag, separator, value = word.partition("=")
    if isinstance(entry, Branch):
        options = [name for name, child in entry.entries.items() if isinstance(child, Branch) or not child.is_hidden]
    elif separator and flag.startswith("--"):
        return [f"{flag}={found}" for found in _values(flag, recent) if found.startswith(value)]
    elif before and before[-1].startswith("-") and _values(before[-1], recent):
        options = _values(before[-1], recent)
    elif word.startswith("-"):
        options = flags_of(path, entry)
    else:
        options = _names(path, recent)
    return [option for option in options if option.startswith(word)]


def _reached(before: list[str]) -> tuple[Leaf | Branch, tuple[str, ...]]:
    entry: Leaf | Branch = Branch("", COMMANDS)
    path: tuple[str, ...] = ()
    for word in before:
        if isinstance(entry, Branch) and word in entry.entries:
            entry, path = entry.entries[word], (*path, word)
    return entry, path


def _values(flag: str, recent: Recent) -> list[str]:
    if flag in {"-o", "--output"}:
        return list(FORMATS)
    if flag == "--state":
        return list(STATES)
    if flag == "--vcluster":
        return recent.vclusters
    return recent.nodes if flag in NODE_FLAGS else []


def _names(path: tuple[str, ...], recent: Recent) -> list[str]:
    if path[0] in ALLOCATION_WORDS:
        return recent.allocations
    if path[0] in {"node", "nodes"} or path[-1] in {"drain", "undrain", "approve", "refresh", "wipe"}:
        return recent.nodes
    if path[:2] == ("admin", "vcluster"):
        return recent.vclusters
    return ["bash", "zsh", "fish"] if path[0] in {"completion", "completions"} else []


def flags_of(path: tuple[str, ...], leaf: Leaf) -> list[str]:
    """The long flags of a command that are meant to be seen."""
    parser = build_parser(path, leaf, load_command(leaf))
    return sorted(
        flag
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        for flag in action.option_strings
        if flag.startswith("--")
    )


COMMAND = Command(
    options=Options,
    run=run,
    takes_tail=True,
    examples=("lattice complete-word -- status --st",),
)
