"""What will probably surprise the user of a submission, one line each, for a person at a terminal.

A node may have other files and programs than this machine: these are warnings, and nothing is refused.
"""

import os

from lattice.cli.context import Context
from lattice.cli.input.submission import SubmitOptions
from lattice.cli.times import clock_text
from lattice_sdk.models.records import Allocation, Submission

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def warn_of_surprises(options: SubmitOptions, submission: Submission, allocation: Allocation, context: Context) -> None:
    """Before the id is printed; --quiet leaves them out."""
    if context.flags.quiet:
        return
    if options.walltime is None and allocation.walltime_s:
        context.warn(
            f"no --walltime: the default applies, and the work is killed after {clock_text(allocation.walltime_s)}"
        )
    for text in surprises(submission, context):
        context.warn(text)


def surprises(submission: Submission, context: Context) -> list[str]:
    found = []
    variables = context.process.environment
    active = next((name for name in ENVIRONMENTS if variables.get(name)), "")
    if active and active not in submission.environment and not submission.uenv and not submission.image:
        found.append(
            f"{active} is set here and not passed on; use --export=ALL (or `export: all` in the configuration file) to run in that environment"
        )
    output = submission.output
    for path in dict.fromkeys((output.stdout, output.stderr) if output is not None else ()):
        directory = os.path.dirname(os.path.join(submission.cwd, path)) if path else ""
        if directory and "%" not in directory and not os.path.isdir(directory):
            found.append(f"directory {directory} for the output does not exist on this machine")
    if (program := _missing_program(submission)) and not submission.uenv and not submission.image:
        found.append(f"program {program} is not found on this machine")
    return found


def _interpreter(script: str) -> list[str]:
    """What the first line of a script names; behind `env` the program that it looks for."""
    first = script.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if len(words) > 1 and os.path.basename(words[0]) == "env" and not words[1].startswith("-"):
        return words[1:]
    return words


def _missing_program(submission: Submission) -> str:
    """The program that would be started; empty when it is here, or when a shell finds it."""
    from shutil import which

    words = _interpreter(submission.script) if submission.script else submission.entrypoint
    if not isinstance(words, list) or not words:
        return ""
    program = words[0]
    if "/" in program:
        return "" if os.path.exists(os.path.join(submission.cwd, program)) else program
    return "" if which(program, path=submission.environment.get("PATH", STANDARD_PATH)) else program
