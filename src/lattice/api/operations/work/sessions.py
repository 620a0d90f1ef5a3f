"""Sessions: allocations to be worked in by hand. Each ends with its shell, and with that one's exit code."""

from msgspec import Struct
from msgspec.structs import replace

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.find.lookup import Found, find, find_number, view_of
from lattice.api.find.selection import Selection, pick
from lattice.api.find.states import parse_states
from lattice.api.limits import DEFAULT_PAGE, MAX_PAGE
from lattice.api.operations.work.steps import steps_of
from lattice.api.operations.work.submit import submit_session
from lattice.api.running.step_launch import single
from lattice.api.running.terminal_launch import TerminalFields, check_owner, open_terminal, shell_of
from lattice.core.machine.commands import CancelAllocation
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import TERMINAL, Allocation, AllocationState
from lattice.wire.bounds import Argument
from lattice.wire.text.problems import BadField
from lattice.wire.work.sessions import PLACEHOLDER, SessionView, session_view
from lattice.wire.work.steps import StepInfo
from lattice.wire.work.submissions import Submission

NAME = "session"
_LIVE = frozenset(AllocationState) - TERMINAL


class SessionQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `state` and `all`, those that have not ended."""

    state: list[str] = []
    user: str = ""
    tenant: str = ""
    all: bool = False
    limit: int | None = None
    cursor: str = ""


class GetSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class EndSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""


class SessionTerminalFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shell of a session, on its first node. `environment`, `rows` and `columns` count when this call opens it."""

    id: str
    request_id: str = ""
    environment: dict[str, Argument] = {}
    rows: int = 0
    columns: int = 0
    keep: bool = False


async def create_session(context: Context, request: Submission) -> SessionView:
    """Request nodes to work on by hand. The session waits as other work does; its terminal opens when it runs."""
    _refuse(request)
    name = request.name or NAME
    view = await submit_session(context, replace(request, name=name, entrypoint=list(PLACEHOLDER)))
    return session_view(view)


async def list_sessions(context: Context, request: SessionQuery) -> Page[SessionView]:
    """List the sessions that the caller may see, newest first."""
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    before = read_cursor(request.cursor, tuple[int])[0] if request.cursor else None
    wanted = Selection(
        states=parse_states(request.state) or (frozenset() if request.all else _LIVE),
        scope=context.scope(Permission.READ, request.tenant),
        user=request.user,
        sessions=True,
    )
    found, more = await pick(context, wanted, before, limit, with_archive=request.all)
    cursor = make_cursor(found[-1].number) if more else None
    return Page(items=[_view(context, each) for each in found], next_cursor=cursor)


async def get_session(context: Context, request: GetSession) -> SessionView:
    """Get one session with its terminals."""
    found = await find(context, request.id)
    _session(single(found))
    return _view(context, found)


async def end_session(context: Context, request: EndSession) -> SessionView:
    """End a session: what runs in it gets SIGTERM, then SIGKILL after the grace period."""
    found = await find(context, request.id, Permission.CHANGE)
    record = _session(single(found))
    if found.is_archived:
        raise ApiError("conflict", f"session {allocation_id(found.number)} is already {found.state}")
    await context.carry_out(CancelAllocation(number=record.number), request.request_id)
    return _view(context, await find_number(context, found.number) or found)


async def open_session_terminal(context: Context, request: SessionTerminalFields) -> StepInfo:
    """The shell of a running session, opened by the first call; the session ends with it, and with its exit code."""
    record = single(await find(context, request.id))
    check_owner(context, record)
    _session(record)
    wanted = TerminalFields(
        id=request.id,
        environment=request.environment,
        rows=request.rows,
        columns=request.columns,
        keep=request.keep,
        ends_allocation=True,
    )
    return await open_terminal(context, wanted, launch=shell_of(record))


def _refuse(request: Submission) -> None:
    """Raises BadField for what a session cannot have."""
    given = {
        "entrypoint": request.entrypoint is not None,
        "script": request.script is not None,
        "script_args": bool(request.script_args),
        "tasks": request.tasks is not None,
        "per_node": bool(request.per_node),
        "dry_run": request.dry_run,
        "keep_on_invalid_dependency": request.keep_on_invalid_dependency,
    }
    for field, is_given in given.items():
        if is_given:
            raise BadField(field, "is not for a session", hint="submit an allocation instead")
    if request.lifecycle.requeue == "always":
        raise BadField("lifecycle.requeue", "a session is not run again", hint="leave it out")


def _session(record: Allocation) -> Allocation:
    if record.session:
        return record
    name = allocation_id(record.number)
    raise ApiError("conflict", f"{name} is not a session", hint=f"`lattice attach {name}` opens a terminal in it")


def _view(context: Context, found: Found) -> SessionView:
    record = single(found)
    return session_view(view_of(context, found), steps_of(context, record), shell_of(record))
