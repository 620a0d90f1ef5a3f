"""Lines typed after a colon: a view, an allocation, or any command of `lattice`."""

import io
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lattice.cli.context import Context, Process, Streams
from lattice.cli.errors import CommandError, UsageError, describe, exit_code
from lattice.cli.flags import Flags
from lattice.cli.parsing import HelpAsked, find_command, load_command, read_options
from lattice.cli.tui.places import VIEWS
from lattice.cli.tui.search import understand
from lattice_sdk.errors import LatticeError

# Commands that talk with a person, or last: they get the terminal for themselves.
WITH_TERMINAL = frozenset(
    {"attach", "session", "run", "launch", "notebook", "app", "forward", "login", "watch", "wait", "top", "metrics"}
)
NOT_HERE = frozenset({"tui", "up", "down"})
SHORT = {"drain": ("node", "drain"), "undrain": ("node", "undrain")}


class GoTo(NamedTuple):
    address: str


class Run(NamedTuple):
    words: tuple[str, ...]
    has_terminal: bool


class Quit(NamedTuple):
    pass


def understand_order(text: str) -> GoTo | Run | Quit | None:
    """What a typed line means; None for an empty one. Raises UsageError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{text}: {str(error).lower()}") from None
    words = words[1:] if words[:1] == ("lattice",) else words
    if not words:
        return None
    first, rest = words[0], words[1:]
    if first in ("q", "quit", "exit"):
        return Quit()
    if first.split("/")[0].split("?")[0] in VIEWS and not (first in ("nodes", "usage", "timeline", "admin") and rest):
        return GoTo(_address(text))
    if not rest and understand(first, 0.0).id:
        return GoTo(f"allocations/{first}")
    if first in NOT_HERE:
        raise UsageError(f"`lattice {first}` cannot be run from here")
    if first in SHORT:
        words = (*SHORT[first], *_with_reason(rest))
    return Run(words, first in WITH_TERMINAL or (first == "logs" and bool({"-f", "--follow"} & set(rest))))


def _address(text: str) -> str:
    """A view and its filter as they were typed: the quotes belong to the filter."""
    view, _, more = text.strip().removeprefix("lattice ").strip().partition(" ")
    return f"{view}{' ' if '?' in view else '?'}{more.strip()}" if more.strip() else view


def _with_reason(words: Sequence[str]) -> tuple[str, ...]:
    """`n1 fan is loud` as `n1 --reason='fan is loud'`; flags stay as they are."""
    if len(words) < 2 or any(word.startswith("-") for word in words):
        return tuple(words)
    return (words[0], f"--reason={' '.join(words[1:])}")


def run_quietly(words: Sequence[str], context: Context) -> tuple[int, str]:
    """Run a command of `lattice` as this user at this cluster; its exit code and all that it says."""
    out = io.BytesIO()
    streams = Streams(stdin=io.BytesIO(), stdout=out, stderr=out)
    process = Process(
        streams=streams,
        environment=context.process.environment,
        directory=context.process.directory,
        clock=context.process.clock,
        program=context.process.program,
    )
    code = 0
    try:
        found = find_command(words)
        command = load_command(found.leaf)
        options, flags = read_options(found, command, process)
        inner = Context(process=process, flags=_inherited(flags, context.flags))
        try:
            code = command.run(options, inner)
        finally:
            inner.close()
    except HelpAsked as asked:
        streams.write(str(asked))
    except (LatticeError, CommandError) as error:
        streams.complain(describe(error))
        code = exit_code(error)
    except OSError as error:
        streams.complain(f"error: {error}\n")
        code = 1
    return code, out.getvalue().decode("utf-8", "replace")


def _inherited(given: Flags, outer: Flags) -> Flags:
    """What was not said is as it was said to `lattice tui`."""
    unsaid = Flags()
    names = [name for name in Flags.__struct_fields__ if getattr(given, name) == getattr(unsaid, name)]
    return replace(given, **{name: getattr(outer, name) for name in names if name not in ("output", "quiet")})


_WORDS = {
    "as_user": "--as",
    "tenant": "--tenant",
    "config": "--config",
    "api_url": "--api-url",
    "token_file": "--token-file",
    "ca_file": "--ca-file",
}


def flag_words(flags: Flags) -> list[str]:
    """The global flags of `lattice tui`, for another command."""
    words = [f"{word}={value}" for name, word in _WORDS.items() if (value := getattr(flags, name))]
    words += ["--insecure-http"] if flags.insecure_http else []
    return [*words, "--no-color"] if flags.no_color else words


def run_with_terminal(words: Sequence[str], context: Context) -> int:
    """Run a command that has the terminal for itself; its exit code."""
    program = [sys.executable, "-c", "from lattice.cli.main import main; main()"]
    # What is typed to interrupt it is not for this program. A function, so that the command itself begins with the default.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run([*program, *flag_words(context.flags), *words], check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
