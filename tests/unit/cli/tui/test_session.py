"""The screen without a terminal: keys in, lines out, with a server that answers at once."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from lattice.cli.context import Context, Process, Streams
from lattice.cli.flags import Flags
from lattice.cli.tui.keys import press
from lattice.cli.tui.lines import width_of
from lattice.cli.tui.session import ScreenSession
from lattice.cli.tui.source import Following
from lattice_sdk.errors import Conflict, LatticeError, Unreachable
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import Allocation, AllocationFilter, Counts, LogChunk, Node, Page, Whoami
from tests.unit.cli.runner import Pipe, StandingClock, allocation


class FakeClient:
    """What a server would know."""

    def __init__(self) -> None:
        self.rows = [made(number) for number in range(1, 31)]
        self.done: list[tuple[str, ...]] = []
        self.error: LatticeError | None = None

    def whoami(self) -> Whoami:
        return Whoami(user="ada")

    def list_allocations(self, wanted: AllocationFilter, *, limit: int, cursor: str = "") -> Page[Allocation]:
        if wanted.group:
            return Page(items=[made(900 + index, group_id=wanted.group, task_index=index) for index in range(2)])
        found = [each for each in reversed(self.rows) if wanted.name in ("", each.name)]
        start = int(cursor or 0)
        more = str(start + limit) if start + limit < len(found) else None
        return Page(items=found[start : start + limit], next_cursor=more)

    def get_allocation(self, name: str, *, details: bool) -> Allocation:
        return next(each for each in self.rows if each.id == name)

    def count_allocations(self, wanted: AllocationFilter) -> Counts:
        return Counts(total=len(self.rows))

    def list_nodes(self) -> list[Node]:
        return [Node(id=f"n{number}", state="Ready", cpus=4) for number in range(1, 4)]

    def drain_node_set(self, names: Sequence[str], reason: str) -> list[object]:
        self.done.append(("drain", *names, reason))
        return []

    def cancel(self, name: str) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(("cancel", name))


def made(number: int, **fields: object) -> Allocation:
    return msgspec.convert(allocation(number, **fields), Allocation)


class FakeSource:
    def __init__(self) -> None:
        self.client = FakeClient()
        self.is_gone = False
        self.followed: list[str] = []

    def start(self, *_: Callable[..., None]) -> None: ...

    def ask(
        self, question: Callable[[Any], Any], then: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        if self.is_gone:
            failed(Unreachable(("http://x",), "refused", 0.0))
            return
        try:
            found = question(self.client)
        except LatticeError as error:
            failed(error)
        else:
            then(found)

    def watch_changes(self, allocation_id: str, hear: Callable[[Event], None]) -> Following:
        hear(Event(index=1, kind="submitted", id=allocation_id, at="2026-03-05T11:00:00Z"))
        return Following()

    def follow_log(
        self, allocation_id: str, tail: int, take: Callable[[str, LogChunk], None], *_: Callable[..., None]
    ) -> Following:
        self.followed.append(allocation_id)
        take("stdout", LogChunk(node="n1", stream="stdout", offset=0, data=b"one\ntwo\x1b[2J\nend"))
        return Following()


class FakeTerminal:
    def __init__(self) -> None:
        self.has_ended = False
        self.handed: list[Sequence[str]] = []

    def draw(self) -> None: ...

    def quit(self) -> None:
        self.has_ended = True

    def hand_over(self, words: Sequence[str]) -> int:
        self.handed.append(words)
        return 0


class Sitting:
    """A person at the session."""

    def __init__(self, address: str = "allocations") -> None:
        self.source, self.terminal = FakeSource(), FakeTerminal()
        process = Process(
            streams=Streams(stdin=Pipe(), stdout=Pipe(), stderr=Pipe()), environment={}, clock=StandingClock()
        )
        self.session = ScreenSession(Context(process=process, flags=Flags()), self.source, self.terminal)  # type: ignore[arg-type]
        self.session.begin(address)

    def press(self, *keys: str) -> None:
        for key in keys:
            press(self.session, key, key if len(key) == 1 else None)

    def type(self, text: str) -> None:
        self.press(*text)

    def screen(self, width: int = 80, height: int = 24) -> str:
        lines = self.session.lines(width, height)
        assert len(lines) == height
        assert all(width_of(line) <= width for line in lines)
        return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


@pytest.fixture
def sitting() -> Sitting:
    return Sitting()


def test_the_list_opens_with_its_rows_and_the_command_that_shows_the_same(sitting: Sitting) -> None:
    shown = sitting.screen()
    assert "a30" in shown
    assert "30 found" in shown
    assert "lattice status --all" in shown
    sitting.press("G")
    assert "a1 " in sitting.screen()


def test_an_order_is_given_after_a_yes_and_to_all_that_are_marked(sitting: Sitting) -> None:
    sitting.press("x")
    assert "Cancel a30? [y/N]" in sitting.screen()
    sitting.press("n")
    assert sitting.source.client.done == []
    sitting.press("m", "m", "x", "y")
    assert sitting.source.client.done == [("cancel", "a30"), ("cancel", "a29")]
    assert "a30, a29 are being cancelled" in sitting.screen()


def test_a_refusal_is_said_in_the_words_of_the_server(sitting: Sitting) -> None:
    sitting.source.client.error = Conflict("a30 has ended", hint="look at its history")
    sitting.press("x", "y")
    assert "a30 has ended (look at its history)" in sitting.screen()


def test_a_filter_is_typed_changed_and_refused(sitting: Sitting) -> None:
    sitting.press("/")
    sitting.type("nobody")
    assert "/nobody" in sitting.screen()
    sitting.press("enter")
    assert "No allocations." in sitting.screen()
    assert "lattice status --all --name=nobody" in sitting.screen()
    sitting.press("/", "ctrl+u")
    sitting.type("colour:red")
    sitting.press("enter")
    assert '"colour:" is no filter' in sitting.screen()
    assert "nobody" in sitting.screen()  # as it was
    sitting.press("/", "ctrl+u")
    sitting.type("a7")
    sitting.press("enter")
    assert sitting.session.view.address == "allocations/a7"


def test_space_shows_the_output_below_and_follows_the_cursor(sitting: Sitting) -> None:
    sitting.press(" ")
    shown = sitting.screen()
    assert "── a30 output" in shown
    assert "two?[2J" in shown  # and no escape of it reaches the terminal
    assert "end" in shown
    sitting.press("escape")
    assert "output" not in sitting.screen()
    assert sitting.source.followed == ["a30"]


def test_keys_of_a_list_unfold_groups(sitting: Sitting) -> None:
    client = sitting.source.client
    client.rows.append(made(40, tasks={"size": 2, "pending": 2}))
    sitting.session.read(sitting.session.view)
    assert "▸ a40" in sitting.screen()
    sitting.press("right")
    assert "▾ a40" in sitting.screen()
    assert "a901" in sitting.screen()
    sitting.press("left")
    assert "a901" not in sitting.screen()


def test_a_change_is_seen_at_once(sitting: Sitting) -> None:
    sitting.session.hear(Event(index=9, kind="ended", id="a30", state="Failed", at="2026-03-05T11:00:00Z", exit_code=3))
    assert "Failed" in sitting.screen()


def test_without_a_server_what_was_read_stays_and_the_screen_says_so(sitting: Sitting) -> None:
    sitting.source.is_gone = True
    sitting.session.read(sitting.session.view)
    shown = sitting.screen()
    assert "The server does not answer" in shown
    assert "a30" in shown
    sitting.source.is_gone = False
    sitting.session.read(sitting.session.view)
    assert "does not answer" not in sitting.screen()


@pytest.mark.parametrize(("width", "height"), [(59, 24), (80, 11), (10, 3), (1, 1)])
def test_a_small_terminal_is_told_what_is_needed(sitting: Sitting, width: int, height: int) -> None:
    shown = sitting.screen(width, height).replace("\n", "")
    assert "This terminal has"[: width * height] in shown
    assert "a30" not in shown


def test_a_terminal_and_other_lasting_commands_get_the_terminal(sitting: Sitting) -> None:
    sitting.press("t", ":")
    sitting.type("run -- hostname")
    sitting.press("enter")
    assert sitting.terminal.handed == [("attach", "a30"), ("run", "--", "hostname")]


def test_a_drain_needs_a_reason() -> None:
    sitting = Sitting("nodes")
    sitting.press("m", "m", "d", "enter")
    assert "a drain needs a reason" in sitting.screen()
    sitting.press("d")
    sitting.type("loud")
    sitting.press("enter")
    assert sitting.source.client.done == [("drain", "n1", "n2", "loud")]


def test_leaving_asks_first(sitting: Sitting) -> None:
    sitting.press("?", "escape", "q", "n")
    assert not sitting.terminal.has_ended
    sitting.press("q", "y")
    assert sitting.terminal.has_ended


def test_ten_thousand_rows_are_read_as_the_cursor_needs_them() -> None:
    sitting = Sitting()
    sitting.source.client.rows = [made(number) for number in range(1, 1001)]
    sitting.session.replace(sitting.session.view.filtered(""))  # type: ignore[arg-type]
    assert "1,000 found, 200 read" in sitting.screen()
    sitting.press("G")
    assert "700 read" in sitting.screen()
    sitting.press(">", "G")  # what is sorted has to be known
    assert "read" not in sitting.screen().splitlines()[1]
    assert sitting.screen().splitlines()[-2].split()[0] == "a1000"
