"""How closely work is measured: what may be asked for, with a submission and later. See docs/architecture/telemetry.md.

Before: mode audit is asked for. After: it is sensitive work, on nodes that can say which files it touches, and stays so until it ends.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.telemetry.modes import ACCESS_FEATURE, BadMode, Mode, Telemetry, check_mode
from lattice.core.model.work.allocations import Allocation

MAX_NAMED = 10


def check_submission(command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    asked = command.telemetry
    if asked is None:
        return None
    refusal = _check(asked, vcluster)
    if refusal is not None or asked.mode is not Mode.AUDIT:
        return refusal
    if ACCESS_FEATURE in command.request.features:
        return None
    return Rejected(code="invalid", message=f"mode audit needs nodes with the feature {ACCESS_FEATURE}")


def check_update(state: State, allocation: Allocation, asked: Telemetry | None) -> Rejected | None:
    if asked is None:
        return None
    is_audited = allocation.telemetry is not None and allocation.telemetry.mode is Mode.AUDIT
    if is_audited and asked.mode is not Mode.AUDIT:
        return Rejected(
            code="conflict",
            message=f"{allocation_id(allocation.number)} is measured in mode audit until it ends",
            hint="What sensitive work touches is recorded without a gap.",
        )
    refusal = _check(asked, state.vclusters[allocation.vcluster])
    if refusal is not None or asked.mode is not Mode.AUDIT or is_audited:
        return refusal
    if not allocation.is_holding:
        return Rejected(
            code="conflict",
            message=f"{allocation_id(allocation.number)} has no nodes now",
            hint="Submit it in mode audit, or change its mode when it runs.",
        )
    without = [node for node in sorted(allocation.nodes) if ACCESS_FEATURE not in state.nodes[node].hardware.features]
    if not without:
        return None
    return Rejected(
        code="conflict",
        message=f"{len(without)} of its nodes cannot say which files work touches: {', '.join(without[:MAX_NAMED])}",
        hint="`lattice nodes NAME` says why.",
    )


def _check(asked: Telemetry | None, vcluster: Vcluster) -> Rejected | None:
    if asked is None:
        return None
    try:
        check_mode(asked)
    except BadMode as error:
        return Rejected(code="invalid", message=str(error))
    if asked.mode is not Mode.AUDIT or vcluster.scheduler == SENSITIVE:
        return None
    return Rejected(
        code="invalid",
        message=f'mode audit is for sensitive work, and vCluster "{vcluster.name}" is not of the kind {SENSITIVE}',
        hint="Use mode debug, or submit to a sensitive vCluster.",
    )
