"""Files that say which ranks run which program: `0-3,7 program arguments`, one line each; `*` means all other ranks."""

import shlex

from lattice.cli.errors import UsageError
from lattice_sdk.models.steps import StepProgram

ALL_RANKS = "0-65535"


def read_programs(text: str, name: str) -> list[StepProgram]:
    """The programs, those for particular ranks behind the one for all; UsageError names the line that cannot be read."""
    programs = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"{name}, line {number}: {error}") from None
        if not words:
            continue
        ranks, *argv = words
        is_readable = ranks == "*" or all(part.replace("-", "", 1).isdigit() for part in ranks.split(","))
        if not argv or not is_readable:
            raise UsageError(
                f'{name}, line {number}: cannot read "{line.strip()[:60]}"', hint="write: 0-3,7 PROGRAM ..."
            )
        programs.append(StepProgram(ranks=ALL_RANKS if ranks == "*" else ranks, argv=argv))
    if not programs:
        raise UsageError(f"{name} names no program")
    return sorted(programs, key=lambda program: program.ranks != ALL_RANKS)
