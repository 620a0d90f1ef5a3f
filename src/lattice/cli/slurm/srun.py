"""`srun`: sends its line to the server, attaches to the resulting step, and exits with its code."""

import sys
from posix import environ

from lattice.cli.slurm.attending import AttachedStep, failed_file
from lattice.cli.slurm.exchange import Unreachable
from lattice.cli.slurm.own_line import STDERR, STDIN, STDOUT, names_output, unnamed
from lattice.cli.slurm.place import Place
from lattice.cli.slurm.program import Stopped, directory, go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def main(program: str) -> None:
    """Never returns."""
    go(program, _attend)


def _check_files(about: "Mapping[str, Any]") -> None:
    """Raises Stopped for a file that the line does not name."""
    argv = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in sys.argv[1:]]
    variables = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in environ.items()}
    cwd = directory()
    for field, option in (("stdin", STDIN), ("stdout", STDOUT), ("stderr", STDERR)):
        path = str(about.get(field) or "")
        if path and not names_output(argv, variables, cwd, option, path):
            raise Stopped(unnamed("srun", "open", [path]))


def _attend(place: Place, answer: "Mapping[str, Any]", noted: list[int]) -> tuple[int, str]:
    """The exit code, and what to report to the server."""
    about = answer["attend"]
    _check_files(about)
    try:
        code = AttachedStep(place, about).attend(noted)
    except Unreachable as error:
        raise Stopped(f"srun: error: {error}\n") from None
    except BrokenPipeError:
        code = 141
    except OSError as error:
        raise Stopped(failed_file(error)) from None
    return code, str(about.get("resume", "")).replace("CODE", str(code))
