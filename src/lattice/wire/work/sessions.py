"""Sessions on the wire: allocations to be worked in by hand, with their terminals."""

from collections.abc import Iterable

from msgspec import Struct

from lattice.core.model.work.allocations import AllocationState
from lattice.wire.work.allocations import AllocationView
from lattice.wire.work.steps import StepInfo, StepState

# A process that only waits, until the shell of the session ends it.
PLACEHOLDER = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done")


class SessionTerminal(Struct, frozen=True, kw_only=True):
    """One terminal of a session. The session ends with the one that `ends_session`."""

    id: str
    step: int
    node: str
    state: StepState
    started_at: str | None
    ends_session: bool


class SessionView(Struct, frozen=True, kw_only=True):
    """A session is an allocation under the same ID; `reason` says why it waits, `ending` how it ended."""

    id: str
    allocation: str
    name: str
    state: AllocationState
    reason: str
    user: str
    tenant: str
    project: str
    vcluster: str
    nodes: tuple[str, ...]
    node_count: int
    walltime_s: int
    idle_end_s: int
    elapsed_s: int
    created_at: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    ending: str
    terminals: tuple[SessionTerminal, ...]
    warnings: tuple[str, ...] = ()


def session_view(view: AllocationView, steps: Iterable[StepInfo] = (), shell: str = "") -> SessionView:
    """`shell` is the launch id of the terminal that the session ends with."""
    return SessionView(
        id=view.id,
        allocation=view.id,
        name=view.name,
        state=view.state,
        reason=view.reason,
        user=view.user,
        tenant=view.tenant,
        project=view.project,
        vcluster=view.vcluster,
        nodes=view.nodes,
        node_count=view.node_count,
        walltime_s=view.walltime_s,
        idle_end_s=view.idle_end_s or 0,
        elapsed_s=view.elapsed_s,
        created_at=view.submitted_at,
        started_at=view.started_at,
        ended_at=view.completed_at,
        exit_code=view.exit_code,
        ending=view.ending or "",
        terminals=tuple(
            SessionTerminal(
                id=step.id,
                step=step.step,
                node=step.nodes[0] if step.nodes else "",
                state=step.state,
                started_at=step.started_at,
                ends_session=step.launch_id == shell,
            )
            for step in steps
            if step.is_terminal
        ),
        warnings=view.warnings or (),
    )
