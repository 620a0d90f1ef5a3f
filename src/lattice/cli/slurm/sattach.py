"""`sattach`: shows what a running step writes, and hands it what is typed here; leaving it ends nothing."""

from lattice.cli.slurm.attending import AttachedStep
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
    about = {**answer["attend"], "stdin": "", "stdout": "", "stderr": "", "detaches": True}
    if noted:
        raise KeyboardInterrupt
    try:
        return AttachedStep(place, about, program="sattach").attend([]), ""
    except Unreachable as error:
        raise Stopped(f"sattach: error: {error}\n") from None
    except BrokenPipeError:
        return 141, ""
