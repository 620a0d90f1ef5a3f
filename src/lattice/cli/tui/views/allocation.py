"""One allocation: what it is, why it waits, what happened to it, its steps and its script."""

from typing import NamedTuple

from msgspec import UNSET

from lattice.cli.context import Clock
from lattice.cli.times import local_with_distance, with_local_times
from lattice.cli.tui.history import history
from lattice.cli.tui.lines import (
    ACCENT,
    BAD,
    DIM,
    Line,
    Span,
    line,
    meter,
    pairs,
    printable_lines,
    title,
    tone_of,
    wrapped,
)
from lattice.cli.tui.views.view import PageView
from lattice.cli.views.allocations import allocation_pairs, request_pairs, script_text, state_text
from lattice.cli.views.explanations import TOTAL, moved_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, Allocation, Explanation
from lattice_sdk.models.steps import Step

ABOUT_ITSELF = frozenset({"Allocation", "Name", "State", "Steps", "Ending"})


class Answer(NamedTuple):
    allocation: Allocation
    explanation: Explanation | None
    steps: list[Step]


class OneAllocation(PageView[Answer]):
    word = "allocations"
    every_s = 4.0
    keys = "l log  t terminal  x cancel  h hold  u release  r requeue  a again  Esc back"

    def __init__(self, address: str, allocation_id: str, clock: Clock) -> None:
        super().__init__(address)
        self.id, self._clock = allocation_id, clock
        self.answer: Answer | None = None
        self.heard: list[Event] = []

    def heading(self) -> str:
        if self.answer is None:
            return self.id
        return f"{self.answer.allocation.id}  {self.answer.allocation.name}".rstrip()

    def remark(self) -> str:
        return "" if self.answer is None else state_text(self.answer.allocation)

    def command(self, who: str) -> str:
        waits = self.answer is not None and self.answer.explanation is not None
        return f"lattice explain {self.id}" if waits else f"lattice status {self.id}"

    def read(self, client: Client) -> Answer:
        found = client.get_allocation(self.id, details=True)
        waits = found.state == "Pending" or (found.task_counts is not None and found.task_counts.pending > 0)
        return Answer(
            found,
            _explained(client, found.id) if waits else None,
            client.list_steps(found.id) if found.step_count else [],
        )

    def take(self, answer: Answer) -> None:
        self.answer = answer

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.id == self.id or event.group_id == self.id

    def compose(self, width: int) -> list[Line]:
        if self.answer is None:
            return []
        found, why, steps = self.answer
        now = self._clock.now()
        head: Line = (Span(state_text(found), tone_of(found.state)),)
        reason = found.ending or ("" if why else with_local_times(found.reason or "", now))
        lines = [head, *(wrapped(reason, width) if reason else [])]
        lines += pairs([each for each in allocation_pairs(found, now) if each[0] not in ABOUT_ITSELF], width)
        lines += self._why(why, width, now) if why else []
        lines += [*title("Story"), *(_moment(at, text, width) for at, text in history(found, self.heard))]
        lines += [*title("Steps"), *map(_step, steps)] if steps else []
        details = found.details
        if details is not UNSET and details is not None:
            lines += [*title("Request"), *pairs(request_pairs(found), width)]
            lines += [*title("Script"), *(line(each) for each in printable_lines(script_text(details)))]
        return lines

    def _why(self, why: Explanation, width: int, now: float) -> list[Line]:
        rows = [
            ("Reason", with_local_times(why.reason, now)),
            ("Place in queue", "" if why.rank is None else str(why.rank)),
            ("Predicted start", local_with_distance(why.predicted_start, now) or "not known"),
            ("Moved", moved_text(why, now)),
            ("Predicted nodes", fold(why.predicted_nodes)),
        ]
        lines = [*title("Why it waits"), *pairs(rows, width)]
        for name, value in why.scores.items():
            tone = ACCENT if name != TOTAL else DIM
            lines.append(meter("score" if name == TOTAL else name.replace("_", " "), value, f"{value:.3f}", tone=tone))
        return lines


def _explained(client: Client, allocation_id: str) -> Explanation | None:
    try:
        return client.explain(allocation_id)
    except LatticeError:  # it may have ended meanwhile
        return None


def _moment(at: str, text: str, width: int) -> Line:
    return (Span(f"{at}  ", DIM), *line(text[: max(10, width * 2)]))


def _step(step: Step) -> Line:
    code = "" if step.exit_code is None else f"  exit {step.exit_code}"
    tone = BAD if step.exit_code else ""
    nodes = fold(step.nodes)
    return line(f"{step.id:<8} {step.state:<8} {step.tasks:>4} tasks  {nodes:<12} {step.name}{code}", tone)
