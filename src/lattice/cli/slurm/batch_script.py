"""`lattice submit` of a script with `#SBATCH` lines: the server reads it as for sbatch, and our flags override the lines.

Flags without a counterpart in Slurm cannot be combined with such lines; a script that needs them uses `#LATTICE` lines.
"""

import os
import time
from dataclasses import fields

from lattice.cli.context import Context
from lattice.cli.errors import CommandError, UsageError
from lattice.cli.input.submission import SECRET_VARIABLES, SubmitOptions, parse_pair
from lattice.slurm.text.times import parse_limit
from lattice_sdk.models.slurm import SlurmAnswer

PROGRAM = "sbatch"
_WARNING = f"{PROGRAM}: warning: "
_ERROR = f"{PROGRAM}: error: "
_NO_EFFECT = " has no effect: "
# Handled here, or part of the context.
_OWN = frozenset(
    {"script", "script_args", "command", "default_name", "env", "request_id", "wait", "dry_run", "is_batch", "places"}
)
_FLAGS = {"hold": "--hold", "exclusive": "--exclusive"}
_WORDS = {
    "name": "--job-name",
    "nodes": "--nodes",
    "gpus": "--gpus-per-node",
    "memory": "--mem",
    "cpus": "--cpus-per-task",
    "nodelist": "--nodelist",
    "exclude": "--exclude",
    "task_group": "--array",
    "export": "--export",
    "chdir": "--chdir",
    "stdout": "--output",
    "stderr": "--error",
    "stdin": "--input",
    "open_mode": "--open-mode",
    "signal": "--signal",
}
_DEFAULTS = {field.name: field.default for field in fields(SubmitOptions)}


def submit_batch_script(options: SubmitOptions, context: Context) -> str:
    """The number of the new allocation, empty after a dry run; prints warnings. Raises CommandError if it is refused."""
    path = "" if options.default_name == "" else os.path.join(context.process.directory(), options.default_name)
    answer = context.client.slurm_command(
        PROGRAM,
        _words(options, context),
        cwd=context.process.directory(),
        environment=_environment(options, context),
        script=options.script,
        script_path=path,
        host=os.uname().nodename,
        uid=os.getuid(),
        gid=os.getgid(),
        request_id=options.request_id,
    )
    _tell(answer, options, context)
    return answer.stdout.strip()


def _words(options: SubmitOptions, context: Context) -> list[str]:
    words = ["--parsable"]
    settings = context.settings
    words += [f"--partition={settings.vcluster}"] if settings.vcluster else []
    words += [f"--account={settings.tenant}"] if settings.tenant else []
    words += ["--test-only"] if options.dry_run else []
    for name, default in _DEFAULTS.items():
        value = getattr(options, name)
        if name in _OWN or value == default:
            continue
        words.append(_word(name, value))
    named = [options.default_name or "-"] if options.default_name or options.script_args else []
    return [*words, *named, *options.script_args]


def _word(name: str, value: object) -> str:
    if name in _FLAGS:
        return _FLAGS[name]
    if name in _WORDS:
        return f"{_WORDS[name]}={value}"
    if name == "walltime":
        return f"--time={_time(str(value))}"
    raise UsageError(
        f"--{name.replace('_', '-')} cannot be used with a script that has #SBATCH lines",
        hint="write its options as #LATTICE lines",
    )


def _time(text: str) -> str:
    """A walltime in Slurm's notation: 90s, 30m, 24h become minutes and seconds; Slurm's own forms are unchanged."""
    units: dict[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    if text[-1:].lower() in units and text[:-1].isdigit():
        seconds = int(text[:-1]) * units[text[-1].lower()]
        return f"{seconds // 60}:{seconds % 60}"
    if ":" in text and parse_limit(text) is not None:
        return text
    raise UsageError(f'--walltime: invalid duration "{text}"', hint="write 90s, 30m, 24h or HH:MM:SS")


def _environment(options: SubmitOptions, context: Context) -> dict[str, str]:
    found = {name: value for name, value in context.process.environment.items() if name not in SECRET_VARIABLES}
    return {**found, **dict(parse_pair(text, "--env") for text in options.env)}


def _tell(answer: SlurmAnswer, options: SubmitOptions, context: Context) -> None:
    lines = answer.stderr.splitlines()
    if answer.code:
        raise _refusal(lines, _place(lines, options))
    for line in lines:
        text = line.removeprefix(_WARNING)
        if text == line:
            context.streams.write(f"{line.removeprefix(f'{PROGRAM}: ')}\n")  # of a dry run: the predicted start
        elif _NO_EFFECT in text:
            option, _, why = text.partition(_NO_EFFECT)
            context.warn(f"#SBATCH {option} ignored ({why})")
        else:
            context.warn(text)


def _place(lines: list[str], options: SubmitOptions) -> str:
    """Which line of the script is refused: the one that is refused in the same words by itself; empty if it is none of them."""
    from lattice.slurm.faults import Fault
    from lattice.slurm.submit.directives import read_directives
    from lattice.slurm.submit.getopt import Grammar
    from lattice.slurm.submit.job import merge
    from lattice.slurm.submit.options import options_of

    grammar = Grammar(PROGRAM, options_of(PROGRAM))
    for directive in read_directives(options.script or ""):
        try:
            merge([grammar.read(directive.words).given], program=PROGRAM, now=time.time())
        except Fault as fault:
            if list(fault.lines) == lines:
                return f"{options.default_name or 'stdin'}, line {directive.line}: "
    return ""


def _refusal(lines: list[str], place: str) -> CommandError:
    texts = [line.removeprefix(_ERROR).removeprefix(f"{PROGRAM}: ") for line in lines]
    return CommandError(place + (texts[0] if texts else "the script was refused"), hint="; ".join(texts[1:]))
