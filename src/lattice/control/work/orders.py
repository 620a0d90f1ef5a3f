"""Orders as they follow from the state. Pure: the same state gives the same order, however often it is asked."""

from typing import Any, assert_never

from msgspec.structs import replace

from lattice.control.checkpoints.orders import checkpoint_setup
from lattice.control.work.run_files import early_signal, run_files
from lattice.core.machine.state import State
from lattice.core.model.data.copies import folder_of, key_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.memory_policy import PREFER_LOCAL
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import NO_DEMANDS, Fencing, Vcluster
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.core.model.work.allocations import Allocation, AllocationState, Part, PartPhase, RequeuePolicy, StopIntent
from lattice.core.model.work.endings import cancelled_by, preempted_for_good
from lattice.core.model.work.submissions import submission_of
from lattice.ports.nodes.agents import (
    DEFAULT_UMASK,
    FinishOrder,
    NamedPort,
    PauseOrder,
    RunKey,
    StartOrder,
    StopOrder,
    UpdateOrder,
)
from lattice.ports.nodes.data import DataOrder
from lattice.wire.files.chunks import run_prefix
from lattice.wire.slurm.variables import SlurmSettings, run_variables
from lattice.wire.work.payloads import Work
from lattice.wire.work.sessions import PLACEHOLDER

INDEX = "${INDEX}"
ONE_STEP = "srun"
HOLDERS = (ONE_STEP, "salloc")
NATIVE = SlurmSettings()
# What is made here of the work; every other field of the work goes into the order's field of the same name, as it is.
_MADE = frozenset({"argv", "script", "script_args", "env", "submit_dir", "umask", "data", "memory_policy"})
_COPIED = [name for name in Work.__struct_fields__ if name in StartOrder.__struct_fields__ and name not in _MADE]
TOKEN_SLACK_S = 600  # from the making of the token to the start of the process, and for clocks that differ


def start_order(
    state: State,
    allocation: Allocation,
    part: Part,
    work: Work,
    *,
    token: str,
    grace_s: float,
    api_url: str,
    slurm: SlurmSettings = NATIVE,
    now_ms: int = 0,
) -> StartOrder:
    """What the part's node needs to start its part of the present run."""
    share = next(share for share in allocation.shares if share.node == part.node)
    cpus, memory_mb, gpus = _limits(state, allocation, share)
    vcluster = state.vclusters.get(allocation.vcluster)
    submit_dir = work.submit_dir or work.cwd
    return StartOrder(
        **_copied(work),
        key=_key(allocation),
        allocation_id=allocation_id(allocation.number),
        name=allocation.name,
        user=allocation.account,
        nodes=allocation.nodes,
        tasks=len(allocation.shares),
        grace_s=grace_s,
        argv=_indexed(work.argv, allocation),
        script=work.script.encode(),
        script_args=_indexed(work.script_args, allocation),
        env=work.env | run_variables(state, allocation, share, submit_dir, slurm),
        submit_dir=submit_dir,
        walltime_s=float(allocation.walltime_s),
        cpus=cpus,
        memory_mb=memory_mb,
        gpus=gpus,
        task_index=allocation.task_index if allocation.group else None,
        task_group_id=allocation_id(allocation.group) if allocation.group else "",
        token=token,
        api_url=api_url,
        fence=vcluster is not None and vcluster.fencing is Fencing.STRICT,
        files=run_files(allocation, work, part.node),
        early_signal=early_signal(allocation, work),
        umask=DEFAULT_UMASK if work.umask is None else work.umask,
        submission=submission_of(allocation),
        telemetry=_first_mode(allocation, now_ms),
        vcluster=allocation.vcluster,
        node_cpus=_node_cpus(state, allocation, part.node),
        data=tuple(_data(state, allocation, each) for each in work.data),
        instance=part.instance,
        restart=allocation.restart.value,
        output_prefix=run_prefix(
            allocation.tenant, allocation.project, allocation_id(allocation.number), allocation.run
        ),
        exposes=tuple(NamedPort(name=each.name, port=each.port) for each in allocation.exposes),
        checkpoint=checkpoint_setup(state, allocation),
        memory_policy=work.memory_policy or (PREFER_LOCAL if allocation.request.prefer_local_memory else ""),
        same_numa=allocation.request.prefer_same_numa,
        **_rates(vcluster),
    )


def adapted(order: StartOrder, allocation: Allocation, part: Part) -> StartOrder:
    """The order as the part's node gets it: for the entrypoint, or only to prepare the node.

    Without an entrypoint there is all that surrounds a run, and no process of its own, no files and no limit of time. Agents of the
    release before do not know `holds`; they start a program that waits for its end. What only holds nodes for a program elsewhere
    has no process on its first node either; that node keeps its walltime, and ends it.
    """
    if not allocation.is_prepared_only(part.node):
        others = allocation.parts[len(allocation.launched) :]
        awaits = any(each.phase is PartPhase.ASSIGNED for each in others)
        if allocation.asked is None or allocation.asked.program not in HOLDERS:
            return replace(order, awaits=awaits)
        return replace(order, awaits=awaits, holds=True, argv=PLACEHOLDER, script=b"", script_args=(), files=None)
    return replace(
        order,
        holds=True,
        argv=PLACEHOLDER,
        script=b"",
        script_args=(),
        walltime_s=0.0,
        summary=False,
        files=None,
        early_signal=None,
        node_cpus=(),
        checkpoint=None,
        stage_out=(),
        probes=(),
        exposes=(),
    )


def _rates(vcluster: Vcluster | None) -> dict[str, Any]:
    """What the work of the vCluster may read and write per second."""
    demands = (vcluster.demands if vcluster is not None else None) or NO_DEMANDS
    return {"read_mb_s": demands.read_mb_s, "write_mb_s": demands.write_mb_s}


def _data(state: State, allocation: Allocation, mount: DataOrder) -> DataOrder:
    """The mount with the copy that the allocation got."""
    if not mount.hot:
        return mount
    key = key_of(mount.source)
    generation = next((use.generation for use in allocation.data if use.key == key), 0)
    if generation:
        return replace(mount, folder=folder_of(key, generation))
    copy = state.staging.copies.get(key)
    return replace(mount, reason=copy.reason if copy is not None else allocation.message)


def _node_cpus(state: State, allocation: Allocation, node: str) -> tuple[int, ...]:
    """What the script's `mpiexec` may use of each node; a script runs on the first one."""
    if len(allocation.nodes) < 2 or node != allocation.nodes[0]:
        return ()
    cpus = {share.node: _limits(state, allocation, share)[0] for share in allocation.shares}
    return tuple(cpus.get(each, 0) or 1 for each in allocation.nodes)


def _key(allocation: Allocation) -> RunKey:
    return RunKey(allocation.number, allocation.run)


def _copied(work: Work) -> dict[str, Any]:
    return {name: getattr(work, name) for name in _COPIED}


def _indexed(words: tuple[str, ...], allocation: Allocation) -> tuple[str, ...]:
    """Arguments with the index of a group's task in place of ${INDEX}."""
    if not allocation.group:
        return words
    return tuple(word.replace(INDEX, str(allocation.task_index)) for word in words)


def _limits(state: State, allocation: Allocation, share: Share) -> tuple[int, int, int]:
    """CPUs, memory limit and GPUs on the node; on a whole node memory is limited only to what was asked for."""
    if not share.whole:
        return share.cpus, share.memory_mb, share.gpus
    hardware = state.nodes[share.node].hardware
    return hardware.cpus, allocation.request.memory_mb, hardware.gpus


LEAVES = "its node leaves the service"


def stop_reason(intent: StopIntent | None) -> str:
    """The word for the node's log and for the message of a run that had not started."""
    match intent:
        case StopIntent.CANCEL:
            return "cancelled"
        case StopIntent.REQUEUE:
            return "requeued"
        case StopIntent.NODE_LOST:
            return "node_lost"
        case StopIntent.PART_FAILED:
            return "part_failed"
        case StopIntent.WALLTIME:
            return "walltime"
        case StopIntent.DEADLINE:
            return "deadline"
        case StopIntent.DRAIN:
            return "drained"
        case StopIntent.ROLLBACK:
            return "rolled_back"
        case StopIntent.PREEMPT:
            return "preempted"
        case StopIntent.DONE:
            return "done"
        case None:
            return "stopped"
        case _:
            assert_never(intent)


def stop_order(allocation: Allocation, grace_s: float, part: Part | None = None, *, taken_for: str = "") -> StopOrder:
    """For all parts of an allocation that stops, or for one instance that leaves; `taken_for` says what preempted it."""
    why = cancelled_by(allocation.cancelled_by) or stop_reason(allocation.intent)
    if allocation.intent is StopIntent.PREEMPT and allocation.requeue is RequeuePolicy.NEVER:
        why = preempted_for_good(taken_for)
    is_alone = allocation.state is not AllocationState.STOPPING and part is not None
    return StopOrder(
        key=_key(allocation),
        grace_s=grace_s,
        why=(part.message or LEAVES) if is_alone and part is not None else why,
        submission=submission_of(allocation),
        instance=part.instance if part is not None else 0,
        abandon=allocation.abandons,
    )


def pause_order(allocation: Allocation) -> PauseOrder:
    return PauseOrder(key=_key(allocation), paused=bool(allocation.paused_at))


def finish_order(allocation: Allocation) -> FinishOrder | None:
    """What only held nodes for one step ends with it, whether or not anybody still waits for that step."""
    asked = allocation.asked
    if asked is None or asked.program != ONE_STEP or not allocation.is_running:
        return None
    # Later ones were launched by the first, which continues.
    first = next((step for step in allocation.steps if step.step == 0 and step.run == allocation.run), None)
    if first is None:
        return None
    return FinishOrder(key=_key(allocation), exit_code=min(first.exit_code, 255))


def update_order(allocation: Allocation, token: str, now_ms: int, node: str = "") -> UpdateOrder:
    """A node that is only prepared keeps no walltime: it ends with the entrypoint."""
    return UpdateOrder(
        key=_key(allocation),
        walltime_s=0.0 if node and allocation.is_prepared_only(node) else float(allocation.walltime_s),
        token=token,
        telemetry=run_mode(allocation, now_ms),
    )


def run_mode(allocation: Allocation, now_ms: int) -> RunMode | None:
    """How closely the run is measured from now on; None where only ever mode prod was asked for."""
    asked = allocation.telemetry
    if asked is None:
        return None
    left_s = asked.left_s(now_ms, allocation.started_at)
    if asked.mode is Mode.DEBUG and not left_s:
        return RunMode()
    return RunMode(mode=asked.mode, interval_ms=asked.interval_ms, left_s=left_s)


def _first_mode(allocation: Allocation, now_ms: int) -> RunMode | None:
    """At the start of a run, from which it counts; one that was asked for while an earlier run lived holds for the rest of its time."""
    asked = allocation.telemetry
    if asked is None:
        return None
    if asked.since_ms:
        return run_mode(allocation, now_ms)
    return RunMode(mode=asked.mode, interval_ms=asked.interval_ms, left_s=float(asked.duration_s))


def token_lifetime_s(allocation: Allocation, *, most_s: float, grace_s: float) -> int:
    """How long a token that the allocation gets now is good: as long as its run may take, `most_s` at the most."""
    if not allocation.walltime_s:
        return int(most_s)
    return int(min(most_s, allocation.walltime_s + grace_s + TOKEN_SLACK_S))


def is_renewed(allocation: Allocation, *, most_s: float, grace_s: float) -> bool:
    """Whether the run may outlive its token."""
    return token_lifetime_s(allocation, most_s=most_s, grace_s=grace_s) == int(most_s)
