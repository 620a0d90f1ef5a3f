"""Nodes: the list with what they hold, and one node with its work, checks and story."""

from typing import Any, NamedTuple

from lattice.cli.errors import UsageError
from lattice.cli.times import stamp_text
from lattice.cli.tui.lines import DIM, Line, Span, line, meter, pairs, title, tone_of
from lattice.cli.tui.listing import Column, Row, order_of
from lattice.cli.tui.views.view import ListView, PageView, View
from lattice.cli.views.nodes import gpus_text, memory_text, node_sheet, reason_text
from lattice.cli.views.usage import ranges_text
from lattice.slurm.text.hostlists import BadHostlist, expand, fold
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.changes import Event
from lattice_sdk.models.nodes import NodeEvent, NodeUsage
from lattice_sdk.models.records import GAP, Node

WORDS = ("state", "vcluster", "group")
SHOWN_EVENTS = 40
CORES_IN_A_LINE = 64


class NodeFilter:
    """`state:down vcluster:hpc group:3 n[1-4]`: words joined by spaces, all of which have to match."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._wanted: list[tuple[str, str]] = []
        self._names: set[str] | None = None
        for word in text.split():
            key, colon, value = word.partition(":")
            if colon and (key not in WORDS or not value):
                raise UsageError(f'"{word}" is no filter of nodes; use {":, ".join(WORDS)}: or names as in n[1-4]')
            if colon:
                self._wanted.append((key, value.casefold()))
                continue
            try:
                self._names = (self._names or set()) | set(expand(word))
            except BadHostlist as error:
                raise UsageError(str(error)) from None

    def takes(self, node: Node) -> bool:
        values = {"state": node.state, "vcluster": node.vcluster or "", "group": node.group or ""}
        if self._names is not None and not any(node.id == name or name in node.id for name in self._names):
            return False
        return all(values[key].casefold() in value.split(",") for key, value in self._wanted)


class Nodes(ListView[list[Node]]):
    word = "nodes"
    columns = (
        Column("NODE", 6, most=20),
        Column("STATE", 8),
        Column("CPUS", 7, is_right=True),
        Column("MEMORY", 6, is_right=True),
        Column("GPUS", 4, most=12),
        Column("LOAD", 5, is_right=True),
        Column("VCLUSTER", 8, most=14),
        Column("WORK OR REASON", 10, grows=True),
    )
    nothing = "No nodes."
    keys = "Enter open  / filter  d drain  u undrain  m mark  <> sort  ? keys"

    def __init__(self, address: str, text: str) -> None:
        super().__init__(address)
        self.filter = NodeFilter(text)
        self.total = 0

    def heading(self) -> str:
        return f"Nodes  {self.filter.text}".rstrip()

    def remark(self) -> str:
        return f"{len(self.listing.rows):,} of {self.total:,}" if self.is_read else ""

    def command(self, who: str) -> str:
        return "lattice nodes"

    @property
    def filter_text(self) -> str:
        return self.filter.text

    def filtered(self, text: str) -> View[Any]:
        return Nodes(f"nodes?{text}", text)

    def read(self, client: Client) -> list[Node]:
        return client.list_nodes()

    def take(self, answer: list[Node]) -> None:
        self.total = len(answer)
        self.listing.show(row_of(node) for node in answer if self.filter.takes(node))

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.what == "node" or event.kind in ("placed", "started", "ended")


def row_of(node: Node) -> Row:
    held = node.cpus - node.free.cpus
    said = reason_text(node) or fold(sorted(node.allocations)) if node.allocations else reason_text(node)
    load = node.load1
    return Row(
        key=node.id,
        cells=(
            node.id,
            node.state,
            f"{held}/{node.cpus}",
            memory_text(node.memory_mb),
            gpus_text(node),
            "" if load is None else f"{load:.1f}",
            node.vcluster or "",
            said,
        ),
        values=tuple(map(order_of, (node.id, node.state, held, node.memory_mb, node.gpus, load, node.vcluster, said))),
        state=node.state,
        opens=f"nodes/{node.id}",
    )


class Answer(NamedTuple):
    node: Node
    usage: NodeUsage | None
    events: list[NodeEvent]


class OneNode(PageView[Answer]):
    word = "nodes"
    keys = "d drain  u undrain  Esc back"

    def __init__(self, address: str, node_id: str) -> None:
        super().__init__(address)
        self.id = node_id
        self.answer: Answer | None = None

    def heading(self) -> str:
        return self.id

    def remark(self) -> str:
        return "" if self.answer is None else self.answer.node.state

    def command(self, who: str) -> str:
        return f"lattice node status {self.id}"

    def read(self, client: Client) -> Answer:
        node = client.get_node(self.id)
        try:
            usage = client.node_usage(self.id)
        except LatticeError:  # its agent does not answer, or it is not for everybody
            usage = None
        return Answer(node, usage, client.node_events(self.id))

    def take(self, answer: Answer) -> None:
        self.answer = answer

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.id == self.id or self.id in (event.nodes or ())

    def compose(self, width: int) -> list[Line]:
        if self.answer is None:
            return []
        node, usage, events = self.answer
        lines: list[Line] = [(Span(node.state, tone_of(node.state)), Span(f"  {reason_text(node)}"))]
        lines += [_held("CPUs held", node.cpus - node.free.cpus, node.cpus)]
        lines += [_held("Memory held", node.memory_mb - node.free.memory_mb, node.memory_mb, memory_text)]
        lines += [_held("GPUs held", node.gpus - node.free.gpus, node.gpus)] if node.gpus else []
        if node.load1 is not None and node.cpus:
            lines.append(meter("Load", node.load1 / node.cpus, f"{node.load1:.1f}"))
        lines += [*title("Work"), *_work(node, usage)]
        lines += (
            [*title("Checks"), *(line(f"{c.name:<20} {c.verdict:<8} {c.text}") for c in node.checks)]
            if node.checks
            else []
        )
        lines += [*title("Story"), *map(_event, reversed(events[-SHOWN_EVENTS:]))]
        lines += [*title("Facts"), *pairs(node_sheet(node)[2:], width)]
        return lines


def _held(label: str, held: int, whole: int, text: "type[str] | object" = str) -> Line:
    show = text if callable(text) else str
    return meter(label, held / whole if whole else 0.0, f"{show(held)} of {show(whole)}")


def _work(node: Node, usage: NodeUsage | None) -> list[Line]:
    """Who has which CPUs and GPUs, and a map of the CPUs where they are bound."""
    if not node.allocations:
        return [line("Nothing that you may see runs here.", DIM)]
    runs = {run.id: run for run in usage.runs} if usage else {}
    lines = []
    owners: dict[int, str] = {}
    for place, name in enumerate(node.allocations):
        sign = chr(ord("a") + place % 26)
        run = runs.get(name)
        cpus = ranges_text(run.cpus) if run and run.cpus else "all"
        gpus = (ranges_text(run.gpus) if run and run.gpus else "all") if node.gpus else "-"
        owners |= dict.fromkeys(run.cpus if run and run.cpus else range(node.cpus), sign)
        lines.append(line(f"{sign}  {name:<10} CPUs {cpus:<16} GPUs {gpus}"))
    signs = "".join(owners.get(cpu, "·") for cpu in range(min(node.cpus, 1024)))
    lines += [line(f"   {signs[at : at + CORES_IN_A_LINE]}", DIM) for at in range(0, len(signs), CORES_IN_A_LINE)]
    return lines


def _event(event: NodeEvent) -> Line:
    who = f" by {event.by}" if event.by else ""
    why = f": {event.reason}" if event.reason else ""
    lost = f"; lost by {', '.join(event.allocations)}" if event.allocations else ""
    return (
        Span(f"{stamp_text(event.at)}  ", DIM),
        Span(f"{event.state:<10}", tone_of(event.state)),
        *line(f"{event.trigger}{who}{why}{lost}"),
    )
