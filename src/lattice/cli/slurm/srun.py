"""`srun`: hands its line to the server, attends to the step that comes of it, and ends with its code."""

from lattice.cli.slurm.attending import AttachedStep, failed_file
from lattice.cli.slurm.exchange import Unreachable
from lattice.cli.slurm.place import Place
from lattice.cli.slurm.program import Stopped, go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def main(program: str) -> None:
    """Never returns."""
    go(program, _attend)


def _attend(place: Place, answer: "Mapping[str, Any]", noted: list[int]) -> tuple[int, str]:
    """The exit code, and what to tell the server about it."""
    about = answer["attend"]
    try:
        code = AttachedStep(place, about).attend(noted)
    except Unreachable as error:
        raise Stopped(f"srun: error: {error}\n") from None
    except BrokenPipeError:
        code = 141
    except OSError as error:
        raise Stopped(failed_file(error)) from None
    return code, str(about.get("resume", "")).replace("CODE", str(code))
