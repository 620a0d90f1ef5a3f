"""An application on its way: submitted or found running, until it answers; then a port of this machine leads to it."""

from contextlib import suppress
from typing import NamedTuple

from lattice.cli.context import Context
from lattice.cli.ending import ending_text
from lattice.cli.errors import CommandError
from lattice.cli.ports.catalogue import FIND, MISSING, Recipe
from lattice.cli.progress import CHECKPOINTING, RUNNING, WAITING, StatusLine, waiting_text
from lattice_sdk.errors import ApiError, LatticeError, Unreachable
from lattice_sdk.models.records import Allocation, AllocationFilter
from lattice_sdk.models.steps import TerminalRequest
from lattice_sdk.step_streams import TaskOutput

TAG = "app"
STARTING = "Starting"
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 1.0


class Place(NamedTuple):
    """Where the application listens on its node, and the token that it was given there."""

    port: int
    token: str


def running(context: Context, name: str) -> Allocation | None:
    """The user's own application of this name that runs or waits, the newest."""
    user = context.client.whoami().user
    wanted = AllocationFilter(user=user, tags=(f"{TAG}={name}",), states=(*WAITING, STARTING, RUNNING, CHECKPOINTING))
    return next(iter(context.client.list_allocations(wanted, limit=1).items), None)


def await_start(name: str, recipe: Recipe, context: Context) -> Allocation:
    """The allocation when it runs; the terminal says why it waits. Raises CommandError when it ends."""
    pause_s = FIRST_PAUSE_S
    with StatusLine(context) as line:
        while True:
            now = context.client.get_allocation(name)
            if now.state in (RUNNING, CHECKPOINTING):
                return now
            if now.is_terminal:
                raise _ended(now, recipe, context)
            line.show(waiting_text(now, context))
            context.clock.pause(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


def await_place(allocation: Allocation, recipe: Recipe, context: Context) -> Place:
    """What the application left on its node, read by a terminal: its output is for the owner alone. Raises CommandError."""
    client = context.client
    try:
        step = client.attach(allocation.id, TerminalRequest(command=FIND, rows=24, columns=200))
        stream = client.follow_step(allocation.id, step.step)
        told = b"".join(each.data for each in stream if isinstance(each, TaskOutput))
    except ApiError:
        now = client.get_allocation(allocation.id)
        if not now.is_terminal:
            raise
        raise _ended(now, recipe, context) from None
    words = told.split()
    if len(words) != 2 or not words[0].isdigit():
        raise _ended(client.wait(allocation.id), recipe, context)
    return Place(int(words[0]), words[1].decode("ascii", "replace"))


def await_answer(allocation: Allocation, place: Place, recipe: Recipe, context: Context) -> None:
    """Returns when it answers. Raises CommandError when it ends before, or takes too long."""
    pause_s, end_s = FIRST_PAUSE_S, context.clock.now() + recipe.start_within_s
    while not _answers(allocation, place, recipe, context):
        now = context.client.get_allocation(allocation.id)
        if now.is_terminal:
            raise _ended(now, recipe, context)
        if context.clock.now() > end_s:
            raise CommandError(
                f"{allocation.id} does not answer on port {place.port} after {recipe.start_within_s:g} s",
                hint=f"`lattice logs {allocation.id} --stderr` shows what it says",
            )
        context.clock.pause(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def _answers(allocation: Allocation, place: Place, recipe: Recipe, context: Context) -> bool:
    with suppress(ApiError, Unreachable), context.client.connect_port(allocation.id, place.port) as tunnel:
        if recipe.probe == "tcp":
            return True
        tunnel.write(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return tunnel.read().startswith(b"HTTP/")
    return False


def _ended(allocation: Allocation, recipe: Recipe, context: Context) -> CommandError:
    """Why it ended, with its last words."""
    if allocation.exit_code == MISSING and recipe.programs:
        missing = " or ".join(recipe.programs)
        return CommandError(f"{allocation.id} found no {missing} in its environment", hint=recipe.install)
    words = b""
    with suppress(LatticeError):
        words = b"".join(context.client.iter_logs(allocation.id, stream="stderr", tail=5))
    said = words.decode("utf-8", "replace").strip()
    return CommandError(f"{ending_text(allocation)}{f': {said}' if said else ''}")
