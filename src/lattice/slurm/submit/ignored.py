"""Values of options that have no effect: invalid ones are refused as by Slurm, so that typos are found here."""

import re

from lattice.slurm.faults import bad_number, bad_value, error
from lattice.slurm.text.sizes import parse_count, parse_memory_mb
from lattice.slurm.text.times import parse_limit

_NUMBERS = frozenset(
    {
        *("switches", "wait-all-nodes", "threads-per-core", "ntasks-per-core", "ntasks-per-socket", "core-spec"),
        *("thread-spec", "sockets-per-node", "cores-per-socket", "ntasks-per-gpu"),
    }
)
_TIMES = frozenset({"time-min", "delay-boot"})
_HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread", "help")
_DISTRIBUTION = re.compile(
    r"(block|cyclic|arbitrary|plane=\d+|\*)(:(block|cyclic|fcyclic|\*)){0,2}(,(no)?pack)?$", re.IGNORECASE
)


def check_ignored(name: str, value: str, program: str) -> None:
    """Raises Fault for a value that Slurm would not accept."""
    if name in _NUMBERS and parse_count(value.partition("@")[0]) is None:
        raise bad_number(program, name, value)
    if name in _TIMES and parse_limit(value) is None:
        raise bad_value(program, name)
    if name == "tmp" and parse_memory_mb(value) is None:
        raise bad_value(program, name)
    if name == "hint" and value.lower() not in _HINTS:
        raise error(program, f'unrecognized --hint argument "{value}", see --hint=help')
    if name == "distribution" and not _DISTRIBUTION.match(value):
        raise bad_value(program, name)


def step_warnings(name: str, value: str, program: str) -> tuple[str, ...]:
    """The warning about an option of srun that has an effect only for some values. Raises Fault for an invalid value."""
    if name == "distribution":
        check_ignored(name, value, program)
        first, *deeper = value.lower().partition(",")[0].split(":")
        if first not in ("block", "cyclic", "*"):
            return (f"--distribution={value} has no effect: only block and cyclic are supported",)
        return ("--distribution has no effect within nodes: tasks are not pinned to sockets",) if deeper else ()
    return ()
