"""Opens terminals in running allocations: steps that take no CPUs, that their owner's clients come to and go from."""

import hashlib

from msgspec import Struct

from lattice.api.auditing import record_access
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import launch_id, not_running, refused, single, step_service_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.layout import TaskRequest
from lattice.core.model.work.steps import TERMINAL
from lattice.ports.nodes.steps import LaunchRequest, StepRefused, StepService, TerminalOrder
from lattice.wire.bounds import Argument, Short
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_argument, check_environment, check_path
from lattice.wire.work.steps import MAX_ARGUMENTS, MAX_CELLS, StepInfo, step_info

KEEP = "terminal.keep"
SHELL = "/bin/sh"
# The user's own shell, where the allocation's file system has it.
OWN_SHELL = (SHELL, "-c", 'test -x "$SHELL" && exec "$SHELL"; exec /bin/sh')
HINT = "only its owner may attach to it"


class TerminalFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A terminal to open: `command` is a line for the shell, `argv` a program with its arguments; neither means the user's shell.
    `node` is one of the allocation's (default: its first). With `keep` it waits for clients as long as the allocation runs.
    With `ends_allocation` that ends with it, and with its exit code."""

    id: str
    request_id: str = ""
    node: Short = ""
    command: Argument = ""
    argv: list[Argument] = []
    environment: dict[str, Argument] = {}
    cwd: str = ""
    rows: int = 0
    columns: int = 0
    keep: bool = False
    ends_allocation: bool = False


async def open_terminal(context: Context, fields: TerminalFields, launch: str = "") -> StepInfo:
    """The terminal, on its way to its node; a repeat of the request, or of its name `launch`, gives the same one. Raises ApiError."""
    allocation = _attachable(context, single(await find(context, fields.id)))
    await record_access(context, "allocation.attach", allocation)
    keep_s = 0.0 if fields.keep else float(setting_value(context.state.settings, KEEP))
    asked = LaunchRequest(
        launch_id=launch or TERMINAL + _digest(launch_id(context, fields.request_id, allocation)),
        argv=_argv(fields),
        task_request=_one_task(fields, allocation),
        env=check_environment(fields.environment),
        cwd=check_path(fields.cwd, "cwd"),
        pty=True,
        rows=_cells(fields.rows, "rows"),
        columns=_cells(fields.columns, "columns"),
        overlap=True,
        pmi="none",
        terminal=TerminalOrder(keep_s=keep_s, ends_run=fields.ends_allocation),
    )
    service = step_service_of(context)
    _check_not_checkpointing(service, allocation, asked)
    try:
        return step_info(await service.launch(allocation, asked))
    except StepRefused as refusal:
        raise refused(refusal) from None


def shell_of(session: Allocation) -> str:
    """The name of the terminal that a session ends with: the first one of its run, from any client."""
    return TERMINAL + _digest(f"session {session.number}/{session.run}")


def check_owner(context: Context, allocation: Allocation) -> None:
    """Raises ApiError for anybody else: what runs in a terminal runs as the owner."""
    if allocation.user != context.user:
        raise ApiError("forbidden", f"{allocation_id(allocation.number)} belongs to {allocation.user}", hint=HINT)


def _attachable(context: Context, allocation: Allocation) -> Allocation:
    check_owner(context, allocation)
    name = allocation_id(allocation.number)
    if allocation.vcluster in context.state.audit.sensitive:
        raise ApiError(
            "forbidden",
            f"{name} is sensitive work, and its terminals would have to be recorded, which is not possible yet",
            hint="`lattice logs` shows its output",
        )
    if not (allocation.is_running or allocation.state is AllocationState.STARTING):
        raise not_running(allocation)
    return allocation


def _check_not_checkpointing(service: StepService, allocation: Allocation, asked: LaunchRequest) -> None:
    """A shell of now would not be part of the checkpoint; those that are open stay. Raises ApiError."""
    if allocation.state is not AllocationState.CHECKPOINTING:
        return
    if any(view.launch_id == asked.launch_id for view in service.live(allocation.number)):
        return
    name = allocation_id(allocation.number)
    raise ApiError(
        "conflict",
        f"{name} is being checkpointed: no terminal can be opened until that is over",
        current=str(allocation.state),
        hint=f"try again when it runs: `lattice watch {name}`; terminals that are open stay open",
    )


def _argv(fields: TerminalFields) -> tuple[str, ...]:
    if fields.command and fields.argv:
        raise BadField("command", "cannot be given with argv", hint="use one of them")
    if len(fields.argv) > MAX_ARGUMENTS:
        raise BadField("argv", "has too many words", current=f"{len(fields.argv):,}", limit=f"{MAX_ARGUMENTS:,}")
    if fields.argv and not fields.argv[0]:
        raise BadField("argv", "is empty", hint="name a program to run")
    if fields.command:
        return (SHELL, "-c", check_argument(fields.command, "command"))
    return tuple(check_argument(word, f"argv[{place}]") for place, word in enumerate(fields.argv)) or OWN_SHELL


def _one_task(fields: TerminalFields, allocation: Allocation) -> TaskRequest:
    named = node_names([fields.node], "node") if fields.node else allocation.nodes[:1]
    if len(named) > 1:
        raise BadField("node", "names several nodes", hint="a terminal is on one node")
    if fields.ends_allocation and named != allocation.nodes[:1]:
        raise BadField("ends_allocation", "is for a terminal on the first node", hint=f"use {allocation.nodes[0]}")
    return TaskRequest(tasks=1, node_list=named, overcommit=True)


def _cells(value: int, field: str) -> int:
    if not 0 <= value <= MAX_CELLS:
        raise BadField(field, f"{value} is not possible", limit=f"from 0 to {MAX_CELLS:,}")
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
