"""Allocations, tasks and task groups as rows of Slurm's listings."""

from collections.abc import AsyncIterator, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.find.prospects import Prospects
from lattice.api.pacing import Pace
from lattice.api.slurm.accounts import group_name, user_ids
from lattice.api.slurm.rows.steps import steps_of
from lattice.api.slurm.submit.translation import NO_LIMIT_S
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Cause,
    Hold,
    RequeuePolicy,
    TaskGroup,
)
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency, is_hopeless
from lattice.core.model.work.efficiency import finite
from lattice.ports.scheduling import Outlook
from lattice.slurm.listings.rows import JobRow, StepRow, TakenRow
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.patterns import ARRAY_DEFAULT, BATCH_DEFAULT, fill
from lattice.slurm.text.reasons import waiting_word
from lattice.slurm.text.states import State, end_reason, state_of
from lattice.wire.text.endings import ending_of
from lattice.wire.text.tasks import indices_text

_NOTHING_ASKED = Asked()
_CONDITIONS = {  # partial: MUTEX names no job, see _condition
    Condition.SUCCESS: "afterok",
    Condition.FAILURE: "afternotok",
    Condition.ANY: "afterany",
    Condition.CORRESPONDING: "aftercorr",
    Condition.AFTER: "after",
}
_TOP_PRIORITY = 1_000_000
_OOM_SIGNAL = 125
NEVER = "DependencyNeverSatisfied"


class Depth(Enum):
    """How much of a row is filled in: what most listings show, all that the record says, or also what has to be asked for."""

    BRIEF = "brief"
    USUAL = "usual"
    FULL = "full"


class JobRows:
    """Makes the rows of one listing; what is alike for many of them is found out once."""

    def __init__(self, context: Context, depth: Depth = Depth.USUAL) -> None:
        self._context = context
        self._state = context.state
        self._names = context.services.slurm
        self._scheduling = context.services.scheduling
        self._depth = depth
        self._now_ms = context.services.clock.now_ms()
        self._prospects = Prospects(self._state, self._scheduling, self._now_ms)
        self._partitions: dict[str, str] = {}
        self._qos: dict[int, str] = {}
        self._words: dict[str, str] = {}
        self._behind = self._scheduling.behind()

    def row(self, record: Allocation) -> JobRow:
        """The row of a job or of a single task."""
        group = self._state.groups.get(record.group) if record.group else None
        return self._row(
            record,
            array_number=record.group,
            array_index=record.task_index if record.group else None,
            array_limit=group.concurrency if group is not None else 0,
        )

    async def rows(self, entries: Iterable[Allocation | TaskGroup]) -> AsyncIterator[JobRow]:
        """One row for each; a group stands for its tasks that wait. Others get their turn in between."""
        pace = Pace()
        for entry in entries:
            yield self.waiting_row(entry) if isinstance(entry, TaskGroup) else self.row(entry)
            if pace.is_due():
                await pace.rest()

    def waiting_row(self, group: TaskGroup) -> JobRow:
        """The one row of all tasks that still wait as entries of their group."""
        return self._row(
            group.template,
            number=group.number,
            array_number=group.number,
            waiting=indices_text(group, group.pending),
            array_limit=group.concurrency,
            hold=group.hold_at(group.pending[0][0]),
            waits_for=group.waits_at(group.pending[0][0]),
        )

    def _row(
        self,
        record: Allocation,
        *,
        number: int = 0,
        array_number: int = 0,
        array_index: int | None = None,
        waiting: str = "",
        array_limit: int = 0,
        hold: Hold | None = None,
        waits_for: Clauses | None = None,
    ) -> JobRow:
        number = number or record.number
        asked = record.asked or _NOTHING_ASKED
        state = State.SUSPENDED if record.paused_at else state_of(record.state, record.cause or "")
        hold = record.hold if hold is None else hold
        waits_for = record.waits_for if waits_for is None else waits_for
        outlook = self._scheduling.outlook(number) if self._depth is Depth.FULL and state.is_waiting else None
        row = JobRow(
            number=number,
            name=record.name,
            user=record.account or record.user,
            partition=asked.partition or self._partition(record.vcluster),
            account=record.tenant,
            qos=asked.qos or self._qos_of(record.preemption_class),
            state=state,
            reason=self._reason(record, number, hold, waits_for),
            priority=self._priority(record, hold, None if outlook is None else outlook.scores.get("total")),
            array_number=array_number,
            array_index=array_index,
            waiting=waiting,
            array_limit=array_limit,
            nodes=() if state.is_waiting else record.nodes,
            min_nodes=record.request.nodes,
            reservation=asked.reservation,
            time_limit_s=0 if record.walltime_s == NO_LIMIT_S else record.walltime_s,
            submitted_at=record.submitted_at / 1000,
            started_at=None if state.is_waiting or not record.started_at else record.started_at / 1000,
            ended_at=record.ended_at / 1000 if record.ended_at else None,
        )
        if self._depth is Depth.BRIEF:
            return row
        eligible_at = None if waits_for or hold else max(record.eligible_at, record.submitted_at) / 1000
        dependency = self._dependency(waits_for, asked) if waits_for else ""
        row = self._usual(replace(row, eligible_at=eligible_at, dependency=dependency), record, asked)
        return row if self._depth is Depth.USUAL else self._filled(row, record, asked, outlook)

    def _usual(self, row: JobRow, record: Allocation, asked: Asked) -> JobRow:
        """The row with everything that the record itself says."""
        request = record.request
        asked = self._permitted(record, asked)
        ntasks = asked.ntasks or max(1, (len(record.shares) or request.nodes) * asked.ntasks_per_node)
        code, signal = exit_of(record, row.state)
        uid, gid = (asked.uid, asked.gid) if asked.uid or asked.gid else user_ids(row.user)
        return replace(
            row,
            uid=uid,
            gid=gid,
            group=group_name(gid),
            cancelled_by=uid if row.state is State.CANCELLED else None,
            max_nodes=request.max_nodes,
            cpus=self._cpus(record, asked, ntasks, row.state),
            ntasks=ntasks,
            exit_code=code,
            signal=signal,
            deadline_at=record.deadline_at / 1000 if record.deadline_at else None,
            system_comment=ending_of(record),
            restarts=record.restart_count,
            taken=tuple(
                TakenRow(nodes=each.nodes, started_at=each.started_at / 1000, ended_at=each.ended_at / 1000)
                for each in record.taken
            ),
            cpu_s=finite(record.cpu_s),
            peak_memory_mb=record.peak_memory_mb,
            held_memory_mb=record.held_memory_mb or request.memory_mb,
            **_requests(record, asked),
        )

    def _permitted(self, record: Allocation, asked: Asked) -> Asked:
        """What was asked for without what only its owner and administrators may read."""
        context = self._context
        if record.user == context.user or record.asked is None:
            return asked
        if context.covers(Permission.READ_DETAILS, user=record.user, tenant=record.tenant):
            return asked
        return replace(asked, command="", arguments="", work_dir="", stdin="", stdout="", stderr="", comment="")

    def _filled(self, row: JobRow, record: Allocation, asked: Asked, outlook: Outlook | None) -> JobRow:
        """The row with what takes longer to find out."""
        asked = self._permitted(record, asked)
        stdout = _file(asked.stdout or _default_output(row, asked), row)
        moment = self._prospects.earliest_start(record) if row.state.is_waiting else None
        expected = None if moment is None else moment / 1000
        return replace(
            row,
            started_at=expected if row.state.is_waiting else row.started_at,
            scheduled_nodes="" if outlook is None else fold(outlook.predicted_nodes),
            stdout=stdout,
            stderr=_file(asked.stderr, row) if asked.stderr else stdout,
            steps=tuple(self._steps(record, row.state)),
        )

    def _partition(self, vcluster: str) -> str:
        name = self._partitions.get(vcluster)
        if name is None:
            name = self._partitions[vcluster] = self._names.partition_of(vcluster)
        return name

    def _qos_of(self, preemption_class: int) -> str:
        name = self._qos.get(preemption_class)
        if name is None:
            name = self._qos[preemption_class] = self._names.qos_of(preemption_class)
        return name

    def _reason(self, record: Allocation, number: int, hold: Hold, waits_for: Clauses) -> str:
        if record.state is AllocationState.CANCELLED and record.cause is Cause.DEPENDENCY:
            return NEVER
        if not record.is_waiting:
            return end_reason(record.state, record.cause or "")
        if hold is not Hold.NONE:
            return "JobHeldAdmin" if hold is Hold.OPERATOR else "JobHeldUser"
        if waits_for:
            return NEVER if is_hopeless(waits_for) else "Dependency"
        if record.eligible_at > self._now_ms:
            return "BeginTime"
        if number in self._behind:
            return "Priority"
        sentence = self._scheduling.reason_for(number)
        if not sentence and record.asked is not None and record.asked.never:
            return record.asked.never
        word = self._words.get(sentence)
        if word is None:
            word = self._words[sentence] = waiting_word(sentence)
        return word

    def _priority(self, record: Allocation, hold: Hold, score: float | None) -> int:
        """Out of a million; held jobs have none. Work that runs is shown by its class."""
        if record.is_queued and hold is not Hold.NONE:
            return 0
        return max(1, int((record.preemption_class / 10 if score is None else score) * _TOP_PRIORITY))

    def _cpus(self, record: Allocation, asked: Asked, ntasks: int, state: State) -> int:
        """Those of its nodes, or of its part of them; of one that waits what it asked for."""
        if record.is_terminal and record.held_cpus:
            return record.held_cpus
        if state.is_waiting or not record.shares:
            request = record.request
            return max(ntasks * (asked.cpus_per_task or 1), request.cpus * request.nodes, request.nodes)
        nodes = self._state.nodes
        cpus = 0
        for share in record.shares:
            node = nodes.get(share.node)
            cpus += share.cpus or (node.hardware.cpus if node is not None else 1)
        return cpus

    def _dependency(self, clauses: Clauses, asked: Asked) -> str:
        """What it still waits for, in Slurm's notation."""
        if is_hopeless(clauses):
            return ",".join(f"{text}(failed)" for text in asked.dependency.split(",") if text)
        return ",".join("?".join(self._condition(each) for each in clause) for clause in clauses)

    def _condition(self, each: Dependency) -> str:
        if each.condition is Condition.MUTEX:
            return "singleton(unfulfilled)"
        delay = f"+{each.delay_s // 60}" if each.delay_s else ""
        return f"{_CONDITIONS[each.condition]}:{self._job_id(each.number)}{delay}(unfulfilled)"

    def _job_id(self, number: int) -> str:
        if number in self._state.groups:
            return f"{number}_*"
        group = self._state.group_of(number)
        return str(number) if group is None else f"{group.number}_{group.index_at(number - group.number - 1)}"

    def _steps(self, record: Allocation, state: State) -> Iterator[StepRow]:
        service = self._context.services.steps
        live = service.live(record.number) if service is not None and record.is_holding else ()
        return steps_of(record, state, live, self._batch_cpus(record))

    def _batch_cpus(self, record: Allocation) -> int:
        share = record.shares[0] if record.shares else None
        node = None if share is None else self._state.nodes.get(share.node)
        return 0 if share is None else share.cpus or (1 if node is None else node.hardware.cpus)


def exit_of(record: Allocation, state: State) -> tuple[int, int]:
    """Exit code and signal of the job itself, as Slurm counts them."""
    if state is State.OUT_OF_MEMORY:
        return 0, _OOM_SIGNAL
    if state is State.NODE_FAIL:
        return 1, 0
    if state is not State.FAILED:
        return 0, 0
    return (0, record.signal) if record.signal else (record.exit_code or (0 if record.exit_code == 0 else 1), 0)


@lru_cache(maxsize=32)  # ten thousand names take 20 ms, and users name the same ones again and again
def _folded(nodes: tuple[str, ...]) -> str:
    return fold(nodes)


def _requests(record: Allocation, asked: Asked) -> dict[str, Any]:
    """What was asked for and is shown as it was written."""
    request = record.request
    return {
        "cpus_per_task": asked.cpus_per_task or 1,
        "tasks_per_node": asked.ntasks_per_node,
        "memory_mb": max(0, asked.memory_mb) or (0 if asked.memory_per_cpu_mb else request.memory_mb),
        "memory_per_cpu_mb": asked.memory_per_cpu_mb,
        "gpus": request.gpus * (len(record.shares) or request.nodes),
        "gres": asked.gres or (f"gpu:{request.gpus}" if request.gpus else ""),
        "features": asked.features or "&".join(request.features),
        "wanted_nodes": _folded(request.node_list) if request.node_list else "",
        "excluded_nodes": _folded(request.exclude) if request.exclude else "",
        "may_requeue": record.requeue is not RequeuePolicy.NEVER,
        "is_batch": asked.program == "sbatch",
        "submit_host": asked.host,
        "comment": asked.comment,
        "wckey": asked.wckey,
        "work_dir": asked.work_dir,
        "command": f"{asked.command} {asked.arguments}".strip(),
        "stdin": asked.stdin or "/dev/null",
        "stdout": asked.stdout,
        "stderr": asked.stderr,
    }


def _default_output(row: JobRow, asked: Asked) -> str:
    if asked.program != "sbatch" or not asked.work_dir:
        return ""
    return ARRAY_DEFAULT if row.array_number else BATCH_DEFAULT


def _file(pattern: str, row: JobRow) -> str:
    """The path of an output file; of what is not known yet the pattern stays."""
    values = {
        "j": str(row.number),
        "J": str(row.number),
        "A": str(row.array_number or row.number),
        "x": row.name,
        "u": row.user,
    }
    if row.array_index is not None:
        values["a"] = str(row.array_index)
    if row.nodes:
        values |= {"N": row.nodes[0], "n": "0", "t": "0"}
    path = fill(pattern, values)
    return path if not path or path.startswith("/") else f"{row.work_dir}/{path}"
