"""Errors in a Slurm command line, script or value, with the messages and exit codes of Slurm's own programs."""


class Fault(Exception):
    """Complete lines for stderr, and the exit code."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


WRONG_LINE = 255


def usage_fault(program: str, text: str) -> Fault:
    """A command line that getopt would refuse."""
    return Fault(f"{program}: {text}", f'Try "{program} --help" for more information', code=WRONG_LINE)


def error(program: str, text: str, *, code: int = 1) -> Fault:
    return Fault(f"{program}: error: {text}", code=code)


def bad_value(program: str, option: str) -> Fault:
    """The value of an option is invalid."""
    return error(program, f"Invalid --{option} specification", code=WRONG_LINE)


def bad_number(program: str, option: str, value: str) -> Fault:
    """A count that is not a number, or too small."""
    return error(program, f'Invalid numeric value "{value}" for --{option}.')
