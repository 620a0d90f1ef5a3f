"""From words to a command and its options: finds the command, builds its parser and no other."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, TypeVar

from lattice.cli.command import Command, Values
from lattice.cli.context import Process
from lattice.cli.errors import UsageError
from lattice.cli.flags import WITH_VALUE, WITHOUT_VALUE, Flags, add_flags
from lattice.cli.registry import COMMANDS, Branch, Leaf

R = TypeVar("R")

EXIT_CODES = """\
exit codes:
  0    done
  1    refused by the server, or failed
  2    the command line, a script's directives or the configuration are wrong; nothing was sent
  3    up: a cluster is already running there
  4    there is no such allocation, node, tenant ...
  5    not logged in, or not permitted
  6    the server cannot be reached, or is not ready
  124  wait --timeout: the time is over, the allocation is not
  130  interrupted
  141  nobody reads the output any more
`wait` and `submit --wait` hand on how the allocation ended: 0 completed, its own exit code, 128 + n after signal n,
130 cancelled, 125 failed without a code; of several the highest. `launch` hands on the highest of its tasks.
"""
ROOT = Branch("a workload scheduler for clusters", COMMANDS)


class HelpAsked(Exception):
    """Not an error: the text is to be printed and nothing else done."""


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print and leave; knows which options were given."""

    def __init__(self, words: Sequence[str], summary: str = "", epilog: str = "") -> None:
        width = _width()
        super().__init__(
            prog=" ".join(("lattice", *words)),
            description=summary,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            add_help=False,
            # Given a width, argparse does not import shutil to find one.
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
        )
        self.add_argument("-h", "--help", action="store_true", help="show this help")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows what it takes")

    def values(self, arguments: Sequence[str], tail: Sequence[str] | None = None) -> Values:
        """What was given, by destination; nothing else. No word of `tail` is a flag."""
        if tail is None:
            return vars(self.parse_intermixed_args(list(arguments)))
        return vars(self.parse_args([*arguments, "--", *tail]))

    def cut(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The flags with their values, and everything from the first other word on."""
        at = 0
        while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-":
            flag = self._option_string_actions.get(arguments[at])
            at += 2 if flag is not None and flag.nargs is None else 1
        return list(arguments[:at]), list(arguments[at:])


def _width() -> int:
    text = os.environ.get("COLUMNS", "")
    return max(40, min(int(text), 120)) if text.isascii() and text.isdigit() else 98


class Invocation(NamedTuple):
    """A command that was found: its words, its entry, and everything else on the line."""

    words: tuple[str, ...]
    leaf: Leaf
    arguments: list[str]
    tail: list[str] | None  # what followed `--`


def find_command(line: Sequence[str]) -> Invocation:
    """The command on the line; HelpAsked or UsageError when there is none."""
    cut = line.index("--") if "--" in line else len(line)
    head, tail = list(line[:cut]), list(line[cut + 1 :]) if cut < len(line) else None
    entry: Leaf | Branch = ROOT
    words: tuple[str, ...] = ()
    position, wants_help = 0, False
    while isinstance(entry, Branch):
        position = _skip_flags(head, position)
        if position == len(head):
            raise _without_command(entry, words, wants_help=wants_help)
        word = head.pop(position)
        if word in {"-h", "--help"}:
            wants_help = True
        elif word == "--version" and not words:
            word, entry, words = "version", COMMANDS["version"], ("version",)
        elif word == "help" and not words:
            wants_help = True
        else:
            entry, words = _entry(entry, words, word), (*words, word)
    return Invocation(words, entry, [*(["--help"] if wants_help else []), *head], tail)


def _skip_flags(head: list[str], position: int) -> int:
    while position < len(head):
        word = head[position]
        if word in WITH_VALUE:
            position += 2
        elif (
            word in WITHOUT_VALUE
            or word.partition("=")[0] in WITH_VALUE
            or (word[:2] in {"-o", "-t"} and len(word) > 2)
        ):
            position += 1
        else:
            break
    return min(position, len(head))


def _entry(branch: Branch, words: tuple[str, ...], word: str) -> Leaf | Branch:
    found = branch.entries.get(word)
    if found is not None:
        return found
    called = " ".join(("lattice", *words))
    if word.startswith("-"):
        raise UsageError(f"unknown flag {word}", hint=f"`{called} --help` lists the commands")
    import difflib

    close = difflib.get_close_matches(word, branch.entries, n=1)
    hint = f"did you mean `{called} {close[0]}`?" if close else f"`{called} --help` lists them"
    raise UsageError(f'"{" ".join((*words, word))}" is not a command', hint=hint)


def _without_command(branch: Branch, words: tuple[str, ...], *, wants_help: bool) -> Exception:
    if wants_help or not words:
        return HelpAsked(overview(branch, words))
    called = " ".join(("lattice", *words))
    choices = ", ".join(branch.entries)
    return UsageError(f"`{called}` needs one more word", hint=f"one of: {choices}")


def overview(branch: Branch, words: tuple[str, ...]) -> str:
    """The commands below a word."""
    called = " ".join(("lattice", *words))
    shown = {word: entry for word, entry in branch.entries.items() if isinstance(entry, Branch) or not entry.is_hidden}
    lines = [f"usage: {called} COMMAND [arguments] [flags]", "", branch.summary, "", "commands:"]
    lines += [f"  {word:<12} {entry.summary}" for word, entry in shown.items()]
    lines += ["", f"`{called} COMMAND --help` shows the flags of a command, with examples.", ""]
    if not words:
        lines += [EXIT_CODES]
    return "\n".join(lines)


def load_command(leaf: Leaf) -> Command[Any]:
    """Import the module of a command."""
    module, _, name = leaf.module.partition(":")
    command = getattr(import_module(f"lattice.cli.commands.{module}"), name or "COMMAND")
    if not isinstance(command, Command):
        raise TypeError(f"lattice.cli.commands.{leaf.module} is not a command")
    return command


def build_parser(words: Sequence[str], leaf: Leaf, command: Command[Any]) -> Parser:
    examples = "".join(f"  {example}\n" for example in command.examples)
    parser = Parser(words, leaf.summary, f"examples:\n{examples}")
    command.fill(parser)
    add_flags(parser)
    return parser


def read_options(found: Invocation, command: Command[Any], process: Process) -> tuple[object, Flags]:
    """The command's record and the flags that every command has."""
    parser = build_parser(found.words, found.leaf, command)
    arguments, tail = _dashes_joined(found.arguments, command.dashed), found.tail
    rest: list[str] = []
    if command.takes_rest:
        arguments, rest = parser.cut(arguments)
        if rest and tail is not None:
            rest, tail = [*rest, "--", *tail], None
    if "--help" in arguments or "-h" in arguments:
        raise HelpAsked(parser.format_help())
    values = parser.values(arguments, None if command.takes_tail else tail)
    if command.takes_tail:
        values["tail"] = tail
    if command.takes_rest:
        values["rest"] = rest
    if command.complete is not None:
        values = command.complete(values, parser, process)
    return _record(command.options, values), _record(Flags, values)


def _dashes_joined(arguments: list[str], flags: frozenset[str]) -> list[str]:
    """`--sort -Name` as `--sort=-Name`, which argparse does not take for two flags."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in flags:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _record(kind: type[R], values: Values) -> R:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in names}
    )
