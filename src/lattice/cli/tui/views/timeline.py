"""Nodes over time: what ended, what runs to its limit, what is predicted to start, what is reserved."""

import shlex
from datetime import UTC, datetime
from typing import Any

from lattice.cli.context import Clock
from lattice.cli.tui.lines import ACCENT, BAD, DIM, GOOD, HEAD, PLAIN, WARN, Line, Span, line, padded
from lattice.cli.tui.views.view import PageView, View
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice_sdk.client import Client
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP
from lattice_sdk.models.web.page import Timeline, TimelineBar

USUAL_H = 6  # each way, as `lattice timeline` has it
SPANS_H = (1, 3, 6, 12, 24, 72, 168)
STEPS_H = (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48)
MARK_CELLS = 11
SIGNS = {"past": "▒", "running": "█", "predicted": "░"}
RESERVED, CLOSED, NOW = "/", "x", "│"
LEGEND = "▒ ended  █ running, to its limit  ░ predicted  / reserved  x closed  cyan: yours"


def _stamp(text: str | None, otherwise: float) -> float:
    return datetime.fromisoformat(text).timestamp() if text else otherwise


class TimelineView(PageView[Timeline]):
    word = "timeline"
    keys = "+ - zoom  [ ] earlier, later  / nodes  o only mine  f tasks apart  Esc back"

    def __init__(self, address: str, nodes: str, clock: Clock) -> None:
        super().__init__(address)
        self.nodes, self._clock = nodes, clock
        self.span_h = USUAL_H
        self.shift = 0
        self.is_own = False
        self.is_folded = True
        self.found: Timeline | None = None
        self._bars: dict[str, list[tuple[TimelineBar, float, float]]] = {}
        self._reserved: list[tuple[set[str], float, float, str]] = []

    def heading(self) -> str:
        return f"Timeline  {self.nodes}".rstrip()

    def remark(self) -> str:
        left_out = f", {self.found.left_out:,} left out" if self.found and self.found.left_out else ""
        return f"{self.span_h} h each way{left_out}" + (", only yours" if self.is_own else "")

    def command(self, who: str) -> str:
        nodes = f" --nodes={shlex.quote(self.nodes)}" if self.nodes else ""
        tasks = "" if self.is_folded else " --tasks"
        user = f" --user={shlex.quote(who)}" if self.is_own else ""
        return f"lattice timeline{self._period()}{nodes}{tasks}{user}"

    def _period(self) -> str:
        """As the command takes it: by distance while it moves along with the time, by the clock otherwise."""
        if not self.shift:
            return "" if self.span_h == USUAL_H else f" --since={self.span_h}h --until=+{self.span_h}h"
        since, until = (datetime.fromtimestamp(moment, UTC) for moment in self._borders())
        return f" --since={since:%Y-%m-%dT%H:%MZ} --until={until:%Y-%m-%dT%H:%MZ}"

    @property
    def filter_text(self) -> str:
        return self.nodes

    def filtered(self, text: str) -> View[Any]:
        return TimelineView(f"timeline?{text}", text, self._clock)

    def _borders(self) -> tuple[float, float]:
        middle = self._clock.now() + self.shift * self.span_h * 3600
        return middle - self.span_h * 3600, middle + self.span_h * 3600

    def read(self, client: Client) -> Timeline:
        from lattice.cli.times import rfc3339

        since, until = (rfc3339(datetime.fromtimestamp(moment).astimezone()) for moment in self._borders())
        return client.timeline(since=since, until=until, nodes=self.nodes, tasks=not self.is_folded)

    def take(self, answer: Timeline) -> None:
        self.found = answer
        self._bars, self._reserved = {}, []
        now = self._clock.now()
        for bar in answer.bars:
            if self.is_own and not bar.own:
                continue
            # What has no end runs beyond every border.
            span = (bar, _stamp(bar.start, now), _stamp(bar.end, now + 10 * 365 * 86400))
            for name in _names(bar.nodes):
                self._bars.setdefault(name, []).append(span)
        for each in answer.reservations:
            sign = CLOSED if each.maintenance else RESERVED
            self._reserved.append((set(_names(each.nodes)), _stamp(each.start, now), _stamp(each.end, now), sign))

    def hears(self, event: Event) -> bool:
        return (
            event.kind == GAP or event.kind in ("placed", "started", "ended", "submitted") or event.what != "allocation"
        )

    def zoom(self, step: int) -> None:
        place = min(len(SPANS_H) - 1, max(0, SPANS_H.index(self.span_h) + step))
        self.span_h, self.shift = SPANS_H[place], 0

    def lines(self, width: int, height: int) -> list[Line]:
        """Only what is seen is drawn: there may be ten thousand nodes."""
        if self.found is None:
            return [line("Reading ...", DIM)]
        nodes = self.found.nodes
        room = min(16, max([4, *(len(node.name) for node in nodes[:500])])) + 1
        cells = max(10, width - room - 1)
        body = max(1, height - 2)
        self.count = len(nodes)
        self.top = max(0, min(self.top, self.count - body))
        since, until = self._borders()
        shown = [
            self._node(node.name, node.state, room, cells, since, until) for node in nodes[self.top : self.top + body]
        ]
        return [self._axis(room, cells, since, until), *shown, line(LEGEND[:width], DIM)]

    def compose(self, width: int) -> list[Line]:
        return []

    def _axis(self, room: int, cells: int, since: float, until: float) -> Line:
        """Marks at round times of the local clock."""
        marks = [" "] * cells
        hour_cells = cells * 3600 / (until - since)
        step_h = next((hours for hours in STEPS_H if hours * hour_cells >= MARK_CELLS), STEPS_H[-1])
        local = datetime.fromtimestamp(since).astimezone()
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        moment = midnight
        while (moment := moment + step_h * 3600) < until:
            at = int((moment - since) / (until - since) * cells)
            when = datetime.fromtimestamp(moment).astimezone()
            text = f"|{when:%H:%M}" if step_h < 12 else f"|{when:%d %H:%M}"
            if 0 <= at <= cells - len(text):
                marks[at : at + len(text)] = text
        return (Span(" " * room, HEAD), Span("".join(marks)[:cells], HEAD))

    def _node(self, name: str, state: str, room: int, cells: int, since: float, until: float) -> Line:
        signs, tones = [" "] * cells, [PLAIN] * cells

        def paint(start: float, end: float, sign: str, tone: str) -> None:
            first = int((start - since) / (until - since) * cells)
            last = int((end - since) / (until - since) * cells)
            for at in range(max(0, first), min(cells, max(last, first + 1))):
                signs[at], tones[at] = sign, tone

        for names, start, end, sign in self._reserved:
            if not names or name in names:
                paint(start, end, sign, WARN)
        for bar, start, end in self._bars.get(name, ()):
            tone = ACCENT if bar.own else BAD if bar.state == "Failed" else GOOD if bar.kind == "running" else DIM
            paint(start, end, SIGNS[bar.kind], tone)
        here = int((self._clock.now() - since) / (until - since) * cells)
        if 0 <= here < cells and signs[here] == " ":
            signs[here], tones[here] = NOW, DIM
        down = BAD if state in ("Down", "Drained") else PLAIN
        return (Span(padded(name, room), down), *_joined(signs, tones))


def _joined(signs: list[str], tones: list[str]) -> list[Span]:
    spans: list[Span] = []
    for sign, tone in zip(signs, tones, strict=True):
        if spans and spans[-1].tone == tone:
            spans[-1] = Span(spans[-1].text + sign, tone)
        else:
            spans.append(Span(sign, tone))
    return spans


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except BadHostlist:
        return []
