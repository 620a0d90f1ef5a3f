"""Reads the command line: finds the command and builds only that command's parser."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from lattice.cli.command import Command, Values
from lattice.cli.context import Process
from lattice.cli.errors import UsageError
from lattice.cli.flags import GLOBAL_FLAGS, WITH_VALUE, WITHOUT_VALUE, Flags, add_flags
from lattice.cli.registry import COMMANDS, Branch, Leaf

EXIT_CODES = """\
exit codes:
  0    success
  1    refused by the server, or failed
  2    invalid command line, script directive or configuration; nothing was sent
  3    up: a cluster is already running in that directory
  4    no such allocation, node, tenant, ...
  5    not logged in, or not permitted
  6    the server is unreachable or not ready
  124  wait --timeout: timed out while still running
  130  interrupted
  141  stdout was closed
`run`, `wait` and `submit --wait` exit with the allocation's exit code: 0 completed, its own code, 128 + n after signal n,
130 cancelled, 125 failed without a code; with several, the highest. `launch` exits with the highest code of its tasks.
"""
ROOT = Branch("a workload scheduler for clusters", COMMANDS)


class HelpAsked(Exception):
    """Not an error: print the text and do nothing else."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes `-N, --nodes N`, the same with every version of Python."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print and exit; knows which options were given."""

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
            formatter_class=lambda prog: HelpFormatter(prog, width=width),
        )
        self._positionals.title = "arguments"
        self._optionals.title = "flags"
        self.fixed: Mapping[str, str] = {}
        self.add_argument("-h", "--help", action="store_true", help="show this help")

    def error(self, message: str) -> NoReturn:
        _, is_unknown, words = message.partition("unrecognized arguments: ")
        if not is_unknown:
            raise UsageError(message, hint=self._see_help())
        flag = next((word for word in words.split() if word.startswith("-")), "")
        if not flag:
            raise UsageError(f"unexpected arguments: {words}", hint=self._see_help())
        name = flag.partition("=")[0] if flag.startswith("--") else flag[:2]
        if name in self.fixed:
            raise UsageError(f"{name} cannot be changed by `{self.prog}`", hint=self.fixed[name])
        raise UsageError(f"unknown flag {name}", hint=self._suggestion(name) or self._see_help())

    def _see_help(self) -> str:
        return f"see `{self.prog} --help`"

    def _suggestion(self, flag: str) -> str:
        """The flag that was probably meant; empty when none is close."""
        import difflib

        from lattice.cli.slurm.synonyms import FLAG_SYNONYMS

        known = self._option_string_actions
        synonym = FLAG_SYNONYMS.get(flag, "")
        long = [name for name in known if name.startswith("--")]
        close = [synonym] if synonym in known else difflib.get_close_matches(flag, long, n=1)
        return f"did you mean {close[0]}?" if close else ""

    def set_usage(self) -> None:
        """`lattice X [flags] ID...`, unless the command wrote its own."""
        if self.usage is None:
            words = (_usage_word(action) for action in self._actions if not action.option_strings)
            self.usage = " ".join((self.prog, "[flags]", *words))

    def format_help(self, *, with_global: bool = False) -> str:
        """The help page; the global flags only on request."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            if with_global or group.title != GLOBAL_FLAGS:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        if not with_global:
            formatter.add_text("`--help --all` shows the global flags too.")
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def values(self, arguments: Sequence[str], tail: Sequence[str] | None = None) -> Values:
        """The given values by destination, without defaults. No word of `tail` is read as a flag."""
        if tail is None:
            return vars(self.parse_intermixed_args(list(arguments)))
        return vars(self.parse_args([*arguments, "--", *tail]))

    def cut(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The flags with their values, and everything from the first other word onwards."""
        at = 0
        while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-":
            flag = self._option_string_actions.get(arguments[at])
            at += 2 if flag is not None and flag.nargs is None else 1
        return list(arguments[:at]), list(arguments[at:])


def _usage_word(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    forms = {"*": f"[{name}...]", "+": f"{name}...", "?": f"[{name}]"}
    return forms.get(str(action.nargs), name)


def _width() -> int:
    text = os.environ.get("COLUMNS", "")
    return max(40, min(int(text), 120)) if text.isascii() and text.isdigit() else 98


class Invocation(NamedTuple):
    """A command found on the line: its words, its entry, and the rest of the line."""

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
        if entry.default and not wants_help and _is_for_default(entry, head[position:]):
            return Invocation((*words, entry.default), _leaf(entry), head, tail)
        if position == len(head):
            raise _without_command(entry, words, wants_help=wants_help)
        word = head.pop(position)
        if word in {"-h", "--help"}:
            wants_help = True
        elif word == "--version" and not words:
            word, entry, words = "version", COMMANDS["version"], ("version",)
        elif word == "help" and not words:
            _show_topic(head[position:])
            wants_help = True
        else:
            entry, words = _entry(entry, words, word), (*words, word)
    return Invocation(words, entry, [*(["--help"] if wants_help else []), *head], tail)


def _is_for_default(branch: Branch, rest: list[str]) -> bool:
    """Whether no subcommand follows: nothing does, a flag of the default one, or a word that it takes."""
    if branch.takes_words and rest and rest[0] not in branch.entries and not rest[0].startswith("-"):
        return True
    return not rest or (rest[0].startswith("-") and rest[0] not in {"-h", "--help"})


def _show_topic(rest: list[str]) -> None:
    """HelpAsked for `lattice help TOPIC`; UsageError for a word that is neither a topic nor a command."""
    word = next((word for word in rest if not word.startswith("-")), "")
    if not word or word in COMMANDS:
        return
    from lattice.cli.topics import TOPICS, topic_text

    if word in TOPICS or word == "topics":
        raise HelpAsked(topic_text(word))
    import difflib

    close = difflib.get_close_matches(word, [*TOPICS, *COMMANDS], n=1)
    hint = f"did you mean `lattice help {close[0]}`?" if close else "`lattice help topics` lists them"
    raise UsageError(f'there is no help about "{word}"', hint=hint)


def _leaf(branch: Branch) -> Leaf:
    """What a word without a subcommand does."""
    found = branch.entries[branch.default]
    assert isinstance(found, Leaf)  # noqa: S101 - the registry's own
    return found


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

    from lattice.cli.slurm.synonyms import COMMAND_SYNONYMS

    synonym = "" if words else COMMAND_SYNONYMS.get(word, "")
    close = [synonym] if synonym else difflib.get_close_matches(word, branch.entries, n=1)
    hint = f"did you mean `{called} {close[0]}`?" if close else f"`{called} --help` lists the commands"
    raise UsageError(f'"{" ".join((*words, word))}" is not a command', hint=hint)


def _without_command(branch: Branch, words: tuple[str, ...], *, wants_help: bool) -> Exception:
    if wants_help or not words:
        return HelpAsked(overview(branch, words))
    called = " ".join(("lattice", *words))
    choices = ", ".join(branch.entries)
    return UsageError(f"`{called}` needs a subcommand", hint=f"one of: {choices}")


def overview(branch: Branch, words: tuple[str, ...]) -> str:
    """The commands below a word."""
    called = " ".join(("lattice", *words))
    shown = {word: entry for word, entry in branch.entries.items() if isinstance(entry, Branch) or not entry.is_hidden}
    width = max(map(len, shown))
    lines = [f"usage: {called} COMMAND [flags] [ARG...]", "", branch.summary, "", "commands:"]
    lines += [f"  {word:<{width}}  {entry.summary}" for word, entry in shown.items()]
    lines += ["", f"`{called} COMMAND --help` shows the flags of a command and examples.", ""]
    if not words:
        lines.insert(-1, "`lattice help topics` lists further pages.")
        lines += [_global_flags(), EXIT_CODES]
    return "\n".join(lines)


def _global_flags() -> str:
    parser = Parser(())
    add_flags(parser, vcluster=False)
    formatter = parser._get_formatter()
    formatter.start_section(f"{GLOBAL_FLAGS} (before or after the command)")
    formatter.add_arguments(parser._action_groups[-1]._group_actions)
    formatter.end_section()
    return formatter.format_help()


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
    parser.fixed = command.fixed
    command.fill(parser)
    if command.lists:
        from lattice.cli.arranged import arrange_lists

        arrange_lists(parser)
    add_flags(parser, vcluster=command.has_vcluster)
    parser.set_usage()
    return parser


def read_options(found: Invocation, command: Command[Any], process: Process) -> tuple[object, Flags]:
    """The command's record and the global flags."""
    parser = build_parser(found.words, found.leaf, command)
    arguments, tail = _dashes_joined(found.arguments, _dashed(command)), found.tail
    rest: list[str] = []
    if command.takes_rest:
        arguments, rest = parser.cut(arguments)
        if rest and tail is not None:
            rest, tail = [*rest, "--", *tail], None
        elif tail is not None and not command.takes_tail:
            rest, tail = tail, None  # `launch -n 4 -- ./solver`, as other commands are written
    if "--help" in arguments or "-h" in arguments:
        raise HelpAsked(parser.format_help(with_global="--all" in arguments))
    values = parser.values(arguments, None if command.takes_tail else tail)
    if command.takes_tail:
        values["tail"] = tail
    if command.takes_rest:
        values["rest"] = rest
    if command.complete is not None:
        values = command.complete(values, parser, process)
    options = _chosen(values, [field.name for field in fields(command.options)])
    return command.options(**options), Flags(**_chosen(values, Flags.__struct_fields__))


def _dashed(command: Command[Any]) -> frozenset[str]:
    return command.dashed | {"--sort"} if command.lists else command.dashed


def _dashes_joined(arguments: list[str], flags: frozenset[str]) -> list[str]:
    """`--sort -Name` as `--sort=-Name`, so that argparse does not read it as two flags."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in flags:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _chosen(values: Values, names: Sequence[str]) -> Values:
    """Of the values those with these names, as a record keeps them."""
    known = {name: values[name] for name in names if name in values}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
