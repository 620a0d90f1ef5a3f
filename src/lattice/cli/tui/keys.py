"""What each key does."""

from collections.abc import Callable
from typing import Any

from lattice.cli.errors import CommandError, UsageError
from lattice.cli.tui.lines import BAD
from lattice.cli.tui.places import VIEWS
from lattice.cli.tui.prompt import Prompt
from lattice.cli.tui.session import ScreenSession
from lattice.cli.tui.views.allocation import OneAllocation
from lattice.cli.tui.views.allocations import Allocations
from lattice.cli.tui.views.dags import Dags, OneDag
from lattice.cli.tui.views.log import Log
from lattice.cli.tui.views.nodes import Nodes, OneNode
from lattice.cli.tui.views.said import keys_page
from lattice.cli.tui.views.services import OneService, Services
from lattice.cli.tui.views.site import Admin
from lattice.cli.tui.views.timeline import TimelineView
from lattice.cli.tui.views.view import ListView
from lattice.slurm.text.hostlists import fold
from lattice_sdk.client import Client
from lattice_sdk.models.nodes import NodeOutcome

MOVES = {"down": 1, "j": 1, "up": -1, "k": -1}
SHOWN_IDS = 5

Act = Callable[[Client, str], object]


class Order:
    """Something that is done to allocations, after a question."""

    def __init__(self, verb: str, done: str, act: Act) -> None:
        self.verb, self.done, self.act = verb, done, act


ORDERS = {
    "x": Order("Cancel", "cancelled", lambda client, name: client.cancel(name)),
    "h": Order("Hold", "held", lambda client, name: client.hold(name)),
    "u": Order("Release", "released", lambda client, name: client.release(name)),
    "r": Order("Requeue", "requeued", lambda client, name: client.requeue(name)),
}


def press(session: ScreenSession, key: str, char: str | None) -> None:
    """One key, as textual names it."""
    if session.prompt is not None:
        prompt = session.prompt
        if not prompt.key(key, char) and session.prompt is prompt:
            session.prompt = None
        session.terminal.draw()
        return
    session.message = ("", "", 0.0)
    name = char if char is not None and char.isprintable() else key
    if not _moved(session, name) and not _general(session, name):
        _of_view(session, name)
    session.terminal.draw()


def _moved(session: ScreenSession, key: str) -> bool:
    view, page = session.view, max(1, session.height - session.body_top - 3)
    if key in MOVES:
        view.move(MOVES[key])
    elif key in ("pagedown", "ctrl+f", "pageup", "ctrl+b"):
        view.move(page if key in ("pagedown", "ctrl+f") else -page)
    elif key in ("g", "home", "G", "end"):
        view.to_end(is_last=key in ("G", "end"))
    else:
        return False
    session.moved()
    return True


def _general(session: ScreenSession, key: str) -> bool:
    match key:
        case "escape" | "q" | "backspace":
            session.back()
        case "Q" | "ctrl+c":
            session.ask_yes("Leave?", session.terminal.quit)
        case "?":
            session.open(keys_page())
        case ":":
            session.prompt = Prompt(":", session.run_order, history=tuple(session.history))
        case "/":
            _ask_filter(session)
        case "ctrl+l":
            session.read(session.view)
        case _ if key in tuple("1234567"):
            session.go(VIEWS[int(key) - 1], is_root=True)
        case _:
            return False
    return True


def _ask_filter(session: ScreenSession) -> None:
    view = session.view
    if isinstance(view, Log):
        session.prompt = Prompt("/", lambda text: _find(session, view, text), text=view.wanted)
        return

    def done(text: str) -> None:
        try:
            other = view.filtered(text)
        except UsageError as error:
            session.say(str(error), BAD)
            return
        if other is None:
            session.say("there is nothing to filter here")
        elif isinstance(other, Allocations) and other.search.id:
            session.go(f"allocations/{other.search.id}")
        else:
            session.replace(other)

    session.prompt = Prompt("/", done, text=view.filter_text)


def _find(session: ScreenSession, view: Log, text: str, *, is_next: bool = False) -> None:
    if not view.find(text, session.width, is_next=is_next):
        session.say(f'"{text}" is not in this output')


def _of_view(session: ScreenSession, key: str) -> None:
    view = session.view
    if isinstance(view, ListView) and _of_list(session, view, key):
        return
    match view:
        case Allocations():
            _of_allocations(session, view, key)
        case OneAllocation():
            _of_allocation(session, view, key)
        case Log():
            _of_log(session, view, key)
        case Nodes():
            _of_nodes(session, [row.key for row in view.listing.chosen()], key)
        case OneNode():
            _of_nodes(session, [view.id], key)
        case TimelineView():
            _of_timeline(session, view, key)
        case Services() | OneService():
            _of_services(session, view, key)
        case Dags() | OneDag():
            _of_dags(session, view, key)
        case Admin() if key in ("tab", "shift+tab", "right", "left"):
            address = view.beside(1 if key in ("tab", "right") else -1)
            session.stack.pop()
            session.go(address)


def _of_list(session: ScreenSession, view: ListView[Any], key: str) -> bool:
    listing = view.listing
    match key:
        case "enter":
            if view.current is not None and view.current.opens:
                session.go(view.current.opens)
        case "<" | ">":
            listing.sort_beside(1 if key == ">" else -1)
            session.moved()
        case "S":
            listing.sort(listing.sorted_by, is_descending=not listing.is_descending)
        case "m":
            listing.mark()
        case _:
            return False
    return True


def _confirm_order(session: ScreenSession, order: Order, names: list[str]) -> None:
    if not names:
        return
    shown = ", ".join(names[:SHOWN_IDS]) + (f" and {len(names) - SHOWN_IDS} more" if len(names) > SHOWN_IDS else "")

    def act(client: Client) -> None:
        for name in names:
            order.act(client, name)

    done = f"{shown} {'is' if len(names) == 1 else 'are'} being {order.done}"
    session.ask_yes(f"{order.verb} {shown}?", lambda: session.order(f"{order.verb} {shown}", done, act))


def _of_allocations(session: ScreenSession, view: Allocations, key: str) -> None:
    names = [row.key for row in view.listing.chosen()]
    if key in ORDERS:
        _confirm_order(session, ORDERS[key], names)
    elif key in ("space", " "):
        session.toggle_peek()
    elif key in ("right", "left", "+", "-"):
        if view.unfold():
            session.read(view)
    elif view.current is not None:
        _about(session, view.current.key, key)


def _of_allocation(session: ScreenSession, view: OneAllocation, key: str) -> None:
    if key in ORDERS:
        _confirm_order(session, ORDERS[key], [view.id])
    else:
        _about(session, view.id, key)


def _about(session: ScreenSession, name: str, key: str) -> None:
    match key:
        case "l" | "space" | " ":
            session.go(f"allocations/{name}/log")
        case "t":
            session.hand_over(("attach", name))
        case "a":
            session.ask_yes(f"Submit {name} again?", lambda: session.run_order(f"resubmit {name}"))


def _of_log(session: ScreenSession, view: Log, key: str) -> None:
    match key:
        case "f":
            view.is_following = not view.is_following
        case "n" if view.wanted:
            _find(session, view, view.wanted, is_next=True)
        case "e":
            view.next_stream()
        case "tab":
            view.next_node()
        case "w":
            view.is_wrapped = not view.is_wrapped
        case "t":
            session.hand_over(("attach", view.id))
        case "x":
            _confirm_order(session, ORDERS["x"], [view.id])


def _of_nodes(session: ScreenSession, names: list[str], key: str) -> None:
    if not names:
        return
    folded = fold(names)

    def drain(reason: str) -> None:
        if not reason:
            session.say("a drain needs a reason", BAD)
            return
        session.order(
            f"Drain {folded}",
            f"{folded} is being drained",
            lambda client: _all_done(client.drain_node_set(names, reason)),
        )

    if key == "d":
        session.prompt = Prompt(f"Drain {folded}, reason: ", drain)
    elif key == "u":
        session.ask_yes(
            f"Undrain {folded}?",
            lambda: session.order(
                f"Undrain {folded}",
                f"{folded} returns to service",
                lambda client: _all_done(client.undrain_node_set(names)),
            ),
        )


def _all_done(outcomes: list[NodeOutcome]) -> None:
    refused = [each for each in outcomes if not each.ok]
    if refused:
        error = refused[0].error
        raise CommandError(error.message if error else "it was not done", hint=error.hint if error else "")


def _of_timeline(session: ScreenSession, view: TimelineView, key: str) -> None:
    match key:
        case "+" | "-":
            view.zoom(-1 if key == "+" else 1)
        case "[" | "]":
            view.shift += 1 if key == "]" else -1
        case "o":
            view.is_own = not view.is_own
        case "f":
            view.is_folded = not view.is_folded
        case _:
            return
    session.read(view)


def _of_services(session: ScreenSession, view: Services | OneService, key: str) -> None:
    if key != "o":
        return
    if isinstance(view, Services):
        if view.current is None:
            return
        session.go(view.current.opens)
        if not isinstance(session.view, OneService):
            return
        view = session.view
    opened = view

    def show(link: object) -> None:
        opened.link = getattr(link, "url", "")
        session.terminal.draw()

    session.source.ask(
        lambda client: client.open_service(opened.name, tenant=opened.tenant),
        show,
        lambda error: session.say(str(error), BAD),
    )


def _of_dags(session: ScreenSession, view: Dags | OneDag, key: str) -> None:
    if key in ("space", " ") and isinstance(view, OneDag):
        session.toggle_peek()
    if key != "x":
        return
    name = view.id if isinstance(view, OneDag) else view.current.key if view.current else ""
    if name:
        session.ask_yes(
            f"Cancel {name} with all its allocations?",
            lambda: session.order(
                f"Cancel {name}", f"{name} is being cancelled", lambda client: client.cancel_dag(name)
            ),
        )
