"""Steps of an allocation: launch, list, follow, feed, signal, end."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from lattice.api.answers import EventAnswer, Page, ServerEvent
from lattice.api.auditing import record, record_access
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_follow import Places, StepFollower, StepGap, StepOutput, StepResult, parse_places
from lattice.api.running.step_launch import launch, own, refused, single, step_service_of
from lattice.api.running.step_screen import StepScreen, screen_of
from lattice.api.running.stored_output import stored_journal
from lattice.api.running.terminal_notices import Notices, StepNotice, with_notices
from lattice.api.running.watching import check_watches, find_watched, watchers_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.steps import step_id
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.ports.nodes.steps import InputPiece, StepRefused, StepService, StepView
from lattice.wire.bounds import Short, TaskList, WholeText
from lattice.wire.text.problems import BadField
from lattice.wire.work.steps import (
    StepInfo,
    StepSubmission,
    recorded_info,
    recorded_view,
    refuse_images,
    step_info,
)

MAX_INPUT_BYTES = 1 << 20
MAX_SIGNAL = 64
# A new leader hears of steps when their nodes register.
KNOWN_WITHIN_S = 10.0
LOOK_AGAIN_S = 0.1
LEADS_EVERY_S = 1.0


class StepsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class GetStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    step: int


class StepFollowQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`last_event_id` (header Last-Event-ID) holds the positions read so far: `0:1234,1:99`; `recent:65536` begins with the newest output.

    With `screen` a terminal that was not read so far begins with its last screen instead of its first byte.
    """

    id: str
    step: int
    last_event_id: TaskList = ""
    screen: bool = False


class StepInputPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input bytes (base64) for the tasks; `offset` counts from the first byte, so that a repeated piece is harmless.

    At a terminal every `client`, by a name of its own choice, counts its own bytes. `task` is the only one that gets them; without it all
    that take input do.
    """

    id: str
    step: int
    client: Short = ""
    task: Annotated[int, Meta(ge=0)] | None = None
    offset: int = 0
    data: WholeText = ""
    eof: bool = False
    request_id: str = ""


class InputTaken(Struct, frozen=True, kw_only=True):
    """Total number of bytes accepted; send the rest again. `waiting`: the tasks have not started, and nothing was accepted, not even end-of-file."""

    upto: int
    waiting: bool = False


class StepSignal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    step: int
    signal: int
    request_id: str = ""


class StepWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size of a terminal, or of the window of one `client` at it: that of the client who typed last counts."""

    id: str
    step: int
    client: Short = ""
    rows: int
    columns: int
    request_id: str = ""


class EndStepRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    step: int
    request_id: str = ""


async def launch_step(context: Context, request: StepSubmission) -> StepInfo:
    """Start tasks on the nodes of a running allocation, or queue them until there is room."""
    refuse_images(request.environment)
    return await launch(context, request)


async def list_steps(context: Context, request: StepsQuery) -> Page[StepInfo]:
    """List the steps of an allocation, active and ended, by number."""
    return Page(items=steps_of(context, single(await find(context, request.id))))


def steps_of(context: Context, found: Allocation) -> list[StepInfo]:
    """Those that live and those that are recorded, by number."""
    service = context.services.steps
    live = {view.step: _info(context, found, view) for view in (service.live(found.number) if service else ())}
    recorded = {record.step: recorded_info(found.number, record) for record in found.steps}
    return [info for _, info in sorted({**live, **recorded}.items())]


def _info(context: Context, found: Allocation, view: StepView) -> StepInfo:
    """What the caller learns of a step that lives; of a terminal also whether it is theirs to type in."""
    shown = step_info(view)
    if not view.is_terminal:
        return shown
    is_own = found.user == context.user
    return replace(shown, read_only=not is_own, watchers=watchers_of(context, found, view.step))


async def get_step(context: Context, request: GetStep) -> StepInfo:
    """Get one step."""
    found = await find_watched(context, request.id, request.step)
    recorded = next((record for record in found.steps if record.step == request.step), None)
    if recorded is not None:
        return recorded_info(found.number, recorded)
    return _info(context, found, await _view(context, found, request.step))


async def follow_step(
    context: Context, request: StepFollowQuery
) -> EventAnswer[StepInfo | StepOutput | StepScreen | StepGap | StepNotice | StepResult]:
    """Stream the output of the tasks until they end, then their result."""
    found = await find_watched(context, request.id, request.step, Permission.READ_OUTPUT)
    places = parse_places(request.last_event_id)
    view = await _view(context, found, request.step)
    if view.is_terminal and found.user != context.user:
        check_watches(context, found, view.step)
        await record(context, "terminal.watch", about=found, detail=f"terminal {view.step}")
    await record_access(context, "allocation.logs", found, f"step {request.step}")
    return EventAnswer(_events(context, found, view, places, from_screen=request.screen and not places))


async def _events(
    context: Context, found: Allocation, view: StepView, places: Places, *, from_screen: bool
) -> AsyncGenerator[ServerEvent[StepInfo | StepOutput | StepScreen | StepGap | StepNotice | StepResult], None]:
    service = step_service_of(context)
    number, step = found.number, view.step

    def look() -> StepView | None:
        return service.find(number, step) or _recorded(context, found, step)

    yield ServerEvent(_info(context, found, view), event="step")
    while view.layout is None and not view.has_ended:
        if not await _next_change(context, number, step):
            return
        view = look() or view
        yield ServerEvent(_info(context, found, view), event="step")
    needs_screen = from_screen and view.is_terminal
    notices = Notices(context, number, look)

    objects = context.services.objects
    stored = None if objects is None else partial(stored_journal, objects, found, view)
    judge = partial(_judge, context, found, step, look)

    is_going_on = True
    while is_going_on:
        if needs_screen and (screen := await screen_of(service, view)) is not None:
            places = Places({0: screen.next})
            yield ServerEvent(screen, event="screen")
        is_going_on = needs_screen = False
        pieces = StepFollower(service, view, places, look, context.services.is_ready, stored).pieces()
        told = with_notices(pieces, notices, judge) if view.is_terminal else pieces
        try:
            with suppress(_ShareOver):
                async for piece in told:
                    # A client that was too slow for a terminal is moved ahead: its screen is drawn again.
                    if isinstance(piece, StepGap) and view.is_terminal:
                        is_going_on = needs_screen = True
                        break
                    yield ServerEvent(piece, event=_KINDS.get(type(piece), ""))
        finally:
            await told.aclose()
    over = await _ended_view(context, found, step, look)
    if over is None:
        return
    result = StepResult(exit_code=over.exit_code, lost=over.lost, message=over.message, failures=over.failures)
    yield ServerEvent(result, event="result")
    yield ServerEvent(result, event="end")


class _ShareOver(Exception):
    """The share has ended with its terminal: a watcher gets the result, but no more output, for it may have been taken back before."""


def _judge(context: Context, found: Allocation, step: int, look: Callable[[], StepView | None]) -> None:
    """Whether a terminal may still be watched. Raises ApiError, or _ShareOver where the terminal has ended."""
    try:
        check_watches(context, found, step)
    except ApiError:
        now = look()
        if now is not None and now.has_ended:
            raise _ShareOver from None
        raise


_KINDS: dict[type, str] = {StepGap: "gap", StepNotice: "notice"}


async def _next_change(context: Context, number: int, step: int) -> bool:
    """Whether this server still leads, at the next change of the step or after a while. A stream that simply ends is taken up
    again by its caller, wherever the step is known then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LEADS_EVERY_S):
            await step_service_of(context).changed(number, step)
    return context.services.is_ready()


async def _ended_view(
    context: Context, found: Allocation, step: int, look: Callable[[], StepView | None]
) -> StepView | None:
    """How the step ended; None when this server leads no more."""
    while True:
        view = look()
        if view is None:
            # Recorded, and its allocation archived since.
            found = single(await find(context, allocation_id(found.number)))
            view = _recorded(context, found, step)
            if view is None:
                raise ApiError("not_found", f"no step {step_id(allocation_id(found.number), step)}", hint=_hint(found))
        if view.has_ended:
            return view
        if not await _next_change(context, found.number, step):
            return None


async def feed_step(context: Context, request: StepInputPiece) -> InputTaken:
    """Send input to the tasks; returns how much was accepted, which may be less than was sent."""
    allocation = own(context, await find(context, request.id), request.id)
    try:
        data = base64.b64decode(request.data, validate=True)
    except ValueError:  # binascii.Error is one, too; text that is not ASCII raises the other
        raise BadField("data", "is not base64") from None
    if len(data) > MAX_INPUT_BYTES or request.offset < 0:
        raise BadField("data", "is too large", current=f"{len(data):,}", limit=f"{MAX_INPUT_BYTES:,} bytes")
    check_steers(context, await _view(context, allocation, request.step))
    try:
        piece = InputPiece(offset=request.offset, data=data, eof=request.eof, client=request.client, task=request.task)
        upto = await step_service_of(context).feed(allocation.number, request.step, piece)
    except StepRefused as refusal:
        raise refused(refusal) from None
    except AgentUnreachable as error:
        raise ApiError("unavailable", f"the input cannot be delivered now: {error}", hint="send it again") from None
    return InputTaken(upto=0, waiting=True) if upto is None else InputTaken(upto=upto)


async def signal_step(context: Context, request: StepSignal) -> StepInfo:
    """Send a signal to all tasks of a step."""
    if not 1 <= request.signal <= MAX_SIGNAL:
        raise BadField("signal", f"{request.signal} is not a signal", limit=f"from 1 to {MAX_SIGNAL}")
    return await _order(context, request.id, request.step, lambda d, n: d.signal(n, request.step, request.signal))


async def resize_step(context: Context, request: StepWindow) -> StepInfo:
    """Set the size of a step's terminal."""
    if not (0 < request.rows <= 10_000 and 0 < request.columns <= 10_000):
        raise BadField("rows", "not the size of a terminal", limit="from 1 to 10,000")
    shape = request.rows, request.columns
    return await _order(
        context, request.id, request.step, lambda d, n: d.resize(n, request.step, *shape, request.client)
    )


async def end_step(context: Context, request: EndStepRequest) -> StepInfo:
    """Stop a step: its tasks get SIGTERM, then SIGKILL after the grace period."""
    return await _order(context, request.id, request.step, lambda d, n: d.end(n, request.step, "ended by its user"))


async def _order(context: Context, text: str, step: int, carry_out: Callable[[StepService, int], None]) -> StepInfo:
    allocation = own(context, await find(context, text), text)
    view = await _view(context, allocation, step)
    check_steers(context, view)
    if not view.has_ended:
        try:
            carry_out(step_service_of(context), allocation.number)
        except StepRefused as refusal:
            raise refused(refusal) from None
    return step_info(await _view(context, allocation, step))


def check_steers(context: Context, view: StepView) -> None:
    """A token for terminals reaches no other step."""
    if not view.is_terminal and context.reach(Permission.LAUNCH) is Reach.NONE:
        raise ApiError("forbidden", "your token is for terminals alone", hint="log in without a narrower scope")


async def _view(context: Context, found: Allocation, step: int) -> StepView:
    """The step, wherever it is known; a new leader is given time to hear of it."""
    deadline = context.services.clock.monotonic_s() + KNOWN_WITHIN_S
    service = step_service_of(context)
    while True:
        view = service.find(found.number, step) or _recorded(context, found, step)
        if view is not None:
            return view
        nodes = found.nodes if found.is_holding else ()
        is_complete = all(context.services.links.is_connected(node) for node in nodes)
        if is_complete or context.services.clock.monotonic_s() >= deadline:
            raise ApiError("not_found", f"no step {step_id(allocation_id(found.number), step)}", hint=_hint(found))
        await asyncio.sleep(LOOK_AGAIN_S)


def _recorded(context: Context, found: Allocation, step: int) -> StepView | None:
    current = context.state.allocations.get(found.number) or found
    for each in current.steps:
        if each.step == step:
            return recorded_view(current.number, each)
    return None


def _hint(found: Allocation) -> str:
    return f"`lattice steps {allocation_id(found.number)}` lists them"
