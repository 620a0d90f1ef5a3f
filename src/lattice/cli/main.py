"""`lattice`: reads the command line, runs one command, turns errors into a message and an exit code."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from lattice.cli.light_imports import collect_again  # isort: skip - comes before everything that is large
from lattice.cli.context import Context, Process, Streams
from lattice.cli.errors import BROKEN_PIPE, INTERRUPTED, OK, REFUSED, CommandError, UsageError, describe, exit_code
from lattice.cli.parsing import HelpAsked, find_command, load_command, read_options
from lattice.cli.registry import is_read_only
from lattice_sdk.errors import LatticeError


def main() -> NoReturn:
    code = run_line(Streams.of_process())
    # Everything is written by now; an orderly interpreter shutdown would add a tenth to the run time.
    os._exit(code)


def run_line(streams: Streams) -> int:
    """Run the command line of this process; its exit code."""
    try:
        code = execute(sys.argv[1:], Process(streams=streams))
        streams.stdout.flush()
    except KeyboardInterrupt:
        with suppress(OSError):
            streams.stdout.flush()
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return BROKEN_PIPE
    except OSError as error:
        # Everything else handles its own I/O errors; what remains is the output.
        _abandon_output()
        streams.complain(f"error: cannot write the output: {error.strerror}\n")
        return REFUSED
    return code


def _abandon_output() -> None:
    """Discard buffered output, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def execute(line: Sequence[str], process: Process) -> int:
    """Run one command line; all output goes to the streams of `process`."""
    try:
        return _run(line, process)
    except HelpAsked as asked:
        process.streams.write(str(asked))
        return OK
    except (LatticeError, CommandError) as error:
        process.streams.complain(describe(error))
        return exit_code(error)


def _run(line: Sequence[str], process: Process) -> int:
    for word in line:
        # Bytes that are not UTF-8 arrive as lone surrogates, which a request cannot carry.
        if not word.isascii() and any("\ud800" <= char <= "\udfff" for char in word):
            raise UsageError(f"an argument is not UTF-8: {word.encode('ascii', 'replace').decode()}")
    found = find_command(line)
    command = load_command(found.leaf)
    options, flags = read_options(found, command, process)
    collect_again()
    is_read = is_read_only(found.words) and not getattr(options, "watch", False)
    context = Context(process=process, flags=flags, is_read=is_read)
    try:
        return command.run(options, context)
    finally:
        context.close()
