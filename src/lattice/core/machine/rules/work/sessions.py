"""What an allocation to be worked in by hand may be: bounded, on its own, never run again. See docs/architecture/terminals.md."""

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Lifecycle, RequeuePolicy


def check_session(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    """Why it cannot be a session; None when it can, or is none."""
    if not command.session:
        return None
    if command.lifecycle is not Lifecycle.BOUNDED or command.tasks or command.per_node:
        return Rejected(code="invalid", message="a session is bounded, one allocation, and starts on its first node")
    if command.requeue is not RequeuePolicy.NEVER:
        return Rejected(code="invalid", message="a session is not run again: its shell would be gone")
    if vcluster.name in state.audit.sensitive:
        return Rejected(
            code="forbidden",
            message="sessions of sensitive work would have to be recorded, which is not possible yet",
            hint="Submit a script instead.",
        )
    if command.walltime_s or vcluster.default_walltime_s or vcluster.max_walltime_s:
        return None
    return Rejected(
        code="invalid",
        message="a session needs a walltime",
        hint=f'Give one, as in 2h; vCluster "{vcluster.name}" has no default.',
    )
