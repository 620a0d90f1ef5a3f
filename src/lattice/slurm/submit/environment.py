"""Variables that set options (`SBATCH_TIMELIMIT`): the command line overrides them, and they override the script."""

from collections.abc import Mapping

from lattice.slurm.submit.getopt import Given, Grammar
from lattice.slurm.submit.options import Takes

_PREFIX = {"sbatch": "SBATCH_", "salloc": "SALLOC_", "srun": "SLURM_"}
# Variables that are not simply the option in capitals.
_NAMES = {
    "TIMELIMIT": "time",
    "ARRAY_INX": "array",
    "JOBID": "jobid",
    "WAIT4SWITCH": "switches",
    "REQ_SWITCH": "switches",
    "CORE_SPEC": "core-spec",
    "DELAY_BOOT": "delay-boot",
    "NO_KILL": "no-kill",
    "STDERRMODE": "error",
    "STDINMODE": "input",
    "STDOUTMODE": "output",
    "LABELIO": "label",
    "UNBUFFEREDIO": "unbuffered",
}
# Set by Slurm itself inside jobs with another meaning, or too general for an option of srun.
_NOT_OPTIONS = frozenset({"JOB_NAME", "VERSION", "HELP", "USAGE", "WRAP", "PARSABLE", "TEST_ONLY", "CHDIR"})
_FLAG_OFF = frozenset({"0", "no", "false"})


def environment_options(grammar: Grammar, environment: Mapping[str, str]) -> tuple[Given, ...]:
    """The options from variables, in the order of their names; unknown variables are ignored."""
    prefix = _PREFIX[grammar.program]
    given = []
    for name in sorted(environment):
        if not name.startswith(prefix):
            continue
        word = name[len(prefix) :]
        option = grammar.long.get(_NAMES.get(word, word.lower().replace("_", "-")))
        if option is None or (word in _NOT_OPTIONS and not (word == "JOB_NAME" and prefix == "SBATCH_")):
            continue
        value = environment[name]
        if option.takes is Takes.NOTHING and value.lower() in _FLAG_OFF:
            continue
        given.append(Given(option, "" if option.takes is Takes.NOTHING else value))
    return tuple(given)
