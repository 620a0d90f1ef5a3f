"""The texts of --help and --usage, from the table of options."""

from collections.abc import Iterable

from lattice.slurm.submit.options import Fate, Option, Takes

_WIDTH = 30


def usage_text(program: str) -> str:
    return f"Usage: {program} [OPTIONS...] executable [args...]\n" if program != "sbatch" else _SBATCH


_SBATCH = (
    "Usage: sbatch [-N nnodes] [-n ntasks] [-c ncpus] [-p partition] [-t minutes] [--hold] [--parsable]\n"
    "              [-J jobname] [-D path] [-o path] [-e path] [-a indexes] [-d type:jobid] executable [args...]\n"
)


def help_text(program: str, options: Iterable[Option]) -> str:
    """Every option with its treatment."""
    lines = [f"Usage: {program} [OPTIONS...] {'script' if program == 'sbatch' else 'executable'} [args...]", ""]
    for option in options:
        name = f"--{option.name}{_value(option)}"
        short = f"-{option.short}, " if option.short else "    "
        note = f"(no effect) {option.note}" if option.fate is Fate.IGNORED else option.note
        lines.append(f"  {short}{name:<{_WIDTH}}{note}".rstrip())
    return "\n".join(lines) + "\n"


def _value(option: Option) -> str:
    return {Takes.NOTHING: "", Takes.VALUE: "=value", Takes.MAYBE: "[=value]"}[option.takes]
