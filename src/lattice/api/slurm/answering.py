"""What all Slurm commands do alike: help and version, permissions, and refusals in the manner of Slurm."""

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.slurm.faults import Fault, error
from lattice.slurm.version import VERSION
from lattice.wire.slurm.commands import SlurmAnswer

MAX_ROWS = 500_000
MAX_CHARACTERS = 32 << 20


class Measure:
    """Counts what a listing has become so far. Raises Fault when it is more than one answer may hold."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._rows = self._characters = 0

    def add(self, characters: int = 0) -> None:
        """One row more."""
        self._rows += 1
        self._characters += characters
        if self._rows > MAX_ROWS or self._characters > MAX_CHARACTERS:
            raise error(
                self._program,
                f"too much for one listing (limit {MAX_ROWS} jobs or {MAX_CHARACTERS} characters); "
                "ask for fewer jobs, a shorter time or a narrower format",
            )


def version_line() -> str:
    """What every command prints for --version: the Slurm whose manners these are."""
    return f"slurm {VERSION}\n"


def require(context: Context, permission: Permission) -> None:
    """Raises ApiError unless the caller's roles reach the permission at all; what they reach is up to the operations."""
    if context.reach(permission) is Reach.NONE:
        roles = ", ".join(context.identity.roles) or "none"
        raise ApiError("forbidden", "Access/permission denied", current=f"roles: {roles}", requested=str(permission))


def printed(*lines: str, code: int = 0) -> SlurmAnswer:
    """Lines for stdout."""
    return SlurmAnswer(stdout="".join(f"{line}\n" for line in lines), code=code)


def complained(*lines: str, code: int = 1) -> SlurmAnswer:
    """Lines for stderr."""
    return SlurmAnswer(stderr="".join(f"{line}\n" for line in lines), code=code)


def faulty(fault: Fault) -> SlurmAnswer:
    return complained(*fault.lines, code=fault.code)


def refusal(program: str, error: ApiError) -> SlurmAnswer:
    """A refusal of Lattice that has no words of Slurm's own."""
    view = error.view
    figures = "; ".join(
        f"{name} {value}"
        for name, value in (("current", view.current), ("requested", view.requested), ("limit", view.limit))
        if value
    )
    lines = [f"{program}: error: {view.message}" + (f" ({figures})" if figures else "")]
    lines += [f"{program}: error: {view.hint}"] if view.hint else []
    return complained(*lines)
