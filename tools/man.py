"""Writes share/man from the parsers of the programs, the tables of the configuration files and those of docs/reference.

python tools/man.py            write the pages
python tools/man.py --check    fail when they are not what the code says
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

os.environ["COLUMNS"] = "98"  # the pages must not depend on who writes them

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lattice.cli.flags import GLOBAL_FLAGS  # noqa: E402 - after the width is set
from lattice.cli.parsing import EXIT_CODES, build_parser, load_command  # noqa: E402 - after the width is set
from lattice.cli.registry import COMMANDS, Branch, Leaf, leaves  # noqa: E402
from lattice.daemons.agent import hollow  # noqa: E402
from lattice.daemons.programs import agent, mover, replay, server  # noqa: E402
from tools import man_reference  # noqa: E402
from tools.man_files import FILES  # noqa: E402
from tools.roff import head, line, page, plain, verbatim  # noqa: E402

TARGET = ROOT / "share" / "man"
EVERYWHERE = GLOBAL_FLAGS
DAEMONS = (
    (server.build_parser, "serve a cluster: the API, the agents, the scheduler"),
    (agent.build_parser, "run the work of one node"),
    (mover.build_parser, "copy data to the hot tier"),
    (replay.build_parser, "replay workload traces on a simulated machine"),
)


def flag_text(action: argparse.Action) -> str:
    """How an option or argument is written."""
    value = _value(action)
    if not action.option_strings:
        return f"\\fI{plain(value)}\\fR"
    flags = ", ".join(f"\\fB{plain(flag)}\\fR" for flag in action.option_strings)
    return f"{flags} \\fI{plain(value)}\\fR" if value else flags


def _value(action: argparse.Action) -> str:
    if action.option_strings and action.nargs == 0:
        return ""
    name = action.metavar or action.dest.upper()
    text = name if isinstance(name, str) else " ".join(name)
    return f"{text} ..." if action.nargs in ("*", "+") else text


def synopsis(program: str, actions: Iterable[argparse.Action], others: str) -> list[str]:
    words = []
    for action in actions:
        text = flag_text(action).split(", ")[-1]
        is_needed = action.required if action.option_strings else action.nargs not in ("*", "?")
        words.append(text if is_needed else f"[{text}]")
    return [".SH SYNOPSIS", f".B {plain(program)}", *(word for word in words), *([others] if others else [])]


def options(actions: Iterable[argparse.Action], parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in actions:
        yield ".TP"
        yield flag_text(action)
        yield line(_help(action, parser))
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield f".SS {plain(parser.prog)} {plain(word)}"
                yield from options(own_actions(inner), inner)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "").replace("%%", "%")
    if "%(" in text:
        text = parser._get_formatter()._expand_help(action)
    if isinstance(action, argparse._SubParsersAction):
        return f"one of {', '.join(action.choices)}"
    return " ".join(text.split()) or "takes a value"


def own_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Those of the program itself, without the ones that every command has."""
    shared = {
        id(action) for group in parser._action_groups if group.title == EVERYWHERE for action in group._group_actions
    }
    return [action for action in parser._actions if id(action) not in shared and action.help is not argparse.SUPPRESS]


def command_page(words: tuple[str, ...], leaf: Leaf) -> str:
    command = load_command(leaf)
    parser = build_parser(words, leaf, command)
    actions = own_actions(parser)
    program = " ".join(("lattice", *words))
    tail = "[\\fB\\-\\-\\fR \\fICOMMAND ...\\fR]" if command.takes_tail else ""
    lines = [*head("-".join(("lattice", *words)), 1, leaf.summary), *synopsis(program, actions, tail)]
    lines += [".SH OPTIONS", *options(actions, parser)]
    lines += [".PP", "The global flags are described in", ".BR lattice (1)."]
    lines += [".SH EXAMPLES", *verbatim(command.examples)]
    lines += [".SH SEE ALSO", ".BR lattice (1)"]
    return page(lines)


def overview() -> str:
    lines = [*head("lattice", 1, "a workload scheduler for clusters"), ".SH SYNOPSIS", ".B lattice"]
    lines += ["\\fICOMMAND\\fR [flags] [\\fIARG\\fR...]", ".SH COMMANDS"]
    for words, leaf in leaves():
        if not leaf.is_hidden:
            lines += [".TP", f"\\fBlattice {plain(' '.join(words))}\\fR", line(leaf.summary)]
    first = next(iter(leaves()))
    parser = build_parser(first[0], first[1], load_command(first[1]))
    shared = next(group for group in parser._action_groups if group.title == EVERYWHERE)
    lines += [".SH GLOBAL FLAGS", *options(shared._group_actions, parser)]
    lines += [".SH EXIT STATUS", *verbatim(EXIT_CODES.splitlines()[1:])]
    pages = ", ".join(f"\\fBlattice\\-{plain(word)}\\fR" for word, entry in COMMANDS.items() if _has_page(entry))
    lines += [".SH SEE ALSO", f"{pages} (1), \\fBlattice\\-server\\fR (1), \\fBlattice\\-agent\\fR (1)"]
    return page(lines)


def _has_page(entry: Leaf | Branch) -> bool:
    return isinstance(entry, Leaf) and not entry.is_hidden


def daemon_page(parser: argparse.ArgumentParser, summary: str) -> str:
    actions = own_actions(parser)
    lines = [*head(parser.prog, 1, summary), *synopsis(parser.prog, [], "[\\fIOPTIONS\\fR]")]
    lines += [".SH DESCRIPTION", line(parser.description or summary), ".SH OPTIONS", *options(actions, parser)]
    if parser.prog == "lattice-agent":
        pretended = hollow.build_parser()
        lines += [".SH HOLLOW NODES", line(pretended.description or "")]
        lines += options(own_actions(pretended), pretended)
    return page([*lines, ".SH SEE ALSO", ".BR lattice (1)"])


def file_page(name: str) -> str:
    described = FILES[name]
    lines = [*head(name, 5, described.summary), ".SH DESCRIPTION"]
    lines += [line(text) for paragraph in described.paragraphs for text in (paragraph, "")][:-1]
    lines += [".SH FIELDS"]
    for field, text in described.fields:
        lines += [".TP", f"\\fB{plain(field)}\\fR", line(text)]
    lines += [".SH EXAMPLE", *verbatim(described.example.splitlines())]
    lines += [".SH SEE ALSO", ".BR lattice\\-admin\\-node\\-import (1)"]
    return page(text if text else ".PP" for text in lines)


def pages() -> dict[Path, str]:
    """Every page by its place below the target."""
    found = {Path("man1/lattice.1"): overview()}
    for words, leaf in leaves():
        if not leaf.is_hidden:
            found[Path("man1") / f"{'-'.join(('lattice', *words))}.1"] = command_page(words, leaf)
    for build, summary in DAEMONS:
        parser = build()
        found[Path("man1") / f"{parser.prog}.1"] = daemon_page(parser, summary)
    for name in FILES:
        found[Path("man5") / f"{name}.5"] = file_page(name)
    return found | man_reference.pages()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    wanted = {TARGET / place: text for place, text in pages().items()}
    present = {path for path in TARGET.rglob("*") if path.is_file()}
    changed = [path for path, text in wanted.items() if path not in present or path.read_text() != text]
    surplus = sorted(present - wanted.keys())
    if is_check:
        for path in (*changed, *surplus):
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what the code says; run `make docs`\n")
        return 1 if changed or surplus else 0
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
    for path in surplus:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
