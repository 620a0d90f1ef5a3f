"""Judges updates of services: what runs next, when an instance may be started with it, and when it is taken back.

What holds: one update at a time; every instance has the revision that is wanted or the one before; an instance is replaced on its own
node, which it holds meanwhile. See docs/architecture/services.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.machine.transitions import PartTrigger, next_part_phase
from lattice.core.model.ids import allocation_id
from lattice.core.model.services.rollouts import Rollout, RolloutPhase, ServiceRevision
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import Allocation, AllocationState, PartPhase

Events = tuple[ev.AnyEvent, ...]
ASKED = "its user took it back"


def revise(state: State, command: cmd.ReviseService, actor: str, at: int) -> Events | Rejected:
    """A new revision, to which the instances go one after the other."""
    found = _service(state, command.number)
    if isinstance(found, Rejected):
        return found
    refusal = _check_open(found)
    if refusal is not None:
        return refusal
    # The request was made of the description of `base`; of another one it would take back what somebody else changed.
    if command.base != found.revision:
        return Rejected(
            code="conflict",
            message=f"{allocation_id(found.number)} is at revision {found.revision + 1} by now",
            hint="Look at `lattice service history`, and update it again.",
        )
    if command.payload == state.payloads[found.number]:
        return Rejected(
            code="conflict",
            message=f"{allocation_id(found.number)} runs exactly this already",
            hint="Change something: its command, environment, image or probes.",
        )
    rollout = _rollout(state, found, command.max_unavailable, command.ready_within_s, at, probed=command.probed)
    revision = ServiceRevision(
        number=found.number,
        revision=rollout.target,
        at=at,
        by=actor or found.user,
        payload=command.payload,
        probed=command.probed,
        note=command.note,
    )
    return (ev.ServiceRevised(number=found.number, revision=revision, rollout=rollout),)


def roll_back(state: State, command: cmd.RollBackService, actor: str, at: int) -> Events | Rejected:
    """Takes an open update back, or runs an earlier revision again under a new number."""
    found = _service(state, command.number)
    if isinstance(found, Rejected):
        return found
    rollout = found.rollout
    if rollout is not None and rollout.phase is RolloutPhase.ROLLING and command.to in (None, rollout.former):
        return (turned(found, rollout, ASKED),)
    refusal = _check_open(found)
    if refusal is not None:
        return refusal
    chosen = _earlier(state, found, command.to)
    if isinstance(chosen, Rejected):
        return chosen
    forward = _rollout(state, found, command.max_unavailable, command.ready_within_s, at, probed=chosen.probed)
    revision = replace(
        chosen,
        revision=forward.target,
        at=at,
        by=actor or found.user,
        note=f"revision {chosen.revision + 1} again",
        taken_back="",
    )
    return (ev.ServiceRevised(number=found.number, revision=revision, rollout=forward),)


def renew(state: State, command: cmd.RenewInstance) -> Events | Rejected:
    """The instance is ended first; it starts again when its node has reported that.

    How many may be away at a time is the business of the loop that proposes this, which sees who is ready; the state does not.
    """
    found = state.allocations.get(command.number)
    part = None
    if found is not None and found.run == command.run and found.is_running:
        part = next((each for each in found.parts if each.node == command.node), None)
    if found is None or part is None or found.rollout is None or not found.rollout.is_open:
        return _stale(command.number, f"has no instance on node {command.node} to be updated")
    if command.revision != found.revision or found.revision_of(part.node) == found.revision:
        return _stale(command.number, f"is to have revision {found.revision + 1}")
    if part.phase is PartPhase.LEAVING or next_part_phase(part.phase, PartTrigger.LEAVE) is None:
        return _stale(command.number, f"has an instance on node {command.node} that is being stopped")
    going = replace(part, phase=PartPhase.LEAVING, message=f"it is updated to revision {found.revision + 1}")
    rollout = replace(found.rollout, renewing=(*found.rollout.renewing, part.node))
    return (
        ev.RolloutChanged(number=found.number, rollout=rollout),
        ev.PartChanged(number=found.number, part=going),
    )


def turn(state: State, command: cmd.TurnRollout) -> Events | Rejected:
    found = state.allocations.get(command.number)
    rollout = None if found is None else found.rollout
    if found is None or rollout is None or found.is_terminal or rollout.phase is not RolloutPhase.ROLLING:
        return _stale(command.number, "is not being updated")
    if rollout.target != command.revision:
        return _stale(command.number, f"is on its way to revision {rollout.target + 1}")
    return (turned(found, rollout, command.reason),)


def end(state: State, command: cmd.EndRollout, at: int) -> Events | Rejected:
    """Only when every instance has the wanted revision."""
    found = state.allocations.get(command.number)
    rollout = None if found is None else found.rollout
    if found is None or rollout is None or not rollout.is_open or not found.is_running:
        return _stale(command.number, "is not being updated")
    if command.revision != found.revision or any(
        found.revision_of(part.node) != found.revision for part in found.parts
    ):
        return _stale(command.number, f"has instances of other revisions than {command.revision + 1}")
    is_back = rollout.phase is RolloutPhase.TAKING_BACK
    phase = RolloutPhase.TAKEN_BACK if is_back else RolloutPhase.DONE
    over = replace(rollout, phase=phase, ended_at=at, updated=(), renewing=())
    return (ev.RolloutChanged(number=found.number, rollout=over),)


def turned(record: Allocation, rollout: Rollout, reason: str) -> ev.RolloutChanged:
    """The former revision is wanted again."""
    return ev.RolloutChanged(
        number=record.number, rollout=replace(rollout, phase=RolloutPhase.TAKING_BACK, reason=reason)
    )


# A number is above all that were ever given for the service, taken back or not: nodes and users tell revisions apart by it.
def _rollout(
    state: State, found: Allocation, max_unavailable: int, ready_within_s: int, at: int, *, probed: bool
) -> Rollout:
    newest = max(state.revisions.of(found.number), default=found.revision)
    return Rollout(
        target=newest + 1,
        former=found.revision,
        began_at=at,
        max_unavailable=max(1, max_unavailable),
        ready_within_s=max(1, ready_within_s),
        target_probed=probed,
        former_probed=found.probed,
    )


def _service(state: State, number: int) -> Allocation | Rejected:
    """A service that has not ended, and whose instances can be replaced each for itself."""
    found, label = state.allocations.get(number), allocation_id(number)
    if found is None:
        return Rejected(code="not_found", message=f"{label} does not exist")
    if not found.has_instances:
        return Rejected(
            code="conflict",
            message=f"{label} is no service with an instance on each node",
            hint="Only unbounded and reactive work is updated in place; submit the rest again.",
        )
    if found.group:
        return Rejected(
            code="conflict",
            message=f"{label} is a task of {allocation_id(found.group)}, and runs what all its tasks run",
            hint="Submit services that are updated one by one, not as a task group.",
        )
    if found.is_terminal or found.state is AllocationState.STOPPING:
        return Rejected(
            code="conflict",
            message=f"{label} is {found.state}; only a service that runs or waits can be updated",
            hint=f"Submit it again: lattice resubmit {label}",
        )
    vcluster = state.vclusters.get(found.vcluster)
    if vcluster is not None and vcluster.scheduler == SENSITIVE:
        return Rejected(code="conflict", message="sensitive work cannot be changed after its submission")
    return found


def _check_open(found: Allocation) -> Rejected | None:
    rollout = found.rollout
    if rollout is None or not rollout.is_open:
        return None
    label = allocation_id(found.number)
    is_rolling = rollout.phase is RolloutPhase.ROLLING
    doing = "updated to" if is_rolling else "taken back to"
    other = f", or take it back: lattice service rollback {label}" if is_rolling else "."
    return Rejected(
        code="conflict",
        message=f"{label} is being {doing} revision {rollout.wanted + 1}",
        hint=f"Wait for its end (lattice service history {label}){other}",
    )


def _earlier(state: State, found: Allocation, wanted: int | None) -> ServiceRevision | Rejected:
    kept, label = state.revisions.of(found.number), allocation_id(found.number)
    if wanted is None:
        before = [each for each in kept.values() if each.revision < found.revision and not each.taken_back]
        if before:
            return before[-1]
        return Rejected(
            code="conflict", message=f"{label} has no earlier revision", hint="It was never updated successfully."
        )
    if wanted == found.revision:
        return Rejected(code="conflict", message=f"{label} runs revision {wanted + 1} already")
    if wanted in kept:
        return kept[wanted]
    known = ", ".join(str(each + 1) for each in kept) or "1"
    return Rejected(code="conflict", message=f"{label} has no revision {wanted + 1}", hint=f"It has {known}.")


def _stale(number: int, what: str) -> Rejected:
    return Rejected(code="stale", message=f"{allocation_id(number)} {what}")
